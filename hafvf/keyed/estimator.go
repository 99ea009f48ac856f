package keyed

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
)

// An Estimator makes the estimates of the keys of a configuration, from their observations in
// their order. It is not safe for concurrent use.
type Estimator struct {
	cfg     Config
	streams ruled[*stream]
}

// A stream filters the observations of the keys of one rule.
type stream struct {
	cfg         hafvf.Config
	fingerprint Fingerprint // of the settings
	bank        *hafvf.Bank
	checks      *hafvf.Filter // of observations as they come
	fitted      expfam.Fitted // the model of observations as they come, where a warm-up sets its prior
	priorOf     *Track        // whose prior the bank has
	decider     *decider      // nil without detection
	season      *season       // nil without one
	scale       *scaling      // nil where values stay as they are
	params      int
	row         []float64
	admits      func(*Observation) error // see CheckOf
}

// NewEstimator makes an estimator. An error names what is wrong with cfg.
func NewEstimator(cfg Config) (*Estimator, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	streams, err := newRuled(cfg.Filter, cfg.Keys, func(filter hafvf.Config) (*stream, error) {
		st, err := newStream(filter, cfg)
		if err != nil {
			return nil, err
		}
		st.admits = func(o *Observation) error {
			if err := cfg.timed(o); err != nil {
				return err
			}
			return st.check(o)
		}
		return st, nil
	})
	if err != nil {
		return nil, err
	}
	return &Estimator{cfg, streams}, nil
}

// newStream makes the stream of the keys of all that have the filter cfg.
func newStream(cfg hafvf.Config, all Config) (*stream, error) {
	bank, err := cfg.NewBank()
	if err != nil {
		return nil, err
	}
	checks, err := newChecks(cfg)
	if err != nil {
		return nil, err
	}
	st := &stream{cfg: cfg, fingerprint: FingerprintOf(all.settingsOf(cfg).String()), bank: bank, checks: checks}
	if cfg.WarmUp > 0 {
		st.fitted = checks.Model().(expfam.Fitted)
	}
	for _, p := range bank.Model().Params() {
		st.params += p.Size()
	}
	st.scale = newScaling(cfg, bank)
	if cfg.Season != nil {
		if st.season, err = newSeason(cfg, bank); err != nil {
			return nil, err
		}
	}
	if bank.Detects() {
		if st.decider, err = newDecider(*all.Alarms, cfg, bank.Model()); err != nil {
			return nil, fmt.Errorf("alarms: %w", err)
		}
	}
	return st, nil
}

// newChecks makes the filter that checks observations as they come: that of a bank may take
// rows with an exposure.
func newChecks(cfg hafvf.Config) (*hafvf.Filter, error) {
	m, err := expfam.New(cfg.Family, cfg.Prior, cfg.Dim)
	if err != nil {
		return nil, err
	}
	return hafvf.NewFilter(m, nil, 1), nil
}

// Check says why o is not an observation of the key.
func (est *Estimator) Check(key string, o Observation) error {
	if key == "" {
		return errEmptyKey
	}
	return est.streams.of(key).check(&o)
}

// CheckOf returns the function that says why an observation of the key is none that
// Entity.Take takes: Check, and whether it has the time that the order needs.
func (est *Estimator) CheckOf(key string) func(*Observation) error {
	if key == "" {
		return func(o *Observation) error { return cmp.Or(est.cfg.timed(o), errEmptyKey) }
	}
	return est.streams.of(key).admits
}

// timed says whether the time of an observation is missing.
func (c *Config) timed(o *Observation) error {
	if c.Order == EventTime && o.Time.IsZero() {
		return errNoTime
	}
	return nil
}

var (
	errEmptyKey = errors.New("empty key")
	errNoTime   = errors.New("no time; observations without one need order: arrival")
)

func (st *stream) check(o *Observation) error {
	if st.season != nil && o.Time.IsZero() {
		return errors.New("no time; a season needs that of every observation")
	}
	return st.scale.check(st.checks, o)
}

