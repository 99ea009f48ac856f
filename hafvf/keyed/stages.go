package keyed

import (
	"errors"
	"math"
	"slices"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/internal/compact"
)

// stages are what the values of a key pass on their way into its state, and what the bank says
// of them passes on its way out:
//
//	observation → scale → prior → season → bound → bank
//	   estimate ← scale ← decision ← season ←
//
// So the season and the prior are of values on their scale, the bank sees no season, and the
// decision sees values with their season, on their scale. The steps are called here and nowhere
// else: enter, predict, learn and leave are the way through the chain, of an observation and of
// a warm-up that is learned again.
//
// One chain serves the keys that match the same rules. What it has learned of a key is in the key's Track.
type stages struct {
	cfg         hafvf.Config
	all         Config              // of the keys, of which cfg is the filter
	fingerprint compact.Fingerprint // of the settings
	checks      *hafvf.Filter       // of observations as they come
	params      int
	brief       bool // see Config
	row         []float64
	admits      func(*Observation) error // see CheckOf

	scale    *scaling      // nil if values stay as they are
	fitted   expfam.Fitted // the model of observations as they come, if a warm-up sets its prior
	priorOf  *Track        // whose prior the bank has
	season   *season       // nil without one
	bound    *bound        // nil if values count as the formulas say
	bank     *hafvf.Bank
	decider  *decider         // nil without detection
	silences *silenceDetector // nil without Config.Silence
	spreads  bool             // keys have a spread
	beside   []hafvf.Normal
	guard    guard
}

// newStages makes the chain of the keys with that configuration, which has no rules.
func newStages(all Config) (*stages, error) {
	cfg := all.Filter
	bank, err := cfg.NewBank()
	if err != nil {
		return nil, err
	}
	if all := cfg.Members(); len(all) > 1 {
		cfg.Bank = all // also that of the family
	}
	c := &stages{cfg: cfg, all: all, silences: newSilenceDetector(all), fingerprint: compact.FingerprintOf(all.settingsOf(cfg).String()), bank: bank, checks: newChecks(cfg), brief: all.Brief}
	if cfg.WarmUp > 0 {
		c.fitted = c.checks.Model().(expfam.Fitted)
	}
	for _, p := range bank.Model().Params() {
		c.params += p.Size()
	}
	if c.brief {
		bank.WithoutELBO()
	}
	c.scale = newScaling(cfg, bank)
	if cfg.Season != nil {
		c.season = newSeason(cfg, bank)
	}
	c.bound = newBound(cfg, bank)
	if bank.Detects() {
		c.decider = newDecider(all, cfg, bank.Model())
	}
	c.spreads = spreads(cfg)
	c.admits = func(o *Observation) error {
		if err := all.timed(o); err != nil {
			return err
		}
		if all.Aggregate != nil && all.Aggregate.Value.Counts() {
			return nil
		}
		return c.check(o)
	}
	return c, nil
}

// newChecks makes the filter that checks observations as they come: that of a bank, which the
// configuration has made, may take rows with an exposure.
func newChecks(cfg hafvf.Config) *hafvf.Filter {
	return hafvf.NewFilter(checked(expfam.New(cfg.Family, cfg.Prior, cfg.Dim)), nil, 1)
}

func (c *stages) check(o *Observation) error {
	if c.season != nil && o.Time.IsZero() {
		return errors.New("no time; a season needs that of every observation")
	}
	return c.scale.check(c.checks, o)
}

// usePrior reparametrises the bank by the track's own prior.
func (c *stages) usePrior(t *Track) {
	if c.fitted != nil && t.locationScale != nil && c.priorOf != t {
		m := c.fit(t.locationScale)
		if c.season != nil && c.season.counts {
			m = m.(expfam.Exposable).Exposed()
		}
		c.bank.Use(m)
		c.priorOf = t
	}
}

// fit is the model whose prior the warm-up sets.
func (c *stages) fit(locationScale []float64) expfam.Model {
	if e, ok := c.fitted.(expfam.Excursive); ok && c.bank.Detects() {
		return e.FitExcursions(locationScale)
	}
	return c.fitted.Fit(locationScale)
}

// enter brings the chain to the track's next observation, which is on its scale: the bank
// gets the track's own prior, and the season is that of the observation's time. It returns how
// many units of time have passed since the observation before.
func (c *stages) enter(t *Track, o Observation, unit time.Duration) (elapsed float64) {
	elapsed = t.elapsed(o, unit)
	c.usePrior(t)
	if c.season != nil {
		c.season.expose(t, o)
	}
	return elapsed
}

