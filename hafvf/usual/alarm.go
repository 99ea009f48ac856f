package usual

import (
	"errors"
	"fmt"
	"math"

	"hafvf/internal/compact"
	"hafvf/internal/linear"
)

// An AlarmKind is the decision on one observation. It differs from the Kind of Hypotheses: a Kind is a belief, and an
// alarm costs budget.
type AlarmKind string

const (
	NoAlarm      AlarmKind = ""
	NoveltyAlarm AlarmKind = "novelty" // the score reached the threshold
	ChangeAlarm  AlarmKind = "change"  // the stream has no score and committed to a change, and its changes are rare
)

// Fixed settings. The scores in testdata/traces depend on them.
const (
	headroom         = 8.    // largest debt, in alarms, at which another alarm may be raised
	reserve          = 2.5   // part of headroom for gross scores, F1 .04 on smd; other alarms are at most seven in the first week
	gross            = 10.   // score above the threshold from which on an alarm may use the reserve. F1 .08 on smd
	commitForgetting = .9998 // forgetting of the commits, per observation
	firstDays        = 4.    // initial extra of the threshold. F1 .08 on planted_1min
	debtSlope        = .5    // increase of the threshold per alarm of debt. F1 .07 on asd
	afterAlarm       = 60    // observations after an alarm in which no change raises one
)

// An Alarm decides which observations of a stream raise an alarm, so that their rate keeps to a budget. The score q
// is minus the decimal logarithm of a tail probability: a score of 3 is nominally one in a thousand. A Profile
// computes such scores; other detectors may too. A Profile's scores exceed a value more often than nominally,
// especially at fine steps.
//
// P, w and x come from the Pace. The debt b and the commits k start at 0. With t = Σvʲ, j < n, and v = .9998, the
// n-th observation takes these steps:
//
//	b ← max(0, b − 1/P),  k ← v·k
//	threshold T = log₁₀ P + e + max(x, b/2, (1 − w)·(h − log₁₀ P − e))
//	novelty alarm if b ≤ 5.5 and q ≥ T, or b ≤ 8 and q ≥ T + 10
//	change alarm  if b ≤ 5.5, there is no score, a change is committed to, and k·P ≤ t + P
//	k ← k + 1     if a change is committed to
//	b ← b + 1     if an alarm is raised
//
// The extra e falls from 4 to 0 over the first four days, while the score is learning the stream. The habit score h is
// a score that at most three peaks per budget have reached. A change raises no alarm in the first half day and in the
// 60 observations after an alarm. Streams of single categories have no scores.
//
// Before an alarm of either kind, b ≤ 8. An alarm adds 1 to b, and an observation takes off at most 1/P. Hence the
// first n observations of a stream raise at most n/P + 9 alarms, for any scores and commits. Gross scores have a
// reserve: other alarms stop at n/P + 6.5, which is seven in the first week.
//
// An incident has many unusual observations. The caller decides which of them belong to an earlier alarm, and covers
// them, see Context.
//
// An Alarm holds settings only. It is immutable and safe for concurrent use. The zero Alarm creates and checks
// states, but must not decide.
type Alarm struct{ pace Pace }

// Indices of an alarm's state.
const (
	atDebt    = iota // b
	atCommits        // k
	atCount          // n, observations so far
	// Numbers of the last observations with a property, counted from 1; 0 means none yet.
	atAlarm // raised an alarm
	atMuted // was muted
	atPeaks
	alarmLen = atPeaks + peaksLen
)

// Context describes an observation in addition to its score.
type Context struct {
	Change  bool // the stream has committed to a change at this observation
	Farther bool // a novelty is due at any score: the values are farther from an earlier usual value than reported
	Covered bool // the observation belongs to an earlier alarm: it raises none, and is not muted
}

// A Decision is the outcome of one observation.
type Decision struct {
	Alarm AlarmKind // raised by the observation
	// Due reports that with b = 0 and h = 0 an alarm would have been raised, if nothing covered the observation.
	Due bool
	// Muted reports that only the budget or a habit prevented an alarm that was due. An incident has many such
	// observations: only the first is muted, and each that follows a muted one by more than the rest. If the score
	// rises further, an alarm may still be raised.
	Muted     bool
	Threshold float64 // T
}

// NewAlarm returns the Alarm of a stream with the given pace.
func NewAlarm(pace Pace) Alarm { return Alarm{pace} }

// NewState returns the state of a stream before its first observation. It does not depend on the pace: a stream may
// continue with an Alarm of another pace, for example after a change of the budget.
func (a Alarm) NewState() State { return make(State, alarmLen) }

