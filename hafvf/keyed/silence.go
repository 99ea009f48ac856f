package keyed

import (
	"fmt"
	"math"
	"time"

	"hafvf/hafvf/usual"
	"hafvf/internal/compact"
)

// Kinds of alerts of silences and of ended alarms.
const (
	SilentAlarm    = "silent"    // a key has been silent for longer than its limit
	RecoveredAlarm = "recovered" // the key reports again, or is back to usual: see Alert.BackToUsual
)

// SilenceConfig limits how long a key may be silent.
type SilenceConfig struct {
	// After is a fixed limit. With zero, the rhythm of the key sets the limit, see usual.GapModel, with the budget
	// and the zone of AlarmConfig.
	After time.Duration
	// Disabled turns off reports of silence. The rhythm is still learned.
	Disabled bool `json:"Never"`
}

// A Silence is a silence of a key.
type Silence struct {
	Since    time.Time     // time of the observation before it
	Bound    time.Duration // limit: the key is silent from Since + Bound on
	Usual    time.Duration // mean gap of the key at the hour of Since; 0 if not known
	Zone     string        // zone of times in messages, an IANA name; empty for UTC
	Reported bool          // it was reported while it lasted
	Regular  bool          // Usual is the median gap of a regular key, because the gap at this hour is not known
	Daily    bool          // the key usually reports once a day, or on some days of the week, by Since + Bound
}

// A SilenceEvent is a silence that lasts, from KeyState.ReportSilence, or one that has ended, from a
// Listener.
type SilenceEvent struct {
	Silence
	N       int64     // position of the key's last observation, from 1
	Outputs int       // number of the model's outputs
	Until   time.Time // time of the event that ended the silence; zero while it lasts
}

// A heartbeat is the rhythm of the observations of a key.
type heartbeat struct {
	last     time.Time
	gaps     usual.Gaps
	reported *Silence // the current silence, reported or muted; nil if there is none
	muted    bool     // the budget suppressed the current silence
}

// A silenceDetector finds the silences of keys.
type silenceDetector struct {
	after time.Duration
	never bool // report no silence, but learn the gaps
	zone  string
	gaps  *usual.GapModel
}

// newSilenceDetector returns the detector of a configuration, or nil without Config.Silence.
func newSilenceDetector(c Config) *silenceDetector {
	if c.Silence == nil {
		return nil
	}
	gaps := usual.NewGapModel(c.Alarms.calendar(), c.Alarms.Budget, c.Alarms.BudgetTime)
	return &silenceDetector{after: c.Silence.After, never: c.Silence.Disabled, zone: c.Alarms.Zone, gaps: gaps}
}

// arrived learns an observation at now, and returns the silence that it ends; nil if there is none. For a silence
// that was not reported, it calls pay, which charges the budget: if pay returns false, the result is nil. For an
// observation in a quiet time, the caller must restore h afterwards.
func (d *silenceDetector) arrived(h *heartbeat, quiet *quietTimes, now time.Time, pay func() bool) *Silence {
	if now.IsZero() || !h.last.IsZero() && !now.After(h.last) {
		return nil
	}
	last, silence, muted := h.last, h.reported, h.muted
	h.last, h.reported, h.muted = now, nil, false
	if last.IsZero() {
		return nil
	}
	var silentFrom, deadline time.Time
	gapStart := last // start of the gap, moved by the quiet time in it
	if silence != nil {
		silentFrom = silence.Since.Add(silence.Bound)
	} else if quietDur := quiet.overlap(last, now); quietDur > 0 {
		gapStart, deadline = last.Add(quietDur), d.deadline(h, quiet, last)
	}
	usualGap, isRegular := d.gaps.Usual(&h.gaps, last)
	due := d.gaps.Due(&h.gaps, last)
	if d.after == 0 {
		silentFrom = d.gaps.Observe(&h.gaps, gapStart, now, silentFrom)
	} else if silence == nil && now.Sub(gapStart) > d.after {
		silentFrom = gapStart.Add(d.after)
	}
	if !silentFrom.IsZero() && !deadline.IsZero() {
		silentFrom = deadline
	}
	switch {
	case silentFrom.IsZero() || muted:
		return nil
	case silence != nil:
		return silence
	case d.never || !pay():
		return nil
	}
	return &Silence{Since: last, Bound: silentFrom.Sub(last), Usual: usualGap, Regular: isRegular, Zone: d.zone, Daily: d.after == 0 && silentFrom.Equal(due)}
}

