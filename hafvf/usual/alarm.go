package usual

import (
	"errors"
	"fmt"
	"math"

	"hafvf/internal/compact"
	"hafvf/internal/linear"
)

// An AlarmKind is the decision on a step. It differs from the Kind of Hypotheses,
// which is a belief: an alarm is paid from a budget.
type AlarmKind string

const (
	NoAlarm      AlarmKind = ""
	NoveltyAlarm AlarmKind = "novelty" // the score reaches the threshold
	ChangeAlarm  AlarmKind = "change"  // a change was committed to, and changes are rare
)

// Settings that aren't the user's: those of the reference, see testdata/real.
const (
	headroom         = 8.    // the largest debt, in alarms, at which another may be raised
	reserve          = 2.5   // of it, for what is gross: the first week has seven alarms without it
	gross            = 10.   // of a score, over the threshold
	commitForgetting = .9998 // of the frequency of commits, per observation
	firstDays        = 4.    // by which the threshold is higher at first
	debtSlope        = .5    // of the threshold
	window           = 61    // observations, of which one has to be unusual where a change alarms
	afterAlarm       = 60    // observations after an alarm in which no change alarms
	usualScore       = 1.    // below which an observation is usual, of an alarm that lasts
	muchWorse        = 3.    // over what was told
	mostAlerted      = 1e3
	outside          = 2. // the side of an alarm of Raise: any novelty is on another one
	bothSides        = 3. // of alarms on each: no novelty is on another one
)

// An Alarm decides which observations of a stream raise an alarm, so that their
// rate keeps to a budget. It takes any score q that is minus the decimal logarithm
// of a tail probability: a score of 3 is nominally one in a thousand. A
// Profile makes such scores, and so may other detectors. Those of a Profile are larger more often than
// that, at fine steps above all.
//
// With P and w of the Pace, debt b and commits k, which are zero at first, t = Σvʲ, j <
// n, and v = .9998, the n-th observation goes through
//
//	b ← max(0, b − 1/P),  k ← v·k
//	threshold T = log₁₀ P + e + max(b/2, (1 − w)·(h − log₁₀ P − e))
//	novelty alarm where b ≤ 5.5 and q ≥ T, or b ≤ 8 and q ≥ T + 10
//	change alarm  where b ≤ 5.5, a change is committed to, and k·P ≤ t + P
//	k ← k + 1     where a change is committed to
//	b ← b + 1     where an alarm is raised
//
// and an observation at which both are due raises the novelty alarm. The extra e falls over the first four
// days, while the score is learning what is usual, from 4 to 0. The score h is that of habit: no more than
// three peaks of scores a budget have reached it. A
// change raises no alarm in the first half day, none in the 60 observations after an
// alarm, and none without a score of at least (1 + w)/2·log₁₀ P in the last 61
// observations, unless its own observation has no score: streams of single categories have
// none at all. No alarm is raised in the rest after another, but as Follow says. A commit there belongs
// to the same incident.
//
// Just before an alarm of either kind b ≤ 8. An alarm adds 1 to b, and an
// observation takes at most 1/P off. Hence the first n observations of a stream
// raise at most n/P + 9 alarms, whatever the scores and the commits are. A part of the nine is a
// reserve for what is gross: other alarms stop at n/P + 6.5, which is seven in the first week.
//
// An Alarm holds settings only. It is immutable and safe for concurrent use. The zero Alarm
// makes and checks states, and decides nothing.
type Alarm struct{ pace Pace }

// The entries of an alarm's state.
const (
	atDebt    = iota // b
	atCommits        // k
	atCount          // n, observations so far
	// Which observations were the last of their kind, counted from 1; 0 where there was none.
	atAlarm // with an alarm
	atMuted // muted
	atLoud  // with a score that is unusual enough for a change
	// Of an alarm that lasts, see Follow:
	atUnusual // the last observation that was not usual; 0 where none lasts
	atAlerted // the highest score of what the last alarm has told
	atRising  // 1 until an observation after it is usual
	atSide    // that of the last alarm, or outside
	atResting // the last observation that an alarm held back, after it was back to usual
	atPeaks
	alarmLen = atPeaks + peaksLen
)

// Context is what is known of an observation besides its score.
type Context struct {
	Change bool // the stream has committed to a change at it
	// Side is that of usual on which its value lies: 1 if it is far above, −1 if it is far below, and
	// else 0, which is no side.
	Side int
	// Farther says that it is as far again from what was usual before the alarm: a novelty is due
	// whatever its score.
	Farther bool
	Stuck   bool // its score is that of equal values in a row: a longer run says nothing else
}

