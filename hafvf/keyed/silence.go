package keyed

import (
	"fmt"
	"math"
	"time"

	"hafvf/hafvf/usual"
	"hafvf/internal/compact"
)

// Kinds of alarms of silence, and of the end of others.
const (
	SilentAlarm    = "silent"    // a key has been silent for longer than its rhythm allows
	RecoveredAlarm = "recovered" // it speaks again, or is back to usual: see Alert.BackToUsual
)

// SilenceConfig says how long a key may be silent.
type SilenceConfig struct {
	// After is a fixed bound. Zero: the rhythm of the key sets it, as usual.GapModel says, for
	// the budget of AlarmConfig, with hours of its zone.
	After time.Duration
	// Never tells no silence. The rhythm is learned.
	Never bool
}

// A Silence is one of a key.
type Silence struct {
	Since    time.Time     // of the observation before it
	Bound    time.Duration // after which it was one
	Usual    time.Duration // mean gap of the key at the hour of Since; 0 where that is not known
	Zone     string        // of the times in messages, an IANA name; empty for UTC
	Reported bool          // it was told while it lasted
	Regular  bool          // Usual is the median gap of a regular key, whose hour is not known
	Daily    bool          // the key usually comes once a day, or on some days of the week, by Since + Bound
}

// A SilenceEvent is a key that is silent, as KeyState.ReportSilence tells it, or was, as KeyState.EndedSilences does.
type SilenceEvent struct {
	Silence
	N       int64     // position of its last observation, from 1
	Outputs int       // of its model
	Until   time.Time // of the event that ended it; zero while it lasts
}

// A heartbeat is the rhythm of the observations of a key.
type heartbeat struct {
	last     time.Time
	gaps     usual.Gaps
	reported *Silence // that goes on; nil where there is none
	muted    bool     // told is one that the budget did not pay
}

// A silenceDetector finds the silences of keys.
type silenceDetector struct {
	after time.Duration
	never bool // no silence is told; gaps are learned
	zone  string
	gaps  *usual.GapModel
}

// newSilenceDetector makes the listener of a configuration, nil without Config.Silence.
func newSilenceDetector(c Config) *silenceDetector {
	if c.Silence == nil {
		return nil
	}
	gaps := usual.NewGapModel(c.Alarms.calendar(), c.Alarms.Budget, c.Alarms.BudgetTime)
	return &silenceDetector{after: c.Silence.After, never: c.Silence.Never, zone: c.Alarms.Zone, gaps: gaps}
}

// arrived notes an observation, and returns the silence that it ends, nil where there was none.
// Of one that was not told, pays says whether the budget pays it. If not, it is no silence. The observation is of no quiet
// time, or nothing of what is noted is kept.
func (d *silenceDetector) arrived(h *heartbeat, quiet *quietTimes, now time.Time, pay func() bool) *Silence {
	if now.IsZero() || !h.last.IsZero() && !now.After(h.last) {
		return nil
	}
	last, silence, muted := h.last, h.reported, h.muted
	h.last, h.reported, h.muted = now, nil, false
	if last.IsZero() {
		return nil
	}
	var exceeded, deadline time.Time
	gapStart := last // of the gap
	if silence != nil {
		exceeded = silence.Since.Add(silence.Bound)
	} else if quietDur := quiet.overlap(last, now); quietDur > 0 {
		gapStart, deadline = last.Add(quietDur), d.deadline(h, quiet, last)
	}
	usualGap, isRegular := d.gaps.Usual(&h.gaps, last)
	due := d.gaps.Due(&h.gaps, last)
	if d.after == 0 {
		exceeded = d.gaps.Next(&h.gaps, gapStart, now, exceeded)
	} else if silence == nil && now.Sub(gapStart) > d.after {
		exceeded = gapStart.Add(d.after)
	}
	if !exceeded.IsZero() && !deadline.IsZero() {
		exceeded = deadline
	}
	switch {
	case exceeded.IsZero() || muted:
		return nil
	case silence != nil:
		return silence
	case d.never || !pay():
		return nil
	}
	return &Silence{Since: last, Bound: exceeded.Sub(last), Usual: usualGap, Regular: isRegular, Zone: d.zone, Daily: d.after == 0 && exceeded.Equal(due)}
}

// deadline is when a key becomes silent that has spoken last at that time, zero where it
// is so already, or no bound is known.
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

// report notes that the key's silence is told, unless the budget does not pay it, and reports
// whether it is.
func (d *silenceDetector) report(h *heartbeat, quiet *quietTimes, pay func() bool) bool {
	h.reported = &Silence{Since: h.last, Bound: d.deadline(h, quiet, h.last).Sub(h.last), Zone: d.zone, Reported: true}
	h.reported.Usual, h.reported.Regular = d.gaps.Usual(&h.gaps, h.last)
	h.reported.Daily = d.after == 0 && h.last.Add(h.reported.Bound).Equal(d.gaps.Due(&h.gaps, h.last))
	h.muted = !pay()
	return !h.muted
}

// rewind forgets the last time, which was wrong.
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
	h.gaps.Form(&c.Codec)
	c.Check((!reported || h.reported.Bound >= 0) && (reported || !h.muted))
}

func silenceForm(c *compact.Codec, s *Silence) {
	c.Times(&s.Since)
	compact.Signed(c, &s.Bound, &s.Usual)
	compact.Texts(c, &s.Zone)
	c.Bits(&s.Reported, &s.Regular, &s.Daily)
}

// silent is the alert that a key is silent, dated when its bound was passed. That of a rhythm is computed: the
// date is the next whole millisecond, as timers have it.
func (s *Silence) silentEvent(key string, n int64, outputs int) AlertEvent {
	passed := s.Since.Add(s.Bound)
	if s.Bound%time.Millisecond != 0 {
		passed = passed.Add(time.Millisecond - 1).Truncate(time.Millisecond)
	}
	return s.event(SilentAlarm, key, passed, key+"/"+stamp(passed), n, outputs)
}

// Alerts are what is told of a key that is silent: that, and of a silence that has ended what
// Estimate.Alerts tells.
func (s *SilenceEvent) Alerts(key string) []AlertEvent {
	if s.Until.IsZero() {
		return []AlertEvent{s.silentEvent(key, s.N, s.Outputs)}
	}
	return s.endedEvents(key, s.Until, key+"/"+stamp(s.Until), s.N, s.Outputs)
}

// ended are the alerts of a silence that is over: that there was one, unless that was told while it
// lasted, and that it is over.
func (s *Silence) endedEvents(key string, t time.Time, id string, n int64, outputs int) (events []AlertEvent) {
	if !s.Reported {
		events = append(events, s.silentEvent(key, n, outputs))
	}
	return append(events, s.event(RecoveredAlarm, key, t, id, n, outputs))
}

// alert is one of a silence. It has no value.
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
