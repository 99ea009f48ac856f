package usual

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hafvf/internal/testing/expect"
)

// An adversary chooses scores and commits to raise as many alarms as possible. It sees the state.
type adversary func(rng *rand.Rand, p Pace, s State) (q float64, change bool)

// rareCommit reports whether a commit at the next observation is rare enough for an alarm.
func rareCommit(p Pace, s State) bool {
	return s[atCommits]*commitForgetting*p.period <= weightOf(s[atCount]+1, commitForgetting)+p.period
}

var adversaries = map[string]adversary{
	"infinite scores":      func(*rand.Rand, Pace, State) (float64, bool) { return math.Inf(1), false },
	"commits all the time": func(_ *rand.Rand, p Pace, _ State) (float64, bool) { return p.level, true },
	"rare commits":         func(_ *rand.Rand, p Pace, s State) (float64, bool) { return p.level, rareCommit(p, s) },
	"scores that are none": func(_ *rand.Rand, p Pace, s State) (float64, bool) { return math.NaN(), rareCommit(p, s) },
	"both":                 func(_ *rand.Rand, p Pace, s State) (float64, bool) { return 1e300, rareCommit(p, s) },
	"at the threshold": func(_ *rand.Rand, p Pace, s State) (float64, bool) {
		return p.level + (1-p.slow/2)*max(0, s[atDebt]-1/p.period), rareCommit(p, s)
	},
	"in debt": func(_ *rand.Rand, p Pace, s State) (float64, bool) {
		if s[atDebt] < headroom { // up to the headroom with scores, then with commits
			return math.Inf(1), false
		}
		return p.level, rareCommit(p, s)
	},
	"at random": func(rng *rand.Rand, p Pace, s State) (float64, bool) {
		return p.level + 20*rng.NormFloat64(), rng.IntN(20) == 0
	},
	"nothing": func(*rand.Rand, Pace, State) (float64, bool) { return -1, false },
}

// The first n observations raise at most n/P + 9 alarms, for any input, also if the pace changes, and including alarms
// that are paid between observations.
func TestAlarmBound(t *testing.T) {
	names := slices.Sorted(maps.Keys(adversaries))
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.OneOf(rapid.Just(1.), rapid.Float64Range(1, 100), rapid.Float64Range(100, 1e6), rapid.Float64Range(1e6, 1e12)).Draw(t, "budget")
		step := rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "step")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		var s State
		n, alarms := 0, 0
		for range rapid.IntRange(1, 4).Draw(t, "blocks") {
			pace := paceOf(budget, step, rapid.SampledFrom([]int{0, 1, 5, AutoRest}).Draw(t, "rest"))
			a := NewAlarm(pace)
			if s == nil {
				s = a.NewState()
			}
			name := rapid.SampledFrom(names).Draw(t, "adversary")
			length := rapid.SampledFrom([]int{10, 100, 1000, 60_000}).Draw(t, "length")
			for range length {
				q, change := adversaries[name](rng, pace, s)
				d := a.Update(s, q, Context{Change: change, Farther: rng.IntN(9) == 0, Covered: rng.IntN(9) == 0}, nil)
				n++
				if d.Alarm != NoAlarm {
					alarms++
				}
				switch {
				case rng.IntN(8) == 0 && a.Charge(s), rng.IntN(8) == 0 && a.Raise(s).Alarm != NoAlarm:
					alarms++
				}
				if bound := float64(n)/budget + headroom + 1; float64(alarms) > bound {
					t.Fatalf("%d alarms in %d observations at a budget of %g, at most %g are due", alarms, n, budget, bound)
				}
				if most := math.Log10(budget) + max((headroom+1)*debtSlope+firstDays+hourExtra, maxRank); !(d.Threshold >= math.Log10(budget) && d.Threshold <= most) {
					t.Fatalf("threshold %g at a budget of %g", d.Threshold, budget)
				}
			}
			expect.OK(t, a.Valid(s))
		}
	})
}

