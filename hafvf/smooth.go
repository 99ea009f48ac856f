package hafvf

import (
	"math"
	"runtime"

	"hafvf/hafvf/expfam"
	"hafvf/internal/parallel"
)

// Posteriors holds the smoothed posteriors of a finished session, merged from a forward and a backward pass
// (the paper's Forward-Backward algorithm). Its size is linear in the session. Slices that its methods return
// alias it.
type Posteriors struct {
	// Evidence[t] is the change evidence between the steps t−1 and t, in nats: the log Bayes factor of two
	// distributions against one for the effective samples before and after,
	//
	//	E = B(fθ_{t−1}) + B(bθ_t) − B(fθ_{t−1} + bθ_t − θ₀) − B(θ₀)
	//
	// Evidence[0] is NaN.
	Evidence []float64
	// Missing[t] reports whether step t had no observation to learn.
	Missing []bool
	// NotConverged counts the updates in both passes whose search for the maximum did not converge.
	NotConverged int

	filter *Filter
	steps  [][][]float64
	tracks [2]track
	sample []float64
}

// Directions of the passes over a session.
const forward, backward = 0, 1

// A PassStep is the state of one pass at a smoothed step: the filter after it has learned the step, coming from
// one direction.
type PassStep struct {
	Weight float64 // E[w]; Top without levels
	Memory float64 // θ^η − θ₀^η
	State  State   // sample and levels, without the window of a Sequential model
}

// A track holds the states and weights of one pass, by step.
type track struct {
	width        int // floats stored per state: sample and levels
	states       []float64
	weights      []float64
	notConverged int
}

func (f *Filter) newTrack(steps int) track {
	width := f.model.Len() + 2*len(f.naive)
	return track{width: width, states: make([]float64, steps*width), weights: make([]float64, steps)}
}

// Smooth runs the filter forward and backward over the steps of a finished session. Each step has J ≥ 0
// observations, which must have passed Check. The posterior of step t is
//
//	θ_t = fθ_t + bθ_t − ΣT(x_t) − θ₀
//
// A missing step changes nothing in either direction. A Sequential model sees the same rows in both directions:
// the regressors of a row are the values before it. The first rows lack some of these values and are missing.
//
// Time and memory are linear in the number of steps. Long sessions are smoothed on two goroutines if GOMAXPROCS
// allows it, with the same result. Smooth panics if a vector has the wrong length.
func (f *Filter) Smooth(steps [][][]float64) *Posteriors {
	for _, xs := range steps {
		f.checkVectors(xs)
	}
	n, k := len(steps), f.model.Len()
	out := &Posteriors{
		Evidence: make([]float64, n),
		Missing:  make([]bool, n),
		filter:   f,
		steps:    steps,
		tracks:   [2]track{f.newTrack(n), f.newTrack(n)},
		sample:   make([]float64, n*k),
	}
	filters := []*Filter{f}
	if n >= stepsForTwo && runtime.GOMAXPROCS(0) > 1 {
		filters = append(filters, NewFilter(f.model, f.naive, f.top))
	}
	for _, f := range filters {
		f.session = expfam.NewRows(f.model)
	}
	parallel.Do(2, len(filters), func(worker, direction int) { filters[worker].pass(out, direction) })
	parallel.Chunks(n, len(filters), func(worker, from, end int) { filters[worker].merge(out, from, end) })
	out.NotConverged = out.tracks[forward].notConverged + out.tracks[backward].notConverged
	return out
}

// stepsForTwo is the minimum length of a session for a second goroutine, which needs its own scratch.
const stepsForTwo = 1000

// pass runs the filter over the steps in one direction.
func (f *Filter) pass(out *Posteriors, direction int) {
	s, n := f.NewState(), len(out.steps)
	for i := range n {
		t := i
		if direction == backward {
			t = n - 1 - i
		}
		step := f.learn(s, 1, f.session.At(nil, out.steps, t), false)
		if out.tracks[direction].record(t, s, step); direction == backward {
			out.Missing[t] = step.Missing
		}
	}
}

