package usual

import (
	"fmt"
	"math"
	"time"

	"hafvf/internal/domain"
	"hafvf/internal/median"
)

const (
	// DefaultBudget is the budget of a stream without times, in observations per alarm.
	DefaultBudget = 2000.
	// DefaultBudgetTime is the budget of a stream with times, in time per alarm.
	DefaultBudgetTime     = 168 * time.Hour
	minBudgetObservations = 10. // smallest result of BudgetOver
	// DefaultSettling is the initial time in which the threshold of a stream is higher.
	DefaultSettling = 96 * time.Hour
)

// AutoRest stands for a rest of seven hours, but at least 6 and at most 60 observations.
const AutoRest = -1

// MaxRest is the largest rest that AutoRest stands for, in observations.
const MaxRest = 60

// Fixed settings. The scores in testdata/traces depend on them.
const (
	restTime    = 7 * time.Hour
	minRest     = 6               // observations
	untimedDay  = 1440.           // observations per day of a stream without times that is not slow
	fineStep    = 2 * time.Minute // largest fine step: incidents of a few minutes are short
	minHourStep = 10 * time.Minute
	quarterHour = 15 * time.Minute
	maxHourStep = 6 * time.Hour
	slowBudget  = 480. // largest P at which w is 1
	minSlow     = .02  // a smaller w counts as 0
	hourExtra   = .45  // x, at steps where most false alarms have scores just above log₁₀ P: F1 .01 on planted_1h
)

// A Pace describes how fast a stream is, and how often it may raise an alarm. Profiles and Alarms depend on it: with
// half an hour between observations, a mean of ten of them is longer than most incidents; with a minute it is not.
//
// With P observations per alarm, the slowness of a stream is
//
//	w = min(1, 480/P)³,  0 if that is less than .02
//
// With a budget of a week, w is 1 at steps of half an hour or more, .36 at a quarter of an hour, and 0 at five
// minutes. A day is as many observations as it has steps. Without a step it is P/7 observations if w > 0, and else
// 1440.
//
// NewPace returns a Pace. It is immutable.
type Pace struct {
	period                      float64 // P
	level                       float64 // log₁₀ P
	extra                       float64 // x, increase of the threshold
	slow                        float64 // w
	rest                        float64 // observations
	changeGraceObs, settlingObs float64 // whole observations in an eighth of the settling time, and in all of it
	inARow                      float64 // values in a row that are not due to chance
	news                        float64 // weight of the initial observations, which a profile learns without a bound
	day                         float64 // observations per day
	fine                        bool    // the step is at most two minutes
	steps                       bool    // it is over two and at most 15 minutes: a single step is scored too
	hours                       bool    // it is ten minutes to six hours: each hour has its own spread
	offsets                     bool    // it is a quarter of an hour to six hours: each hour has an offset
	spikes                      bool    // it is less than a quarter of an hour: hours may have spikes
}

// NewPace returns a Pace. budget is in observations per alarm, at least 1; see BudgetOver. step is the median time
// between observations, or 0 for a stream without times. rest is in observations, at least 0, or AutoRest. Without a
// step, AutoRest is 7/24 of a day. settling, by default DefaultSettling, replaces the four days in the descriptions of
// Alarm and Profile, and an eighth of it replaces their half day. An error names the invalid argument.
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
	if w := math.Pow(min(1, slowBudget/budget), 3); w >= minSlow {
		p.slow = w
	}
	day := untimedDay
	switch {
	case step > 0:
		day = float64(24*time.Hour) / float64(step)
		p.fine = step <= fineStep
		p.steps = !p.fine && step <= quarterHour
		p.hours = step >= minHourStep && step <= maxHourStep
		p.offsets = step >= quarterHour && step <= maxHourStep
		p.spikes = step < quarterHour
	case p.slow > 0:
		day = budget / 7
	}
	if p.hours && p.slow == 1 {
		p.extra = hourExtra
	}
	p.day = day
	switch {
	case step >= 2*quarterHour || step == 0 && p.slow == 1:
		p.inARow = 1
	case step >= quarterHour:
		p.inARow = 2
	default:
		p.inARow = 3
	}
	days := float64(settling) / float64(24*time.Hour)
	p.changeGraceObs, p.settlingObs = math.Floor(days*day/8), math.Floor(days*day)
	p.news = weightOf(max(tailWarmUp, min(p.settlingObs, tailPrecise-1)), profileForgetting)
	if rest == AutoRest {
		p.rest = day * float64(restTime) / float64(24*time.Hour)
		if step > 0 {
			p.rest = float64(restTime / step) // without rounding
		}
		p.rest = max(minRest, min(math.Floor(p.rest), MaxRest))
	}
	return p, nil
}

// Budget returns P, the number of observations per alarm.
func (p Pace) Budget() float64 { return p.period }

// Rest returns the rest, in observations: half of it without an unusual observation separates two incidents.
func (p Pace) Rest() int { return int(p.rest) }

// InARow returns the number of values in a row that are not due to chance: 3, but 2 at steps from 15 minutes on, and 1
// from 30 minutes on. Reports that an episode is worse need this number (F1 .01 on planted_1min).
func (p Pace) InARow() float64 { return p.inARow }

// Day returns the number of observations per day.
func (p Pace) Day() float64 { return p.day }

// Aftermath returns for how many observations an event influences the running means of a Profile: half a rest, but a
// rest at fine steps, at which a mean is a root mean square.
func (p Pace) Aftermath() float64 {
	if p.fine {
		return p.rest
	}
	return math.Ceil(p.rest / 2)
}

// Fine reports whether the step is at most two minutes.
func (p Pace) Fine() bool { return p.fine }

// BudgetOver returns the number of observations in the time budget: budget/step, but at least 10. If step is not
// positive, it returns DefaultBudget.
func BudgetOver(budget, step time.Duration) float64 {
	if step <= 0 {
		return DefaultBudget
	}
	return max(float64(budget)/float64(step), minBudgetObservations)
}

// MedianStep returns the median of the positive differences of successive times, or 0 if there are none.
func MedianStep(times []time.Time) time.Duration {
	var steps []time.Duration
	for i := 1; i < len(times); i++ {
		if step := times[i].Sub(times[i-1]); step > 0 {
			steps = append(steps, step)
		}
	}
	return median.Of(steps)
}
