package keyed

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
)

// An Estimator computes the estimates of the keys of a configuration, from each key's observations in order. It is not
// safe for concurrent use.
type Estimator struct {
	cfg        Config
	chains     *byRules[*stages]
	aggregator *aggregator // nil without Config.Aggregate
	now        func() time.Time
	watermark  time.Time              // see SetWatermark
	marks      map[string][]FalseMark // see SetMarks
	quiet      *quietIndex            // see SetQuiet
}

// NewEstimator returns an Estimator. The error describes the first invalid field of cfg.
func NewEstimator(cfg Config) (*Estimator, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	chains, err := newByRules(cfg, newStages)
	if err != nil {
		return nil, err
	}
	return &Estimator{cfg: cfg, chains: chains, aggregator: newAggregator(cfg.Aggregate, cfg.Filter.Family), now: time.Now, quiet: newQuietIndex(cfg.Quiet)}, nil
}

// checked returns v, which was made from settings that are already validated. It panics if err is not nil.
func checked[T any](v T, err error) T {
	if err != nil {
		panic("keyed: " + err.Error())
	}
	return v
}

// MaxDelay returns how long a KeyState waits for earlier observations: Config.Lateness, plus AggregateConfig.Wait with
// Config.Aggregate.
func (est *Estimator) MaxDelay() time.Duration {
	if est.aggregator != nil {
		return est.cfg.Lateness + est.aggregator.Wait
	}
	return est.cfg.Lateness
}

// SetWatermark sets the watermark. An observation that a KeyState takes later does not wait if the watermark has passed
// its time by at least MaxDelay. The zero time, which is the initial value, means that the watermark is unknown.
func (est *Estimator) SetWatermark(watermark time.Time) { est.watermark = watermark }

// horizon returns the time before which the watermark excludes further observations, or the zero time.
func (est *Estimator) horizon() time.Time {
	if est.watermark.IsZero() {
		return est.watermark
	}
	return est.watermark.Add(-est.MaxDelay())
}

// IntervalEnd returns the end of the interval that contains t. Without Config.Aggregate, or for the zero time, it
// returns t.
func (est *Estimator) IntervalEnd(t time.Time) time.Time {
	if est.aggregator == nil || t.IsZero() {
		return t
	}
	_, end := est.aggregator.interval(t)
	return end
}

// Check returns an error if o is not a valid observation of the key, or if the key is invalid.
func (est *Estimator) Check(key string, o Observation) error {
	if err := domain.CheckKey(key); err != nil {
		return err
	}
	return est.chains.ofKey(key).check(&o)
}

// Checker returns a function that checks observations of the key before KeyState.Process. It returns an error as Check
// does, or if the time that the order needs is missing. With an aggregate of counts, it does not check values.
func (est *Estimator) Checker(key string) func(*Observation) error {
	if err := domain.CheckKey(key); err != nil {
		return func(o *Observation) error { return cmp.Or(est.cfg.timed(o), err) }
	}
	return est.chains.ofKey(key).admits
}

// timed returns an error if the observation has no time and the order needs one.
func (c *Config) timed(o *Observation) error {
	if c.Order == EventTime && o.Time.IsZero() {
		return errNoTime
	}
	return nil
}

// ErrNoTime means that an observation has no time and needs one.
var ErrNoTime = errors.New("no time")

var errNoTime = fmt.Errorf("%w; observations without one need order: arrival", ErrNoTime)

// Estimate predicts and learns the next observation of the track's key. Check must have accepted the observation.
func (est *Estimator) Estimate(t *Track, o Observation) (e Estimate) {
	est.estimateIn(&Memory{}, &e, t, &o)
	return e
}

// EstimateIn is Estimate with the slices of the estimate in m. They are valid until the next use of m. If the
// observation raises no alert, EstimateIn allocates memory only for a Posterior of several coefficients, see
// Config.OmitPosterior.
func (est *Estimator) EstimateIn(m *Memory, out *Estimate, t *Track, o *Observation) {
	m.reset()
	est.estimateIn(m, out, t, o)
}

// estimateIn is EstimateIn without the reset of m. If the observation cannot be learned, it restores the track and sets
// out.SkipReason. After resetAfter such observations in a row it resets the track and learns the observation.
func (est *Estimator) estimateIn(m *Memory, out *Estimate, t *Track, input *Observation) {
	c := t.stages
	if est.quietAt(&t.rules.quiet, input) {
		est.estimateQuietly(m, out, t, input)
		return
	}
	c.guard.save(t)
	why, failed := est.update(m, out, t, input)
	if why == "" {
		t.unlearned = 0
		return
	}
	c.guard.restore(t)
	if failed != nil {
		est.rebuild(c)
	}
	if t.unlearned++; t.unlearned == resetAfter {
		t.reset()
		est.estimateIn(m, out, t, input)
		out.Reset = true
		return
	}
	c.blank(m, out, t.n+1, input, est.cfg.Interval != 0)
	out.SkipReason, out.Panic = why, failed
}

