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

// A Filter runs the update for any number of entities, one state each. It owns
// the scratch: one filter per goroutine.
type Filter struct {
	model   Model
	size    int               // of its samples
	seq     expfam.Sequential // model, where it is one
	counted expfam.Counted    // likewise
	naive   []Beta
	top     float64
	line    expfam.Line
	law     expfam.PredictiveLine // line, where it is one
	levels  []beta.Level
	sys     beta.System

	delta, trial, start [][2]float64
	best, other         mode
	rule                rule
	before, stats       []float64 // the sample before the step, and what it adds
	gain, gain0, gain1  float64   // of the line: at the fixed weight if there is no level, else at 0 and 1
	retained            float64   // the factor by which the last step scaled the sample
	row                 []float64
	moments             [2][1]float64 // mean and standard deviation of a prediction
	single              [1][]float64  // row, as the rows of a step
	session             *expfam.Rows  // of Smooth
	unknown             []float64     // an observation of NaN, of length Dim
	unbound             bool          // the ELBO is not asked for
	bound               float64       // of the objective, see maximise
}

// Beta holds the parameters of a Beta distribution over a weight.
type Beta struct{ Alpha, Beta float64 }

// check returns an error where a parameter is outside its domain, with the name of
// the distribution.
func (b Beta) check(name string) error {
	return cmp.Or(domain.Level.Check(name+".alpha", b.Alpha), domain.Level.Check(name+".beta", b.Beta), domain.Level.Check(name+".alpha + beta", b.Alpha+b.Beta))
}

// Mean is alpha/(alpha+beta).
func (b Beta) Mean() float64 { return b.Alpha / (b.Alpha + b.Beta) }

// An Increment holds the terms of Proposition 1 for one level: φ = φ̂ + U1 + U2 +
// U3, each for (alpha, beta).
type Increment struct{ U1, U2, U3 [2]float64 }

// A Step is the outcome of one update. Numbers that do not apply are NaN: after a
// missing observation all but Weight and Memory.
type Step struct {
	Missing       bool
	LogPredictive float64 // log p(x|past), nats, joint over the observations of the step
	ELBO          float64 // the objective L at its maximum plus Σ log h(x), nats; without a search for it the log evidence
	Weight        float64 // E[w], or Top where there is no level
	Memory        float64 // θ^η − θ₀^η
	Learned       float64 // the part of Memory that this step has added
	Iterations    int     // evaluations of the objective's derivatives
	Converged     bool
	Residual      float64 // the last Newton step, in logit of a mean or log of a concentration
}

// NewFilter makes a filter with the given levels, bottom up: the naive priors φ₀
// of w, β₀ of b, and so on. Without levels the weight is top itself. It panics
// where a level is not a Beta distribution or top is outside [0, 1].
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
		best:   mode{at: make([][2]float64, n)},
		other:  mode{at: make([][2]float64, n)},
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

// Use replaces the filter's model by m, which differs from it in the prior only. A
// state belongs to the model that it was made under. Use panics where m has samples
// or observations of another length.
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

// Dim is the length of the observation vectors that Update takes.
func (f *Filter) Dim() int {
	if f.seq != nil {
		return 1
	}
	return f.model.Dim()
}

// A State is all that the filter knows of one entity: the effective sample, the
// Beta parameters of the levels, bottom up, and their leads. A Sequential model adds
// the window of past values, latest first, NaN where there is none yet, and the number
// of steps until the window has no prediction in place of a missing value. The lead of
// a level is how far the last update moved it from its prior, in the logit of the
// mean and the log of the concentration: the next search starts as far from the
// next prior.
type State []float64

// stepLen is the number of floats in a state without the window of a Sequential
// model.
func (f *Filter) stepLen() int { return f.size + 4*len(f.naive) }

// StateLen is the number of floats in a state.
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
	at := f.size
	for i, l := range f.naive {
		s[at+2*i], s[at+2*i+1] = l.Alpha, l.Beta
	}
	for i := range f.window(s) {
		f.window(s)[i] = math.NaN()
	}
	return s
}

// Sample is the effective sample of the state, which it aliases.
func (f *Filter) Sample(s State) []float64 { return s[:f.size] }

// Level is the posterior of level i, from 0 = w.
func (f *Filter) Level(s State, i int) Beta {
	at := f.size + 2*i
	return Beta{s[at], s[at+1]}
}

// leads are those of the levels, bottom up, two entries each.
func (f *Filter) leads(s State) []float64 {
	from := f.size + 2*len(f.naive)
	return s[from : from+2*len(f.naive)]
}