// Scores that are not gross stop three alarms earlier.
func TestAlarmReserve(t *testing.T) {
	for _, c := range []struct {
		name string
		over float64 // score above the threshold
		want int
	}{{"just below gross", gross - .01, 100 + 6}, {"gross", gross, 100 + 8}} {
		a := NewAlarm(paceOf(100, time.Minute, 0))
		s := a.NewState()
		alarms := 0
		for range 10_000 {
			u := slices.Clone(s)
			if a.Update(s, a.Update(u, 0, Context{}, nil).Threshold+c.over, Context{Change: rareCommit(a.pace, s)}, nil).Alarm != NoAlarm {
				alarms++
			}
		}
		if alarms < c.want || alarms > c.want+1 {
			t.Errorf("%s: %d alarms, want %d", c.name, alarms, c.want)
		}
	}
}

// The bound is attained except for one alarm: the whole budget can be spent when it is needed.
func TestAlarmBoundAttained(t *testing.T) {
	for _, name := range []string{"infinite scores", "both"} {
		pace := paceOf(10, 0, 0)
		a := NewAlarm(pace)
		s := a.NewState()
		alarms := 0
		for range 10_000 {
			q, change := adversaries[name](nil, pace, s)
			if a.Update(s, q, Context{Change: change}, nil).Alarm != NoAlarm {
				alarms++
			}
		}
		if alarms < 1000+8 {
			t.Errorf("%s: %d alarms, want %d", name, alarms, 1000+8)
		}
	}
}

// The observations per day, the slowness and the rest, by budget and step.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		budget                      float64
		step                        time.Duration
		slow                        float64
		rest                        int
		changeGraceObs, settlingObs float64
		fine                        bool
	}{
		{10080, time.Minute, 0, 60, 720, 5760, true},
		{5040, 2 * time.Minute, 0, 60, 360, 2880, true},
		{2016, 5 * time.Minute, 0, 60, 144, 1152, false},
		{672, 15 * time.Minute, .3644, 28, 48, 384, false},
		{336, 30 * time.Minute, 1, 14, 24, 192, false},
		{168, time.Hour, 1, 7, 12, 96, false},
		{10, 24 * time.Hour, 1, 6, 0, 4, false},
		{100, time.Second, 1, 60, 43200, 345600, true}, // slow because of P alone
		{2000, 0, 0, 60, 720, 5760, false},
		{1760, 0, .0203, 60, 125, 1005, false},
		{700, 0, .3224, 29, 50, 400, false},
		{70, 0, 1, 6, 5, 40, false},
		{1, 0, 1, 6, 0, 0, false},
	} {
		p := paceOf(c.budget, c.step, AutoRest)
		if math.Abs(p.slow-c.slow) > 5e-5 || int(p.rest) != c.rest || p.changeGraceObs != c.changeGraceObs || p.settlingObs != c.settlingObs || p.fine != c.fine || p.period != c.budget {
			t.Errorf("%+v, want %+v", p, c)
		}
		if p := paceOf(c.budget, c.step, 3); p.rest != 3 {
			t.Errorf("a rest of %d, want 3", int(p.rest))
		}
	}
	for _, c := range []struct {
		budget float64
		rest   int
	}{{.5, 0}, {math.NaN(), 0}, {math.Inf(1), 0}, {10, -2}} {
		if _, err := NewPace(c.budget, 0, c.rest, DefaultSettling); err == nil {
			t.Errorf("%+v passes", c)
		}
	}
}

// A change alarms only without a score, not in the first half day, and not within 60 observations of an alarm.
func TestAlarmChangeConditions(t *testing.T) {
	for _, c := range []struct {
		score      float64
		commit     int // observation of the commit
		sinceAlarm int // observations from a novelty alarm to the commit; 0 for none
		want       AlarmKind
	}{
		{math.NaN(), 900, 0, ChangeAlarm},
		{math.NaN(), 720, 0, ChangeAlarm},
		{math.NaN(), 719, 0, NoAlarm},
		{math.NaN(), 900, 61, ChangeAlarm},
		{math.NaN(), 900, 60, NoAlarm},
		{0, 900, 0, NoAlarm},
		{3, 900, 0, NoAlarm},
	} {
		a := NewAlarm(paceOf(2000, time.Minute, 3))
		s := a.NewState()
		for i := range c.commit + 1 {
			q := c.score
			if c.sinceAlarm > 0 && i == c.commit-c.sinceAlarm {
				q = 100
			}
			d := a.Update(s, q, Context{Change: i == c.commit}, nil)
			if i == c.commit && d.Alarm != c.want {
				t.Errorf("%+v: %q", c, d.Alarm)
			}
		}
	}
}

