package keyed

import (
	"cmp"
	"errors"
	"math"
	"time"

	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
)

// An Estimator makes the estimates of the keys of a configuration, from their observations in
// their order. It is not safe for concurrent use.
type Estimator struct {
	cfg        Config
	chains     *byRules[*stages]
	aggregator *aggregator // nil without Config.Aggregate
	now        func() time.Time
	watermark  time.Time              // see Pass
	marks      map[string][]FalseMark // see SetMarks
	quiet      *quietIndex            // see SetQuiet
}

// NewEstimator makes an estimator. An error names what is wrong with cfg.
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

// checked returns what is made of settings that were checked before: there is no error.
func checked[T any](v T, err error) T {
	if err != nil {
		panic("keyed: " + err.Error())
	}
	return v
}

// MaxDelay is how long after a time the last observations before it are taken: the lateness, and
// with Config.Aggregate what an interval waits.
func (est *Estimator) MaxDelay() time.Duration {
	if est.aggregator != nil {
		return est.cfg.Lateness + est.aggregator.Wait
	}
	return est.cfg.Lateness
}

// SetWatermark notes the time that the watermark has passed: what a KeyState takes does not wait for it again.
// The zero time, at first, says that it is not known.
func (est *Estimator) SetWatermark(watermark time.Time) { est.watermark = watermark }

// horizon is the time before which nothing is to come by the watermark.
func (est *Estimator) horizon() time.Time {
	if est.watermark.IsZero() {
		return est.watermark
	}
	return est.watermark.Add(-est.MaxDelay())
}

// IntervalEnd is when what is shown at a time is due, less the patience: at once, and with
// Config.Aggregate at the end of its interval.
func (est *Estimator) IntervalEnd(t time.Time) time.Time {
	if est.aggregator == nil || t.IsZero() {
		return t
	}
	_, end := est.aggregator.of(t)
	return end
}

// Check says why o is not an observation of the key.
func (est *Estimator) Check(key string, o Observation) error {
	if err := domain.CheckKey(key); err != nil {
		return err
	}
	return est.chains.ofKey(key).check(&o)
}

// CheckOf returns the function that says why an observation of the key is none that
// KeyState.Take takes: Check, and whether it has the time that the order needs.
func (est *Estimator) CheckOf(key string) func(*Observation) error {
	if err := domain.CheckKey(key); err != nil {
		return func(o *Observation) error { return cmp.Or(est.cfg.timed(o), err) }
	}
	return est.chains.ofKey(key).admits
}

// timed says whether the time of an observation is missing.
func (c *Config) timed(o *Observation) error {
	if c.Order == EventTime && o.Time.IsZero() {
		return errNoTime
	}
	return nil
}

var errNoTime = errors.New("no time; observations without one need order: arrival")

// Estimate predicts the next observation of the track's key, which Check has
// passed, and learns it.
func (est *Estimator) Estimate(t *Track, o Observation) (e Estimate) {
	est.estimateIn(&Memory{}, &e, t, &o)
	return e
}

// EstimateIn is Estimate with the slices of the estimate in a memory, where they are valid until it is used again. If
// nothing is told it allocates nothing but a Posterior of several coefficients, see Config.Brief.
func (est *Estimator) EstimateIn(m *Memory, out *Estimate, t *Track, o *Observation) {
	m.reset()
	est.estimateIn(m, out, t, o)
}

// estimateIn is EstimateIn beside what the memory has given already.
func (est *Estimator) estimateIn(m *Memory, out *Estimate, t *Track, given *Observation) {
	c := t.stages
	if est.quietAt(&t.rules.quiet, given) {
		est.estimateQuietly(m, out, t, given)
		return
	}
	c.guard.save(t)
	why, failed := est.try(m, out, t, given)
	if why == "" {
		t.refused = 0
		return
	}
	c.guard.takeBack(t)
	if failed != nil {
		est.renew(c)
	}
	if t.refused++; t.refused == resetAfter {
		t.reset()
		est.estimateIn(m, out, t, given)
		out.Reset = true
		return
	}
	c.blank(m, out, t.n+1, given, est.cfg.Interval != 0)
	out.SkipReason, out.Panic = why, failed
}

// renew makes a chain what it was at first. What the keys of it share is scratch, but a panic
// may have left it in the middle of something.
func (est *Estimator) renew(c *stages) {
	admits := c.admits // which is of c
	*c = *checked(newStages(c.all))
	c.admits = admits
}

// try is estimateIn of an observation that may have to be taken back: why says so, and failed is
// the panic that is the reason.
func (est *Estimator) try(m *Memory, out *Estimate, t *Track, given *Observation) (why string, failed *PanicError) {
	defer func() {
		if p := recover(); p != nil {
			failed = caught(p)
			why = "not learned: " + failed.Error() + "; the key goes on as if it had not come"
		}
	}()
	c := t.stages
	t.n++
	c.blank(m, out, t.n, given, est.cfg.Interval != 0)
	out.WarmUp = !t.priorSet
	if t.heartbeat != nil && est.aggregator == nil { // otherwise it has seen the events
		out.Silence = t.stages.silences.arrived(t.heartbeat, &t.rules.quiet, given.Time, t.pays)
	}
	o, jacobian := c.scale.to(*given)
	o.X = tried(c.checks.Model(), o.X)
	elapsed := c.enter(t, o, est.cfg.TimeUnit)
	row := c.regressors(t.state, o)
	known := t.priorSet || t.locationScale != nil // there is a prior
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
	begins := t.decisions.standard == nil
	decision := usual.Decision{Threshold: math.NaN()}
	if c.bank.Detects() {
		out.Detection.set(outcome.Detection, out.WarmUp, t.n, started)
		if y := c.decider.values(o.X); !given.Partial {
			c.decider.setEvents(&o)
			decision = t.decide(out, y, outcome.Detection, &before)
			out.Belief = t.believe(out, y, outcome.Detection, &before)
		}
	}
	if !t.finite() {
		return unlearnable, nil
	}
	c.leave(out, before)
	for _, a := range [...]*Alert{out.Alarm, out.Belief} {
		if a != nil {
			a.Score, a.Threshold, a.Usual = out.Detection.Score, out.Detection.Threshold, out.Detection.Usual
			if a == out.Alarm && c.decider.escalated {
				a.Usual = t.decisions.before.moments(c.decider)
				c.scale.moments(a.Usual)
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
	}
	if t.decisions.standard != nil && !t.stages.all.Alerts.None && (begins || out.Alarm != nil || t.n&(t.n-1) == 0) {
		out.Pace = c.decider.paceOf(&t.decisions)
	}
	return "", nil
}

func notFinite(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