// merge computes samples and evidence of the steps from, …, end−1 from the two passes.
func (f *Filter) merge(out *Posteriors, from, end int) {
	before := make([]float64, f.model.Len())
	for t := from; t < end; t++ {
		// The forward sample already includes x_t, so that the backward one must not.
		clear(before)
		if t+1 < out.Len() {
			copy(before, out.tracks[backward].state(t+1))
		}
		if !out.Missing[t] {
			f.model.Scale(before, out.tracks[backward].weights[t])
		}
		copy(out.Sample(t), out.tracks[forward].state(t))
		f.model.Merge(out.Sample(t), before)

		if t == 0 {
			out.Evidence[t] = math.NaN()
			continue
		}
		f.line.Set(f.Sample(out.tracks[forward].state(t-1)), f.Sample(out.tracks[backward].state(t)))
		out.Evidence[t] = f.line.Gain(0) - f.line.Gain(1)
	}
}

func (tr *track) record(t int, s State, step Step) {
	copy(tr.state(t), s)
	tr.weights[t] = step.Weight
	if !step.Converged {
		tr.notConverged++
	}
}

func (tr *track) state(t int) State {
	return tr.states[t*tr.width : (t+1)*tr.width : (t+1)*tr.width]
}

// Len returns the number of steps.
func (s *Posteriors) Len() int { return len(s.Evidence) }

// Sample returns the effective sample of step t given the whole session. The model's methods Posterior,
// Estimate and Memory convert it to smoothed results.
func (s *Posteriors) Sample(t int) []float64 {
	k := s.filter.model.Len()
	return s.sample[t*k : (t+1)*k : (t+1)*k]
}

// Memory returns θ^η − θ₀^η of the smoothed posterior of step t: the sum of forward and backward memory, minus
// the observations of the step, which both contain.
func (s *Posteriors) Memory(t int) float64 { return s.filter.model.Memory(s.Sample(t)) }

// ChangeIntervals returns the intervals of changes, in order, as computed by expfam.ChangeIntervals.
func (s *Posteriors) ChangeIntervals(changes []int) []expfam.ChangeInterval {
	f := s.filter
	return expfam.ChangeIntervals(f.model, s.Len(), changes, func(d []float64, t int) {
		for _, row := range f.session.At(nil, s.steps, t) {
			if !expfam.Incomplete(row) {
				f.model.Observe(d, row, 1)
			}
		}
	})
}

// Estimate writes mean and standard deviation of the likelihood's mean at step t to slices of length
// Model.Outputs. The regressors are those of the step's last observation. Undefined results are NaN, infinite
// ones +Inf.
func (s *Posteriors) Estimate(mean, sd []float64, t int) {
	f := s.filter
	if n := f.model.Outputs(); len(mean) != n || len(sd) != n {
		panic(badDst)
	}
	f.model.Estimate(mean, sd, s.Sample(t), f.session.Last(nil, s.steps, t))
}

// Forward returns the forward pass after step t.
func (s *Posteriors) Forward(t int) PassStep { return s.pass(forward, t) }

// Backward returns the backward pass after step t.
func (s *Posteriors) Backward(t int) PassStep { return s.pass(backward, t) }

func (s *Posteriors) pass(direction, t int) PassStep {
	tr := &s.tracks[direction]
	state := tr.state(t)
	return PassStep{Weight: tr.weights[t], Memory: s.filter.model.Memory(state[:s.filter.model.Len()]), State: state}
}

// Changes returns the changepoints, in order: the steps at which a new regime begins. Every run of consecutive
// steps with evidence above log(odds) gives one changepoint, the step with the largest evidence, or the last
// such step in a tie.
func Changes(evidence []float64, odds float64) []int {
	var peaks expfam.Peaks
	peaks.Add(evidence, 0, math.Log(odds))
	return peaks.Positions
}