// The extra of the threshold at steps of an hour does not add to the debt of an alarm.
func TestAlarmHourExtra(t *testing.T) {
	for step, extra := range map[time.Duration]float64{20 * time.Minute: 0, 21 * time.Minute: hourExtra, time.Hour: hourExtra, 6 * time.Hour: hourExtra, 7 * time.Hour: 0} {
		week := float64(DefaultBudgetTime) / float64(step)
		a := NewAlarm(paceOf(week, step, 3))
		s := a.NewState()
		first := math.Inf(1)
		for range 10_000 { // after the first days
			first = a.Update(s, 0, Context{}, nil).Threshold
		}
		a.Update(s, 9, Context{}, nil)
		second := a.Update(s, 0, Context{}, nil).Threshold
		if math.Abs(first-math.Log10(week)-extra) > 1e-9 || math.Abs(second-math.Log10(week)-debtSlope) > .03 {
			t.Errorf("every %v: thresholds %.2f and %.2f", step, first, second)
		}
	}
}

// A refused commit leaves the state as without a commit, to the bit, and a refused novelty as a score below the
// threshold.
func TestAlarmPermit(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	pace := paceOf(1000, 0, 3)
	a := NewAlarm(pace)
	s, u := a.NewState(), a.NewState()
	refused, muted := 0, 0
	for i := range 5000 {
		q, change := 3*rng.ExpFloat64(), rng.IntN(30) == 0
		novelty, commit := rng.IntN(2) == 0, rng.IntN(2) == 0
		asked := map[AlarmKind]int{}
		got := a.Update(s, q, Context{Change: change}, func(kind AlarmKind) bool {
			asked[kind]++
			return kind == NoveltyAlarm && novelty || kind == ChangeAlarm && commit
		})
		if asked[NoveltyAlarm] > 1 || asked[ChangeAlarm] > 1 || len(asked) > 2 {
			t.Fatalf("observation %d: permit was asked %v", i, asked)
		}
		refused += asked[NoveltyAlarm] + asked[ChangeAlarm]
		if got.Muted {
			muted++
		}
		if asked[NoveltyAlarm] > 0 && !novelty {
			free := pace.level + max(0, firstDays*(1-float64(i)/pace.settlingObs))
			q = math.Nextafter(free, 0)
		}
		if d := a.Update(u, q, Context{Change: change && commit}, nil); d != got || !equalBits(s, u) {
			t.Fatalf("observation %d: %+v, state %v; want %+v, state %v", i, got, s, d, u)
		}
	}
	if refused == 0 || muted == 0 {
		t.Fatalf("%d refused, %d muted", refused, muted)
	}
}

// Debt mutes an alarm that would be raised without debt: once per rest, and never if the observation is covered, below
// the higher threshold of the first days, or if permit refuses the alarm.
func TestAlarmMuted(t *testing.T) {
	const rest = 10
	a := NewAlarm(paceOf(1e6, time.Minute, rest))
	none := func(AlarmKind) bool { return false }
	s := a.NewState()
	s[atCount] = 1e5 // after the first days
	step := func(q float64, o Context, permit func(AlarmKind) bool) Decision { return a.Update(s, q, o, permit) }
	if d := step(6.4, Context{}, nil); d.Alarm != NoveltyAlarm || d.Muted || !d.Due {
		t.Fatalf("%+v at first", d)
	}
	if d := step(100, Context{Covered: true, Farther: true}, nil); d.Alarm != NoAlarm || d.Muted || !d.Due {
		t.Fatalf("%+v of a covered one", d)
	}
	if d := step(6.4, Context{}, none); d.Muted || d.Due {
		t.Fatal("what permit refuses is muted")
	}
	var muted []int
	for i := range 30 {
		if d := step(6.4, Context{}, nil); d.Muted {
			muted = append(muted, i)
		} else if d.Alarm != NoAlarm {
			t.Fatalf("%+v in debt", d)
		}
	}
	expect.Same(t, []int{0, 11, 22}, muted, "muted are each after a rest")
	if d := step(5.9, Context{}, nil); d.Muted {
		t.Error("a score below the threshold without debt is muted")
	}
	if d := step(0, Context{Farther: true}, nil); d.Alarm != NoveltyAlarm {
		t.Errorf("%+v of values that are farther, which are due at any score", d)
	}
	// Above the headroom, debt mutes the largest score, values that are farther, and changes.
	s[atDebt] = 8.5
	for _, due := range []struct {
		q float64
		o Context
	}{{100, Context{}}, {0, Context{Farther: true}}, {math.NaN(), Context{Change: true}}} {
		for range 61 {
			step(math.NaN(), Context{}, nil)
		}
		if d := step(due.q, due.o, nil); d.Alarm != NoAlarm || !d.Muted {
			t.Errorf("%+v of %+v", d, due)
		}
	}
	s = a.NewState()
	if d := step(6.4, Context{}, nil); d.Muted {
		t.Error("the first days mute")
	}
}