// Estimate predicts the next observation of the track's key, which Check has
// passed, and learns it.
func (est *Estimator) Estimate(t *Track, o Observation) (e Estimate) {
	est.estimateIn(&Memory{}, &e, t, &o)
	return e
}

// estimateIn is Estimate with the slices of the estimate from a memory.
func (est *Estimator) estimateIn(m *Memory, out *Estimate, t *Track, given *Observation) {
	o := *given
	t.n++
	st := t.stream
	st.blank(m, out, t.n, &o, est.cfg.Interval != 0)
	out.WarmUp = t.warming()
	if t.pulse != nil {
		out.Silence = t.pulse.speak(*est.cfg.Silence, *est.cfg.Alarms, o.Time)
	}
	o, jacobian := st.scale.to(o)
	elapsed := t.elapsed(o, est.cfg.TimeUnit)
	st.usePrior(t)
	if st.season != nil {
		st.season.expose(t, o)
	}
	row := st.regressors(t.state, o)
	known := !t.warming() || t.locationScale != nil // there is a prior
	var before regime
	if known {
		st.bank.PredictAfter(out.Predicted.Mean, out.Predicted.SD, t.state, elapsed, row)
		if level := est.cfg.Interval; level != 0 {
			st.bank.Interval(out.Lower, out.Upper, level, t.state, elapsed, row)
		}
		if st.bank.Detects() {
			before = st.regime(m, t.state, elapsed, row)
		}
	}
	outcome, started := t.learn(t.n, o, elapsed)
	addJacobian(&outcome, jacobian)
	if st.season != nil {
		st.season.predicted(out.Predicted.Mean, out.Predicted.SD)
		st.season.bounds(out.Lower)
		st.season.bounds(out.Upper)
		if known && st.bank.Detects() {
			st.season.predicted(before.predicted, before.predictive)
			st.season.estimated(before.estimate)
		}
	}
	st.score(out, outcome, known)
	if t.warming() && t.refit(o) {
		outcome = t.replay(est.cfg.TimeUnit)
		addJacobian(&outcome, jacobian)
		known = true
	}
	st.describe(m, out, t.state, outcome, row, known)
	if st.bank.Detects() {
		out.Detection = m.verdict()
		out.Detection.set(outcome.Detection, out.WarmUp, t.n, started)
		y := st.decider.values(o.X)
		t.decide(est.cfg.Alerts, out, y, outcome.Detection, before)
		out.Belief = t.believe(est.cfg.Alerts, out, y, outcome.Detection, before)
	}
	st.scale.moments(out.Predicted, out.Estimate, out.Regime, before.estimate)
	st.scale.back(out.Lower, out.Upper)
	for _, a := range [...]*Alert{out.Alarm, out.Belief} {
		if a != nil {
			a.Score, a.Threshold = out.Detection.Score, out.Detection.Threshold
			a.Message = a.sentence(t.key, out, est.cfg.Values)
		}
	}
}

// A Memory gives estimates their slices and the like, so that none is allocated for each. Its
// zero value is ready.
type Memory struct {
	floats    []float64
	bank      []MemberStep
	detection *Detection
}

// reset gives what was given to the next estimate.
func (m *Memory) reset() { m.floats = m.floats[:0] }

// take returns n floats.
func (m *Memory) take(n int) []float64 {
	if len(m.floats)+n > cap(m.floats) {
		m.floats = make([]float64, 0, n+2*cap(m.floats)) // those of before are still in use
	}
	from := len(m.floats)
	m.floats = m.floats[:from+n]
	return m.floats[from : from+n : from+n]
}

func (m *Memory) verdict() *Detection {
	if m.detection == nil {
		m.detection = &Detection{}
	}
	return m.detection
}

