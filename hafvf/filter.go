package hafvf

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"hafvf/hafvf/expfam"
	"hafvf/internal/beta"
	"hafvf/internal/domain"
)

// A Filter runs the update for any number of streams, with one State each. It owns its scratch and is not safe
// for concurrent use: use one filter per goroutine.
type Filter struct {
	model   Model
	size    int               // floats in a sample
	seq     expfam.Sequential // model if it is Sequential, otherwise nil
	counted expfam.Counted    // model if it is Counted, otherwise nil
	naive   []Beta
	top     float64
	line    expfam.Line
	law     expfam.PredictiveLine // line if it is a PredictiveLine, otherwise nil
	levels  []beta.Level
	sys     beta.System

	delta, trial, start [][2]float64
	best, other         mode
	rule                rule
	before, stats       []float64 // sample before the step, and the statistics of the step
	gain, gain0, gain1  float64   // gains of the line: at the fixed weight without levels, otherwise at 0 and 1
	retained            float64   // factor by which the last step scaled the sample
	row                 []float64
	moments             [2][1]float64 // mean and standard deviation of a prediction
	single              [1][]float64  // row, as the rows of a step
	session             *expfam.Rows  // scratch of Smooth
	unknown             []float64     // an observation of NaN, of length Dim
	skipELBO            bool          // nobody reads the ELBO, see Bank.SkipELBO
	bound               float64       // upper bound of the objective, see maximise
}

// Beta holds the parameters of a Beta distribution over a weight.
type Beta struct{ Alpha, Beta float64 }

// check returns an error if a parameter is outside its domain. name is the name of the distribution in the
// error.
func (b Beta) check(name string) error {
	return cmp.Or(domain.Level.Check(name+".alpha", b.Alpha), domain.Level.Check(name+".beta", b.Beta), domain.Level.Check(name+".alpha + beta", b.Alpha+b.Beta))
}

// Mean returns alpha/(alpha+beta).
func (b Beta) Mean() float64 { return b.Alpha / (b.Alpha + b.Beta) }

// An Increment holds the terms of Proposition 1 for one level: φ = φ̂ + U1 + U2 + U3, each for (alpha, beta).
type Increment struct{ U1, U2, U3 [2]float64 }

// A Step is the outcome of one update. Numbers that do not apply are NaN; after a missing observation only
// Weight and Memory are numbers.
type Step struct {
	Missing       bool
	LogPredictive float64 // log p(x|past) in nats, joint over the observations of the step
	ELBO          float64 // maximum of the objective L plus Σ log h(x), in nats; the log evidence if there is no search
	Weight        float64 // E[w]; Top without levels
	Memory        float64 // θ^η − θ₀^η
	Learned       float64 // part of Memory that this step has added
	Iterations    int     // evaluations of the objective's derivatives
	Converged     bool
	Residual      float64 // last Newton step, in logit of a mean or log of a concentration
}

// NewFilter returns a filter with the given levels, bottom up: the naive priors φ₀ of w, β₀ of b, and so on.
// Without levels the weight is top. NewFilter panics if a level is not a Beta distribution or top is outside
// [0, 1].
func NewFilter(model Model, levels []Beta, top float64) *Filter {
	if !(top >= 0 && top <= 1) {
		panic(fmt.Sprintf("hafvf: top = %g is outside [0, 1]", top))
	}
	n := len(levels)
	f := &Filter{
		model:  model,
		size:   model.Len(),
		naive:  append([]Beta(nil), levels...),
		top:    top,
		line:   model.NewLine(),
		levels: make([]beta.Level, n),
		sys:    beta.Chain(n),
		delta:  make([][2]float64, n), trial: make([][2]float64, n),
		start:  make([][2]float64, n),
		best:   mode{point: make([][2]float64, n)},
		other:  mode{point: make([][2]float64, n)},
		rule:   rule{nodes: make([]node, 0, 256)},
		before: make([]float64, model.Len()),
		stats:  make([]float64, model.Len()),
		row:    make([]float64, model.Dim()),
	}
	f.law, _ = f.line.(expfam.PredictiveLine)
	f.seq, _ = model.(expfam.Sequential)
	f.counted, _ = model.(expfam.Counted)
	f.unknown = slices.Repeat([]float64{math.NaN()}, f.Dim())
	for i, l := range levels {
		if err := l.check(fmt.Sprintf("levels.%d", i)); err != nil {
			panic("hafvf: " + err.Error())
		}
		f.levels[i].Naive, f.levels[i].Elapsed = beta.Dist(l), 1
	}
	return f
}