// Update decides on one observation with score q. A NaN q means no score; it reaches no threshold. Call Update once for
// every observation after the warm-up that is not missing.
//
// If permit refuses an alarm, the alarm costs no budget and is not muted, and a refused commit is not counted. Update
// calls permit at most once per kind. It also asks about alarms that it then does not raise, so permit must have no
// side effects. A nil permit permits all.
//
// Update allocates nothing. It panics if the state has the wrong length.
func (a Alarm) Update(s State, q float64, o Context, permit func(AlarmKind) bool) (d Decision) {
	mustHave(s, alarmLen, wrongState)
	p := &a.pace
	s[atDebt] = max(0, s[atDebt]-1/p.period)
	s[atCommits] *= commitForgetting
	s[atCount]++
	n, debt := s[atCount], s[atDebt]
	// within reports whether at most the given number of observations have passed since number s[last].
	within := func(last int, observations float64) bool { return s[last] > 0 && n-s[last] <= observations }

	base := p.level
	if n <= p.settlingObs {
		base += firstDays * (1 - (n-1)/p.settlingObs)
	}
	free := base + p.extra // the threshold without debt and habit
	history := peaks(s[atPeaks:])
	d.Threshold = base + max(p.extra, debt*debtSlope, (1-p.slow)*(history.rank(n, p)-base))
	if o.Change && math.IsNaN(q) && (permit == nil || permit(ChangeAlarm)) {
		rare := s[atCommits]*p.period <= weightOf(n, commitForgetting)+p.period
		s[atCommits]++
		if rare && n > p.changeGraceObs && !within(atAlarm, afterAlarm) {
			d.Due = true
			if debt <= headroom-reserve {
				d.Alarm = ChangeAlarm
			}
		}
	}
	peakScore := q
	switch {
	case !(q >= free || o.Farther):
	case permit != nil && !permit(NoveltyAlarm):
		peakScore = min(q, free)
	default:
		d.Due = true
		if debt <= headroom-reserve && (q >= d.Threshold || o.Farther) || debt <= headroom && q >= d.Threshold+gross {
			d.Alarm = NoveltyAlarm
		}
	}
	history.record(n, peakScore, p)
	switch {
	case o.Covered:
		d.Alarm = NoAlarm
	case d.Alarm != NoAlarm:
		s[atDebt]++
		s[atAlarm] = n
	case d.Due:
		d.Muted = a.mute(s)
	}
	return d
}

// mute records that the budget suppresses an alarm at the last observation. It reports whether this is the first one
// in more than a rest.
func (a Alarm) mute(s State) bool {
	if n := s[atCount]; s[atMuted] == 0 || n-s[atMuted] > a.pace.rest {
		s[atMuted] = n
		return true
	}
	return false
}

// Charge charges the budget for an alarm without an observation, such as a silence: b ← b + 1. It reports whether the
// budget allowed the alarm: if b > 8, Charge returns false and leaves s unchanged. The bound n/P + 9 includes these
// alarms, as b ≤ 8 before every alarm and only observations lower b. Charge panics if the state has the wrong length.
func (a Alarm) Charge(s State) bool {
	mustHave(s, alarmLen, wrongState)
	if s[atDebt] > headroom {
		return false
	}
	s[atDebt]++
	return true
}

// Refund returns the cost of the last observation's alarm, which is not reported. The bound holds for the reported
// alarms.
func (a Alarm) Refund(s State) { s[atDebt] = max(0, s[atDebt]-1) }

// Raise decides on an alarm without a score and without an observation, for a fault that the stream's values cannot
// show. It raises a novelty alarm if Charge allows it; else the decision is Muted, at most once per rest. Before the
// first observation nothing is raised. Raise panics if the state has the wrong length.
func (a Alarm) Raise(s State) (d Decision) {
	mustHave(s, alarmLen, wrongState)
	switch d.Due = s[atCount] > 0; {
	case !d.Due:
	case a.Charge(s):
		d.Alarm, s[atAlarm] = NoveltyAlarm, s[atCount]
	default:
		d.Muted = a.mute(s)
	}
	return d
}

// Append appends the encoded state s to b.
func (Alarm) Append(b []byte, s State) []byte { return compact.Append(b, alarmForm(s)) }

// Decode decodes a state from the front of b into s, a state of NewState. It returns the rest of b. Valid checks the state.
func (Alarm) Decode(b []byte, s State) (rest []byte, err error) {
	return compact.Front(b, alarmForm(s))
}

// DecodeFormer is Decode for a state that an Alarm of lasting alarms has encoded.
func (Alarm) DecodeFormer(b []byte, s State) (rest []byte, err error) {
	return compact.Front(b, func(c *compact.Codec) {
		former := make([]float64, atPeaks+6)
		c.Pack(former)
		copy(s, former[:atPeaks])
		peaks(s[atPeaks:]).form(c)
	})
}

func alarmForm(s State) func(*compact.Codec) {
	return func(c *compact.Codec) {
		c.Pack(s[:atPeaks])
		peaks(s[atPeaks:]).form(c)
	}
}

// weightOf returns Σ vʲ, j < n.
func weightOf(n, v float64) float64 { return -math.Expm1(n*math.Log(v)) / (1 - v) }

// Valid returns an error if s, decoded from bytes, is not a state of an Alarm. The pace does not matter.
func (a Alarm) Valid(s State) error {
	if len(s) != alarmLen {
		return fmt.Errorf("state is corrupt: alarm of %d floats, want %d", len(s), alarmLen)
	}
	const maxCommits = 1/(1-commitForgetting) + 1 // of k
	ok := linear.Finite(s) &&
		s[atDebt] >= 0 && s[atDebt] <= headroom+1 && s[atCommits] >= 0 && s[atCommits] <= maxCommits
	for _, v := range s[atCount:atPeaks] {
		ok = ok && v == math.Trunc(v) && v >= 0 && v <= s[atCount]
	}
	if !ok || !peaks(s[atPeaks:]).valid(s[atCount]) {
		return errors.New("state is corrupt: alarm")
	}
	return nil
}