// window is that of a Sequential model, else empty.
func (f *Filter) window(s State) []float64 {
	if f.seq == nil {
		return nil
	}
	return s[f.stepLen() : f.stepLen()+f.seq.Window()]
}

// imputed is the number of steps until the window of a Sequential model has no
// prediction in place of a missing value. Their rows are not learned.
func (f *Filter) imputed(s State) float64 {
	if f.seq == nil {
		return 0
	}
	return s[f.stepLen()+f.seq.Window()]
}

// Weight is E[w] of the state, or Top where there is no level.
func (f *Filter) Weight(s State) float64 {
	if len(f.naive) == 0 {
		return f.top
	}
	return f.Level(s, 0).Mean()
}

// LearningRate is 1/(θ̂^η+1): the step with which the last observation moved the
// estimate, in the paper's reading of the update as reinforcement learning
// (equation RL). It holds after a step of one observation.
func (f *Filter) LearningRate(s State) float64 {
	return 1 / (f.model.PriorMemory() + f.model.Memory(f.Sample(s)))
}

// PriorWeight is the mean of the weight before the next observation.
func (f *Filter) PriorWeight(s State) float64 {
	w := f.top
	for i := len(f.naive) - 1; i >= 0; i-- {
		w = f.prior(s, i, w).Mean()
	}
	return w
}

// prior returns the prior of level i at the next step, given the mean of the
// weight above it.
func (f *Filter) prior(s State, i int, w float64) Beta {
	was, naive := f.Level(s, i), f.naive[i]
	return Beta{naive.Alpha + w*(was.Alpha-naive.Alpha), naive.Beta + w*(was.Beta-naive.Beta)}
}

// Row returns the row that the model takes for an observation: the observation
// itself, or for a Sequential model the regressors from the window, then the
// observation. It is valid until the next call.
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

// Regressors returns the row at which a step is predicted, that of its last vector.
// Regressors that are missing there are NaN, and so is the prediction. The row is
// valid until the next call.
func (f *Filter) Regressors(s State, xs [][]float64) []float64 {
	x := f.unknown
	if n := len(xs); n > 0 && len(xs[n-1]) == len(x) {
		x = xs[n-1]
	}
	return f.Row(s, x)
}

