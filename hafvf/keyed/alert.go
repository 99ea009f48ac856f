package keyed

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/usual"
	"hafvf/internal/compact"
	"hafvf/internal/domain"
)

// AlertConfig configures which alarms are permitted, and which beliefs also raise alerts. An alarm that is not
// permitted costs no budget. The size of an alarm is the largest over the coordinates. For a change it is the distance
// between the means of the regimes, in standard deviations of the running regime's prediction. For a novelty it is the
// distance of the observation from the usual value, in recent standard deviations.
type AlertConfig struct {
	// Cooldown is the time after an alarm in which its key raises no other alarm, and after a belief's alert in which
	// the key raises no other belief alert of the same kind. Revisions are exempt. Default 0.
	Cooldown  time.Duration
	MinChange float64 // minimum size, standard deviations
	MinAbs    float64 // minimum distance, in units of the data
	MinRel    float64 // minimum distance, relative to the mean that the distance is measured from
	Direction Direction
	Disabled  bool `json:"None"` // permit no alarm and no alert of a belief
	// Beliefs are the kinds of Detection that raise alerts, regardless of the budget: outliers, and changes and
	// revisions of a permitted size. Default none. Revision needs Change.
	Beliefs []hafvf.Kind
}

// Direction is the permitted direction of alarms and of belief changes.
type Direction string

const (
	Both Direction = "both" // the default
	Up   Direction = "up"
	Down Direction = "down"
)

func (c AlertConfig) validate() error {
	if c.Cooldown < 0 {
		return fmt.Errorf("cooldown %v is negative", c.Cooldown)
	}
	for _, minimum := range []struct {
		name string
		v    float64
	}{{"change", c.MinChange}, {"distance", c.MinAbs}, {"relative distance", c.MinRel}} {
		if !domain.MinChange.Contains(minimum.v) {
			return fmt.Errorf("minimum %s must be %s, not %g", minimum.name, domain.MinChange.Name, minimum.v)
		}
	}
	if c.Direction != "" && c.Direction != Both && c.Direction != Up && c.Direction != Down {
		return fmt.Errorf("unknown direction %q: use %q, %q or %q", c.Direction, Both, Up, Down)
	}
	for _, kind := range c.Beliefs {
		switch {
		case kind != hafvf.Outlier && kind != hafvf.Change && kind != hafvf.Revision:
			return fmt.Errorf("unknown belief %q: use %q, %q or %q", kind, hafvf.Outlier, hafvf.Change, hafvf.Revision)
		case kind == hafvf.Revision && !slices.Contains(c.Beliefs, hafvf.Change):
			return fmt.Errorf("belief %q needs belief %q, which it corrects: add it", kind, hafvf.Change)
		}
	}
	return nil
}

// A Detection is the verdict on an observation: whether it is an outlier or the key has changed. Stay, Outlier and
// Change are posterior probabilities, before a change resets them. They sum to one. The bank decides on Kind by a higher
// probability of a change: see changeDiscount.
type Detection struct {
	Kind                  hafvf.Kind
	Stay, Outlier, Change float64
	// Start and StartN are the time and position of the first observation of the new or suspected regime; zero if
	// there is none.
	Start  time.Time
	StartN int64
	Delay  int64 // observations from Start to this one, for a change or revision
	Age    int64 // run length: observations since the start of the regime that was running before this one
	// Score is how unusual the recent observations are for the key, and Threshold is the score of an alarm. Both are
	// minus decimal logarithms of a tail probability. They are NaN in the warm-up and if the observation is missing. A
	// single category has no Score.
	Score, Threshold float64
	// Usual is the value that the key's profile expected, from its level, its seasons and its plan: .95 of the key's
	// values lie within 1.96 SD. The Score and the size of an alert do not depend on SD. Usual is NaN without a Score.
	Usual Moments
	// Muted reports that only the debt of earlier alarms prevented an alarm, see usual.Decision. In an incident it is
	// true for the first observation, and for one observation after every rest.
	Muted bool
	// Resting reports that only the open episode prevented an alarm, after too few normal observations to end it. It is
	// true for the first observation of a recurring deviation.
	Resting bool
	// Episode is the open episode, or the one that ends with the observation; else nil.
	Episode *EpisodeReport
}

// changeDiscount divides the odds of a change in a Detection. Values with heavy tails, and values that depend on the
// previous ones, look like changes more often than the bank's model expects. Of the probabilities of at least .9, .78
// were true without it in the least favourable case of BenchmarkBelief, and .86 are with it.
const changeDiscount = 3.

