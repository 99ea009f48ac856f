package hafvf

import "math"

// Smoothed is what the forward and the backward pass over a finished session say
// of each of its steps, together (the paper's Forward-Backward algorithm). Its
// size is linear in the session; slices that its methods return alias it.
type Smoothed struct {
	// Evidence[t] is the change evidence between the steps t−1 and t, in nats:
	// the log odds that the effective samples before and after come from two
	// distributions rather than one,
	//
	//	E = B(fθ_{t−1}) + B(bθ_t) − B(fθ_{t−1} + bθ_t − θ₀) − B(θ₀)
	//
	// NaN at t = 0.
	Evidence []float64
	// Missing[t] says that step t had no observation to learn.
	Missing []bool
	// NotConverged counts the updates, of both passes, whose search for the
	// maximum did not converge.
	NotConverged int

	filter            *Filter
	steps             [][][]float64
	forward, backward track
	sample            []float64
}

// A Pass is one direction's part in a smoothed step: its filter after it has
// learned the step, in its own direction.
type Pass struct {
	Weight float64 // E[w], or Top where there is no level
	Memory float64 // θ^η − θ₀^η
	State  State   // sample and levels; without the window of a Sequential model
}

// A track is the course of one pass: its states, and the weights beside them.
type track struct {
	states  []float64
	weights []float64
}

// Smooth runs the filter forward and backward over the steps of a finished
// session, each with its J ≥ 0 observations, which Check has passed. The
// posterior of step t is
//
//	θ_t = fθ_t + bθ_t − ΣT(x_t) − θ₀
//
// A missing step learns and forgets nothing in either direction. A Sequential
// model sees the same rows in both directions, the regressors of a row being the
// values before it; its first rows lack some and are missing.
//
// Time and memory are linear in the number of steps.
func (f *Filter) Smooth(steps [][][]float64) *Smoothed {
	n, k := len(steps), f.model.Len()
	width := k + 2*len(f.naive)
	out := &Smoothed{
		Evidence: make([]float64, n),
		Missing:  make([]bool, n),
		filter:   f,
		steps:    steps,
		forward:  track{make([]float64, n*width), make([]float64, n)},
		backward: track{make([]float64, n*width), make([]float64, n)},
		sample:   make([]float64, n*k),
	}
	s := f.NewState()
	for t := range steps {
		step := f.learn(s, f.rowsAt(steps, t), false)
		out.forward.record(t, s[:width], step)
		out.count(step)
	}

	s = f.NewState()
	before := make([]float64, k)
	for t := n - 1; t >= 0; t-- {
		copy(before, f.Sample(s))
		step := f.learn(s, f.rowsAt(steps, t), false)
		out.backward.record(t, s[:width], step)
		out.count(step)

		// Without x_t, which the forward sample has already.
		if out.Missing[t] = step.Missing; !step.Missing {
			f.model.Scale(before, step.Weight)
		}
		copy(out.Sample(t), out.Forward(t).State)
		f.model.Merge(out.Sample(t), before)

		if t == 0 {
			out.Evidence[t] = math.NaN()
			break
		}
		f.line.Set(f.Sample(out.Forward(t-1).State), f.Sample(s))
		out.Evidence[t] = f.line.Gain(0) - f.line.Gain(1)
	}
	return out
}

// rowsAt are what the model takes of step t, valid until the next call.
func (f *Filter) rowsAt(steps [][][]float64, t int) [][]float64 {
	xs := steps[t]
	if f.seq == nil || len(xs) == 0 {
		return xs
	}
	f.single[0] = f.rowAt(steps, t, xs[0])
	return f.single[:]
}

// rowAt is Row with the window that stands before step t.
func (f *Filter) rowAt(steps [][][]float64, t int, x []float64) []float64 {
	if f.seq == nil {
		return x
	}
	for i := range f.past {
		f.past[i] = math.NaN()
		if at := t - 1 - i; at >= 0 && len(steps[at]) > 0 {
			f.past[i] = steps[at][0][0]
		}
	}
	f.seq.Row(f.row, f.past, x[0])
	return f.row
}

func (tr *track) record(t int, s State, step Step) {
	copy(tr.state(t, len(s)), s)
	tr.weights[t] = step.Weight
}

func (tr *track) state(t, width int) State {
	return tr.states[t*width : (t+1)*width : (t+1)*width]
}

func (s *Smoothed) count(step Step) {
	if !step.Converged {
		s.NotConverged++
	}
}

// Len is the number of steps.
func (s *Smoothed) Len() int { return len(s.Evidence) }

// Sample is the effective sample of step t given the whole session, from which
// the model makes the smoothed posterior, estimate and memory.
func (s *Smoothed) Sample(t int) []float64 {
	k := s.filter.model.Len()
	return s.sample[t*k : (t+1)*k : (t+1)*k]
}

// Memory is θ^η − θ₀^η of the smoothed posterior of step t: forward and backward
// memory, less the observations of the step, which both have.
func (s *Smoothed) Memory(t int) float64 { return s.filter.model.Memory(s.Sample(t)) }

// Estimate writes mean and standard deviation of the likelihood's mean at step t,
// with regressors at those of the step's last observation, to slices of length
// Model.Outputs. What is undefined is NaN, what is infinite +Inf.
func (s *Smoothed) Estimate(mean, sd []float64, t int) {
	f := s.filter
	f.model.Estimate(mean, sd, s.Sample(t), f.rowAt(s.steps, t, f.lastOf(s.steps[t])))
}

// Forward is the forward pass after step t.
func (s *Smoothed) Forward(t int) Pass { return s.pass(&s.forward, t) }

// Backward is the backward pass after step t.
func (s *Smoothed) Backward(t int) Pass { return s.pass(&s.backward, t) }

func (s *Smoothed) pass(tr *track, t int) Pass {
	state := tr.state(t, len(tr.states)/s.Len())
	return Pass{Weight: tr.weights[t], Memory: s.filter.model.Memory(state[:s.filter.model.Len()]), State: state}
}

// Changes returns the steps, in order, at which a new regime begins: in every run
// of consecutive steps with evidence above log odds, the one where it is largest,
// the last of them where there are several.
func Changes(evidence []float64, odds float64) []int {
	threshold := math.Log(odds)
	var at []int
	above := false
	for t, e := range evidence {
		switch {
		case !(e > threshold):
			above = false
		case !above:
			above = true
			at = append(at, t)
		case e >= evidence[at[len(at)-1]]:
			at[len(at)-1] = t
		}
	}
	return at
}
