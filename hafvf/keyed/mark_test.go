package keyed

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hafvf/internal/testing/expect"
)

// alarmsByIndex returns the alarms of a key by the index of the observation. marks replaces the marks at some
// indexes.
func alarmsByIndex(t expect.T, cfg Config, xs []float64, marks map[int][]FalseMark) map[int]*Alert {
	t.Helper()
	est := expect.Get(NewEstimator(cfg))(t)
	k := expect.Get(est.Open("a", nil))(t)
	alarms := map[int]*Alert{}
	for i, x := range xs {
		if m, ok := marks[i]; ok || i == 0 {
			est.SetMarks(map[string][]FalseMark{"a": m, "b": {{Size: 1e9}}})
			k = expect.Get(est.Open("a", expect.Get(k.AppendBinary(nil))(t)))(t)
		}
		for e := range k.Estimates(Value(hourly(i), "", x)) {
			if e.Alarm != nil {
				alarms[i] = e.Alarm
			}
		}
	}
	return alarms
}

func hourly(i int) time.Time { return sunday.Add(time.Duration(i) * time.Hour) }

// A mark suppresses similar alarms for four budgets from the key's first observation with it. Alarms of twice its size,
// on the other side, of another output, or later are reported.
func TestFalseMark(t *testing.T) {
	cfg := Recommended("normal")
	cfg.Alarms.BudgetTime = 7 * 24 * time.Hour
	const first, second = 1000, 1100
	stream := func(index int, value float64) []float64 {
		rng := rand.New(rand.NewPCG(82, 1))
		xs := make([]float64, index+10)
		for i := range xs {
			xs[i] = rng.NormFloat64()
		}
		xs[first] = 20
		xs[index] = value
		return xs
	}
	marked := alarmsByIndex(t, cfg, stream(second, 20), nil)[first]
	if marked == nil || marked.Size < 10 {
		t.Fatalf("%+v", marked)
	}
	mark := FalseMark{From: hourly(first), Size: marked.Size}
	for name, c := range map[string]struct {
		index   int
		value   float64
		mark    FalseMark
		alarmed bool
	}{
		"like it":             {second, 20, mark, false},
		"a bit larger":        {second, 26, mark, false},
		"twice as large":      {second, 40, mark, true},
		"below":               {second, -20, mark, true},
		"without a size":      {second, 20, FalseMark{From: mark.From, Size: math.NaN()}, true},
		"before the mark":     {second, 20, FalseMark{From: hourly(second), Size: mark.Size}, true},
		"within four budgets": {first + 4*7*24, 20, mark, false},
		"later than four":     {first + 4*7*24 + 1, 20, mark, true},
		"of an older alarm":   {second, 20, FalseMark{From: hourly(-5000), Size: mark.Size}, false},
		"read earlier":        {second, 20, FalseMark{From: mark.From, Size: mark.Size, Since: hourly(-5000)}, true},
	} {
		xs := stream(c.index, c.value)
		if alarmsByIndex(t, cfg, xs, nil)[c.index] == nil {
			t.Errorf("%s: no alarm without a mark", name)
		}
		if a := alarmsByIndex(t, cfg, xs, map[int][]FalseMark{first + 1: {c.mark}})[c.index]; (a != nil) != c.alarmed {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// With any marks, the first n observations raise at most n/P + 9 alarms, and no alarm that a mark suppresses.
func TestFalseMarkBound(t *testing.T) {
	expect.Long(t, "many marks")
	checkFalseMarks(t, 1500, 24*time.Hour, 0x6b, 30) // an alarm near usual, soon after an episode that a mark suppressed
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.SampledFrom([]time.Duration{24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour}).Draw(t, "budget")
		checkFalseMarks(t, 600, budget, rapid.Uint64().Draw(t, "seed"), rapid.SampledFrom([]int{5, 30, 200}).Draw(t, "often"))
	})
}

// checkFalseMarks checks the alarms of n values of a key with outliers, levels and marks, of which each occurs once in eventGap values.
func checkFalseMarks(t rapid.TB, n int, budget time.Duration, seed uint64, eventGap int) {
	t.Helper()
	cfg := Recommended("normal")
	cfg.Alarms.BudgetTime = budget
	rng := rand.New(rand.NewPCG(seed, 1))
	xs, marks := make([]float64, n), map[int][]FalseMark{}
	level := 0.
	var placed []FalseMark
	for i := range xs {
		xs[i] = rng.NormFloat64() + level
		switch rng.IntN(eventGap) {
		case 0:
			xs[i] += 40 * rng.NormFloat64()
		case 1:
			level += 5 * rng.NormFloat64()
		case 2:
			placed = append(placed, FalseMark{From: hourly(i - rng.IntN(100)), Size: 10 * rng.NormFloat64()})
			marks[i] = append([]FalseMark(nil), placed...)
		}
	}
	alarms, marked := alarmsByIndex(t, cfg, xs, marks), placed[:0]
	limit := 9.
	for i, found := 0, 0.; i < n; i++ {
		if m, ok := marks[i]; ok {
			marked = m
		}
		if a := alarms[i]; a != nil {
			if found++; found > limit+float64(i+1)/budget.Hours() {
				t.Fatalf("%g alarms of %d observations", found, i+1)
			}
			for _, m := range marked {
				if alarmTime := hourly(i); alarmTime.After(m.From) && alarmTime.Sub(m.From) < 4*budget && a.Size*m.Size > 0 && math.Abs(a.Size) <= 1.5*math.Abs(m.Size) {
					t.Fatalf("%+v, and the mark %+v", a, m)
				}
			}
		}
	}
}
