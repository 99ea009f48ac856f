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
	ChangeAlarm  AlarmKind = "change"  // the stream committed to a change, and its changes are rare
)

// Fixed settings, equal to the reference in testdata/real.
const (
	headroom         = 8.    // largest debt, in alarms, at which another alarm may be raised
	reserve          = 2.5   // part of headroom for gross scores; other alarms are at most seven in the first week
	gross            = 10.   // score above the threshold from which on an alarm may use the reserve
	commitForgetting = .9998 // forgetting of the commits, per observation
	firstDays        = 4.    // initial extra of the threshold
	debtSlope        = .5    // increase of the threshold per alarm of debt
	window           = 61    // last observations, one of which must be unusual for a change alarm
	afterAlarm       = 60    // observations after an alarm in which no change raises one
	usualScore       = 1.    // a lasting alarm treats lower scores as usual
	escalation       = 3.    // score above the alerted one that raises another alarm
	maxAlertedScore  = 1e3
	outside          = 2. // side of an alarm of Raise: every novelty lies on the other side
	bothSides        = 3. // alarms were raised on both sides: no novelty lies on the other side
)

// An Alarm decides which observations of a stream raise an alarm, so that their rate keeps to a budget. The score q
// is minus the decimal logarithm of a tail probability: a score of 3 is nominally one in a thousand. A Profile
// computes such scores; other detectors may too. A Profile's scores exceed a value more often than nominally,
// especially at fine steps.
//
// P and w come from the Pace. The debt b and the commits k start at 0. With t = Σvʲ, j < n, and v = .9998, the
// n-th observation takes these steps:
//
//	b ← max(0, b − 1/P),  k ← v·k
//	threshold T = log₁₀ P + e + max(b/2, (1 − w)·(h − log₁₀ P − e))
//	novelty alarm if b ≤ 5.5 and q ≥ T, or b ≤ 8 and q ≥ T + 10
//	change alarm  if b ≤ 5.5, a change is committed to, and k·P ≤ t + P
//	k ← k + 1     if a change is committed to
//	b ← b + 1     if an alarm is raised
//
// If both alarms are due, the novelty alarm is raised. The extra e falls from 4 to 0 over the first four days, while
// the score is learning the stream. The habit score h is a score that at most three peaks per budget have reached.
//
// A change raises no alarm in the first half day, in the 60 observations after an alarm, or without a score of at
// least (1 + w)/2·log₁₀ P in the last 61 observations. An observation without a score is exempt from the last
// condition: streams of single categories have no scores. No alarm is raised in the rest after another alarm, except
// as UpdateLasting says, because a commit there belongs to the same incident.
//
// Before an alarm of either kind, b ≤ 8. An alarm adds 1 to b, and an observation takes off at most 1/P. Hence the
// first n observations of a stream raise at most n/P + 9 alarms, for any scores and commits. Gross scores have a
// reserve: other alarms stop at n/P + 6.5, which is seven in the first week.
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
	atLoud  // had a score that is unusual enough for a change
	// State of a lasting alarm, see UpdateLasting.
	atUnusual // the last observation that was not usual; 0 if no alarm lasts
	atAlerted // highest score that the last alarm covers
	atRising  // 1 until an observation after the alarm is usual
	atSide    // Side of the last alarm, outside or bothSides
	atResting // the last observation that a previous alarm suppressed after the stream was back to usual
	atPeaks
	alarmLen = atPeaks + peaksLen
)

// Context describes an observation in addition to its score.
type Context struct {
	Change bool // the stream has committed to a change at this observation
	// Side is 1 if the value is far above usual, −1 if it is far below, and else 0.
	Side int
	// Escalated means that the value has moved by the same distance again, measured from the usual value before the
	// alarm: a novelty is due at any score.
	Escalated bool
	Repeated  bool // equal values in a row cause the score; a longer run is not an escalation
}

// A Decision is the outcome of one observation.
type Decision struct {
	Alarm AlarmKind // raised by the observation
	// Muted reports that only the budget or a habit prevented an alarm: it was permitted, no alarm rested, and with
	// b = 0 and h = 0 it would have been raised. An incident has many such observations: only the first is muted,
	// and each that follows a muted one by more than the rest. If the score rises further, an alarm may still be
	// raised.
	Muted bool
	// Resting reports that only a previous alarm prevented an alarm: the stream was back to usual, and with b = 0
	// an alarm would have been raised. If a deviation recurs, only its first observation is resting, and each that
	// follows a resting one by the rest or more.
	Resting   bool
	Threshold float64 // T
	// Unusual and Ended describe a lasting alarm, see UpdateLasting: whether the observation is unusual, and whether
	// the alarm ended with it.
	Unusual, Ended bool
}