// rebuild rebuilds stages after a panic, which may have left their shared scratch data inconsistent.
func (est *Estimator) rebuild(c *stages) {
	admits := c.admits // which refers to c
	*c = *checked(newStages(c.keyCfg))
	c.admits = admits
}

// update computes the estimate and changes the track. If why is not empty, the observation cannot be learned, and the
// caller must restore the track; failed is the panic that caused this, or nil.
func (est *Estimator) update(m *Memory, out *Estimate, t *Track, input *Observation) (why string, failed *PanicError) {
	defer func() {
		if p := recover(); p != nil {
			failed = newPanicError(p)
			why = "not learned: " + failed.Error() + "; the key continues without this observation"
		}
	}()
	c := t.stages
	t.n++
	t.updateMarks(input.Time)
	c.blank(m, out, t.n, input, est.cfg.Interval != 0)
	out.WarmUp = !t.priorSet
	if t.heartbeat != nil && est.aggregator == nil { // with an aggregator, the heartbeat has already seen the events
		out.Silence = t.stages.silences.arrived(t.heartbeat, &t.rules.quiet, input.Time, t.pays)
	}
	o, jacobian := c.scale.toScale(*input)
	o.X = withoutEmptyTrials(c.checks.Model(), o.X)
	elapsed := c.enter(t, o, est.cfg.TimeUnit)
	row := c.regressors(t.state, o)
	known := t.priorSet || t.locationScale != nil // the prior is set, perhaps preliminarily
	var before regime
	if known {
		before = c.predict(m, out, t, elapsed, row, est.cfg.Interval)
	}
	outcome, started := c.learn(t, t.n, o, elapsed, before)
	if known && !outcome.Missing && notFinite(outcome.LogPredictive) {
		return unlearnable, nil
	}
	addJacobian(&outcome, jacobian)
	c.restore(out, before, known)
	c.score(out, outcome, known)
	if c.spreads && t.priorSet {
		c.spread(out, t, &o, before, jacobian)
	}
	if !t.priorSet && t.refit(o) {
		outcome = c.replay(t, est.cfg.TimeUnit)
		addJacobian(&outcome, jacobian)
		known = true
	}
	c.describe(m, out, t.state, outcome, row, known)
	profileStarts := t.decisions.standard == nil
	decision := verdict{Decision: usual.Decision{Threshold: math.NaN()}}
	if c.bank.Detects() {
		out.Detection.set(outcome.Detection, out.WarmUp, t.n, started)
		if y := c.decider.values(o.X); !input.Partial {
			c.decider.setEvents(&o)
			decision = t.decide(out, y, outcome.Detection, &before)
			out.Belief = t.believe(out, y, outcome.Detection, &before)
		}
	}
	if !t.finite() {
		return unlearnable, nil
	}
	t.toData(out, before)
	for _, a := range [...]*Alert{out.Alarm, out.Belief} {
		if a != nil {
			a.Score, a.Threshold, a.Usual = out.Detection.Score, out.Detection.Threshold, out.Detection.Usual
			if a == out.Alarm && c.decider.fromBaseline {
				a.Usual = t.before()
			}
			if m := &c.decider.missed; a == out.Alarm && m.Score > 0 {
				a.Usual = Moments{append([]float64(nil), a.Usual.Mean...), a.Usual.SD}
				a.Usual.Mean[m.Output] = c.scale.value(m.Usual)
			}
			a.Message = t.sentence(&est.cfg, a, out)
		}
	}
	if out.Alarm != nil {
		t.decisions.recordAlarm(out.Alarm)
	}
	if !math.IsNaN(decision.Threshold) {
		t.follow(out, decision, &est.cfg)
	} else if ep := &t.decisions.episode; ep.open && !ep.silent && out.Detection != nil { // the observation is missing
		out.Detection.Episode = t.describe(decision, false)
	}
	if t.decisions.standard != nil && !t.stages.keyCfg.Alerts.Disabled && (profileStarts || out.Alarm != nil || t.n&(t.n-1) == 0) {
		out.Pace = c.decider.paceOf(&t.decisions)
	}
	return "", nil
}

func notFinite(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
