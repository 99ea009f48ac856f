package keyed

import (
	"fmt"
	"math"
	"slices"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/internal/compact"
)

// stages are the stages through which the values of a key pass into its state, and the bank's results pass out:
//
//	observation → scale → prior → season → bound → bank
//	   estimate ← scale ← decision ← season ←
//
// So season and prior apply to values on their scale, the bank sees values without the season, and the decision
// sees values with their season, on their scale. Only the methods enter, predict, learn and toData call the stages,
// both for an observation and for a warm-up that is replayed.
//
// Keys that match the same rules share one stages value. The state of a key is in its Track.
type stages struct {
	cfg           hafvf.Config
	keyCfg        Config              // configuration of the keys; cfg is its filter
	fingerprint   compact.Fingerprint // of the settings
	checks        *hafvf.Filter       // checks observations before they are scaled
	params        int
	omitPosterior bool // see Config
	row           []float64
	admits        func(*Observation) error // see Checker

	scale         *scaling      // nil for the linear scale
	fitted        expfam.Fitted // model without exposure, if a warm-up sets its prior; else nil
	priorOf       *Track        // track whose prior the bank has; nil if unknown
	season        *season       // nil without a season
	bound         *bound        // nil if the model's formulas need no bound
	bank          *hafvf.Bank
	decider       *decider         // nil without detection
	silences      *silenceDetector // nil without Config.Silence
	spreads       bool             // the keys have a spread
	spreadNormals []hafvf.Normal
	guard         guard
}

// newStages returns the stages for keys with this configuration, which must have no rules.
func newStages(keyCfg Config) (*stages, error) {
	cfg := keyCfg.Filter
	bank, err := cfg.NewBank()
	if err != nil {
		return nil, err
	}
	if members := cfg.Members(); len(members) > 1 {
		cfg.Bank = members // or the default bank of the family
	}
	c := &stages{cfg: cfg, keyCfg: keyCfg, silences: newSilenceDetector(keyCfg), fingerprint: compact.FingerprintOf(keyCfg.settingsOf(cfg).String()), bank: bank, checks: newChecks(cfg), omitPosterior: keyCfg.OmitPosterior}
	if cfg.WarmUp > 0 {
		c.fitted = c.checks.Model().(expfam.Fitted)
	}
	for _, p := range bank.Model().Params() {
		c.params += p.Size()
	}
	if c.omitPosterior {
		bank.SkipELBO()
	}
	c.scale = newScaling(cfg, bank)
	if cfg.Season != nil {
		c.season = newSeason(cfg, bank)
	}
	c.bound = newBound(cfg, bank)
	if bank.Detects() {
		c.decider = newDecider(keyCfg, cfg, bank.Model())
	}
	c.spreads = spreads(cfg)
	c.admits = func(o *Observation) error {
		if err := keyCfg.timed(o); err != nil {
			return err
		}
		if keyCfg.Aggregate != nil && keyCfg.Aggregate.Value.Counts() {
			return nil
		}
		return c.check(o)
	}
	return c, nil
}

// newChecks returns a filter that checks observations before the stages. The bank's own filter may expect rows with
// an exposure.
func newChecks(cfg hafvf.Config) *hafvf.Filter {
	return hafvf.NewFilter(checked(expfam.New(cfg.Family, cfg.Prior, cfg.Dim)), nil, 1)
}

func (c *stages) check(o *Observation) error {
	if c.season != nil && o.Time.IsZero() {
		return fmt.Errorf("%w; a season needs the time of every observation", ErrNoTime)
	}
	return c.scale.check(c.checks, o)
}

// usePrior sets the bank's prior to the track's own, if the track has one.
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

// fit returns the model with the prior that the warm-up sets.
func (c *stages) fit(locationScale []float64) expfam.Model {
	if e, ok := c.fitted.(expfam.Excursive); ok && c.bank.Detects() {
		return e.FitExcursions(locationScale)
	}
	return c.fitted.Fit(locationScale)
}

// enter prepares the stages for the track's next observation o, which is on its scale: the bank gets the track's
// prior, and counts get the exposure of the season at o.Time. It returns the time since the previous observation,
// in units of unit; 1 if unit is 0.
func (c *stages) enter(t *Track, o Observation, unit time.Duration) (elapsed float64) {
	elapsed = t.elapsed(o, unit)
	c.usePrior(t)
	if c.season != nil {
		c.season.expose(t, o)
	}
	return elapsed
}

// predict fills in the bank's prediction of the observation that entered, without its season. If level is not 0, it
// adds bounds of that level. It returns the running regime.
func (c *stages) predict(m *Memory, out *Estimate, t *Track, elapsed float64, row []float64, level float64) (before regime) {
	prediction := hafvf.Prediction{Mean: out.Predicted.Mean, SD: out.Predicted.SD, Lower: out.Lower, Upper: out.Upper, Level: level}
	if c.bank.Detects() {
		n := c.bank.Model().Outputs()
		slice := slicer(m.alloc(4 * n))
		before = regime{predicted: slice(n), predictive: slice(n)}
		prediction.RegimeMean, prediction.RegimeSD = before.predicted, before.predictive
		if !t.priorSet || c.season != nil { // its inputs may change before an alarm asks for it
			before.estimate = Moments{slice(n), slice(n)}
			c.bank.EstimateRegime(before.estimate.Mean, before.estimate.SD, t.state, row)
		}
	}
	if c.spreads && t.priorSet && level != 0 {
		c.spreadNormals = t.spread.normals(c.spreadNormals[:0])
		prediction.Extra = c.spreadNormals
	}
	c.bank.PredictAll(&prediction, t.state, elapsed, row)
	return before
}