// NewAlarm returns the Alarm of a stream with the given pace.
func NewAlarm(pace Pace) Alarm { return Alarm{pace} }

// NewState returns the state of a stream before its first observation. It does not depend on the pace: a stream may
// continue with an Alarm of another pace, for example after a change of the budget.
func (a Alarm) NewState() State { return make(State, alarmLen) }

// Update decides on one observation with score q. change means that the stream has committed to a change at the
// observation. A NaN q means no score; it reaches no threshold. Call Update once for every observation after the
// warm-up that is not missing.
//
// If permit refuses an alarm, the alarm costs no budget, starts no rest and is not muted, and a refused commit is not
// counted. The score still counts as an unusual one for later changes. Update calls permit at most once per kind. It
// also asks about alarms that it then does not raise, so permit must have no side effects. A nil permit permits all.
//
// Update allocates nothing. It panics if the state has the wrong length.
func (a Alarm) Update(s State, q float64, change bool, permit func(AlarmKind) bool) Decision {
	if len(s) == alarmLen {
		s[atUnusual], s[atAlerted], s[atSide] = 0, 0, 0
	}
	return a.update(s, q, Context{Change: change}, false, permit)
}

// UpdateLasting is Update for a stream whose alarms last. An alarm ends after half the rest's number of observations in
// a row with scores below 1; in normal operation nine in ten scores are below 1. The rest ends with the alarm. An alarm
// that is due earlier belongs to the first one: it is not raised, costs no budget and is not muted. There are three
// exceptions, in which another alarm is raised:
//
//	q ≥ 3 + the highest score since the last alarm (in the rest: only after a usual observation)
//	a novelty on the other side of usual than the last alarm (in the rest: only after a usual observation, or if
//	  no score since the alarm has been higher)
//	a novelty with Escalated
//
// A suppressed alarm is Resting if it recurs after a usual observation, or lies on the other side.
//
// The bound on alarms holds, as UpdateLasting raises no alarm at a larger debt than Update.
func (a Alarm) UpdateLasting(s State, q float64, o Context, permit func(AlarmKind) bool) Decision {
	d := a.update(s, q, o, true, permit)
	if d.Alarm != NoAlarm {
		side := float64(o.Side)
		if s[atUnusual] > 0 && (side*s[atSide] < 0 || s[atSide] == bothSides) {
			side = bothSides
		}
		s[atUnusual], s[atAlerted], s[atSide] = s[atCount], higherScore(s[atAlerted], q), side
	}
	return d
}

// higherScore returns the larger of prev and q, at most maxAlertedScore. A NaN q returns prev.
func higherScore(prev, q float64) float64 {
	if q > prev {
		return min(q, maxAlertedScore)
	}
	return prev
}

// lasts updates a lasting alarm, and reports whether it still lasts after the observation.
func (a Alarm) lasts(s State, d *Decision, q float64, o Context, resting bool) bool {
	if s[atUnusual] == 0 {
		return false
	}
	if d.Unusual = q >= usualScore; d.Unusual {
		s[atUnusual] = s[atCount]
	}
	if s[atCount]-s[atUnusual] >= max(1, math.Ceil(a.pace.rest/2)) {
		d.Ended = true
		clear(s[atUnusual:atPeaks])
		return false
	}
	if o.Repeated || resting && (s[atRising] == 1 || q < s[atAlerted]+escalation) {
		s[atAlerted] = higherScore(s[atAlerted], q)
	}
	return true
}