// Use replaces the filter's model by m, which may differ from it in the prior only. A state belongs to the
// model under which it was created. Use panics if samples or observations of m have another length.
func (f *Filter) Use(m Model) {
	if m.Len() != f.model.Len() || m.Dim() != f.model.Dim() {
		panic(badModel)
	}
	f.model, f.line = m, m.NewLine()
	f.law, _ = f.line.(expfam.PredictiveLine)
	f.seq, _ = m.(expfam.Sequential)
}

// Model returns the filter's model.
func (f *Filter) Model() Model { return f.model }

// Levels returns the number of Beta levels.
func (f *Filter) Levels() int { return len(f.naive) }

// Dim returns the length of the observation vectors of Update.
func (f *Filter) Dim() int {
	if f.seq != nil {
		return 1
	}
	return f.model.Dim()
}

// A State holds everything that the filter knows about one stream: the effective sample, the Beta parameters of
// the levels, bottom up, and the leads of the levels. With a Sequential model it also holds the window of
// previous values, latest first, with NaN for values that do not exist yet, and the number of steps until the
// window contains no prediction in place of a missing value. The lead of a level is the distance by which the
// last update moved it from its prior, in the logit of the mean and the log of the concentration: the next
// search starts at this distance from the next prior.
type State []float64

// stepLen returns the number of floats in a state without the window of a Sequential model.
func (f *Filter) stepLen() int { return f.size + 4*len(f.naive) }

// StateLen returns the number of floats in a state.
func (f *Filter) StateLen() int {
	n := f.stepLen()
	if f.seq != nil {
		n += f.seq.Window() + 1
	}
	return n
}

// NewState returns the naive state.
func (f *Filter) NewState() State {
	s := make(State, f.StateLen())
	offset := f.size
	for i, l := range f.naive {
		s[offset+2*i], s[offset+2*i+1] = l.Alpha, l.Beta
	}
	for i := range f.window(s) {
		f.window(s)[i] = math.NaN()
	}
	return s
}

// Sample returns the effective sample of the state. It aliases s.
func (f *Filter) Sample(s State) []float64 { return s[:f.size] }

// Level returns the posterior of level i. Level 0 is w.
func (f *Filter) Level(s State, i int) Beta {
	offset := f.size + 2*i
	return Beta{s[offset], s[offset+1]}
}

// leads returns the leads of the levels, bottom up, with two entries each. It aliases s.
func (f *Filter) leads(s State) []float64 {
	start := f.size + 2*len(f.naive)
	return s[start : start+2*len(f.naive)]
}

// window returns the window of a Sequential model. It is empty for other models. It aliases s.
func (f *Filter) window(s State) []float64 {
	if f.seq == nil {
		return nil
	}
	return s[f.stepLen() : f.stepLen()+f.seq.Window()]
}

// imputed returns the number of steps until the window of a Sequential model contains no prediction in place of
// a missing value. Rows of these steps are not learned.
func (f *Filter) imputed(s State) float64 {
	if f.seq == nil {
		return 0
	}
	return s[f.stepLen()+f.seq.Window()]
}

// Weight returns E[w] of the state, or Top without levels.
func (f *Filter) Weight(s State) float64 {
	if len(f.naive) == 0 {
		return f.top
	}
	return f.Level(s, 0).Mean()
}

// LearningRate returns 1/(θ̂^η+1): the step size with which the last observation moved the estimate, in the
// paper's reading of the update as reinforcement learning (equation RL). It is valid after a step with one
// observation.
func (f *Filter) LearningRate(s State) float64 {
	return 1 / (f.model.PriorMemory() + f.model.Memory(f.Sample(s)))
}

// PriorWeight returns the mean of the weight before the next observation.
func (f *Filter) PriorWeight(s State) float64 {
	w := f.top
	for i := len(f.naive) - 1; i >= 0; i-- {
		w = f.prior(s, i, w).Mean()
	}
	return w
}

// prior returns the prior of level i at the next step. w is the mean of the weight above it.
func (f *Filter) prior(s State, i int, w float64) Beta {
	prev, naive := f.Level(s, i), f.naive[i]
	return Beta{naive.Alpha + w*(prev.Alpha-naive.Alpha), naive.Beta + w*(prev.Beta-naive.Beta)}
}

// Row returns the row of the model for an observation: the observation itself, or for a Sequential model the
// regressors from the window, followed by the observation. The row is valid until the next call.
func (f *Filter) Row(s State, x []float64) []float64 {
	if f.seq == nil {
		return x
	}
	if len(s) != f.StateLen() {
		panic(badState)
	}
	if len(x) != 1 {
		panic(badDim)
	}
	f.seq.Row(f.row, f.window(s), x[0])
	return f.row
}

