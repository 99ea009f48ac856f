package keyed

import (
	"math"
	"strings"
	"time"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
	"hafvf/internal/compact"
)

// lastingAlarm is an alarm that lasts: what is told when its key is back to usual.
type lastingAlarm struct {
	lasts bool      // else there is none
	id    string    // of the alarm that began it
	start time.Time // of that alert
	back  time.Time // of the first observation since the last unusual one; zero where that is the last
	score float64   // the highest
	peak  peak

	// Since the last unusual observation: how many there are, and the sum of their distances from
	// what was usual before the alarm, standard deviations in the output of the peak.
	normalSteps, sum float64
}

// A peak is the observation that was farthest from what was usual.
type peak struct {
	at     time.Time
	x      float64 // NaN where the observation has not one value of the output
	size   float64 // standard deviations, as Alert.Size of a novelty; 0 where there is none
	output int
}

// follow goes on with the alarm that lasts, after the decision on an estimate, which has left the
// stages. Its end becomes part of the estimate.
func (t *Track) follow(e *Estimate, d usual.Decision, cfg *Config) {
	l := &t.decisions.lasting
	decider, was, event := t.stages.decider, &t.decisions.before, &t.decisions.episode
	if !decider.cfg.Lasting {
		*l, *was = lastingAlarm{}, usualBefore{}
		event.end()
		return
	}
	if event.restores(decider, &t.decisions, e.Time) {
		copy(t.decisions.profile, event.profile)
	}
	if l.lasts {
		if d.Unusual {
			l.back, l.normalSteps, l.sum = time.Time{}, 0, 0
		} else {
			if l.normalSteps++; l.normalSteps == 1 {
				l.back = e.Time
			}
			if was.known() {
				l.sum += decider.deviations[l.peak.output]
			}
		}
		if d.Ended {
			e.Recovered = &EndedAlarm{l.id, t.end(l, e, cfg)}
			if l.stays() == "" {
				decider.profile(&t.decisions).ForgetSurprises(t.decisions.profile, t.decisions.pace)
			}
			*l = lastingAlarm{}
		}
	}
	if decider.missed.Score > 0 {
		if !l.lasts {
			*l = lastingAlarm{lasts: true, id: strings.Clone(e.ID), start: e.Alarm.Start}
		}
		return
	}
	switch {
	case e.Alarm != nil && decider.escalated:
		was.repeat()
	case e.Alarm != nil && !l.lasts && !math.IsNaN(decider.usual.Mean[0]):
		*was = decider.begin(&t.decisions, e.Time, e.Alarm)
	case e.Alarm != nil && was.known():
		was.setAlerted(was.level, decider.deviations[was.output])
	case !l.lasts && was.known() && math.Abs(was.level) < 1:
		*was = usualBefore{}
	}
	if e.Alarm != nil && !l.lasts {
		*l = lastingAlarm{lasts: true, id: strings.Clone(e.ID), start: e.Alarm.Start} // the ID may be part of a larger text
		event.begin(decider.profileBeforeAlarm, was)
	}
	if l.lasts {
		t.note(l, e)
	} else if event.over(t.decisions.pace.Rest()) {
		event.end()
	}
}

// note notes an observation of the alarm that lasts.
func (t *Track) note(l *lastingAlarm, e *Estimate) {
	d, decider := e.Detection, t.stages.decider
	if d.Score > l.score {
		l.score = d.Score
	}
	s := decider.recentUsual().shift(decider.y, t.stages.scale)
	if !(math.Abs(s.size) > math.Abs(l.peak.size)) || math.IsInf(s.size, 0) {
		return
	}
	l.peak = peak{at: e.Time, x: math.NaN(), size: s.size, output: s.output}
	at := Alert{Output: s.output, Before: d.Usual}
	if x, seen := at.seen(e.X); seen {
		l.peak.x = x
		if m, ok := t.stages.checks.Model().(expfam.Counted); ok {
			l.peak.x = m.Share(e.X[0])
		}
	}
}

// end is the alert of the end of an alarm with an estimate.
func (t *Track) end(l *lastingAlarm, e *Estimate, cfg *Config) *Alert {
	outputs := len(e.Detection.Usual.Mean)
	a := &Alert{
		Kind: RecoveredAlarm, Start: l.start, LogOdds: math.NaN(), Size: l.peak.size, Output: l.peak.output, Before: unknown(outputs), After: unknown(outputs),
		Score: l.score, Threshold: e.Detection.Threshold, Usual: e.Detection.Usual,
	}
	if l.peak.size == 0 {
		a.Size = math.NaN()
	}
	a.Message = t.ended(cfg, a, l, e)
	return a
}

// stays is the side of what was usual before the alarm on which the values still lie: the profile has
// become used to them. It is empty if they have returned, that is if their mean is less than a
// standard deviation away, or less than two of its own.
func (l *lastingAlarm) stays() string {
	switch {
	case returned(l.sum, l.normalSteps):
		return ""
	case l.sum > 0:
		return "above"
	}
	return "below"
}

// returned reports whether n distances of that sum are of values that have returned.
func returned(sum, n float64) bool { return !(math.Abs(sum) >= max(n, 2*math.Sqrt(n))) }

// BackToUsual reports whether the alert is the end of an alarm that has lasted, and not that of a
// silence, which has no threshold.
func (a *Alert) BackToUsual() bool { return a.Kind == RecoveredAlarm && !math.IsNaN(a.Threshold) }

func (l *lastingAlarm) form(c *coder) {
	p := &l.peak
	output := float64(p.output)
	compact.Texts(&c.Codec, &l.id)
	c.near(&l.start, &l.back, &p.at)
	c.Packs(&l.score, &p.x, &p.size, &output, &l.normalSteps, &l.sum)
	p.output = int(output)
	c.Check(l.score >= 0 && output >= 0 && l.normalSteps >= 0 && !math.IsNaN(p.size+l.sum))
}
