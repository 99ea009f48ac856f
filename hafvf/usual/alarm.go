package usual

import (
	"fmt"
	"math"
	"slices"
	"time"

	"hafvf/internal/domain"
)

// An AlarmKind is the decision on a step. It differs from the Kind of Hypotheses,
// which is a belief: an alarm is paid from a budget.
type AlarmKind string

const (
	NoAlarm      AlarmKind = ""
	NoveltyAlarm AlarmKind = "novelty" // the score reaches the threshold
	ChangeAlarm  AlarmKind = "change"  // a change was committed to, and changes are rare
)

const (
	// DefaultBudget is the number of observations per alarm of a stream without
	// times.
	DefaultBudget = 2000.
	// DefaultBudgetTime is the time per alarm of a stream with times.
	DefaultBudgetTime = 168 * time.Hour
	// DefaultRest is the number of observations after an alarm without another.
	DefaultRest = 60
	leastBudget = 10. // of BudgetOver
)

// Settings that aren't the user's: those of the reference, see testdata/real.
const (
	headroom         = 8.    // the largest debt, in alarms, at which another may be raised
	commitForgetting = .9998 // of the frequency of commits, per observation
)

// An Alarm decides which observations of a stream raise an alarm, so that their
// rate keeps to a budget. It takes any score q that is minus the decimal logarithm
// of a tail probability: a score of 3 is one in a thousand. A Profile makes such
// scores, and so may other detectors.
//
// With a budget of P observations per alarm, debt b and commits k in t
// observations, all zero at first, and w = .9998, an observation goes through
//
//	b ← max(0, b − 1/P),  k ← w·k,  t ← w·t + 1
//	threshold T = log₁₀ P + b
//	novelty alarm where b ≤ 8 and q ≥ T
//	change alarm  where b ≤ 8, a change is committed to, and k·P ≤ t + P
//	k ← k + 1     where a change is committed to
//	b ← b + 1     where an alarm is raised
//
// and an observation at which both are due raises the novelty alarm. No alarm is
// raised in the rest after another. A commit there belongs to the same incident.
//
// Just before an alarm of either kind b ≤ 8. An alarm adds 1 to b, and an
// observation takes at most 1/P off. Hence the first n observations of a stream
// raise at most n/P + 9 alarms, whatever the scores and the commits are.
//
// An Alarm holds settings only. It is immutable and safe for concurrent use.
type Alarm struct {
	budget float64
	rest   float64
}

// The entries of an alarm's state.
const (
	atBudget  = iota // P
	atDebt           // b
	atCommits        // k
	atTrials         // t
	atRest           // observations of the rest that are left
	alarmLen
)

// NewAlarm makes an alarm of a budget of P observations per alarm, at least 1, such as
// DefaultBudget, and a rest of so many observations after an alarm, at least 0, such as
// DefaultRest. An error names what is wrong.
func NewAlarm(budget float64, rest int) (*Alarm, error) {
	if err := domain.Budget.Check("budget", budget); err != nil {
		return nil, err
	}
	if rest < 0 {
		return nil, fmt.Errorf("rest: must be at least 0, not %d", rest)
	}
	return &Alarm{budget: budget, rest: float64(rest)}, nil
}

// BudgetOver returns the number of observations that a stream takes in the time
// budget: the budget over the step between two observations, but at least 10. A stream
// without a step has DefaultBudget.
func BudgetOver(budget, step time.Duration) float64 {
	if step <= 0 {
		return DefaultBudget
	}
	return max(float64(budget)/float64(step), leastBudget)
}

// MedianStep returns the median step forward between times, 0 where there is none.
func MedianStep(times []time.Time) time.Duration {
	var steps []time.Duration
	for i := 1; i < len(times); i++ {
		if step := times[i].Sub(times[i-1]); step > 0 {
			steps = append(steps, step)
		}
	}
	if len(steps) == 0 {
		return 0
	}
	slices.Sort(steps)
	n := len(steps)
	return steps[(n-1)/2] + (steps[n/2]-steps[(n-1)/2])/2
}