// blank makes out an estimate whose numbers are NaN.
func (st *stream) blank(m *Memory, out *Estimate, n int64, o *Observation, bounds bool) {
	nan := math.NaN()
	outputs := st.bank.Model().Outputs()
	floats := m.take(8*outputs + st.params)
	for i := range floats {
		floats[i] = nan
	}
	cut := cutter(floats)
	*out = Estimate{
		Time: o.Time, ID: o.ID, N: n, X: o.X, Shape: o.Shape,
		Predicted: Moments{cut(outputs), cut(outputs)}, Estimate: Moments{cut(outputs), cut(outputs)}, Posterior: cut(st.params),
		LogPredictive: nan, ELBO: nan, Weight: nan, Memory: nan, Converged: true,
	}
	if st.bank.Detects() {
		out.Regime = Moments{cut(outputs), cut(outputs)}
	}
	if bounds {
		out.Lower, out.Upper = cut(outputs), cut(outputs)
	}
}

// regressors returns the row at which o is predicted, valid until the next call.
func (st *stream) regressors(s hafvf.State, o Observation) []float64 {
	if st.season != nil && st.season.counts {
		return st.season.row
	}
	st.row = append(st.row[:0], st.bank.Regressors(s, o.X)...) // the update has its own row
	return st.row
}

// score fills in how well the observation was predicted, where there was a prior
// that did not come from it.
func (st *stream) score(out *Estimate, outcome hafvf.Outcome, known bool) {
	out.Missing = outcome.Missing
	if !known {
		return
	}
	step := outcome.Members[outcome.Heaviest]
	out.LogPredictive, out.ELBO = outcome.LogPredictive, step.ELBO
	out.Iterations, out.Converged = step.Iterations, step.Converged
}

// describe fills in the posterior after the observation. Without a prior yet it
// leaves out what depends on values.
func (st *stream) describe(m *Memory, out *Estimate, s hafvf.State, outcome hafvf.Outcome, row []float64, known bool) {
	b := st.bank
	f, member := b.Filter(outcome.Heaviest), b.Member(s, outcome.Heaviest)
	if known {
		b.Estimate(out.Estimate.Mean, out.Estimate.SD, s, row)
		b.Model().Posterior(out.Posterior, f.Sample(member))
		if b.Detects() {
			b.Regime(out.Regime.Mean, out.Regime.SD, s, row)
		}
		if st.season != nil {
			st.season.estimated(out.Estimate)
			if b.Detects() {
				st.season.estimated(out.Regime)
			}
		}
	}
	step := outcome.Members[outcome.Heaviest]
	out.Weight, out.Memory = step.Weight, step.Memory
	out.Levels = m.take(2 * f.Levels())
	copyLevels(out.Levels, f, member)
	if len(st.cfg.Bank) == 0 {
		return
	}
	m.bank = m.bank[:0]
	for _, s := range outcome.Members {
		m.bank = append(m.bank, MemberStep{Share: s.Share, Weight: s.Weight, Memory: s.Memory, LogPredictive: s.LogPredictive})
	}
	out.Bank = m.bank
}

// A regime holds the running regime before an observation: mean and sd of its mean,
// and those of one observation.
type regime struct {
	estimate              Moments
	predicted, predictive []float64
}

func (st *stream) regime(m *Memory, s hafvf.State, elapsed float64, row []float64) regime {
	n := st.bank.Model().Outputs()
	cut := cutter(m.take(4 * n))
	r := regime{Moments{cut(n), cut(n)}, cut(n), cut(n)}
	st.bank.PredictRegime(r.predicted, r.predictive, s, elapsed, row)
	st.bank.Regime(r.estimate.Mean, r.estimate.SD, s, row)
	return r
}

// cutter returns a function that cuts slices off floats: the slices of a record
// share one allocation.
func cutter(floats []float64) func(n int) []float64 {
	return func(n int) []float64 {
		v := floats[:n:n]
		floats = floats[n:]
		return v
	}
}

// copyLevels writes alpha and beta of every level of s, bottom up, to dst.
func copyLevels(dst []float64, f *hafvf.Filter, s hafvf.State) {
	for i := range f.Levels() {
		l := f.Level(s, i)
		dst[2*i], dst[2*i+1] = l.Alpha, l.Beta
	}
}