// A Decision is the outcome of one observation.
type Decision struct {
	Alarm AlarmKind // that it raises
	// Muted reports that debt or habit alone stands against an alarm: it is permitted, no alarm rests,
	// and one would be raised with b = 0 and h = 0. An incident has many such observations. Only the
	// first is muted, and those that follow a muted one by more than the rest. A score that
	// rises on may raise an alarm after all.
	Muted bool
	// Resting reports that an alarm before it alone stands against an alarm: the stream was back to
	// usual, and one would be raised with b = 0. Of a deviation that comes back only the first
	// observation is resting, and those that follow such ones by the rest or more.
	Resting   bool
	Threshold float64 // T
	// Of an alarm that lasts, as Follow has it: whether the observation is unusual, and whether
	// the alarm has ended with it.
	Unusual, Ended bool
}

// NewAlarm makes the alarm of a stream of that pace.
func NewAlarm(pace Pace) Alarm { return Alarm{pace} }

// NewState returns the state of a stream before its first observation. It does not depend
// on the pace: a stream may go on at another one, such as that of another budget.
func (a Alarm) NewState() State { return make(State, alarmLen) }

// Update decides on one observation, whose score is q; change says that the
// stream has committed to a change at it. A NaN is no score: it reaches no threshold.
// Call Update once for every observation after the warm-up that is not missing.
//
// What permit refuses has not happened: it costs no budget, begins no rest, is not muted,
// and a refused commit does not count as one. Its score may still be the unusual one that a
// change needs. Update asks permit at most once about each kind, also about an alarm that
// is not raised then, so that permit must have no effects. A nil permit permits all.
//
// Update allocates nothing. It panics where the state has the wrong length.
func (a Alarm) Update(s State, q float64, change bool, permit func(AlarmKind) bool) Decision {
	if len(s) == alarmLen {
		s[atUnusual], s[atAlerted], s[atSide] = 0, 0, 0
	}
	return a.update(s, q, Context{Change: change}, false, permit)
}

// Follow is Update for a stream whose alarms last. An alarm begins, and ends when half as many
// observations in a row as the rest has have had a score below 1, which nine in ten have when
// all is as usual. Its rest ends with it. An alarm that is due before that belongs to the first one: it
// is not raised, costs no budget and is not muted, unless it says something else. That is so
//
//	where q ≥ 3 + the highest score of the last alarm and of its rest, there once an observation was usual
//	of a novelty on the other side of usual than the last alarm, in the rest once an observation was
//	usual, or if no score since the alarm has been higher
//	of a novelty that is farther
//
// What says nothing else is Resting if it has come back after an observation that was usual, or lies on
// the other side.
//
// The bound holds, as no alarm is raised with a larger debt than Update may have.
func (a Alarm) Follow(s State, q float64, o Context, permit func(AlarmKind) bool) Decision {
	d := a.update(s, q, o, true, permit)
	if d.Alarm != NoAlarm {
		side := float64(o.Side)
		if s[atUnusual] > 0 && (side*s[atSide] < 0 || s[atSide] == bothSides) {
			side = bothSides
		}
		s[atUnusual], s[atAlerted], s[atSide] = s[atCount], atLeastUsual(s[atAlerted], q), side
	}
	return d
}

// atLeastUsual is the highest score of those told, or to be compared with them.
func atLeastUsual(before, q float64) float64 {
	if q > before {
		return min(q, mostAlerted)
	}
	return before
}

// lasts goes on with an alarm that lasts, and reports whether it does after the observation.
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
	if o.Stuck || resting && (s[atRising] == 1 || q < s[atAlerted]+muchWorse) {
		s[atAlerted] = atLeastUsual(s[atAlerted], q)
	}
	return true
}

