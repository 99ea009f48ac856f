package keyed

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"hafvf/hafvf/usual"
	"hafvf/internal/compact"
	"hafvf/internal/domain"
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
}

// A Silence is one of a key.
type Silence struct {
	Since time.Time     // of the observation before it
	Bound time.Duration // after which it was one
	Usual time.Duration // mean gap of the key at the hour of Since; 0 where that is not known
	Zone  string        // of the times in messages, an IANA name; empty for UTC
	Told  bool          // it was told while it lasted
	Beat  bool          // Usual is the median gap of a regular key, whose hour is not known
}

// A Silent is a key that is silent, as Entity.Tell tells it, or was, as Entity.Ended does.
type Silent struct {
	Silence
	N       int64     // position of its last observation, from 1
	Outputs int       // of its model
	Until   time.Time // of the event that ended it; zero while it lasts
}

// A pulse is the rhythm in which a key speaks.
type pulse struct {
	last  time.Time
	gaps  usual.Gaps
	told  *Silence // that goes on; nil where there is none
	muted bool     // told is one that the budget did not pay
}

// A listener finds the silences of keys.
type listener struct {
	after time.Duration
	zone  string
	gaps  *usual.GapModel
}

// newListener makes the listener of a configuration, nil without Config.Silence.
func newListener(c Config) *listener {
	if c.Silence == nil {
		return nil
	}
	gaps := usual.NewGapModel(checked(domain.Zone(c.Alarms.Zone)), c.Alarms.Budget, c.Alarms.BudgetTime)
	return &listener{c.Silence.After, c.Alarms.Zone, gaps}
}

// speak notes an observation, and returns the silence that it ends, nil where there was none.
// Of one that was not told, pays says whether the budget pays it. If not, it is no silence.
func (l *listener) speak(p *pulse, now time.Time, pays func() bool) *Silence {
	if now.IsZero() || !p.last.IsZero() && !now.After(p.last) {
		return nil
	}
	last, told, muted := p.last, p.told, p.muted
	p.last, p.told, p.muted = now, nil, false
	if last.IsZero() {
		return nil
	}
	var ended time.Time
	if told != nil {
		ended = told.Since.Add(told.Bound)
	}
	usually, beat := l.gaps.Usual(&p.gaps, last)
	if l.after == 0 {
		ended = l.gaps.Next(&p.gaps, last, now, ended)
	} else if told == nil && now.Sub(last) > l.after {
		ended = last.Add(l.after)
	}
	switch {
	case ended.IsZero() || muted:
		return nil
	case told != nil:
		return told
	case !pays():
		return nil
	}
	return &Silence{Since: last, Bound: ended.Sub(last), Usual: usually, Beat: beat, Zone: l.zone}
}

// deadline is when a key becomes silent that has spoken last at that time, zero where it
// is so already, or no bound is known.
func (l *listener) deadline(p *pulse, last time.Time) time.Time {
	switch {
	case last.IsZero() || p.told != nil:
		return time.Time{}
	case l.after > 0:
		return last.Add(l.after)
	}
	return l.gaps.Deadline(&p.gaps, last)
}

// tell notes that the key's silence is told, unless the budget does not pay it, and reports
// whether it is.
func (l *listener) tell(p *pulse, pays func() bool) bool {
	p.told = &Silence{Since: p.last, Bound: l.deadline(p, p.last).Sub(p.last), Zone: l.zone, Told: true}
	p.told.Usual, p.told.Beat = l.gaps.Usual(&p.gaps, p.last)
	p.muted = !pays()
	return !p.muted
}

// turnBack forgets the last time, which was wrong.
func (p *pulse) turnBack() {
	gaps := p.gaps
	gaps.Restart()
	*p = pulse{gaps: gaps}
}

func (p *pulse) append(b []byte, clock time.Time) []byte {
	b = compact.AppendTimeNear(b, p.last, clock)
	b = compact.AppendFlags(b, p.told != nil, p.muted)
	if p.told != nil {
		b = appendSilence(b, p.told)
	}
	return p.gaps.Append(b)
}

func (p *pulse) read(r *reader) {
	p.last = r.near()
	var told bool
	if told, p.muted, _ = r.Flags(); told {
		p.told = r.silence()
	}
	rest, err := p.gaps.Read(r.B)
	if err != nil || told && p.told.Bound < 0 || p.muted && !told {
		r.Fail()
		return
	}
	r.B = rest
}

func appendSilence(b []byte, s *Silence) []byte {
	b = binary.AppendVarint(compact.AppendTime(b, s.Since), int64(s.Bound))
	b = compact.AppendString(binary.AppendVarint(b, int64(s.Usual)), s.Zone)
	return compact.AppendFlags(b, s.Told, s.Beat)
}

func (r *reader) silence() *Silence {
	s := &Silence{Since: r.Time(), Bound: time.Duration(r.Varint()), Usual: time.Duration(r.Varint()), Zone: r.Text()}
	s.Told, s.Beat, _ = r.Flags()
	return s
}

// AppendBinary appends the encoded silence to b. The error is always nil.
func (s *Silent) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendVarint(appendSilence(b, &s.Silence), s.N)
	return compact.AppendTime(binary.AppendVarint(b, int64(s.Outputs)), s.Until), nil
}

// UnmarshalBinary decodes what AppendBinary encoded.
func (s *Silent) UnmarshalBinary(b []byte) (err error) {
	*s, err = decodeAll(b, (*reader).silent)
	return err
}

func (r *reader) silent() Silent {
	return Silent{*r.silence(), r.Varint(), int(r.Varint()), r.Time()}
}

// silent is the alert that a key is silent, dated when its bound was passed. That of a rhythm is computed: the
// date is the next whole millisecond, as timers have it.
func (s *Silence) silent(key string, n int64, outputs int) Told {
	passed := s.Since.Add(s.Bound)
	if s.Bound%time.Millisecond != 0 {
		passed = passed.Add(time.Millisecond - 1).Truncate(time.Millisecond)
	}
	return s.alert(SilentAlarm, key, passed, key+"/"+stamp(passed), n, outputs)
}

// Alerts are what is told of a key that is silent: that, and of a silence that has ended what
// Estimate.Alerts tells.
func (s *Silent) Alerts(key string) []Told {
	if s.Until.IsZero() {
		return []Told{s.silent(key, s.N, s.Outputs)}
	}
	return s.ended(key, s.Until, key+"/"+stamp(s.Until), s.N, s.Outputs)
}

// ended are the alerts of a silence that is over: that there was one, unless that was told while it
// lasted, and that it is over.
func (s *Silence) ended(key string, at time.Time, id string, n int64, outputs int) (all []Told) {
	if !s.Told {
		all = append(all, s.silent(key, n, outputs))
	}
	return append(all, s.alert(RecoveredAlarm, key, at, id, n, outputs))
}

// alert is one of a silence. What it is told of has no value.
func (s *Silence) alert(kind, key string, at time.Time, id string, n int64, outputs int) Told {
	none, nan := unknown(outputs), math.NaN()
	e := &Estimate{Time: at, ID: id, N: n, Predicted: none, Detection: &Detection{Score: nan, Usual: none}}
	a := &Alert{Kind: kind, Start: s.Since, LogOdds: nan, Size: nan, Before: none, After: none, Score: nan, Threshold: nan, Usual: none}
	a.Message = s.message(kind, key, at)
	return Told{Of: e, Alert: a}
}

func (c *SilenceConfig) validate(order Order) error {
	switch {
	case c == nil:
		return nil
	case c.After < 0:
		return fmt.Errorf("after %v is negative", c.After)
	}
	return CheckTimed(order)
}
