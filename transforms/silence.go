package transforms

import (
	"fmt"
	"math"
	"time"
)

// Kinds of alarms of silence.
const (
	SilentAlarm    = "silent"    // a key has been silent for longer than its rhythm allows
	RecoveredAlarm = "recovered" // it speaks again
)

// SilenceConfig says how long a key may be silent.
type SilenceConfig struct {
	// After is a fixed bound. Zero: the key's own gaps set it, such that calm ones pass
	// it once per budget of AlarmConfig.
	After time.Duration
}

// Settings of silence that aren't the user's.
const (
	leastGaps      = 10  // that a key must have shown before its own bound holds
	gapForgetting  = .99 // per gap
	leastPerBudget = 100 // gaps per budget, also of keys that speak rarely
)

// A Silence is one of a key, found when the key spoke again.
type Silence struct {
	Since time.Time     // of the observation before it
	Bound time.Duration // after which it was one
}

// A pulse is the rhythm in which a key speaks. Its gaps are exponential, of a rate that
// changes: with the Gamma posterior of the gaps so far, forgotten by gapForgetting.
type pulse struct {
	last time.Time
	gaps float64 // number
	sum  float64 // seconds
}

// speak notes an observation, and returns the silence that it ends, nil where there was
// none.
func (p *pulse) speak(c SilenceConfig, alarms AlarmConfig, now time.Time) (s *Silence) {
	if now.IsZero() || !p.last.IsZero() && !now.After(p.last) {
		return nil
	}
	last := p.last
	p.last = now
	if last.IsZero() {
		return nil
	}
	gap := now.Sub(last)
	if bound := p.bound(c, alarms); bound > 0 && gap > bound {
		s = &Silence{last, bound}
		gap = bound // the rhythm does not learn how long the key was away
	}
	p.gaps = gapForgetting*p.gaps + 1
	p.sum = gapForgetting*p.sum + gap.Seconds()
	return s
}

// bound is the gap that is a silence; 0 where none is known. For exponential gaps with
// n seen of the sum b it is exceeded with probability (b/(b+g))ⁿ.
func (p *pulse) bound(c SilenceConfig, alarms AlarmConfig) time.Duration {
	if c.After > 0 {
		return c.After
	}
	if p.gaps < (1-math.Pow(gapForgetting, leastGaps))/(1-gapForgetting) {
		return 0
	}
	perBudget := alarms.Budget
	if perBudget == 0 {
		perBudget = alarms.withDefaults().BudgetTime.Seconds() * p.gaps / p.sum
	}
	seconds := p.sum * math.Expm1(math.Log(math.Max(perBudget, leastPerBudget))/p.gaps)
	if seconds > math.MaxInt64/1e9 {
		return 0
	}
	return time.Duration(seconds * 1e9)
}

func (p *pulse) append(b []byte) []byte {
	return appendFloats(appendTime(b, p.last), []float64{p.gaps, p.sum})
}

func (p *pulse) read(r *reader) {
	p.last = r.time()
	r.numbers(&p.gaps, &p.sum)
	if !(p.gaps >= 0 && p.sum >= 0) || math.IsInf(p.gaps+p.sum, 0) {
		r.bad = true
	}
}

// Told is an alert with the estimate that it is told of, which gives it time, id and
// values.
type Told struct {
	Of *Estimate
	*Alert
}

// Alerts are what is told of a silence that the estimate of a key ends: that there was
// one, dated when its bound was passed, and that it is over. What they are told of has no
// value.
func (s *Silence) Alerts(key string, e *Estimate) []Told {
	unknown := func() Moments {
		m := Moments{make([]float64, len(e.Predicted.Mean)), make([]float64, len(e.Predicted.Mean))}
		for i := range m.Mean {
			m.Mean[i], m.SD[i] = math.NaN(), math.NaN()
		}
		return m
	}
	tell := func(kind string, at time.Time, id string) Told {
		return Told{
			&Estimate{Time: at, ID: id, N: e.N, Predicted: unknown(), Detection: &Detection{Score: math.NaN()}},
			&Alert{Kind: kind, Start: s.Since, LogOdds: math.NaN(), Size: math.NaN(), Before: unknown(), After: unknown()},
		}
	}
	passed := s.Since.Add(s.Bound)
	return []Told{tell(SilentAlarm, passed, key+"/"+stamp(passed)), tell(RecoveredAlarm, e.Time, e.ID)}
}

func (c *SilenceConfig) validate(order Order) error {
	switch {
	case c == nil:
		return nil
	case c.After < 0:
		return fmt.Errorf("after %v is negative", c.After)
	case order != EventTime:
		return fmt.Errorf("a key's rhythm is that of its times: order must be %q", EventTime)
	}
	return nil
}