// update is Update or, if alarms last, Follow.
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
	// within reports whether an observation of that kind was among the last so many.
	within := func(last int, observations float64) bool {
		return s[last] > 0 && n-s[last] < observations
	}
	resting := within(atAlarm, p.rest+1)

	free := p.level // the threshold without debt
	if n <= p.four {
		free += firstDays * (1 - (n-1)/p.four)
	}
	past := peaks(s[atPeaks:])
	d.Threshold = free + max(debt*debtSlope, (1-p.slow)*(past.rank(n, p)-free))
	var due AlarmKind // without debt
	if o.Change && (permit == nil || permit(ChangeAlarm)) {
		rare := s[atCommits]*p.period <= weightOf(n, commitForgetting)+p.period
		s[atCommits]++
		if rare && n > p.half && (math.IsNaN(q) || within(atLoud, window)) && !within(atAlarm, afterAlarm+1) {
			due = ChangeAlarm
			if debt <= headroom-reserve {
				d.Alarm = ChangeAlarm
			}
		}
	}
	seen := q
	switch {
	case !(q >= free || o.Farther):
	case permit != nil && !permit(NoveltyAlarm):
		seen = min(q, free)
	default:
		due = NoveltyAlarm
		if debt <= headroom-reserve && (q >= d.Threshold || o.Farther) || debt <= headroom && q >= d.Threshold+gross {
			d.Alarm = NoveltyAlarm
		}
	}
	past.note(n, seen, p)
	if !(q >= usualScore) {
		s[atRising] = 0
	}
	kept, turned := resting, float64(o.Side)*s[atSide] < 0 && s[atSide] != bothSides || s[atSide] == outside
	if lasting {
		kept = a.lasts(s, &d, q, o, resting) && !o.Farther && q < s[atAlerted]+muchWorse &&
			!(due == NoveltyAlarm && turned && (!resting || s[atRising] == 0 || q >= s[atAlerted]))
	}
	switch {
	case kept:
		d.Alarm = NoAlarm
		if due != NoAlarm && (s[atRising] == 0 || turned) {
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

// Pay pays an alarm that is not of an observation, as of a silence: b ← b + 1 where b ≤ 8. It
// reports whether it does. Alarms that were paid count in the bound n/P + 9 with the others,
// as that holds where b ≤ 8 before every alarm and only observations lower b. Pay panics where
// the state has the wrong length.
func (a Alarm) Pay(s State) bool {
	mustHave(s, alarmLen, wrongState)
	if s[atDebt] > headroom {
		return false
	}
	s[atDebt]++
	return true
}

// Refund takes back what the alarm of the last observation has cost, which nobody is told of. It rests and lasts as others
// do: what belongs to it is no other one. The bound holds for those that are told.
func (a Alarm) Refund(s State) { s[atDebt] = max(0, s[atDebt]-1) }

// Raise decides on what has no score and is no observation, as no stream of the kind can show it. It
// raises a novelty alarm where Pay pays that, it is permitted, and neither an alarm rests nor one of
// Raise lasts. Where Pay alone does not, it is muted, with the rest of that. It is unusual for an alarm
// that lasts. Before the first observation nothing is raised. Raise panics where the state has the
// wrong length.
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
	case a.Pay(s):
		d.Alarm = NoveltyAlarm
		s[atAlarm], s[atUnusual] = n, n
		s[atAlerted], s[atRising], s[atSide] = 0, 0, outside
	case !within(atMuted):
		d.Muted = true
		s[atMuted] = n
	}
	return d
}

// Form encodes a state, or decodes it. Valid checks what was decoded.
func (Alarm) Form(c *compact.Codec, s State) {
	c.Pack(s[:atPeaks])
	peaks(s[atPeaks:]).form(c)
}

// weightOf is Σ vʲ, j < n.
func weightOf(n, v float64) float64 { return -math.Expm1(n*math.Log(v)) / (1 - v) }

// Valid says why s, which was decoded from bytes, is not a state of an alarm. States of
// alarms of another pace are.
func (a Alarm) Valid(s State) error {
	if len(s) != alarmLen {
		return fmt.Errorf("state is corrupt: alarm of %d floats, want %d", len(s), alarmLen)
	}
	const most = 1/(1-commitForgetting) + 1 // of k
	ok := linear.Finite(s) &&
		s[atDebt] >= 0 && s[atDebt] <= headroom+1 && s[atCommits] >= 0 && s[atCommits] <= most
	for i, v := range s[atCount:atPeaks] {
		is := v == math.Trunc(v) && v >= 0 && v <= s[atCount]
		ok = ok && (is || i > atUnusual-atCount && i < atResting-atCount)
	}
	ok = ok && s[atAlerted] >= 0 && s[atAlerted] <= mostAlerted && s[atRising]*(1-s[atRising]) == 0 && (s[atSide] == 0 || math.Abs(s[atSide]) == 1 || s[atSide] == outside || s[atSide] == bothSides)
	if !ok || !peaks(s[atPeaks:]).valid(s[atCount]) {
		return errors.New("state is corrupt: alarm")
	}
	return nil
}
