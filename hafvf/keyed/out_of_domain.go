package keyed

import (
	"math"
	"slices"
	"time"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
	"hafvf/internal/clock"
	"hafvf/internal/domain"
)

// OutOfDomain reports whether Checker rejects the observation only because of its numbers, which the family of the
// key or its scale does not allow. It returns false without detection. Pass such an observation to
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

// OutOfDomain processes an observation for which Estimator.OutOfDomain is true. It does so at once, and does not
// learn the observation. If the observation raises an alarm, OutOfDomain returns an estimate with the alarm and
// without numbers. If the budget suppresses the alarm, the estimate has Detection.Muted. Otherwise it returns nil.
// There is no alarm if the key is new or in its warm-up, if the observation is late or a repeat, during the rest of
// an alarm, or while an alarm of OutOfDomain lasts. The alarm has no size, so AlertConfig's limits on sizes do not
// apply.
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
	v := s.raise(!t.stages.keyCfg.Alerts.Disabled && !inCooldown(t.stages.keyCfg.Alerts.Cooldown, s.last, o.Time))
	if s.episode.open {
		s.episode.extend(s.episode.normal)
	}
	if v.Alarm == usual.NoAlarm && !v.Muted {
		return nil
	}
	out, nan, none := &Estimate{}, math.NaN(), unknown(c.decider.outputs)
	c.blank(&Memory{}, out, t.n, o, false)
	if out.Detection.Muted = v.Muted; v.Muted {
		return out
	}
	s.last = o.Time
	if est.aggregator == nil {
		c.decider.expect(out.Detection.Usual, s, o.Time)
		c.scale.momentsToData(out.Detection.Usual)
	}
	a := &Alert{
		Kind: string(v.Alarm), Start: o.Time, LogOdds: nan, Size: nan, Before: none, After: none, Score: nan, Threshold: nan, Usual: out.Detection.Usual,
	}
	a.Message = t.outOfDomainMessage(&est.cfg, o)
	out.Alarm = a
	s.episode.report(c.decider, out, v, true)
	out.Detection.Episode = t.describe(v, false)
	a.Episode = out.Detection.Episode
	return out
}

// expect sets dst to the values that the profile of a key expects at time t, on the scale of the filter. It leaves
// dst unchanged if the profile expects nothing yet.
func (d *decider) expect(dst Moments, s *decisions, t time.Time) {
	if s.standard == nil || s.timed && t.IsZero() {
		return
	}
	clear(d.standard) // the expected values do not depend on the observed ones
	step := d.profile(s).UpdatePlan(slices.Clone(s.profile), slices.Clone(s.plan), s.pace, t, d.standard, usual.Evidence{})
	for i := range dst.Mean {
		dst.Mean[i], dst.SD[i] = s.onScale(i, step.Mean[i], step.SD[i], step.RecentSpread[i])
	}
	s.band.scale(dst)
}
