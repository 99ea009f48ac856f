package keyed

import (
	"math"
	"slices"
	"strings"
	"time"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
	"hafvf/internal/clock"
	"hafvf/internal/domain"
)

// OutOfDomain reports whether an observation that CheckOf refuses has all but its numbers, which are
// outside of what the family of the key has, or its scale. With detection such a one is for
// KeyState.OutOfDomain.
func (est *Estimator) OutOfDomain(key string, o *Observation) bool {
	if domain.CheckKey(key) != nil || est.cfg.timed(o) != nil {
		return false
	}
	c := est.chains.ofKey(key)
	if _, lagged := c.checks.Model().(expfam.Sequential); c.decider == nil || c.season != nil && o.Time.IsZero() || lagged && len(o.X) > 1 {
		return false
	}
	dim := c.checks.Dim()
	return !slices.ContainsFunc(o.X, func(x []float64) bool { return len(x) != dim && !(len(x) == 1 && math.IsNaN(x[0])) }) && c.check(o) != nil
}

// OutOfDomain takes an observation that Estimator.OutOfDomain has passed, as it comes: it does not wait, and
// is not learned. If that is an alarm it returns an estimate that has the alarm and no numbers, if the
// budget does not pay it one whose Detection is Muted, and else nil. There is no alarm while the key is
// unknown or in its warm-up, where the observation is late or a repeat, in the rest of an alarm, and
// while one of Outside lasts. It has no size, and no bound of sizes holds for it.
func (e *KeyState) OutOfDomain(o *Observation) *Estimate {
	if e.IsNew() || e.repeats(o) || e.overdue(o) || e.expires(clock.Later(e.released, e.intervals.busy), o.Time) {
		return nil
	}
	released := e.released
	if e.est.aggregator != nil {
		released = e.intervals.next
	}
	if e.est.cfg.Order == EventTime && o.Time.Before(released) {
		return nil
	}
	return e.est.outside(e.Track, o)
}

func (est *Estimator) outside(t *Track, o *Observation) *Estimate {
	c, s := t.stages, &t.decisions
	if s.alarm == nil {
		return nil
	}
	decision := usual.NewAlarm(s.pace).Raise(s.alarm, !t.stages.all.Alerts.None && !inCooldown(t.stages.all.Alerts.Cooldown, s.last, o.Time))
	l := &s.lasting
	l.normalFrom, l.normalSteps, l.sum = time.Time{}, 0, 0
	if decision == (usual.Decision{}) {
		return nil
	}
	out, nan, none := &Estimate{}, math.NaN(), unknown(c.decider.outputs)
	c.blank(&Memory{}, out, t.n, o, false)
	if out.Detection.Muted = decision.Muted; decision.Muted {
		return out
	}
	s.last = o.Time
	if c.decider.cfg.Lasting && !l.lasts {
		*l, s.before = lastingAlarm{lasts: true, id: strings.Clone(o.ID), start: o.Time}, usualBefore{}
	}
	if est.aggregator == nil {
		c.decider.expect(out.Detection.Usual, s, o.Time)
		c.scale.moments(out.Detection.Usual)
	}
	a := &Alert{
		Kind: string(decision.Alarm), Start: o.Time, LogOdds: nan, Size: nan, Before: none, After: none, Score: nan, Threshold: nan, Usual: out.Detection.Usual,
	}
	a.Message = t.outsideOf(&est.cfg, o)
	out.Alarm = a
	return out
}

// expect fills in what the profile of a key expects at a time, on the scale of the filter. What it
// does not know it leaves as it is.
func (d *decider) expect(to Moments, s *decisions, at time.Time) {
	if s.standard == nil || s.timed && at.IsZero() {
		return
	}
	clear(d.standard) // whatever comes
	step := d.profile(s).UpdatePlan(slices.Clone(s.profile), slices.Clone(s.plan), s.pace, at, d.standard, usual.Evidence{})
	for i := range to.Mean {
		to.Mean[i], to.SD[i] = s.onScale(i, step.Mean[i], step.SD[i], step.Lately[i])
	}
}