// Check says why xs, the vectors of one step, are not observations of the
// model. NaN stands for a missing value and is fine.
func (f *Filter) Check(xs [][]float64) error {
	if f.seq != nil && len(xs) > 1 {
		return fmt.Errorf("%d observations in one step; a model on the entity's own past takes one", len(xs))
	}
	for _, x := range xs {
		if len(x) == 1 && x[0] != x[0] {
			continue // a bare missing value, whatever the dimension
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

// Update learns the J ≥ 0 observations xs of one step, which Check has passed,
// and returns what it found. A vector with a NaN in it is missing. A step without
// other vectors changes nothing but the window of a Sequential model, which takes the
// prediction for the missing value. As long as that is in the window, no row is
// learned: the steps are missing too. Update allocates nothing. It panics where the
// state or a vector has the wrong length.
func (f *Filter) Update(s State, xs ...[]float64) Step { return f.UpdateAfter(s, 1, xs...) }

// rows returns the rows of xs, valid until the next call.
func (f *Filter) rows(s State, xs [][]float64) [][]float64 {
	if f.seq == nil || len(xs) == 0 {
		return xs
	}
	f.single[0] = f.Row(s, xs[0])
	return f.single[:]
}

// learn is UpdateAfter on rows, without the window of a Sequential model. The
// log predictive costs as much as the rest: without predict, it is NaN.
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

// statistics writes the sum of T(x) over the rows that aren't missing to stats. It
// returns the sum of log h(x), and whether there was such a row.
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

// prepare sets line and levels for a step from s, after elapsed units of time,
// that adds stats.
func (f *Filter) prepare(s State, elapsed float64, stats []float64) {
	copy(f.before, f.Sample(s))
	for i := range f.levels {
		l, was := &f.levels[i], f.Level(s, i)
		l.DA, l.DB = was.Alpha-l.Naive.Alpha, was.Beta-l.Naive.Beta
	}
	if len(f.levels) > 0 {
		f.levels[0].Elapsed = elapsed
	}
	f.line.Set(f.before, stats)
	f.ends(elapsed)
}

// ends takes the gains from the line: that at the fixed weight if there is no level, else
// those at 0 and 1.
func (f *Filter) ends(elapsed float64) {
	if len(f.levels) == 0 {
		f.gain = f.line.Gain(over(f.top, elapsed))
	} else {
		f.gain0, f.gain1 = f.line.Gain(0), f.line.Gain(1)
	}
}

// predictive is the log predictive density log p(x|past) − log h(x) of the
// statistics that the filter is prepared for.
func (f *Filter) predictive(elapsed float64) float64 {
	switch {
	case len(f.levels) == 0:
		return f.gain
	case elapsed == 0:
		return f.gain1
	}
	return f.logPredictive(f.firstPrior(), elapsed, f.gain0, f.gain1)
}

// A filter with levels learns its forgetting only from observations of a weight
// above leastForForgetting, and learns nothing from those below leastForSample:
// statistics grow with the distance, and a hundredth of an outlier of 100 standard
// deviations doubles the variance of a filter of 100 observations.
const (
	leastForForgetting = 0.5
	leastForSample     = 0.2
)

// update learns the step that the filter is prepared for, with a weight in
// [0, 1] by which the statistics have been multiplied. Where the weight is small,
// a filter with levels keeps levels and sample and only adds the observation;
// there is no ELBO then. It fills in all of step but the log predictive.
func (f *Filter) update(step *Step, s State, elapsed float64, rows [][]float64, stats []float64, base, weight float64) {
	step.Missing, step.Iterations, step.Converged, step.Residual = false, 0, true, 0
	step.Weight, f.retained = f.top, over(f.top, elapsed)
	fixed := len(f.levels) > 0 && weight <= leastForForgetting
	silent := f.unbound && len(f.levels) == 0
	if weight != 1 && !fixed && !silent {
		if l, ok := f.line.(expfam.WeighedLine); ok {
			l.Weigh(weight)
		} else {
			f.line.Set(f.before, stats)
		}
		f.ends(elapsed)
	}
	switch {
	case fixed:
		step.ELBO = math.NaN()
		step.Weight = f.Weight(s)
		f.retained = 1
		if weight < leastForSample {
			weight = 0
		}
	case silent:
		step.ELBO = math.NaN()
	case len(f.levels) == 0:
		step.ELBO = f.gain + weight*base
	default:
		leads := f.leads(s)
		best := f.maximise(max(f.gain0, f.gain1), leads)
		for i := range f.levels {
			at := f.size + 2*i
			s[at], s[at+1] = f.levels[i].A, f.levels[i].B
			leads[2*i], leads[2*i+1] = best.at[i][0]-f.start[i][0], best.at[i][1]-f.start[i][1]
		}
		step.ELBO = best.value + weight*base
		step.Weight = f.levels[0].M
		step.Iterations, step.Converged, step.Residual = best.iterations, best.converged, best.residual
		f.retained, _ = f.levels[0].Memory()
	}
	d := f.Sample(s)
	f.model.Scale(d, f.retained)
	kept := f.model.Memory(d)
	observe(f.model, d, rows, weight)
	step.Memory = f.model.Memory(d)
	step.Learned = step.Memory - kept
}

// observe adds weight·ΣT(x) over the rows that aren't missing to the sample d.
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

// firstPrior returns the prior of w with every weight above at its prior mean.
func (f *Filter) firstPrior() Beta {
	w := f.top
	var p beta.Dist
	for i := len(f.levels) - 1; i >= 0; i-- {
		p = f.levels[i].PriorAt(w)
		w = p.Mean()
	}
	return Beta(p)
}

// lacks reports whether xs lack the value that a Sequential model's window takes.
func (f *Filter) lacks(xs [][]float64) bool {
	return f.seq != nil && (len(xs) == 0 || expfam.Incomplete(xs[0]))
}

// push shifts the window of a Sequential model: it takes the value of xs, or where
// that is missing its prediction, NaN where there is none.
func (f *Filter) push(s State, xs [][]float64, predicted float64) {
	if f.seq == nil {
		return
	}
	w := f.window(s)
	copy(w[1:], w)
	imputed := &s[f.stepLen()+len(w)]
	if !f.lacks(xs) {
		w[0] = xs[0][0]
		*imputed = math.Max(0, *imputed-1)
		return
	}
	if !(math.Abs(predicted) <= expfam.MaxAbs) {
		predicted = math.NaN()
	}
	w[0], *imputed = predicted, float64(len(w))
}

// Increments returns the terms of Proposition 1 for every level, bottom up, at
// the last Update of this filter. They assume even times: they mean nothing after
// an UpdateAfter of other than one unit.
func (f *Filter) Increments() []Increment {
	out := make([]Increment, len(f.levels))
	if len(out) == 0 {
		return out
	}
	f.evaluate(f.best.at)
	for i := range out {
		out[i] = Increment(f.levels[i].Increment())
	}
	return out
}