// StateLen is the number of floats in a state.
func (a *Alarm) StateLen() int { return alarmLen }

// NewState returns the state of a stream before its first observation.
func (a *Alarm) NewState() State {
	s := make(State, alarmLen)
	s[atBudget] = a.budget
	return s
}

// SetBudget gives the stream of the state a budget of its own, in observations per
// alarm: that of BudgetOver, once the step is known. It panics where the budget is
// not a number of at least 1, or the state has the wrong length.
func (a *Alarm) SetBudget(s State, observations float64) {
	a.check(s)
	if err := domain.Budget.Check("budget", observations); err != nil {
		panic("hafvf: alarm: " + err.Error())
	}
	s[atBudget] = observations
}

// Update decides on one observation, whose score is q; change says that the
// stream has committed to a change at it. Update returns the alarm, if any, and the
// threshold T that the score was compared with. A NaN is a score below it. Call
// Update once for every observation after the warm-up that is not missing.
//
// What permit refuses has not happened: it costs no budget, and a refused commit
// does not count as one. Update asks permit at most once about each kind, also
// about an alarm that is not raised then, so that permit must have no effects. A
// nil permit permits all.
//
// Update allocates nothing. It panics where the state has the wrong length.
func (a *Alarm) Update(s State, q float64, change bool, permit func(AlarmKind) bool) (kind AlarmKind, threshold float64) {
	a.check(s)
	period := s[atBudget]
	s[atDebt] = max(0, s[atDebt]-1/period)
	s[atCommits] *= commitForgetting
	s[atTrials] = s[atTrials]*commitForgetting + 1
	s[atRest] = min(s[atRest], a.rest) // it may come from an alarm of a longer one
	resting := s[atRest] > 0
	if resting {
		s[atRest]--
	}

	threshold = math.Log10(period) + s[atDebt]
	affordable := s[atDebt] <= headroom
	if change && (permit == nil || permit(ChangeAlarm)) {
		rare := s[atCommits]*period <= s[atTrials]+period
		s[atCommits]++
		if affordable && rare {
			kind = ChangeAlarm
		}
	}
	if affordable && q >= threshold && (permit == nil || permit(NoveltyAlarm)) {
		kind = NoveltyAlarm
	}
	if resting || kind == NoAlarm {
		return NoAlarm, threshold
	}
	s[atDebt]++
	s[atRest] = a.rest
	return kind, threshold
}

// Pay pays an alarm that is not of an observation, as of a silence: b ← b + 1 where b ≤ 8. It
// reports whether it does. Alarms that were paid count in the bound n/P + 9 with the others,
// as that holds where b ≤ 8 before every alarm and only observations lower b. Pay panics where
// the state has the wrong length.
func (a *Alarm) Pay(s State) bool {
	a.check(s)
	if s[atDebt] > headroom {
		return false
	}
	s[atDebt]++
	return true
}

func (a *Alarm) check(s State) {
	if len(s) != alarmLen {
		panic(wrongState)
	}
}

// Valid says why s, which was decoded from bytes, is not a state of an alarm. States
// of alarms of another rest are: a shorter rest holds at once.
func (a *Alarm) Valid(s State) error {
	if len(s) != alarmLen {
		return fmt.Errorf("state is corrupt: alarm of %d floats, want %d", len(s), alarmLen)
	}
	const most = 1/(1-commitForgetting) + 1 // of k and t
	whole := s[atRest] == math.Trunc(s[atRest])
	if slices.ContainsFunc(s, infinite) || domain.Budget.Check("budget", s[atBudget]) != nil ||
		s[atDebt] < 0 || s[atDebt] > headroom+1 || s[atCommits] < 0 || s[atCommits] > most ||
		s[atTrials] < 0 || s[atTrials] > most || !whole || s[atRest] < 0 {
		return fmt.Errorf("state is corrupt: alarm")
	}
	return nil
}
