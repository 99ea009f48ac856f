package keyed

import (
	"fmt"
	"math"
	"slices"
	"time"

	"hafvf/internal/compact"
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

// A Silence is one of a key.
type Silence struct {
	Since time.Time     // of the observation before it
	Bound time.Duration // after which it was one
	Told  bool          // it was told while it lasted
}

// A Silent is a key that is silent, as Entity.Tell tells it.
type Silent struct {
	Silence
	N       int64 // position of its last observation, from 1
	Outputs int   // of its model
}

// A pulse is the rhythm in which a key speaks. Its gaps are exponential, of a rate that
// changes: with the Gamma posterior of the gaps so far, forgotten by gapForgetting.
type pulse struct {
	last time.Time
	gaps float64  // number
	sum  float64  // seconds
	told *Silence // that goes on; nil where there is none
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
	if s, p.told = p.told, nil; s != nil {
		gap = min(gap, s.Bound)
	} else if bound := p.bound(c, alarms); bound > 0 && gap > bound {
		s = &Silence{Since: last, Bound: bound}
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
		perBudget = alarms.BudgetTime.Seconds() * p.gaps / p.sum
	}
	seconds := p.sum * math.Expm1(math.Log(math.Max(perBudget, leastPerBudget))/p.gaps)
	if seconds > math.MaxInt64/1e9 {
		return 0
	}
	return time.Duration(seconds * 1e9)
}

// deadline is when a key becomes silent that has spoken last at that time, zero where it
// is so already, or no bound is known.
func (p *pulse) deadline(c SilenceConfig, alarms AlarmConfig, last time.Time) time.Time {
	bound := p.bound(c, alarms)
	if bound == 0 || last.IsZero() || p.told != nil {
		return time.Time{}
	}
	return last.Add(bound)
}

// tell notes that the key's silence is told, and returns it.
func (p *pulse) tell(c SilenceConfig, alarms AlarmConfig) Silence {
	p.told = &Silence{Since: p.last, Bound: p.bound(c, alarms), Told: true}
	return *p.told
}

// append encodes the pulse. A third number is the bound of a silence that is told.
func (p *pulse) append(b []byte) []byte {
	numbers := []float64{p.gaps, p.sum}
	if p.told != nil {
		numbers = append(numbers, float64(p.told.Bound))
	}
	return compact.AppendFloats(compact.AppendTime(b, p.last), numbers)
}

func (p *pulse) read(r *reader) {
	p.last = r.Time()
	numbers := r.Floats()
	if len(numbers) != 2 && len(numbers) != 3 || slices.ContainsFunc(numbers, func(v float64) bool { return !(v >= 0) || math.IsInf(v, 0) }) {
		r.Fail()
		return
	}
	p.gaps, p.sum = numbers[0], numbers[1]
	if len(numbers) == 3 {
		p.told = &Silence{Since: p.last, Bound: time.Duration(numbers[2]), Told: true}
	}
}

// Told is an alert with the estimate that it is told of, which gives it time, id and
// values.
type Told struct {
	Of *Estimate
	*Alert
}

// Alerts are what is told of a silence that the estimate of a key ends: that there was
// one, unless that was told while it lasted, and that it is over.
func (s *Silence) Alerts(key string, e *Estimate) (all []Told) {
	outputs := len(e.Predicted.Mean)
	if !s.Told {
		all = append(all, Silent{*s, e.N, outputs}.Alert(key))
	}
	return append(all, s.alert(RecoveredAlarm, key, e.Time, e.ID, e.N, outputs))
}

// Alert is what is told of a key that is silent, dated when its bound was passed.
func (s Silent) Alert(key string) Told {
	passed := s.Since.Add(s.Bound)
	return s.alert(SilentAlarm, key, passed, key+"/"+stamp(passed), s.N, s.Outputs)
}

// alert is one of a silence. What it is told of has no value.
func (s *Silence) alert(kind, key string, at time.Time, id string, n int64, outputs int) Told {
	unknown := func() Moments {
		m := Moments{make([]float64, outputs), make([]float64, outputs)}
		for i := range m.Mean {
			m.Mean[i], m.SD[i] = math.NaN(), math.NaN()
		}
		return m
	}
	nan := math.NaN()
	e := &Estimate{Time: at, ID: id, N: n, Predicted: unknown(), Detection: &Detection{Score: nan, Usual: unknown()}}
	a := &Alert{Kind: kind, Start: s.Since, LogOdds: nan, Size: nan, Before: unknown(), After: unknown(), Score: nan, Threshold: nan, Usual: unknown()}
	a.Message = a.silence(key, e)
	return Told{e, a}
}

func (c *SilenceConfig) validate(order Order) error {
	switch {
	case c == nil:
		return nil
	case c.After < 0:
		return fmt.Errorf("after %v is negative", c.After)
	}
	return CheckSilence(order)
}

// CheckSilence says why keys cannot be silent under an order of observations.
func CheckSilence(order Order) error {
	if order != EventTime {
		return fmt.Errorf("is by the times of records: order must be %s", EventTime)
	}
	return nil
}
