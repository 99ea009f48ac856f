package usual

import (
	"fmt"
	"math"
	"time"

	"hafvf/internal/domain"
	"hafvf/internal/median"
)

const (
	// DefaultBudget is the number of observations per alarm of a stream without
	// times.
	DefaultBudget = 2000.
	// DefaultBudgetTime is the time per alarm of a stream with times.
	DefaultBudgetTime = 168 * time.Hour
	leastBudget       = 10. // of BudgetOver
	// DefaultSettling is the time for which the threshold of a stream is higher at first.
	DefaultSettling = 96 * time.Hour
)

// AutoRest is the rest of seven hours, within 6 to 60 observations.
const AutoRest = -1

// Settings that aren't the user's: those of the reference, see testdata/real.
const (
	restTime    = 7 * time.Hour
	leastRest   = 6
	mostRest    = 60
	untimedDay  = 1440.           // observations, of a stream without times that isn't slow
	fineStep    = 2 * time.Minute // at most: an incident of a few minutes is short
	leastHours  = 10 * time.Minute
	quarterHour = 15 * time.Minute
	longHours   = 6 * time.Hour
	slowBudget  = 480. // P from which on down a stream is slow
	leastSlow   = .02
)

// A Pace tells how fast a stream goes, and how often it may raise an alarm. Profiles and
// alarms depend on it: at half an hour between two observations a mean of ten of them is
// longer than most incidents, and at a minute it is not.
//
// With P observations per alarm, a stream is slow by
//
//	w = min(1, 480/P)³,  0 where that is less than .02
//
// With a budget of a week w is 1 at half an hour and slower, .36 at a quarterHour of an hour,
// and 0 at five minutes. A day is as many observations as come in it. Without a step it is
// P/7 observations where w > 0, and else 1440.
//
// A Pace is made by NewPace, and immutable.
type Pace struct {
	period     float64 // P
	level      float64 // log₁₀ P
	slow       float64 // w
	rest       float64 // observations
	half, four float64 // observations of half a day and of four days, or as long as it settles, whole
	news       float64 // weight of the first observations, of which none is far from usual
	day        float64 // observations of a day
	fine       bool    // the step is at most two minutes
	steps      bool    // it is above that, and at most a quarterHour of an hour: a step has a score of its own
	hours      bool    // it is ten minutes to six hours: values scatter by the hour
	offsets    bool    // it is a quarterHour of an hour to six hours: hours have offsets
	spikes     bool    // it is finer: hours have spikes
}

// NewPace makes the pace of a stream with a budget of so many observations per alarm, at
// least 1, such as that of BudgetOver, the median step between its observations, 0 where
// it has no times, and a rest of so many observations after an alarm, at least 0, or
// AutoRest. Without a step, AutoRest is 7/24 of a day. It settles for so long, by default
// DefaultSettling: what Alarm and Profile say of the first four days and half a day holds for this
// time and an eighth of it. An error names what is wrong.
func NewPace(budget float64, step time.Duration, rest int, settling time.Duration) (Pace, error) {
	if err := domain.Budget.Check("budget", budget); err != nil {
		return Pace{}, err
	}
	if settling < 0 {
		return Pace{}, fmt.Errorf("settling: must be at least 0, not %v", settling)
	}
	if rest < AutoRest {
		return Pace{}, fmt.Errorf("rest: must be at least 0, not %d", rest)
	}
	p := Pace{period: budget, level: math.Log10(budget), rest: float64(rest)}
	if w := math.Pow(min(1, slowBudget/budget), 3); w >= leastSlow {
		p.slow = w
	}
	day := untimedDay
	switch {
	case step > 0:
		day = float64(24*time.Hour) / float64(step)
		p.fine = step <= fineStep
		p.steps = !p.fine && step <= quarterHour
		p.hours = step >= leastHours && step <= longHours
		p.offsets = step >= quarterHour && step <= longHours
		p.spikes = step < quarterHour
	case p.slow > 0:
		day = budget / 7
	}
	p.day = day
	days := float64(settling) / float64(24*time.Hour)
	p.half, p.four = math.Floor(days*day/8), math.Floor(days*day)
	p.news = weightOf(max(tailWarmUp, min(p.four, tailPrecise-1)), profileForgetting)
	if rest == AutoRest {
		p.rest = day * float64(restTime) / float64(24*time.Hour)
		if step > 0 {
			p.rest = float64(restTime / step) // without rounding
		}
		p.rest = max(leastRest, min(math.Floor(p.rest), mostRest))
	}
	return p, nil
}

// Budget is P, the number of observations per alarm.
func (p Pace) Budget() float64 { return p.period }

// Rest is the number of observations after an alarm without another.
func (p Pace) Rest() int { return int(p.rest) }

// Fine reports whether the step is at most two minutes.
func (p Pace) Fine() bool { return p.fine }

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
	return median.Of(steps)
}
