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

// AlertConfig says which alarms are permitted, and which beliefs raise alerts too.
// An alarm that is not permitted costs no budget. Sizes are of the largest
// coordinate, in standard deviations of what the running regime predicted: of a
// change the distance of the regimes' means, of a novelty that of the observation
// from the prediction.
type AlertConfig struct {
	// Cooldown is the time after an alarm in which its key raises no other, and
	// after an alert of a belief in which it raises no other of its kind. Revisions
	// are exempt. Default 0.
	Cooldown  time.Duration
	MinChange float64 // least size, standard deviations
	MinAbs    float64 // least distance, in units of the data
	MinRel    float64 // least distance, relative to what the regime had
	Direction Direction
	None      bool // permits no alarm, and has no belief raise an alert
	// Beliefs are the kinds of Detection that raise alerts, whatever the budget:
	// outliers, and changes and revisions of a permitted size. Default none.
	// Revision needs Change.
	Beliefs []hafvf.Kind
}

// Direction is that of the alarms that are permitted. Other sizes go by it too.
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
	for _, least := range []struct {
		name string
		v    float64
	}{{"change", c.MinChange}, {"distance", c.MinAbs}, {"relative distance", c.MinRel}} {
		if !domain.MinChange.Contains(least.v) {
			return fmt.Errorf("least %s must be %s, not %g", least.name, domain.MinChange.Name, least.v)
		}
	}
	if c.Direction != "" && c.Direction != Both && c.Direction != Up && c.Direction != Down {
		return fmt.Errorf("direction %q is none of %q, %q, %q", c.Direction, Both, Up, Down)
	}
	for _, kind := range c.Beliefs {
		switch {
		case kind != hafvf.Outlier && kind != hafvf.Change && kind != hafvf.Revision:
			return fmt.Errorf("belief %q is none of %q, %q, %q", kind, hafvf.Outlier, hafvf.Change, hafvf.Revision)
		case kind == hafvf.Revision && !slices.Contains(c.Beliefs, hafvf.Change):
			return fmt.Errorf("belief %q corrects %q, which is not among them", kind, hafvf.Change)
		}
	}
	return nil
}

// A Detection is the verdict on an observation: whether it is an outlier or the
// entity has changed. The probabilities are the posterior ones, before a change
// resets them, and sum to one.
type Detection struct {
	Kind                  hafvf.Kind
	Stay, Outlier, Change float64
	// Start and StartN are time and position of the first observation of the new or
	// the suspected regime; zero where there is none.
	Start  time.Time
	StartN int64
	Delay  int64 // observations from Start to this one, on a change or revision
	Age    int64 // run length: observations since the start of the regime before this one
	// Score is how unusual the observations of late are for the key, and Threshold
	// that of an alarm, both minus decimal logarithms of a tail probability. NaN in
	// the warm-up and where the observation is missing. A single category has no Score.
	Score, Threshold float64
	// Usual is what the key's profile expected of the observation, by its level, its seasons and
	// its plan, with the scatter of lately, which the Score does not go by. It is NaN where there is no Score.
	Usual Moments
	// Muted reports that the debt of earlier alarms alone stands against an alarm, as
	// usual.Decision has it: of an incident the first observation, and one after every rest.
	Muted bool
	// Resting reports that an alarm before it alone stands against an alarm, once the key was back to
	// usual: of a deviation that comes back the first observation.
	Resting bool
}

// An Alert reports an alarm, or a belief. It has the key, time and id of its
// estimate.
type Alert struct {
	// Kind is novelty or change, of an alarm; outlier, change or revision, of a
	// belief.
	Kind string
	// Corrects is the id of the alert that a revision replaces. A revision whose
	// change raised no alert raises one as a change.
	Corrects string
	// Start is the time of the first observation of the new regime, of a novelty that of the first of the
	// unusual values in a row that it is about, and of an outlier that of the observation itself.
	Start   time.Time
	Delay   int64   // observations from the start to the alert
	LogOdds float64 // of the belief that it rests on, nats: for a novelty that the regime does not simply go on
	// Size is in standard deviations, with its sign, of the coordinate Output: of a change
	// from before to after, of a novelty from what is usual, of an outlier from what the
	// running regime predicted.
	Size   float64
	Output int
	// Before and After are the running regime's mean, before the observation and
	// after it.
	Before, After Moments
	// Score, Threshold and Usual are those of the Detection, NaN of a silence. Size and Score of
	// the end of an alarm are the largest while it lasted.
	Score, Threshold float64
	Usual            Moments
	Message          string // all that in a sentence
}

// set sets out to d, with the observation at which its regime starts.
func (out *Detection) set(d hafvf.Hypotheses, warmUp bool, n int64, named regimeStart) {
	*out = Detection{Kind: d.Kind, Stay: d.Stay, Outlier: d.Outlier, Change: d.Change, Start: named.time, StartN: named.n, Age: d.Age, Score: out.Score, Threshold: out.Threshold, Usual: out.Usual}
	if warmUp {
		out.Kind = hafvf.None
	}
	if out.Kind == hafvf.Change || out.Kind == hafvf.Revision {
		out.Delay = n - named.n
	}
}