// Regressors returns the row at which a step is predicted, which belongs to the last vector of xs. Missing
// regressors are NaN, and so is the prediction. The row is valid until the next call.
func (f *Filter) Regressors(s State, xs [][]float64) []float64 {
	x := f.unknown
	if n := len(xs); n > 0 && len(xs[n-1]) == len(x) {
		x = xs[n-1]
	}
	return f.Row(s, x)
}

// Check returns an error if xs, the vectors of one step, are not observations of the model. NaN is a missing
// value and allowed.
func (f *Filter) Check(xs [][]float64) error {
	if f.seq != nil && len(xs) > 1 {
		return fmt.Errorf("%d observations in one step: an autoregressive model takes one", len(xs))
	}
	for _, x := range xs {
		if len(x) == 1 && x[0] != x[0] {
			continue // a lone missing value, in any dimension
		}
		if len(x) != f.Dim() {
			return fmt.Errorf("x has %d values, want %d", len(x), f.Dim())
		}
		if expfam.Incomplete(x) {
			for _, v := range x {
				if math.IsInf(v, 0) {
					return fmt.Errorf("x = %g is not finite", v)
				}
			}
			continue
		}
		if f.seq != nil {
			if err := expfam.CheckFinite(x); err != nil {
				return err
			}
			continue
		}
		if err := f.model.Check(x); err != nil {
			return err
		}
	}
	return nil
}

// Update learns the J ≥ 0 observations xs of one step, which must have passed Check. A vector that contains a NaN, or
// that has no trials, is missing. If all vectors are missing, or J = 0, Update learns nothing. A Sequential model then
// puts its prediction into the window in place of the value, or NaN if it has none. While the window holds such a
// value, later values enter the window too, but are not learned: their Step has Missing set. Update allocates nothing.
// It panics if the state or a vector has the wrong length.
func (f *Filter) Update(s State, xs ...[]float64) Step { return f.UpdateAfter(s, 1, xs...) }

// rows returns the rows of xs, valid until the next call.
func (f *Filter) rows(s State, xs [][]float64) [][]float64 {
	if f.seq == nil || len(xs) == 0 {
		return xs
	}
	f.single[0] = f.Row(s, xs[0])
	return f.single[:]
}

// learn is UpdateAfter for rows, without the window of a Sequential model. If predict is false, the log
// predictive is NaN, which saves about half of the time.
func (f *Filter) learn(s State, elapsed float64, rows [][]float64, predict bool) (step Step) {
	base, ok := f.statistics(f.stats, rows)
	if !ok {
		return f.skip(s)
	}
	f.prepare(s, elapsed, f.stats)
	step.LogPredictive = math.NaN()
	if predict {
		step.LogPredictive = f.predictive(elapsed) + base
	}
	f.update(&step, s, elapsed, rows, f.stats, base, 1)
	return step
}

// statistics writes the sum of T(x) over the rows that are not missing to stats. It returns the sum of log
// h(x), and whether there was such a row.
func (f *Filter) statistics(stats []float64, rows [][]float64) (base float64, ok bool) {
	clear(stats)
	for _, row := range rows {
		if expfam.Incomplete(row) || f.counted != nil && f.counted.Trials(row) == 0 {
			continue
		}
		f.model.Observe(stats, row, 1)
		base += f.model.LogBase(row)
		ok = true
	}
	return base, ok
}

// skip returns the step of a missing observation.
func (f *Filter) skip(s State) Step {
	nan := math.NaN()
	return Step{Missing: true, LogPredictive: nan, ELBO: nan, Residual: nan, Learned: nan, Weight: f.Weight(s), Memory: f.model.Memory(f.Sample(s)), Converged: true}
}

// prepare sets line and levels for a step from s that adds stats after elapsed units of time.
func (f *Filter) prepare(s State, elapsed float64, stats []float64) {
	copy(f.before, f.Sample(s))
	for i := range f.levels {
		l, prev := &f.levels[i], f.Level(s, i)
		l.DA, l.DB = prev.Alpha-l.Naive.Alpha, prev.Beta-l.Naive.Beta
	}
	if len(f.levels) > 0 {
		f.levels[0].Elapsed = elapsed
	}
	f.line.Set(f.before, stats)
	f.setGains(elapsed)
}

// setGains computes the gains of the line: at the fixed weight without levels, otherwise at 0 and 1.
func (f *Filter) setGains(elapsed float64) {
	if len(f.levels) == 0 {
		f.gain = f.line.Gain(weightAfter(f.top, elapsed))
	} else {
		f.gain0, f.gain1 = f.line.Gain(0), f.line.Gain(1)
	}
}

// predictive returns the log predictive density log p(x|past) − log h(x) of the statistics for which the filter
// is prepared.
func (f *Filter) predictive(elapsed float64) float64 {
	switch {
	case len(f.levels) == 0:
		return f.gain
	case elapsed == 0:
		return f.gain1
	}
	return f.logPredictive(f.firstPrior(), elapsed, f.gain0, f.gain1)
}

