package keyed

import (
	"math"

	"hafvf/hafvf/usual"
	"hafvf/internal/compact"
)

// First bytes of older states.
const (
	formatOfLasting  = 10 // with lasting alarms, which are episodes now
	formatOfWeekends = 11 // with silences by weekdays, Saturdays and Sundays; without bands and joint scores
)

// formerForm decodes the part of the decisions before their step, in a state with lasting alarms. It reports whether the
// state of an alarm follows.
func (d *decider) formerForm(c *coder, s *decisions, stored *storedForm) (hasAlarm bool) {
	var hasBaseline, hasProfile bool
	ep := &s.episode
	c.Bits(&s.timed, &ep.open, &hasAlarm)
	c.Bits(&stored.standardized, &stored.same, &stored.repeats)
	if c.Bits(&hasBaseline, &hasProfile, &stored.beforeRepeats); hasBaseline {
		ep.baseline = formerBaseline(c, d.outputs)
	}
	if ep.open {
		var output float64
		w := &ep.worst
		compact.Texts(&c.Codec, &ep.id)
		c.near(&ep.since, &ep.normalFrom, &w.Time)
		c.Packs(&ep.score, &w.Value, &w.Size, &output, &ep.normal, &ep.normalSum)
		w.Output, ep.reports, ep.reportX = int(output), 1, math.NaN()
		ep.length = usual.MaxRest // as before, half a rest ends it
		c.Check(ep.score >= 0 && output >= 0 && output < float64(d.outputs) && ep.normal >= 0 && !math.IsNaN(w.Size+ep.normalSum))
	}
	if hasProfile {
		b := baseline{}
		c.Packs(&b.n, &b.near, &b.nearSum, &s.sinceRestored)
		c.Check(b.n >= b.near && b.near >= 0 && s.sinceRestored >= 0 && !math.IsNaN(b.nearSum))
		if compact.Texts(&c.Codec, &stored.before); stored.before != "" {
			first := formerBaseline(c, d.outputs)
			if !ep.known() {
				ep.baseline = first
			}
			ep.n, ep.near, ep.nearSum = b.n, b.near, b.nearSum
		}
	}
	return hasAlarm
}

// formerBaseline decodes the usual values before a lasting alarm.
func formerBaseline(c *coder, outputs int) (b baseline) {
	var distance, times, rest float64
	b.usualForm(c, outputs)
	for i, sd := range b.usual.SD {
		b.swing[i] *= sd
	}
	c.Shorts(&b.level, &distance)
	compact.Unsigned(&c.Codec, &b.output)
	compact.Unsigned(&c.Codec, &times, &rest)
	side, size := sideOf(distance), toFloat32(math.Abs(distance)*max(1, times))
	b.reported[side], b.reported[1-side] = size, toFloat32(size/worseTimes)
	c.Check(b.valid(outputs))
	return b
}
