package usual

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// An adversary chooses scores and commits to raise as many alarms as it can. It
// sees the state.
type adversary func(rng *rand.Rand, s State) (q float64, change bool)

// rareCommit reports whether a commit at the next observation is rare enough to alarm.
func rareCommit(s State) bool {
	return s[atCommits]*commitForgetting*s[atBudget] <= s[atTrials]*commitForgetting+1+s[atBudget]
}

var adversaries = map[string]adversary{
	"infinite scores":      func(*rand.Rand, State) (float64, bool) { return math.Inf(1), false },
	"commits all the time": func(*rand.Rand, State) (float64, bool) { return 0, true },
	"rare commits":         func(_ *rand.Rand, s State) (float64, bool) { return math.NaN(), rareCommit(s) },
	"both":                 func(_ *rand.Rand, s State) (float64, bool) { return 1e300, rareCommit(s) },
	"at the threshold": func(_ *rand.Rand, s State) (float64, bool) {
		return math.Log10(s[atBudget]) + max(0, s[atDebt]-1/s[atBudget]), rareCommit(s)
	},
	"in debt": func(_ *rand.Rand, s State) (float64, bool) {
		if s[atDebt] < headroom { // up to the headroom by scores, then by commits
			return math.Inf(1), false
		}
		return 0, rareCommit(s)
	},
	"at random": func(rng *rand.Rand, s State) (float64, bool) {
		return math.Log10(s[atBudget]) + 20*rng.NormFloat64(), rng.IntN(20) == 0
	},
	"nothing": func(*rand.Rand, State) (float64, bool) { return -1, false },
}