// deadline returns the time at which a key becomes silent whose last observation was at last. It returns the zero
// Time if a silence was reported or muted, if reports are disabled, or if no limit is known.
func (d *silenceDetector) deadline(h *heartbeat, quiet *quietTimes, last time.Time) time.Time {
	if last.IsZero() || h.reported != nil || d.never {
		return time.Time{}
	}
	return quiet.deadline(last, func(last time.Time) time.Time {
		if d.after > 0 {
			return last.Add(d.after)
		}
		return d.gaps.Deadline(&h.gaps, last)
	})
}

// report records the current silence of the key. It returns whether to report it, which is false if pay returns
// false.
func (d *silenceDetector) report(h *heartbeat, quiet *quietTimes, pay func() bool) bool {
	h.reported = &Silence{Since: h.last, Bound: d.deadline(h, quiet, h.last).Sub(h.last), Zone: d.zone, Reported: true}
	h.reported.Usual, h.reported.Regular = d.gaps.Usual(&h.gaps, h.last)
	h.reported.Daily = d.after == 0 && h.last.Add(h.reported.Bound).Equal(d.gaps.Due(&h.gaps, h.last))
	h.muted = !pay()
	return !h.muted
}

// rewind discards the last time, which was wrong.
func (h *heartbeat) rewind() {
	gaps := h.gaps
	gaps.Restart()
	*h = heartbeat{gaps: gaps}
}

func (h *heartbeat) form(c *coder) {
	reported, unused := h.reported != nil, false
	c.near(&h.last)
	if c.Bits(&reported, &h.muted, &unused); reported {
		silenceForm(&c.Codec, compact.Ref(&h.reported))
	}
	decodeGaps := h.gaps.Decode
	if c.format <= formatOfWeekends {
		decodeGaps = h.gaps.DecodeFormer
	}
	c.Nested(h.gaps.Append, decodeGaps)
	c.Check((!reported || h.reported.Bound >= 0) && (reported || !h.muted))
}

func silenceForm(c *compact.Codec, s *Silence) {
	c.Times(&s.Since)
	compact.Signed(c, &s.Bound, &s.Usual)
	compact.Texts(c, &s.Zone)
	c.Bits(&s.Reported, &s.Regular, &s.Daily)
}

// silentEvent returns the alert that a key is silent, at the time its limit was passed. A limit from the rhythm is
// rounded up to a whole millisecond, the resolution of timers.
func (s *Silence) silentEvent(key string, n int64, outputs int) AlertEvent {
	passed := s.Since.Add(s.Bound)
	if s.Bound%time.Millisecond != 0 {
		passed = passed.Add(time.Millisecond - 1).Truncate(time.Millisecond)
	}
	return s.event(SilentAlarm, key, passed, key+"/"+stamp(passed), n, outputs)
}

// Alerts returns the alert of a silence that lasts, or the alerts of one that has ended, as Estimate.Alerts does.
func (s *SilenceEvent) Alerts(key string) []AlertEvent {
	if s.Until.IsZero() {
		return []AlertEvent{s.silentEvent(key, s.N, s.Outputs)}
	}
	return s.endedEvents(key, s.Until, key+"/"+stamp(s.Until), s.N, s.Outputs)
}

// endedEvents returns the alerts of a silence that has ended: that the key was silent, unless it was reported
// before, and that it is back.
func (s *Silence) endedEvents(key string, t time.Time, id string, n int64, outputs int) (events []AlertEvent) {
	if !s.Reported {
		events = append(events, s.silentEvent(key, n, outputs))
	}
	return append(events, s.event(RecoveredAlarm, key, t, id, n, outputs))
}

// event returns an alert about the silence. It has no value.
func (s *Silence) event(kind, key string, t time.Time, id string, n int64, outputs int) AlertEvent {
	none, nan := unknown(outputs), math.NaN()
	a := &Alert{Kind: kind, Start: s.Since, LogOdds: nan, Size: nan, Before: none, After: none, Score: nan, Threshold: nan, Usual: none}
	a.Message = s.message(kind, key, t)
	return AlertEvent{Key: key, Time: t, ID: id, N: n, Predicted: none, Alert: a}
}

func (c *SilenceConfig) validate(order Order) error {
	switch {
	case c == nil:
		return nil
	case c.After < 0:
		return fmt.Errorf("after %v is negative", c.After)
	}
	return order.CheckTimes()
}