// decide decides whether the estimate raises an alarm, and fills in what that
// depends on. y are the values of the observation.
func (t *Track) decide(e *Estimate, y []float64, d hafvf.Hypotheses, before *regime) (decision usual.Decision) {
	cfg, found, decider := &t.stages.keyCfg.Alerts, e.Detection, t.stages.decider
	sizeOf := func(kind usual.AlarmKind) shift {
		if kind == usual.ChangeAlarm {
			return t.moved(before, e.Regime.Mean)
		}
		if decider.missed.Score > 0 {
			return decider.missing(t.stages.scale)
		}
		if decider.farther {
			return t.decisions.before.current(decider).shift(y, t.stages.scale)
		}
		return decider.shownUsual().shift(y, t.stages.scale)
	}
	permit := func(kind usual.AlarmKind) bool {
		return !within(cfg.Cooldown, t.decisions.last, e.Time) && cfg.permits(sizeOf(kind))
	}
	decision, found.Score = decider.update(&t.decisions, e.Time, y, found.Kind == hafvf.Change, permit)
	found.Threshold, found.Muted, found.Resting = decision.Threshold, decision.Muted, decision.Resting
	kind := decision.Alarm
	if !math.IsNaN(found.Score) {
		copy(found.Usual.Mean, decider.usual.Mean)
		copy(found.Usual.SD, decider.shown)
	}
	if kind == usual.NoAlarm {
		return decision
	}
	if len(t.rules.marks) > 0 && t.markedFalse(e.Time, sizeOf(kind)) {
		usual.NewAlarm(t.decisions.pace).Refund(t.decisions.alarm)
		decision.Alarm, decider.missed = usual.NoAlarm, usual.Missed{}
		return decision
	}
	t.decisions.last = e.Time
	a := t.newAlert(string(kind), e, d, before, sizeOf(kind))
	if kind == usual.ChangeAlarm {
		a.Start, a.Delay = found.Start, found.Delay
	} else {
		const least = 1e-300
		a.LogOdds = math.Log(d.Outlier+d.Change+least) - math.Log(d.Stay+least)
	}
	e.Alarm = a
	return decision
}

func (t *Track) newAlert(kind string, e *Estimate, d hafvf.Hypotheses, before *regime, s shift) *Alert {
	return &Alert{Kind: kind, Start: e.Time, LogOdds: d.LogOdds(), Size: s.size, Output: s.output, Before: t.stages.regimeBefore(before), After: e.Regime}
}

// alerts holds what later alerts of beliefs of a key depend on.
type alerts struct {
	outlier, change time.Time // of the last
	id              string    // of the last change or revision
}

// believe returns the alert that the belief of an estimate raises, nil where it
// raises none. y are the values of the observation.
func (t *Track) believe(e *Estimate, y []float64, d hafvf.Hypotheses, before *regime) *Alert {
	cfg, kind := &t.stages.keyCfg.Alerts, e.Detection.Kind
	if cfg.None || !slices.Contains(cfg.Beliefs, kind) {
		return nil
	}
	if kind == hafvf.Outlier {
		if quiet(&t.alerts.outlier, e.Time, cfg.Cooldown) {
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
	// The correction of an alert is always told.
	if a.Corrects == "" && (!cfg.permits(s) || quiet(&t.alerts.change, e.Time, cfg.Cooldown)) {
		return nil
	}
	t.alerts.id = strings.Clone(e.ID) // it may be part of a larger text
	return a
}

// within reports whether now lies within the cooldown after last.
func within(cooldown time.Duration, last, now time.Time) bool {
	return cooldown > 0 && !last.IsZero() && !now.IsZero() && now.Sub(last) < cooldown
}

// quiet reports whether now lies within the cooldown after last. If not, now becomes
// the last.
func quiet(last *time.Time, now time.Time, cooldown time.Duration) bool {
	if within(cooldown, *last, now) {
		return true
	}
	*last = now
	return false
}

// A shift is the distance of a value from another one, of the output where it is largest in
// standard deviations.
type shift struct {
	size   float64 // standard deviations, on the filter's scale, signed
	by     float64 // units of the data, signed
	from   float64 // units of the data
	output int
}

// moved is the shift of the mean of the running regime to another one, in standard deviations
// of what the regime predicted.
func (t *Track) moved(r *regime, to []float64) shift {
	return Moments{t.stages.regimeBefore(r).Mean, t.rounded(r.predictive)}.shift(to, t.stages.scale)
}

// rounded are standard deviations that are at least what the rounding of the values explains.
func (t *Track) rounded(sd []float64) []float64 {
	for i, unit := range t.decisions.units {
		sd[i] = max(sd[i], unit*rounding)
	}
	return sd
}

// shift is that to the values, in standard deviations of the moments.
func (m Moments) shift(to []float64, sc *scaling) (most shift) {
	for i, v := range to {
		if size := (v - m.Mean[i]) / m.SD[i]; i == 0 || math.IsNaN(most.size) || math.Abs(size) > math.Abs(most.size) {
			was := sc.value(m.Mean[i])
			most = shift{size, sc.value(v) - was, was, i}
		}
	}
	return most
}

// side is that of the value furthest from the moments: 1 far above, -1 far below, else 0.
func (m Moments) side(y []float64) (side int) {
	most := far
	for i, v := range y {
		if size := (v - m.Mean[i]) / m.SD[i]; math.Abs(size) >= most {
			if most = math.Abs(size); size > 0 {
				side = 1
			} else {
				side = -1
			}
		}
	}
	return side
}

// permits reports whether an alarm may be raised of a shift.
func (c *AlertConfig) permits(s shift) bool {
	by := math.Abs(s.by)
	if c.None || c.Direction == Up && s.by <= 0 || c.Direction == Down && s.by >= 0 {
		return false
	}
	return !(math.Abs(s.size) < c.MinChange) && !(by < c.MinAbs) && !(by < c.MinRel*math.Abs(s.from))
}

func (a *alerts) form(c *compact.Codec) {
	c.Times(&a.outlier, &a.change)
	compact.Texts(c, &a.id)
}