func TestBudgetOver(t *testing.T) {
	unixTimes := func(seconds ...int64) (times []time.Time) {
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
		{168 * time.Hour, unixTimes(0, 300, 600, 900), 2016},
		{168 * time.Hour, unixTimes(0, 300, 600, 86400, 86700), 2016},        // a gap
		{168 * time.Hour, unixTimes(0, 0, 300, 300, 200, 500), 2016},         // equal times, and a backward step
		{168 * time.Hour, unixTimes(0, 86400, 172800), 10},                   // daily: at least 10
		{168 * time.Hour, unixTimes(5, 5, 5), DefaultBudget},                 // no step
		{168 * time.Hour, make([]time.Time, 50), DefaultBudget},              // no times
		{168 * time.Hour, nil, DefaultBudget},                                // nothing
		{24 * time.Hour, unixTimes(0, 60, 120), 1440},                        // a day of minutes
		{time.Hour, unixTimes(0, 60, 180, 240, 420, 480, 540), 60},           // the median
		{90 * time.Minute, unixTimes(0, 60, 180), 60},                        // of an even number
		{math.MaxInt64, unixTimes(0, 1), float64(math.MaxInt64) / 1e9},       // the longest
		{168 * time.Hour, unixTimes(0, 1<<40, 1<<41), minBudgetObservations}, // steps longer than a Duration
		{168 * time.Hour, unixTimes(1<<41, 1<<40, 1<<39), DefaultBudget},     // backward times
	} {
		expect.Same(t, c.want, BudgetOver(c.budget, MedianStep(c.times)), c.budget, ", ", c.times)
	}
}

// Valid refuses a state with a single impossible entry.
func TestAlarmRefusesCorruptStates(t *testing.T) {
	a := NewAlarm(paceOf(50, 0, 2))
	s := a.NewState()
	for i := range 40 {
		a.Update(s, 9, Context{Change: i == 0}, nil)
	}
	expect.OK(t, a.Valid(s))
	for i := range s {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e9 + .5} {
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
	a := NewAlarm(paceOf(10, 0, 1))
	s := a.NewState()
	alarms, refuse := 0, false
	if n := testing.AllocsPerRun(1000, func() {
		if a.Update(s, 20, Context{Change: true}, func(AlarmKind) bool { return !refuse }).Alarm != NoAlarm {
			alarms++
		}
		refuse = !refuse
	}); n != 0 || alarms == 0 {
		t.Errorf("%v allocations in an update, %d alarms", n, alarms)
	}
}

// With a settling time of 0, the threshold is the usual one from the first observation on, and changes may alarm at
// once.
func TestAlarmWithoutSettling(t *testing.T) {
	for settling, want := range map[time.Duration]bool{DefaultSettling: false, 0: true} {
		a := NewAlarm(expect.Get(NewPace(500, time.Second, 5, settling))(t))
		s := a.NewState()
		if first := a.Update(s, 0, Context{}, nil); first.Threshold == math.Log10(500) != want {
			t.Errorf("settling %v: the threshold is %g", settling, first.Threshold)
		}
		if change := a.Update(s, math.NaN(), Context{Change: true}, nil); (change.Alarm != NoAlarm) != want {
			t.Errorf("settling %v: %+v", settling, change)
		}
	}
}
