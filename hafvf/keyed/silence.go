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

// A SilenceEvent is a key that is silent, as KeyState.ReportSilence tells it, or was, as a Listener receives it.
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
func (l *silenceDetector) arrived(p *heartbeat, quiet *quietTimes, now time.Time, pays func() bool) *Silence {
	if now.IsZero() || !p.last.IsZero() && !now.After(p.last) {
		return nil
	}
	last, alerted, muted := p.last, p.reported, p.muted
	p.last, p.reported, p.muted = now, nil, false
	if last.IsZero() {
		return nil
	}
	var ended, deadline time.Time
	began := last // of the gap
	if alerted != nil {
		ended = alerted.Since.Add(alerted.Bound)
	} else if away := quiet.between(last, now); away > 0 {
		began, deadline = last.Add(away), l.deadline(p, quiet, last)
	}
	usually, beat := l.gaps.Usual(&p.gaps, last)
	due := l.gaps.Due(&p.gaps, last)
	if l.after == 0 {
		ended = l.gaps.Next(&p.gaps, began, now, ended)
	} else if alerted == nil && now.Sub(began) > l.after {
		ended = began.Add(l.after)
	}
	if !ended.IsZero() && !deadline.IsZero() {
		ended = deadline
	}
	switch {
	case ended.IsZero() || muted:
		return nil
	case alerted != nil:
		return alerted
	case l.never || !pays():
		return nil
	}
	return &Silence{Since: last, Bound: ended.Sub(last), Usual: usually, Regular: beat, Zone: l.zone, Daily: l.after == 0 && ended.Equal(due)}
}

// deadline is when a key becomes silent that has spoken last at that time, zero where it
// is so already, or no bound is known.
func (l *silenceDetector) deadline(p *heartbeat, quiet *quietTimes, last time.Time) time.Time {
	if last.IsZero() || p.reported != nil || l.never {
		return time.Time{}
	}
	return quiet.deadline(last, func(last time.Time) time.Time {
		if l.after > 0 {
			return last.Add(l.after)
		}
		return l.gaps.Deadline(&p.gaps, last)
	})
}

// report notes that the key's silence is told, unless the budget does not pay it, and reports
// whether it is.
func (l *silenceDetector) report(p *heartbeat, quiet *quietTimes, pays func() bool) bool {
	p.reported = &Silence{Since: p.last, Bound: l.deadline(p, quiet, p.last).Sub(p.last), Zone: l.zone, Reported: true}
	p.reported.Usual, p.reported.Regular = l.gaps.Usual(&p.gaps, p.last)
	p.reported.Daily = l.after == 0 && p.last.Add(p.reported.Bound).Equal(l.gaps.Due(&p.gaps, p.last))
	p.muted = !pays()
	return !p.muted
}

// rewind forgets the last time, which was wrong.
func (p *heartbeat) rewind() {
	gaps := p.gaps
	gaps.Restart()
	*p = heartbeat{gaps: gaps}
}

func (p *heartbeat) form(c *coder) {
	alerted, none := p.reported != nil, false
	c.near(&p.last)
	if c.Bits(&alerted, &p.muted, &none); alerted {
		silenceForm(&c.Codec, compact.Ref(&p.reported))
	}
	p.gaps.Form(&c.Codec)
	c.Check((!alerted || p.reported.Bound >= 0) && (alerted || !p.muted))
}

func silenceForm(c *compact.Codec, s *Silence) {
	c.Times(&s.Since)
	compact.Signed(c, &s.Bound, &s.Usual)
	compact.Texts(c, &s.Zone)
	c.Bits(&s.Reported, &s.Regular, &s.Daily)
}

// silent is the alert that a key is silent, dated when its bound was passed. That of a rhythm is computed: the
// date is the next whole millisecond, as timers have it.
func (s *Silence) silent(key string, n int64, outputs int) AlertEvent {
	passed := s.Since.Add(s.Bound)
	if s.Bound%time.Millisecond != 0 {
		passed = passed.Add(time.Millisecond - 1).Truncate(time.Millisecond)
	}
	return s.alert(SilentAlarm, key, passed, key+"/"+stamp(passed), n, outputs)
}

// Alerts are what is told of a key that is silent: that, and of a silence that has ended what
// Estimate.Alerts tells.
func (s *SilenceEvent) Alerts(key string) []AlertEvent {
	if s.Until.IsZero() {
		return []AlertEvent{s.silent(key, s.N, s.Outputs)}
	}
	return s.ended(key, s.Until, key+"/"+stamp(s.Until), s.N, s.Outputs)
}

// ended are the alerts of a silence that is over: that there was one, unless that was told while it
// lasted, and that it is over.
func (s *Silence) ended(key string, at time.Time, id string, n int64, outputs int) (all []AlertEvent) {
	if !s.Reported {
		all = append(all, s.silent(key, n, outputs))
	}
	return append(all, s.alert(RecoveredAlarm, key, at, id, n, outputs))
}

// alert is one of a silence. It has no value.
func (s *Silence) alert(kind, key string, at time.Time, id string, n int64, outputs int) AlertEvent {
	none, nan := unknown(outputs), math.NaN()
	a := &Alert{Kind: kind, Start: s.Since, LogOdds: nan, Size: nan, Before: none, After: none, Score: nan, Threshold: nan, Usual: none}
	a.Message = s.message(kind, key, at)
	return AlertEvent{Key: key, Time: at, ID: id, N: n, Predicted: none, Alert: a}
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