// A filter with levels learns its forgetting only from observations with a weight above minWeightForForgetting,
// and ignores observations with a weight below minWeightForSample: statistics grow with the distance, and a
// hundredth of an outlier of 100 standard deviations doubles the variance of a filter of 100 observations.
const (
	minWeightForForgetting = 0.5
	minWeightForSample     = 0.2
)

// update learns the step for which the filter is prepared. The statistics have been multiplied by weight, in
// [0, 1]. If weight is at most minWeightForForgetting, a filter with levels keeps levels and sample and only
// adds the observation; the ELBO is then NaN. update sets all fields of step except the log predictive.
func (f *Filter) update(step *Step, s State, elapsed float64, rows [][]float64, stats []float64, base, weight float64) {
	step.Missing, step.Iterations, step.Converged, step.Residual = false, 0, true, 0
	step.Weight, f.retained = f.top, weightAfter(f.top, elapsed)
	fixed := len(f.levels) > 0 && weight <= minWeightForForgetting
	noELBO := f.skipELBO && len(f.levels) == 0
	if weight != 1 && !fixed && !noELBO {
		if l, ok := f.line.(expfam.WeighedLine); ok {
			l.Weigh(weight)
		} else {
			f.line.Set(f.before, stats)
		}
		f.setGains(elapsed)
	}
	switch {
	case fixed:
		step.ELBO = math.NaN()
		step.Weight = f.Weight(s)
		f.retained = 1
		if weight < minWeightForSample {
			weight = 0
		}
	case noELBO:
		step.ELBO = math.NaN()
	case len(f.levels) == 0:
		step.ELBO = f.gain + weight*base
	default:
		leads := f.leads(s)
		best := f.maximise(max(f.gain0, f.gain1), leads)
		for i := range f.levels {
			offset := f.size + 2*i
			s[offset], s[offset+1] = f.levels[i].A, f.levels[i].B
			leads[2*i], leads[2*i+1] = best.point[i][0]-f.start[i][0], best.point[i][1]-f.start[i][1]
		}
		step.ELBO = best.value + weight*base
		step.Weight = f.levels[0].M
		step.Iterations, step.Converged, step.Residual = best.iterations, best.converged, best.residual
		f.retained, _ = f.levels[0].Memory()
	}
	d := f.Sample(s)
	f.model.Scale(d, f.retained)
	retained := f.model.Memory(d)
	observe(f.model, d, rows, weight)
	step.Memory = f.model.Memory(d)
	step.Learned = step.Memory - retained
}

// observe adds weight·ΣT(x) over the rows that are not missing to the sample d.
func observe(m Model, d []float64, rows [][]float64, weight float64) {
	if weight == 0 {
		return
	}
	for _, row := range rows {
		if !expfam.Incomplete(row) {
			m.Observe(d, row, weight)
		}
	}
}

// firstPrior returns the prior of w, with every weight above it at its prior mean.
func (f *Filter) firstPrior() Beta {
	w := f.top
	var p beta.Dist
	for i := len(f.levels) - 1; i >= 0; i-- {
		p = f.levels[i].PriorAt(w)
		w = p.Mean()
	}
	return Beta(p)
}

// lacksValue reports whether xs lacks the value for a Sequential model's window.
func (f *Filter) lacksValue(xs [][]float64) bool {
	return f.seq != nil && (len(xs) == 0 || expfam.Incomplete(xs[0]))
}

// push shifts the window of a Sequential model and adds the value of xs. If the value is missing, push adds its
// prediction, or NaN without a prediction.
func (f *Filter) push(s State, xs [][]float64, predicted float64) {
	if f.seq == nil {
		return
	}
	w := f.window(s)
	copy(w[1:], w)
	imputed := &s[f.stepLen()+len(w)]
	if !f.lacksValue(xs) {
		w[0] = xs[0][0]
		*imputed = math.Max(0, *imputed-1)
		return
	}
	if !(math.Abs(predicted) <= expfam.MaxAbs) {
		predicted = math.NaN()
	}
	w[0], *imputed = predicted, float64(len(w))
}

// Increments returns the terms of Proposition 1 for every level, bottom up, at the last Update of this filter.
// They assume even times and are meaningless after an UpdateAfter with elapsed ≠ 1.
func (f *Filter) Increments() []Increment {
	out := make([]Increment, len(f.levels))
	if len(out) == 0 {
		return out
	}
	f.evaluate(f.best.point)
	for i := range out {
		out[i] = Increment(f.levels[i].Increment())
	}
	return out
}