// predict fills in what the bank predicts of the observation that has entered, without its
// season, with bounds of that level unless it is 0. It returns the running regime.
func (c *stages) predict(m *Memory, out *Estimate, t *Track, elapsed float64, row []float64, level float64) (before regime) {
	to := hafvf.Prediction{Mean: out.Predicted.Mean, SD: out.Predicted.SD, Lower: out.Lower, Upper: out.Upper, Level: level}
	if c.bank.Detects() {
		n := c.bank.Model().Outputs()
		slice := slicer(m.take(4 * n))
		before = regime{predicted: slice(n), predictive: slice(n)}
		to.RegimeMean, to.RegimeSD = before.predicted, before.predictive
		if !t.priorSet || c.season != nil { // what it depends on may change until somebody asks
			before.estimate = Moments{slice(n), slice(n)}
			c.bank.Regime(before.estimate.Mean, before.estimate.SD, t.state, row)
		}
	}
	if c.spreads && t.priorSet && level != 0 {
		c.beside = t.spread.beside(c.beside[:0])
		to.Beside = c.beside
	}
	c.bank.PredictAll(&to, t.state, elapsed, row)
	return before
}

// regimeBefore is the estimate of a regime that predict has returned. Alarms alone ask for it: it is made of what
// the guard has kept.
func (c *stages) regimeBefore(r *regime) Moments {
	if n := len(r.predicted); n > 0 && r.estimate.Mean == nil {
		r.estimate = Moments{make([]float64, n), make([]float64, n)}
		c.bank.Regime(r.estimate.Mean, r.estimate.SD, c.guard.states[0], c.row)
	}
	return r.estimate
}

// learn has the bank learn observation n of the track, which has entered, without its season,
// and the season what the bank makes of it. It returns the outcome, and the start of the
// regime that its detection reports. before is what predict has returned, zero if it was not called.
func (c *stages) learn(t *Track, n int64, o Observation, elapsed float64, before regime) (out hafvf.Outcome, named regimeStart) {
	bank, se := c.bank, c.season
	xs := o.X
	if se != nil {
		xs = se.remove(t, o, elapsed)
	}
	if c.bound != nil {
		if se != nil {
			before = regime{} // whose row has the season
		}
		xs = c.bound.clamp(t, elapsed, xs, before)
	}
	out = bank.UpdateAfter(t.state, elapsed, xs...)
	if c.bound != nil && !out.Missing {
		c.bound.recall(t, xs)
	}
	if se != nil {
		se.learn(t, o, &out)
	}
	t.steps++
	if !bank.Detects() {
		return out, named
	}
	t.starts = append(t.starts, regimeStart{t.steps, n, o.Time})
	if i := slices.IndexFunc(t.starts, func(s regimeStart) bool { return s.step == out.Detection.Start }); i >= 0 {
		named = t.starts[i]
	}
	var buf [16]int64
	alive := bank.ExcursionStarts(buf[:0], t.state)
	t.starts = slices.DeleteFunc(t.starts, func(s regimeStart) bool { return !slices.Contains(alive, s.step) })
	return out, named
}

// restore puts the season back into what was predicted of the observation that was learned.
func (c *stages) restore(out *Estimate, before regime, known bool) {
	if c.season == nil {
		return
	}
	c.season.predicted(out.Predicted.Mean, out.Predicted.SD)
	c.season.bounds(out.Lower)
	c.season.bounds(out.Upper)
	if known && c.bank.Detects() {
		c.season.predicted(before.predicted, before.predictive)
		c.season.estimated(before.estimate)
	}
}

// leave takes the estimate, decided on, to the scale of the data.
func (c *stages) leave(out *Estimate, before regime) {
	c.scale.moments(out.Predicted, out.Estimate, out.Regime, before.estimate)
	if out.Detection != nil {
		c.scale.moments(out.Detection.Usual)
	}
	c.scale.back(out.Lower, out.Upper)
}

// replay learns the warm-up again under the prior that it has set, and returns the
// last outcome.
func (c *stages) replay(t *Track, unit time.Duration) (out hafvf.Outcome) {
	c.priorOf = nil // it is another one now
	c.usePrior(t)
	t.begin()
	t.steps, t.starts, t.last = 0, nil, time.Time{}
	for _, w := range t.warmUp {
		out, _ = c.learn(t, w.n, w.Observation, c.enter(t, w.Observation, unit), regime{})
	}
	if t.priorSet {
		t.warmUp = nil
	}
	return out
}