// The first n observations raise at most n/P + 9 alarms, whatever comes.
func TestAlarmBound(t *testing.T) {
	names := slices.Sorted(maps.Keys(adversaries))
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.OneOf(rapid.Just(1.), rapid.Float64Range(1, 100), rapid.Float64Range(100, 1e6), rapid.Float64Range(1e6, 1e12)).Draw(t, "budget")
		rest := rapid.SampledFrom([]int{0, 1, 5}).Draw(t, "rest")
		a := alarmOf(budget, rest)
		s := a.NewState()
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		n, alarms := 0, 0
		for range rapid.IntRange(1, 4).Draw(t, "blocks") {
			name := rapid.SampledFrom(names).Draw(t, "adversary")
			length := rapid.SampledFrom([]int{10, 100, 1000, 60_000}).Draw(t, "length")
			for range length {
				q, change := adversaries[name](rng, s)
				kind, threshold := a.Update(s, q, change, nil)
				n++
				if kind != NoAlarm {
					alarms++
				}
				if bound := float64(n)/budget + headroom + 1; float64(alarms) > bound {
					t.Fatalf("%d alarms in %d observations at a budget of %g, at most %g are due", alarms, n, budget, bound)
				}
				if !(threshold >= math.Log10(budget) && threshold <= math.Log10(budget)+headroom+1) {
					t.Fatalf("threshold %g at a budget of %g", threshold, budget)
				}
			}
			if err := a.Valid(s); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// The bound is attained but for one alarm: the budget is spent where there is need.
func TestAlarmBoundIsAttained(t *testing.T) {
	for _, name := range []string{"infinite scores", "both"} {
		a := alarmOf(10, 0)
		s := a.NewState()
		alarms := 0
		for range 10_000 {
			q, change := adversaries[name](nil, s)
			if kind, _ := a.Update(s, q, change, nil); kind != NoAlarm {
				alarms++
			}
		}
		if alarms < 1000+8 {
			t.Errorf("%s: %d alarms, want %d", name, alarms, 1000+8)
		}
	}
}

func TestAlarmRest(t *testing.T) {
	for _, c := range []struct{ rest, want int }{{60, 60}, {5, 5}, {0, 0}} {
		a := alarmOf(DefaultBudget, c.rest)
		s := a.NewState()
		last := -1
		for i := range 200 {
			kind, _ := a.Update(s, math.Inf(1), i%2 == 0, nil)
			if kind == NoAlarm {
				continue
			}
			if last >= 0 && i-last != c.want+1 {
				t.Fatalf("rest %d: alarms at %d and %d", c.rest, last, i)
			}
			last = i
		}
		if last < 0 {
			t.Fatalf("rest %d: no alarm", c.rest)
		}
	}
}

// A commit alarms where commits have been rare, and not where they are frequent.
func TestAlarmOnChanges(t *testing.T) {
	a := alarmOf(1000, DefaultRest)
	for _, c := range []struct{ every, most, least int }{{2000, 10, 10}, {100, 4, 1}} {
		s := a.NewState()
		alarms := 0
		for i := range 10 * c.every {
			kind, _ := a.Update(s, 0, i%c.every == c.every-1, nil)
			if kind == NoveltyAlarm {
				t.Fatal("a novelty alarm at a score of 0")
			}
			if kind == ChangeAlarm {
				alarms++
			}
		}
		if alarms < c.least || alarms > c.most {
			t.Errorf("a change every %d observations: %d alarms of 10, want %d to %d", c.every, alarms, c.least, c.most)
		}
	}
	s := a.NewState()
	if kind, _ := a.Update(s, math.Inf(1), true, nil); kind != NoveltyAlarm {
		t.Errorf("an observation due both alarms raises %q", kind)
	}
}

// What permit refuses has not happened, to the bit.
func TestAlarmPermit(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	a := alarmOf(50, 3)
	s, u := a.NewState(), a.NewState()
	refused := 0
	for i := range 5000 {
		q, change := 3*rng.ExpFloat64(), rng.IntN(30) == 0
		novelty, commit := rng.IntN(2) == 0, rng.IntN(2) == 0
		asked := map[AlarmKind]int{}
		kind, threshold := a.Update(s, q, change, func(kind AlarmKind) bool {
			asked[kind]++
			return kind == NoveltyAlarm && novelty || kind == ChangeAlarm && commit
		})
		if asked[NoveltyAlarm] > 1 || asked[ChangeAlarm] > 1 || len(asked) > 2 {
			t.Fatalf("observation %d: permit was asked %v", i, asked)
		}
		refused += asked[NoveltyAlarm] + asked[ChangeAlarm]
		if !novelty {
			q = 0
		}
		if k, th := a.Update(u, q, change && commit, nil); k != kind || th != threshold || !equalBits(s, u) {
			t.Fatalf("observation %d: %q at %g, state %v; want %q at %g, state %v", i, kind, threshold, s, k, th, u)
		}
	}
	if refused == 0 {
		t.Fatal("permit was never asked")
	}
}

func TestBudgetOver(t *testing.T) {
	at := func(seconds ...int64) (times []time.Time) {
		for _, s := range seconds {
			times = append(times, time.Unix(s, 0))
		}
		return times
	}
	for _, c := range []struct {
		budget time.Duration
		times  []time.Time
		want   float64
	}{
		{168 * time.Hour, at(0, 300, 600, 900), 2016},
		{168 * time.Hour, at(0, 300, 600, 86400, 86700), 2016},    // a gap
		{168 * time.Hour, at(0, 0, 300, 300, 200, 500), 2016},     // equal times, and one backwards
		{168 * time.Hour, at(0, 86400, 172800), 10},               // daily: at least 10
		{168 * time.Hour, at(5, 5, 5), DefaultBudget},             // no step
		{168 * time.Hour, make([]time.Time, 50), DefaultBudget},   // no times
		{168 * time.Hour, nil, DefaultBudget},                     // nothing
		{24 * time.Hour, at(0, 60, 120), 1440},                    // a day of minutes
		{time.Hour, at(0, 60, 180, 240, 420, 480, 540), 60},       // the median
		{90 * time.Minute, at(0, 60, 180), 60},                    // of an even number
		{math.MaxInt64, at(0, 1), float64(math.MaxInt64) / 1e9},   // the longest
		{168 * time.Hour, at(0, 1<<40, 1<<41), leastBudget},       // steps beyond what a Duration holds
		{168 * time.Hour, at(1<<41, 1<<40, 1<<39), DefaultBudget}, // times that go backwards
	} {
		if got := BudgetOver(c.budget, MedianStep(c.times)); got != c.want {
			t.Errorf("%v over %v: %g observations, want %g", c.budget, c.times, got, c.want)
		}
	}
}

// A state with any one entry made impossible is refused.
func TestAlarmRefusesCorruptStates(t *testing.T) {
	a := alarmOf(50, DefaultRest)
	s := a.NewState()
	for i := range 40 {
		a.Update(s, 9, i == 0, nil)
	}
	if err := a.Valid(s); err != nil {
		t.Fatal(err)
	}
	for i := range s {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e9 + .5} {
			if i == atBudget && v > 1 && !math.IsInf(v, 0) {
				continue // any budget is possible
			}
			bad := slices.Clone(s)
			bad[i] = v
			if a.Valid(bad) == nil {
				t.Errorf("entry %d = %g passes", i, v)
			}
		}
	}
	if a.Valid(s[1:]) == nil {
		t.Error("a short state passes")
	}
}

func TestAlarmAllocatesNothing(t *testing.T) {
	a := alarmOf(10, 1)
	s := a.NewState()
	alarms, refuse := 0, false
	if n := testing.AllocsPerRun(1000, func() {
		kind, _ := a.Update(s, 20, true, func(AlarmKind) bool { return !refuse })
		if kind != NoAlarm {
			alarms++
		}
		refuse = !refuse
	}); n != 0 || alarms == 0 {
		t.Errorf("%v allocations in an update, %d alarms", n, alarms)
	}
}

// TestAlarmPays has alarms paid between observations: with those the alarms of n observations
// keep to n/P + 9.
func TestAlarmPays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.Float64Range(1, 50).Draw(t, "budget")
		a, err := NewAlarm(budget, 0)
		if err != nil {
			t.Fatal(err)
		}
		s := a.NewState()
		paid, n := 0, 0
		for _, kind := range rapid.SliceOfN(rapid.IntRange(0, 2), 1, 400).Draw(t, "steps") {
			switch kind {
			case 0:
				if a.Pay(s) {
					paid++
				}
			default:
				n++
				if kind, _ := a.Update(s, 20*float64(kind-1), false, nil); kind != NoAlarm {
					paid++
				}
			}
			if float64(paid) > float64(n)/budget+9 {
				t.Fatalf("%d alarms in %d observations, budget %g", paid, n, budget)
			}
			if err := a.Valid(s); err != nil {
				t.Fatal(err)
			}
		}
	})
}