// An Alert reports an alarm or a belief. It has the key, time and ID of its estimate.
type Alert struct {
	// Kind is novelty or change for an alarm; outlier, change or revision for a belief.
	Kind string
	// Corrects is the ID of the alert that a revision replaces. If the change raised no alert, its revision raises one
	// with the kind change.
	Corrects string
	// Start is the time of the first observation of the new regime for a change, of the first of the unusual values in
	// a row for a novelty, and of the observation itself for an outlier.
	Start   time.Time
	Delay   int64   // observations from Start to the alert
	LogOdds float64 // log odds of the belief, nats; for a novelty, of outlier or change against stay
	// Size is the signed size in standard deviations, of the coordinate Output. It is measured from before to after for
	// a change, from the usual value for a novelty, and from the running regime's prediction for an outlier.
	Size   float64
	Output int
	// Before and After are the running regime's mean before and after the observation.
	Before, After Moments
	// Score, Threshold and Usual are copied from the Detection; NaN for a silence. For the end of an alarm, Size and
	// Score are the largest while the alarm lasted.
	Score, Threshold float64
	Usual            Moments
	// Episode is the episode that the alarm begins, reports again or ends; nil for a belief and for a silence.
	Episode *EpisodeReport
	// Level and NormalFrom are set for the end of an episode: where its values are, and the time of the first one
	// after the last far one.
	Level      Level
	NormalFrom time.Time
	Message    string // the alert as a sentence
}

// set sets out to d and to the start of its regime, and keeps Score, Threshold and Usual. In the warm-up the kind is
// None.
func (out *Detection) set(d hafvf.Hypotheses, warmUp bool, n int64, start regimeStart) {
	c := d.Change / (d.Change + changeDiscount*(1-d.Change))
	d.Stay, d.Change = d.Stay+d.Change-c, c
	*out = Detection{Kind: d.Kind, Stay: d.Stay, Outlier: d.Outlier, Change: d.Change, Start: start.time, StartN: start.n, Age: d.Age, Score: out.Score, Threshold: out.Threshold, Usual: out.Usual}
	if warmUp {
		out.Kind = hafvf.None
	}
	if out.Kind == hafvf.Change || out.Kind == hafvf.Revision {
		out.Delay = n - start.n
	}
}

// decide decides whether the estimate raises an alarm, and sets e.Alarm and the fields of e.Detection that alarms
// depend on. y are the values of the observation, nil if it is missing.
func (t *Track) decide(e *Estimate, y []float64, d hafvf.Hypotheses, before *regime) (v verdict) {
	cfg, detection, decider := &t.stages.keyCfg.Alerts, e.Detection, t.stages.decider
	sizeOf := func(kind usual.AlarmKind) shift {
		if kind == usual.ChangeAlarm {
			return t.moved(before, e.Regime.Mean)
		}
		if decider.missed.Score > 0 {
			return decider.missedShift(t.stages.scale)
		}
		if decider.fromBaseline {
			return t.decisions.episode.moments(decider, &t.decisions).shift(y, t.stages.scale)
		}
		return decider.recentUsual().shift(y, t.stages.scale)
	}
	permit := func(kind usual.AlarmKind) bool {
		return !inCooldown(cfg.Cooldown, t.decisions.last, e.Time) && cfg.permits(sizeOf(kind))
	}
	v, detection.Score = decider.update(&t.decisions, e.Time, y, detection.Kind == hafvf.Change, permit)
	detection.Threshold, detection.Muted, detection.Resting = v.Threshold, v.Muted, v.resting
	kind := v.Alarm
	if !math.IsNaN(detection.Score) {
		copy(detection.Usual.Mean, decider.usual.Mean)
		copy(detection.Usual.SD, decider.recentSD)
		t.clip(detection.Usual)
	}
	if kind == usual.NoAlarm {
		return v
	}
	if len(t.marks) > 0 && t.markedFalse(e.Time, sizeOf(kind)) {
		if !v.worse { // a report that an episode is worse costs nothing
			usual.NewAlarm(t.decisions.pace).Refund(t.decisions.alarm)
		}
		v.Alarm, v.marked, decider.missed = usual.NoAlarm, true, usual.MissedSpike{}
		return v
	}
	t.decisions.last = e.Time
	a := t.newAlert(string(kind), e, d, before, sizeOf(kind))
	if kind == usual.ChangeAlarm {
		a.Start, a.Delay = detection.Start, detection.Delay
	} else {
		const tiny = 1e-300
		a.LogOdds = math.Log(d.Outlier+d.Change+tiny) - math.Log(d.Stay+tiny)
	}
	e.Alarm = a
	return v
}

