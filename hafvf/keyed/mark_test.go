package keyed

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hafvf/internal/testing/expect"
)

// alertsOf are the alarms of a key, by the number of the observation, with marks that begin at an observation each.
func alertsOf(t expect.T, cfg Config, xs []float64, marks map[int][]FalseMark) map[int]*Alert {
	t.Helper()
	est := expect.Get(NewEstimator(cfg))(t)
	var state []byte
	all := map[int]*Alert{}
	for i, x := range xs {
		if m, some := marks[i]; some || i == 0 {
			est.SetMarks(map[string][]FalseMark{"a": m, "b": {{Size: 1e9}}})
		}
		k := expect.Get(est.Open("a", state))(t)
		for e := range k.Estimates(Value(hourly(i), "", x)) {
			if e.Alarm != nil {
				all[i] = e.Alarm
			}
		}
		state = expect.Get(k.AppendBinary(nil))(t)
	}
	return all
}

func hourly(i int) time.Time { return sunday.Add(time.Duration(i) * time.Hour) }

// What is like an alarm that was false is not told for four budgets. What is twice its size is, and so is what is on the
// other side, and what is like it of another output or later.
func TestFalseMark(t *testing.T) {
	cfg := Recommended("normal")
	cfg.Alarms.BudgetTime = 7 * 24 * time.Hour
	const first, again = 1000, 1100
	stream := func(at int, by float64) []float64 {
		rng := rand.New(rand.NewPCG(82, 1))
		xs := make([]float64, at+10)
		for i := range xs {
			xs[i] = rng.NormFloat64()
		}
		xs[first] = 20
		xs[at] = by
		return xs
	}
	was := alertsOf(t, cfg, stream(again, 20), nil)[first]
	if was == nil || was.Size < 10 {
		t.Fatalf("%+v", was)
	}
	mark := FalseMark{From: hourly(first + 1), Size: was.Size, Output: was.Output}
	for name, c := range map[string]struct {
		at      int
		by      float64
		mark    FalseMark
		alarmed bool
	}{
		"like it":               {again, 20, mark, false},
		"a bit larger":          {again, 26, mark, false},
		"twice as large":        {again, 40, mark, true},
		"below":                 {again, -20, mark, true},
		"of another output":     {again, 20, FalseMark{mark.From, mark.Size, 1}, true},
		"without a size":        {again, 20, FalseMark{mark.From, math.NaN(), 0}, true},
		"before the mark":       {again, 20, FalseMark{hourly(again), mark.Size, 0}, true},
		"within four budgets":   {first + 4*7*24, 20, mark, false},
		"later than four":       {first + 4*7*24 + 2, 20, mark, true},
		"of four budgets later": {again, 20, FalseMark{hourly(-5000), mark.Size, 0}, true},
	} {
		xs := stream(c.at, c.by)
		if alertsOf(t, cfg, xs, nil)[c.at] == nil {
			t.Errorf("%s: no alarm without a mark", name)
		}
		if a := alertsOf(t, cfg, xs, map[int][]FalseMark{first + 1: {c.mark}})[c.at]; (a != nil) != c.alarmed {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// With any marks the first n observations raise at most n/P + 9 alarms, and none that is marked.
func TestMarksKeepTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Recommended("normal")
		budget := rapid.SampledFrom([]time.Duration{24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour}).Draw(t, "budget")
		cfg.Alarms.BudgetTime, cfg.Alarms.Lasting = budget, rapid.Bool().Draw(t, "lasting")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		xs, marks := make([]float64, 1500), map[int][]FalseMark{}
		level, often := 0., rapid.SampledFrom([]int{5, 30, 200}).Draw(t, "often")
		var all []FalseMark
		for i := range xs {
			xs[i] = rng.NormFloat64() + level
			switch rng.IntN(often) {
			case 0:
				xs[i] += 40 * rng.NormFloat64()
			case 1:
				level += 5 * rng.NormFloat64()
			case 2:
				all = append(all, FalseMark{From: hourly(i - rng.IntN(100)), Size: 10 * rng.NormFloat64()})
				marks[i] = append([]FalseMark(nil), all...)
			}
		}
		alarms, marked := alertsOf(t, cfg, xs, marks), all[:0]
		most := 9.
		for i, n := 0, 0.; i < len(xs); i++ {
			if m, some := marks[i]; some {
				marked = m
			}
			if a := alarms[i]; a != nil {
				if n++; n > most+float64(i+1)/budget.Hours() {
					t.Fatalf("%g alarms of %d observations", n, i+1)
				}
				for _, m := range marked {
					if at := hourly(i); at.After(m.From) && at.Sub(m.From) < 4*budget && a.Size*m.Size > 0 && math.Abs(a.Size) <= 1.5*math.Abs(m.Size) {
						t.Fatalf("%+v, and the mark %+v", a, m)
					}
				}
			}
		}
	})
}