// regimeBefore returns the estimate of a regime from predict. Only alarms need it, so it may be computed here, from
// the state that the guard has saved.
func (c *stages) regimeBefore(r *regime) Moments {
	if n := len(r.predicted); n > 0 && r.estimate.Mean == nil {
		r.estimate = Moments{make([]float64, n), make([]float64, n)}
		c.bank.EstimateRegime(r.estimate.Mean, r.estimate.SD, c.guard.states[0], c.row)
	}
	return r.estimate
}

// learn updates the bank with observation n of the track, which has entered, without its season, and updates the
// season with the bank's outcome. named is the start of the regime that the detection reports. before is the result
// of predict, or zero if it was not called.
func (c *stages) learn(t *Track, n int64, o Observation, elapsed float64, before regime) (out hafvf.Outcome, named regimeStart) {
	bank, se := c.bank, c.season
	xs := o.X
	if se != nil {
		xs = se.remove(t, o, elapsed)
	}
	if c.bound != nil {
		if se != nil {
			before = regime{} // its moments include the season
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

// restore adds the season to the predictions of the observation that was learned.
func (c *stages) restore(out *Estimate, before regime, known bool) {
	if c.season == nil {
		return
	}
	c.season.restorePrediction(out.Predicted.Mean, out.Predicted.SD)
	c.season.restoreBounds(out.Lower)
	c.season.restoreBounds(out.Upper)
	if known && c.bank.Detects() {
		c.season.restorePrediction(before.predicted, before.predictive)
		c.season.restoreEstimate(before.estimate)
	}
}

// toData converts the estimate to the scale of the data, after the decision.
func (c *stages) toData(out *Estimate, before regime) {
	c.scale.momentsToData(out.Predicted, out.Estimate, out.Regime, before.estimate)
	if out.Detection != nil {
		c.scale.momentsToData(out.Detection.Usual)
	}
	c.scale.toData(out.Lower, out.Upper)
}

// replay learns the warm-up again with the prior that it has set, and returns the last outcome.
func (c *stages) replay(t *Track, unit time.Duration) (out hafvf.Outcome) {
	c.priorOf = nil // the prior has changed
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

// blank sets out to the estimate of an observation without numbers: they are NaN.
func (c *stages) blank(m *Memory, out *Estimate, n int64, o *Observation, bounds bool) {
	nan := math.NaN()
	outputs := c.bank.Model().Outputs()
	floats := m.alloc(10*outputs + c.params)
	for i := range floats {
		floats[i] = nan
	}
	slice := slicer(floats)
	*out = Estimate{
		Time: o.Time, ID: o.ID, N: n, X: o.X, Shape: o.Shape, Aggregated: o.Aggregated, Events: o.Events, Falls: o.Falls, ExtraFields: o.ExtraFields,
		Predicted: Moments{slice(outputs), slice(outputs)}, Estimate: Moments{slice(outputs), slice(outputs)},
		LogPredictive: nan, ELBO: nan, Weight: nan, Memory: nan, LearningRate: nan, Converged: true,
	}
	if !c.omitPosterior {
		out.Posterior = slice(c.params)
	}
	if c.bank.Detects() {
		out.Regime = Moments{slice(outputs), slice(outputs)}
		out.Detection = m.detectionBuffer()
		*out.Detection = Detection{Score: nan, Threshold: nan, Usual: Moments{slice(outputs), slice(outputs)}}
	}
	if bounds {
		out.Lower, out.Upper = slice(outputs), slice(outputs)
	}
}

// regressors returns the row at which to predict o, valid until the next call.
func (c *stages) regressors(s hafvf.State, o Observation) []float64 {
	if c.season != nil && c.season.counts {
		return c.season.row
	}
	c.row = append(c.row[:0], c.bank.Regressors(s, o.X)...) // the update needs its own row
	return c.row
}

// score fills in how well the observation was predicted, if known reports a prior that does not come from it.
func (c *stages) score(out *Estimate, outcome hafvf.Outcome, known bool) {
	out.Missing = outcome.Missing
	if !known {
		return
	}
	step := outcome.Members[outcome.Heaviest]
	out.LogPredictive, out.ELBO = outcome.LogPredictive, step.ELBO
	out.Iterations, out.Converged = step.Iterations, step.Converged
}

// spread applies the track's spread to the prediction and the score of o, and updates the spread. jacobian is the
// log slope of the scale at o.
func (c *stages) spread(out *Estimate, t *Track, o *Observation, before regime, jacobian float64) {
	sd, regime := &out.Predicted.SD[0], before.predictive[0]
	*sd = t.spread.sd(*sd, regime)
	if !out.Missing {
		out.LogPredictive = t.spread.learn(o.X, out.Predicted.Mean[0], regime, out.LogPredictive, jacobian)
	}
}

// describe fills in the posterior after the observation. If known is false, there is no prior, and numbers that
// depend on values stay NaN.
func (c *stages) describe(m *Memory, out *Estimate, s hafvf.State, outcome hafvf.Outcome, row []float64, known bool) {
	b := c.bank
	f, member := b.Filter(outcome.Heaviest), b.Member(s, outcome.Heaviest)
	if known {
		b.EstimateAll(out.Estimate.Mean, out.Estimate.SD, out.Regime.Mean, out.Regime.SD, s, row)
		if !c.omitPosterior {
			b.Model().Posterior(out.Posterior, f.Sample(member))
		}
		if c.season != nil {
			c.season.restoreEstimate(out.Estimate)
			if b.Detects() {
				c.season.restoreEstimate(out.Regime)
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
	out.Levels = m.alloc(2 * f.Levels())
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