// clip limits means on the filter's scale to the side of zero on which all values of their outputs have been.
func (t *Track) clip(m Moments) {
	for i := range t.decisions.runs {
		switch r := &t.decisions.runs[i]; {
		case t.stages.scale != nil || r.negative == r.positive:
		case r.positive:
			m.Mean[i] = max(0, m.Mean[i])
		default:
			m.Mean[i] = min(0, m.Mean[i])
		}
	}
}

func (t *Track) newAlert(kind string, e *Estimate, d hafvf.Hypotheses, before *regime, s shift) *Alert {
	return &Alert{Kind: kind, Start: e.Time, LogOdds: d.LogOdds(), Size: s.size, Output: s.output, Before: t.stages.regimeBefore(before), After: e.Regime}
}

// alerts holds the state on which later belief alerts of a key depend.
type alerts struct {
	outlier, change time.Time // times of the last alerts
	id              string    // ID of the alert of the last change or revision; empty if it raised none
}

// believe returns the alert that the belief of an estimate raises, or nil. y are the values of the observation.
func (t *Track) believe(e *Estimate, y []float64, d hafvf.Hypotheses, before *regime) *Alert {
	cfg, kind := &t.stages.keyCfg.Alerts, e.Detection.Kind
	if cfg.Disabled || !slices.Contains(cfg.Beliefs, kind) {
		return nil
	}
	if kind == hafvf.Outlier {
		if startCooldown(&t.alerts.outlier, e.Time, cfg.Cooldown) {
			return nil
		}
		return t.newAlert(string(kind), e, d, before, Moments{before.predicted, t.rounded(before.predictive)}.shift(y, t.stages.scale))
	}
	s := t.moved(before, e.Regime.Mean)
	a := t.newAlert(string(hafvf.Change), e, d, before, s)
	a.Start, a.Delay = e.Detection.Start, e.Detection.Delay
	if kind == hafvf.Revision && t.alerts.id != "" {
		a.Kind, a.Corrects = string(kind), t.alerts.id
	}
	t.alerts.id = ""
	// A correction is always reported.
	if a.Corrects == "" && (!cfg.permits(s) || startCooldown(&t.alerts.change, e.Time, cfg.Cooldown)) {
		return nil
	}
	t.alerts.id = strings.Clone(e.ID) // it may be part of a larger text
	return a
}

// inCooldown reports whether now is in the cooldown after last. It returns false if one of the times is zero.
func inCooldown(cooldown time.Duration, last, now time.Time) bool {
	return cooldown > 0 && !last.IsZero() && !now.IsZero() && now.Sub(last) < cooldown
}

// startCooldown reports whether now is in the cooldown after last. If it is not, startCooldown sets last to now.
func startCooldown(last *time.Time, now time.Time, cooldown time.Duration) bool {
	if inCooldown(cooldown, *last, now) {
		return true
	}
	*last = now
	return false
}

// A shift is the difference between two values, for the output with the largest difference in standard deviations.
type shift struct {
	size     float64 // standard deviations, on the filter's scale, signed
	distance float64 // difference in units of the data, signed
	start    float64 // start value in units of the data
	output   int
}

// moved returns the shift from the mean of the regime to another mean, in standard deviations of the regime's
// prediction.
func (t *Track) moved(r *regime, mean []float64) shift {
	return Moments{t.stages.regimeBefore(r).Mean, t.rounded(r.predictive)}.shift(mean, t.stages.scale)
}

// rounded raises standard deviations, in place, to at least the standard deviation of the values' rounding.
func (t *Track) rounded(sd []float64) []float64 {
	for i, unit := range t.decisions.units {
		sd[i] = max(sd[i], unit*rounding)
	}
	return sd
}

// shift returns the shift from the mean to the values, in standard deviations of the moments.
func (m Moments) shift(y []float64, sc *scaling) (largest shift) {
	for i, v := range y {
		if size := (v - m.Mean[i]) / m.SD[i]; i == 0 || math.IsNaN(largest.size) || math.Abs(size) > math.Abs(largest.size) {
			start := sc.value(m.Mean[i])
			largest = shift{size, sc.value(v) - start, start, i}
		}
	}
	return largest
}

// permits reports whether a shift may raise an alarm.
func (c *AlertConfig) permits(s shift) bool {
	distance := math.Abs(s.distance)
	if c.Disabled || c.Direction == Up && s.distance <= 0 || c.Direction == Down && s.distance >= 0 {
		return false
	}
	return !(math.Abs(s.size) < c.MinChange) && !(distance < c.MinAbs) && !(distance < c.MinRel*math.Abs(s.start))
}

func (a *alerts) form(c *compact.Codec) {
	c.Times(&a.outlier, &a.change)
	compact.Texts(c, &a.id)
}