// blank makes out an estimate whose numbers are NaN.
func (c *stages) blank(m *Memory, out *Estimate, n int64, o *Observation, bounds bool) {
	nan := math.NaN()
	outputs := c.bank.Model().Outputs()
	floats := m.take(10*outputs + c.params)
	for i := range floats {
		floats[i] = nan
	}
	slice := slicer(floats)
	*out = Estimate{
		Time: o.Time, ID: o.ID, N: n, X: o.X, Shape: o.Shape, Aggregated: o.Aggregated, Events: o.Events, Falls: o.Falls, Carried: o.Carried,
		Predicted: Moments{slice(outputs), slice(outputs)}, Estimate: Moments{slice(outputs), slice(outputs)},
		LogPredictive: nan, ELBO: nan, Weight: nan, Memory: nan, LearningRate: nan, Converged: true,
	}
	if !c.brief {
		out.Posterior = slice(c.params)
	}
	if c.bank.Detects() {
		out.Regime = Moments{slice(outputs), slice(outputs)}
		out.Detection = m.verdict()
		*out.Detection = Detection{Score: nan, Threshold: nan, Usual: Moments{slice(outputs), slice(outputs)}}
	}
	if bounds {
		out.Lower, out.Upper = slice(outputs), slice(outputs)
	}
}

// regressors returns the row at which o is predicted, valid until the next call.
func (c *stages) regressors(s hafvf.State, o Observation) []float64 {
	if c.season != nil && c.season.counts {
		return c.season.row
	}
	c.row = append(c.row[:0], c.bank.Regressors(s, o.X)...) // the update has its own row
	return c.row
}

// score fills in how well the observation was predicted, where there was a prior
// that did not come from it.
func (c *stages) score(out *Estimate, outcome hafvf.Outcome, known bool) {
	out.Missing = outcome.Missing
	if !known {
		return
	}
	step := outcome.Members[outcome.Heaviest]
	out.LogPredictive, out.ELBO = outcome.LogPredictive, step.ELBO
	out.Iterations, out.Converged = step.Iterations, step.Converged
}

// spread makes what was predicted of o, and is scored, that of the bank and the track's spread, which learns. jacobian is that
// of the scale.
func (c *stages) spread(out *Estimate, t *Track, o *Observation, before regime, jacobian float64) {
	sd, regime := &out.Predicted.SD[0], before.predictive[0]
	*sd = t.spread.sd(*sd, regime)
	if !out.Missing {
		out.LogPredictive = t.spread.learn(o.X, out.Predicted.Mean[0], regime, out.LogPredictive, jacobian)
	}
}

// describe fills in the posterior after the observation. Without a prior yet it
// leaves out what depends on values.
func (c *stages) describe(m *Memory, out *Estimate, s hafvf.State, outcome hafvf.Outcome, row []float64, known bool) {
	b := c.bank
	f, member := b.Filter(outcome.Heaviest), b.Member(s, outcome.Heaviest)
	if known {
		b.EstimateAll(out.Estimate.Mean, out.Estimate.SD, out.Regime.Mean, out.Regime.SD, s, row)
		if !c.brief {
			b.Model().Posterior(out.Posterior, f.Sample(member))
		}
		if c.season != nil {
			c.season.estimated(out.Estimate)
			if b.Detects() {
				c.season.estimated(out.Regime)
			}
		}
	}
	step := outcome.Members[outcome.Heaviest]
	out.Weight, out.Memory = step.Weight, step.Memory
	if known {
		out.LearningRate = 0
		for i, s := range outcome.Members {
			out.LearningRate += s.Share * s.Learned / (s.Memory + b.Filter(i).Model().PriorMemory())
		}
	}
	out.Levels = m.take(2 * f.Levels())
	copyLevels(out.Levels, f, member)
	if len(c.cfg.Bank) == 0 {
		return
	}
	m.bank = m.bank[:0]
	for _, s := range outcome.Members {
		m.bank = append(m.bank, MemberStep{Share: s.Share, Weight: s.Weight, Memory: s.Memory, LogPredictive: s.LogPredictive})
	}
	out.Bank = m.bank
}

// copyLevels writes alpha and beta of every level of s, bottom up, to dst.
func copyLevels(dst []float64, f *hafvf.Filter, s hafvf.State) {
	for i := range f.Levels() {
		l := f.Level(s, i)
		dst[2*i], dst[2*i+1] = l.Alpha, l.Beta
	}
}