// update implements Update and, if alarms last, UpdateLasting.
func (a Alarm) update(s State, q float64, o Context, lasting bool, permit func(AlarmKind) bool) (d Decision) {
	mustHave(s, alarmLen, wrongState)
	p := &a.pace
	s[atDebt] = max(0, s[atDebt]-1/p.period)
	s[atCommits] *= commitForgetting
	s[atCount]++
	n, debt := s[atCount], s[atDebt]
	if q >= p.level*(1+p.slow)/2 {
		s[atLoud] = n
	}
	// within reports whether fewer than the given number of observations have passed since number s[last].
	within := func(last int, observations float64) bool {
		return s[last] > 0 && n-s[last] < observations
	}
	resting := within(atAlarm, p.rest+1)

	free := p.level // the threshold without debt
	if n <= p.settlingObs {
		free += firstDays * (1 - (n-1)/p.settlingObs)
	}
	history := peaks(s[atPeaks:])
	d.Threshold = free + max(debt*debtSlope, (1-p.slow)*(history.rank(n, p)-free))
	var due AlarmKind // without debt
	if o.Change && (permit == nil || permit(ChangeAlarm)) {
		rare := s[atCommits]*p.period <= weightOf(n, commitForgetting)+p.period
		s[atCommits]++
		if rare && n > p.changeGraceObs && (math.IsNaN(q) || within(atLoud, window)) && !within(atAlarm, afterAlarm+1) {
			due = ChangeAlarm
			if debt <= headroom-reserve {
				d.Alarm = ChangeAlarm
			}
		}
	}
	peakScore := q
	switch {
	case !(q >= free || o.Escalated):
	case permit != nil && !permit(NoveltyAlarm):
		peakScore = min(q, free)
	default:
		due = NoveltyAlarm
		if debt <= headroom-reserve && (q >= d.Threshold || o.Escalated) || debt <= headroom && q >= d.Threshold+gross {
			d.Alarm = NoveltyAlarm
		}
	}
	history.record(n, peakScore, p)
	if !(q >= usualScore) {
		s[atRising] = 0
	}
	suppressed, otherSide := resting, float64(o.Side)*s[atSide] < 0 && s[atSide] != bothSides || s[atSide] == outside
	if lasting {
		suppressed = a.lasts(s, &d, q, o, resting) && !o.Escalated && q < s[atAlerted]+escalation &&
			!(due == NoveltyAlarm && otherSide && (!resting || s[atRising] == 0 || q >= s[atAlerted]))
	}
	switch {
	case suppressed:
		d.Alarm = NoAlarm
		if due != NoAlarm && (s[atRising] == 0 || otherSide) {
			d.Resting = !within(atResting, max(1, p.rest))
			s[atResting] = n
		}
	case d.Alarm != NoAlarm:
		s[atDebt]++
		s[atAlarm], s[atRising], s[atResting] = n, 1, 0
	case due != NoAlarm && !within(atMuted, p.rest+1):
		d.Muted = true
		s[atMuted] = n
	}
	return d
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

// Refund returns the cost of the last observation's alarm, which is not reported. The alarm still starts a rest and
// can still last. The bound holds for the reported alarms.
func (a Alarm) Refund(s State) { s[atDebt] = max(0, s[atDebt]-1) }

// Raise decides on an alarm without a score and without an observation, for a fault that the stream's values cannot
// show. It raises a novelty alarm if the alarm is permitted, Charge allows it, no alarm rests, and no alarm of Raise
// lasts. If only Charge refuses, the decision is Muted, at most once per rest. A lasting alarm counts the call as an
// unusual observation. Before the first observation nothing is raised. Raise panics if the state has the wrong
// length.
func (a Alarm) Raise(s State, permitted bool) (d Decision) {
	mustHave(s, alarmLen, wrongState)
	n := s[atCount]
	within := func(last int) bool { return s[last] > 0 && n-s[last] < a.pace.rest }
	lasts := s[atUnusual] > 0
	if lasts {
		s[atUnusual], s[atRising] = n, 0
	}
	switch {
	case n == 0 || !permitted || within(atAlarm) || lasts && s[atSide] == outside:
	case a.Charge(s):
		d.Alarm = NoveltyAlarm
		s[atAlarm], s[atUnusual] = n, n
		s[atAlerted], s[atRising], s[atSide] = 0, 0, outside
	case !within(atMuted):
		d.Muted = true
		s[atMuted] = n
	}
	return d
}

// Append appends the encoded state s to b.
func (Alarm) Append(b []byte, s State) []byte { return compact.Append(b, alarmForm(s)) }

// Decode decodes a state from the front of b into s, a state of NewState. It returns the rest of b. Valid checks the state.
func (Alarm) Decode(b []byte, s State) (rest []byte, err error) {
	return compact.Front(b, alarmForm(s))
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
	for i, v := range s[atCount:atPeaks] {
		whole := v == math.Trunc(v) && v >= 0 && v <= s[atCount]
		ok = ok && (whole || i > atUnusual-atCount && i < atResting-atCount)
	}
	ok = ok && s[atAlerted] >= 0 && s[atAlerted] <= maxAlertedScore && s[atRising]*(1-s[atRising]) == 0 && (s[atSide] == 0 || math.Abs(s[atSide]) == 1 || s[atSide] == outside || s[atSide] == bothSides)
	if !ok || !peaks(s[atPeaks:]).valid(s[atCount]) {
		return errors.New("state is corrupt: alarm")
	}
	return nil
}
