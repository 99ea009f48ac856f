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
			lasting := rapid.Bool().Draw(t, "lasting")
			for range length {
				q, change := adversaries[name](rng, pace, s)
				var d Decision
				if lasting {
					d = a.UpdateLasting(s, q, Context{change, rng.IntN(3) - 1, rng.IntN(50) == 0, rng.IntN(9) == 0}, nil)
				} else {
					d = a.Update(s, q, change, nil)
				}
				n++
				if d.Alarm != NoAlarm {
					alarms++
				}
				if rng.IntN(8) == 0 && a.Charge(s) {
					alarms++
				}
				if bound := float64(n)/budget + headroom + 1; float64(alarms) > bound {
					t.Fatalf("%d alarms in %d observations at a budget of %g, at most %g are due", alarms, n, budget, bound)
				}
				if most := math.Log10(budget) + max((headroom+1)*debtSlope+firstDays, maxRank); !(d.Threshold >= math.Log10(budget) && d.Threshold <= most) {
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
			if a.Update(s, a.Update(u, 0, false, nil).Threshold+c.over, rareCommit(a.pace, s), nil).Alarm != NoAlarm {
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
			if a.Update(s, q, change, nil).Alarm != NoAlarm {
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

// A change alarms only with an unusual score among the last 61, not in the first half day, and not within 60
// observations of an alarm, even if the rest is shorter.
func TestAlarmChangeConditions(t *testing.T) {
	for _, c := range []struct {
		slow       bool
		scale      float64 // score in log₁₀ P
		sinceScore int     // observations from the score to the commit
		commit     int     // observation of the commit
		sinceAlarm int     // observations from a novelty alarm to the commit; 0 for none
		want       AlarmKind
	}{
		{false, .5, 0, 900, 0, ChangeAlarm},
		{false, .5, 60, 900, 0, ChangeAlarm},
		{false, .5, 61, 900, 0, NoAlarm},
		{false, .49, 0, 900, 0, NoAlarm},
		{false, .5, 0, 720, 0, ChangeAlarm},
		{false, .5, 0, 719, 0, NoAlarm},
		{false, .5, 0, 900, 61, ChangeAlarm},
		{false, .5, 0, 900, 60, NoAlarm},
		{true, .99, 0, 900, 0, NoAlarm},
		{true, 1, 60, 900, 100, ChangeAlarm},
		{true, 1, 60, 900, 59, NoAlarm},
		{false, math.NaN(), 0, 900, 0, ChangeAlarm}, // no score
	} {
		pace := paceOf(2000, time.Minute, 3)
		if c.slow {
			pace = paceOf(100, time.Minute, 3)
		}
		a := NewAlarm(pace)
		s := a.NewState()
		for i := range c.commit + 1 {
			q := 0.
			if i == c.commit-c.sinceScore {
				q = c.scale * pace.level
			}
			if c.sinceAlarm > 0 && i == c.commit-c.sinceAlarm {
				q = 100
			}
			d := a.Update(s, q, i == c.commit, nil)
			if i == c.commit && d.Alarm != c.want {
				t.Errorf("%+v: %q", c, d.Alarm)
			}
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
		got := a.Update(s, q, change, func(kind AlarmKind) bool {
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
		if d := a.Update(u, q, change && commit, nil); d != got || !equalBits(s, u) {
			t.Fatalf("observation %d: %+v, state %v; want %+v, state %v", i, got, s, d, u)
		}
	}
	if refused == 0 || muted == 0 {
		t.Fatalf("%d refused, %d muted", refused, muted)
	}
}

// Debt mutes an alarm that would be raised without debt: once per rest, and never in a rest, below the higher threshold
// of the first days, or if permit refuses the alarm.
func TestAlarmMuted(t *testing.T) {
	const rest = 10
	a := NewAlarm(paceOf(1e6, time.Minute, rest))
	none := func(AlarmKind) bool { return false }
	s := a.NewState()
	s[atCount] = 1e5 // after the first days
	step := func(q float64, change bool, permit func(AlarmKind) bool) Decision {
		return a.Update(s, q, change, permit)
	}
	if d := step(6.4, false, nil); d.Alarm != NoveltyAlarm || d.Muted {
		t.Fatalf("%+v at first", d)
	}
	for i := range rest {
		if d := step(100, i == 0, nil); d.Alarm != NoAlarm || d.Muted {
			t.Fatalf("%+v in the rest, after %d", d, i)
		}
	}
	if d := step(6.4, false, none); d.Muted {
		t.Fatal("what permit refuses is muted")
	}
	var muted []int
	for i := range 30 {
		if d := step(6.4, false, nil); d.Muted {
			muted = append(muted, i)
		} else if d.Alarm != NoAlarm {
			t.Fatalf("%+v in debt", d)
		}
	}
	expect.Same(t, []int{0, 11, 22}, muted, "muted are each after a rest")
	if d := step(5.9, false, nil); d.Muted {
		t.Error("a score below the threshold without debt is muted")
	}
	// Above the headroom, debt mutes the largest score, and changes.
	s[atDebt] = 8.5
	for range 61 {
		step(math.NaN(), false, nil)
	}
	if d := step(100, false, nil); d.Alarm != NoAlarm || !d.Muted {
		t.Errorf("%+v of the largest score", d)
	}
	for range rest {
		step(math.NaN(), false, nil)
	}
	if d := step(math.NaN(), true, nil); d.Alarm != NoAlarm || !d.Muted {
		t.Errorf("%+v of a change", d)
	}
	s = a.NewState()
	if d := step(6.4, false, nil); d.Muted {
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
		a.Update(s, 9, i == 0, nil)
	}
	expect.OK(t, a.Valid(s))
	for i := range s {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e9 + .5} {
			bad := slices.Clone(s)
			bad[i] = v
			if a.Valid(bad) == nil && !(i == atSide && v == -1) {
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
		if a.Update(s, 20, true, func(AlarmKind) bool { return !refuse }).Alarm != NoAlarm {
			alarms++
		}
		a.UpdateLasting(s, 20, Context{Change: true, Side: 1}, func(AlarmKind) bool { return !refuse })
		refuse = !refuse
	}); n != 0 || alarms == 0 {
		t.Errorf("%v allocations in an update, %d alarms", n, alarms)
	}
}

// Alarms during a lasting alarm are not raised and cost nothing, with the exceptions of UpdateLasting; alarms after its
// end are.
func TestAlarmUpdateLasting(t *testing.T) {
	const rest = 10 // so that five usual observations end it
	usually := slices.Repeat([]float64{.5}, 5)
	unusually := slices.Repeat([]float64{5}, 40)
	for _, c := range []struct {
		name   string
		q      []float64 // scores after the alarm, whose score is 5
		side   int       // side of these scores; the alarm has 1
		change bool      // commits with these scores
		alarms int
		ended  bool
		rests  int // counted as resting
	}{
		{name: "it goes on", q: unusually},
		{name: "and commits", q: unusually, change: true},
		{name: "usual now and then", q: slices.Repeat([]float64{.5, .5, .5, .5, 1, 5}, 20), rests: 1},
		{name: "usual for a rest now and then", q: slices.Repeat(slices.Concat([]float64{5}, slices.Repeat([]float64{.5, .5, .5, .5, 1}, 2)), 3), rests: 2},
		{name: "usual", q: usually, ended: true},
		{name: "no scores", q: slices.Repeat([]float64{math.NaN()}, 5), ended: true},
		{name: "usual, and again", q: slices.Concat(usually, usually, usually, []float64{5}), alarms: 1, ended: true},
		{name: "much worse", q: slices.Concat(unusually, []float64{8}, unusually), alarms: 1},
		{name: "much worse in the rest, and then as that", q: slices.Concat([]float64{8}, unusually, []float64{10})},
		{name: "and again at once, as the rest ends with it", q: slices.Concat(usually, []float64{5}), alarms: 1, ended: true},
		{name: "back, and much worse in the rest", q: []float64{.5, .5, 8}, alarms: 1},
		{name: "back, and worse in the rest", q: []float64{.5, .5, 7.9}, rests: 1},
		{name: "one that is usual, and much worse in the rest", q: []float64{.5, 8}, alarms: 1},
		{name: "back, and the other side in the rest", q: []float64{.5, .5, 4.5}, side: -1, alarms: 1},
		{name: "the other side at once, less", q: []float64{4.5}, side: -1, rests: 1},
		{name: "the other side, as unusual", q: unusually, side: -1, alarms: 1},
		{name: "no side", q: unusually, side: 0},
	} {
		a := NewAlarm(paceOf(100, time.Minute, rest))
		s := a.NewState()
		for range 6000 { // over four days
			a.UpdateLasting(s, 0, Context{}, nil)
		}
		if a.UpdateLasting(s, 5, Context{Side: 1}, nil).Alarm == NoAlarm {
			t.Fatal("no alarm")
		}
		alarms, muted, rests, ended := 0, 0, 0, false
		for _, q := range c.q {
			d := a.UpdateLasting(s, q, Context{Change: c.change, Side: c.side}, nil)
			if d.Alarm != NoAlarm {
				alarms++
			}
			if d.Muted {
				muted++
			}
			if d.Resting {
				rests++
			}
			ended = ended || d.Ended
		}
		if alarms != c.alarms || ended != c.ended || muted != 0 || rests != c.rests {
			t.Errorf("%s: %d alarms, %d muted, %d resting, ended %v; want %d, 0, %d, %v", c.name, alarms, muted, rests, ended, c.alarms, c.rests, c.ended)
		}
		if lasts := s[atUnusual] > 0; lasts == ended && c.alarms == 0 {
			t.Errorf("%s: lasts %v, ended %v", c.name, lasts, ended)
		}
	}
}

// With a settling time of 0, the threshold is the usual one from the first observation on, and changes may alarm at
// once.
func TestAlarmWithoutSettling(t *testing.T) {
	for settling, want := range map[time.Duration]bool{DefaultSettling: false, 0: true} {
		a := NewAlarm(expect.Get(NewPace(500, time.Second, 5, settling))(t))
		s := a.NewState()
		if first := a.Update(s, 0, false, nil); first.Threshold == math.Log10(500) != want {
			t.Errorf("settling %v: the threshold is %g", settling, first.Threshold)
		}
		if change := a.Update(s, 2.6, true, nil); (change.Alarm != NoAlarm) != want {
			t.Errorf("settling %v: %+v", settling, change)
		}
	}
}
