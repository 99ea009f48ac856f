package keyed

import (
	"math"
	"strings"
	"time"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
	"hafvf/internal/compact"
)

// A lastingAlarm is the alarm of a key that is not back to usual yet. Its fields are reported when the alarm ends.
type lastingAlarm struct {
	lasts      bool      // false if the key has no such alarm; the other fields are then zero
	id         string    // ID of the first alarm
	start      time.Time // Start of the first alarm
	normalFrom time.Time // time of the first observation after the last unusual one; zero if there is none
	score      float64   // largest score
	peak       peak

	// normalSteps is the number of observations after the last unusual one. sum is the sum of their deviations from the
	// usual value before the alarm, in sd, in the output of the peak.
	normalSteps, sum float64
}

// A peak is the observation with the largest deviation from the usual value.
type peak struct {
	time   time.Time
	x      float64 // value of the output; NaN if the observation does not have exactly one
	size   float64 // standard deviations, as Alert.Size of a novelty; 0 if there is no peak
	output int
}

// follow begins, updates or ends the lasting alarm and the episode of the key, after the decision on e. e is already on
// the data's scale. If the alarm ends, follow sets e.Recovered.
func (t *Track) follow(e *Estimate, d usual.Decision, cfg *Config) {
	l := &t.decisions.lasting
	decider, before, episode := t.stages.decider, &t.decisions.before, &t.decisions.episode
	if !decider.cfg.Lasting {
		*l, *before = lastingAlarm{}, preAlarmBaseline{}
		episode.end()
		return
	}
	if episode.restores(decider, &t.decisions, e.Time) {
		copy(t.decisions.profile, episode.profile)
	}
	if l.lasts {
		if d.Unusual {
			l.normalFrom, l.normalSteps, l.sum = time.Time{}, 0, 0
		} else {
			if l.normalSteps++; l.normalSteps == 1 {
				l.normalFrom = e.Time
			}
			if before.known() {
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
		before.recordEscalation()
	case e.Alarm != nil && !l.lasts && !math.IsNaN(decider.usual.Mean[0]):
		*before = decider.newBaseline(&t.decisions, e.Time, e.Alarm)
	case e.Alarm != nil && before.known():
		before.recordAlarm(before.level, decider.deviations[before.output])
	case !l.lasts && before.known() && math.Abs(before.level) < 1:
		*before = preAlarmBaseline{}
	}
	if e.Alarm != nil && !l.lasts {
		// Clone the ID, which may be part of a larger text.
		*l = lastingAlarm{lasts: true, id: strings.Clone(e.ID), start: e.Alarm.Start}
		episode.begin(decider.profileBeforeAlarm, before)
	}
	if l.lasts {
		t.recordPeak(l, e)
	} else if episode.over(t.decisions.pace.Rest()) {
		episode.end()
	}
}

// recordPeak updates the largest score and the peak of the lasting alarm.
func (t *Track) recordPeak(l *lastingAlarm, e *Estimate) {
	d, decider := e.Detection, t.stages.decider
	if d.Score > l.score {
		l.score = d.Score
	}
	s := decider.recentUsual().shift(decider.y, t.stages.scale)
	if !(math.Abs(s.size) > math.Abs(l.peak.size)) || math.IsInf(s.size, 0) {
		return
	}
	l.peak = peak{time: e.Time, x: math.NaN(), size: s.size, output: s.output}
	alert := Alert{Output: s.output, Before: d.Usual}
	if x, seen := alert.seen(e.X); seen {
		l.peak.x = x
		if m, ok := t.stages.checks.Model().(expfam.Counted); ok {
			l.peak.x = m.Share(e.X[0])
		}
	}
}

// end returns the alert for the end of the alarm l at estimate e.
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

// stays returns the side, above or below the usual value before the alarm, on which the values have stayed because the
// profile adapted to them. It returns "" if the values have returned: their mean deviates by less than one standard
// deviation of the values, or by less than two standard errors.
func (l *lastingAlarm) stays() string {
	switch {
	case returned(l.sum, l.normalSteps):
		return ""
	case l.sum > 0:
		return "above"
	}
	return "below"
}

// returned reports whether n values whose deviations have the given sum have returned.
func returned(sum, n float64) bool { return !(math.Abs(sum) >= max(n, 2*math.Sqrt(n))) }

// BackToUsual reports whether the alert is the end of a lasting alarm. The end of a silence has no threshold.
func (a *Alert) BackToUsual() bool { return a.Kind == RecoveredAlarm && !math.IsNaN(a.Threshold) }

func (l *lastingAlarm) form(c *coder) {
	p := &l.peak
	output := float64(p.output)
	compact.Texts(&c.Codec, &l.id)
	c.near(&l.start, &l.normalFrom, &p.time)
	c.Packs(&l.score, &p.x, &p.size, &output, &l.normalSteps, &l.sum)
	p.output = int(output)
	c.Check(l.score >= 0 && output >= 0 && l.normalSteps >= 0 && !math.IsNaN(p.size+l.sum))
}
