package usual

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"hafvf/hafvf/expfam"
	"hafvf/internal/linear"
	"hafvf/internal/testing/expect"
)

// Wallace's approximation agrees with the exact tail.
func TestNormalEquivalent(t *testing.T) {
	normal := distuv.UnitNormal
	for _, nu := range []float64{2, 3, 5, 10, 30, 100, 1000, 10_000} {
		student := distuv.StudentsT{Sigma: 1, Nu: nu}
		for z := .1; z < 4; z += .1 {
			e := -student.Quantile(normal.CDF(-z))
			got := normalEquivalent(e, nu)
			off := .02
			if nu < 10 {
				off = .06 * z
			}
			if math.Abs(got-z) > off {
				t.Errorf("ν = %g: %.4f, want %.4f", nu, got, z)
			}
			if normalEquivalent(-e, nu) != got {
				t.Errorf("ν = %g: another value at −%g", nu, e)
			}
		}
	}
}

func TestMinusLog10Tail(t *testing.T) {
	// −log₁₀ P(Z > z) by Abramowitz and Stegun, table 26.2.
	for _, c := range [][2]float64{{0, .30103}, {5, 6.54265}, {10, 23.11805}, {50, 544.96634}, {100, 2173.87154}} {
		if got := minusLog10Tail(c[0]); math.Abs(got-c[1]) > 2e-5 {
			t.Errorf("%v at %v, want %v", got, c[0], c[1])
		}
	}
	if below, above := minusLog10Tail(math.Nextafter(25, 0)), minusLog10Tail(25); math.Abs(above-below) > 1e-5 {
		t.Errorf("a step at 25, from %v to %v", below, above)
	}
	last := -1.
	for z := -50.; z < 300; z += .25 {
		q := minusLog10Tail(z)
		if !(q >= last && q >= 0) || math.Signbit(q) {
			t.Fatalf("%v at %v, %v before", q, z, last)
		}
		last = q
	}
}

func TestSeasonal(t *testing.T) {
	seasons := []Season{{24 * time.Hour, 20}, {7 * time.Hour, 3}, {time.Second / 3, 2}}
	u := make([]float64, harmonics(seasons))
	rng := rand.New(rand.NewPCG(5, 5))
	for range 1000 {
		ns := rng.Int64N(2e18) // up to 2033
		seasonal(u, seasons, nil, time.Unix(0, ns))
		column := 0
		for _, s := range seasons {
			for k := 1; k <= s.Harmonics; k++ {
				// The exact turn of the k-th harmonic as a fraction.
				turn := float64(ns%int64(s.Period)*int64(k)%int64(s.Period)) / float64(s.Period)
				sin, cos := math.Sincos(2 * math.Pi * turn)
				if c, d := u[column+k-1], u[column+s.Harmonics+k-1]; math.Abs(c-cos) > 1e-12 || math.Abs(d-sin) > 1e-12 {
					t.Fatalf("%v, harmonic %d at %d ns: (%v, %v), want (%v, %v)", s.Period, k, ns, c, d, cos, sin)
				}
			}
			column += 2 * s.Harmonics
		}
	}
}

// The season follows the local time: it is the same at the same local time of another day or week, before and after a
// change of the clock, and before 1970.
func TestSeasonFollowsLocalTime(t *testing.T) {
	berlin := expect.Get(time.LoadLocation("Europe/Berlin"))(t)
	regressors := func(zone *time.Location, days int) []float64 {
		u := make([]float64, harmonics(DefaultSeasons()))
		seasonal(u, DefaultSeasons(), &Calendar{zone: zone}, time.Date(2026, 3, 25+days, 8, 30, 0, 0, berlin))
		return u
	}
	want, utc := regressors(berlin, 0), regressors(time.UTC, 0)
	for _, days := range []int{7, 7 * 30, 7 * 31, -7 * 4000} { // summer, its last week, winter, 1949
		for i, v := range regressors(berlin, days) {
			if math.Abs(v-want[i]) > 1e-12 {
				t.Errorf("%d days later regressor %d is %v, %v before", days, i, v, want[i])
			}
		}
	}
	if math.Abs(regressors(time.UTC, 7)[0]-utc[0]) < .01 {
		t.Error("in UTC the season goes with the clock of Berlin")
	}
	if math.Abs(utc[0]-want[0]) < .01 {
		t.Error("the zone makes no difference")
	}
}

// profileStream returns autoregressions with a daily cycle, at steps of 20 minutes and with a gap of two days in the
// middle.
func profileStream(seed uint64, n, dim int) (times []time.Time, ys [][]float64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	t := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	e := make([]float64, dim)
	for i := range n {
		if i == n/2 {
			t = t.Add(48 * time.Hour)
		}
		y := make([]float64, dim)
		for k := range y {
			e[k] = .7*e[k] + rng.NormFloat64()
			y[k] = e[k] + 2*math.Sin(2*math.Pi*float64(t.Unix())/86400+float64(k))
		}
		times, ys = append(times, t), append(ys, y)
		t = t.Add(20 * time.Minute)
	}
	return times, ys
}

// Streams that alternate in one profile, some of them at the same times, have the same states to the last bit as alone,
// and the same seasonal differences.
func TestTicks(t *testing.T) {
	c := DefaultProfile()
	together := profileOf(c)
	const rounds, steps = 5, 50
	times, ys := profileStream(11, rounds*steps, 4)
	ahead := 5 * time.Hour
	var alone [4]*Profile
	var states, own [4]State
	for k := range alone {
		alone[k] = profileOf(c)
		states[k], own[k] = together.NewState(), alone[k].NewState()
	}
	for round := range rounds {
		for k := range alone {
			for i := round * steps; i < (round+1)*steps; i++ {
				now := times[i]
				switch {
				case k == 2: // never at the times of the other streams
					now = now.Add(time.Minute)
				case k == 3 && i == steps+3: // at all times except one
					continue
				}
				y := ys[i][k : k+1]
				got, want := together.Update(states[k], anyPace, now, y), alone[k].Update(own[k], anyPace, now, y)
				if got.Score != want.Score || got.Mean[0] != want.Mean[0] || !slices.Equal(states[k], own[k]) {
					t.Fatalf("stream %d, observation %d: %+v, by itself %+v", k, i, got, want)
				}
				if got, want := together.Seasonal(states[k], nil, now, now.Add(ahead))[0], alone[k].Seasonal(own[k], nil, now, now.Add(ahead))[0]; i%7 == 0 && got != want {
					t.Fatalf("stream %d, observation %d: the seasons raise it by %g, by itself by %g", k, i, got, want)
				}
			}
		}
	}
}

// The order of the coordinates does not matter, and a copy of a coordinate changes nothing.
func TestProfileCoordinates(t *testing.T) {
	times, ys := profileStream(3, 600, 3)
	c := DefaultProfile()
	one := profileOf(c)
	c.Dim = 3
	three := profileOf(c)
	s, u, v, w := three.NewState(), three.NewState(), three.NewState(), one.NewState()
	different := false
	for i, y := range ys {
		want := three.Update(s, anyPace, times[i], y).Score
		if got := three.Update(u, anyPace, times[i], []float64{y[2], y[0], y[1]}).Score; got != want {
			t.Fatalf("observation %d: score %v in another order, want %v", i, got, want)
		}
		alone := one.Update(w, anyPace, times[i], y[:1]).Score
		if got := three.Update(v, anyPace, times[i], []float64{y[0], y[0], y[0]}).Score; got != alone {
			t.Fatalf("observation %d: score %v of a coordinate thrice, %v of it once", i, got, alone)
		}
		different = different || alone != want
	}
	if !different {
		t.Error("the other coordinates make no difference")
	}
}

// profileOfPairs returns a stream of n pairs, and the default profile for it.
func profileOfPairs(seed uint64, n int) (times []time.Time, ys [][]float64, p *Profile, s State) {
	times, ys = profileStream(seed, n, 2)
	c := DefaultProfile()
	c.Dim = 2
	p = profileOf(c)
	return times, ys, p, p.NewState()
}

// A missing observation changes nothing.
func TestProfileMissing(t *testing.T) {
	times, ys, p, s := profileOfPairs(4, 300)
	for i, y := range ys {
		p.Update(s, anyPace, times[i], y)
		before := slices.Clone(s)
		step := p.Update(s, anyPace, times[i].Add(time.Minute), []float64{y[0], math.NaN()})
		if !math.IsNaN(step.Score) || len(step.Views) != 3 || !math.IsNaN(step.Views[2].Surprise) {
			t.Fatalf("a missing observation has %+v", step)
		}
		if !equalBits(before, s) {
			t.Fatal("a missing observation changes the state")
		}
	}
}

// A shift of one coordinate in ten is detected, with and without dependence between them. Without a shift, alarms keep
// to the budget.
func TestProfileOfVectors(t *testing.T) {
	const dim, n, shift, streams = 10, 2600, 2500, 10
	for _, common := range []float64{0, .8} {
		p, a := profileOf(ProfileConfig{Dim: dim, Order: 3}), NewAlarm(anyPace)
		before, found := 0, 0
		for seed := range uint64(streams) {
			rng := rand.New(rand.NewPCG(seed, 10))
			s, u := p.NewState(), a.NewState()
			y := make([]float64, dim)
			alarms := 0
			for i := range n {
				shared := rng.NormFloat64()
				for k := range y {
					y[k] = math.Sqrt(common)*shared + math.Sqrt(1-common)*rng.NormFloat64()
				}
				if i >= shift {
					y[seed%dim] += 3
				}
				score := p.Update(s, anyPace, time.Time{}, y).Score
				if i < 50 {
					continue
				}
				if i == shift {
					before += alarms
					alarms = 0
				}
				if d := a.Update(u, score, Context{}, nil); d.Alarm != NoAlarm {
					alarms++
				}
			}
			if alarms > 0 {
				found++
			}
		}
		if most := streams * shift / DefaultBudget; float64(before) > most || found < streams-1 {
			t.Errorf("correlation %g: %d alarms before the shift, want at most %g; %d of %d found", common, before, most, found, streams)
		}
	}
}

// A constant stream raises no alarm until its first different value, which raises one.
func TestProfileOfConstants(t *testing.T) {
	for _, x := range []float64{0, 5, -1e300} {
		location, scale := expfam.LocationScale([]float64{x, x, x})
		p, a := profileOf(DefaultProfile()), NewAlarm(anyPace)
		s, u := p.NewState(), a.NewState()
		now := time.Unix(0, 0)
		for i := range 1000 {
			score := p.Update(s, anyPace, now, []float64{(x - location) / scale}).Score
			if d := a.Update(u, score, Context{}, nil); d.Alarm != NoAlarm || score > 1 {
				t.Fatalf("%g: %q at observation %d, score %g", x, d.Alarm, i, score)
			}
			now = now.Add(time.Minute)
		}
		score := p.Update(s, anyPace, now, []float64{(x + 10*scale - location) / scale}).Score
		if d := a.Update(u, score, Context{}, nil); d.Alarm != NoveltyAlarm {
			t.Errorf("%g: no alarm at ten times the scale, score %g", x, score)
		}
	}
}

// Finite input gives finite scores and thresholds: constants, huge and tiny values, in any order, at any times.
func TestProfileStaysFinite(t *testing.T) {
	value := rapid.OneOf(
		rapid.Float64(),
		rapid.Float64Range(-3, 3),
		rapid.SampledFrom([]float64{0, 1, -1, 1e300, -1e300, 1e160, 1e-300, 1e40, 3e19, 1e20, -1e20, 1e15, 1e8, 1e7, math.MaxFloat64, math.SmallestNonzeroFloat64}),
	)
	rapid.Check(t, func(t *rapid.T) {
		c := ProfileConfig{Dim: rapid.IntRange(1, 3).Draw(t, "dim"), Order: rapid.SampledFrom([]int{0, 1, 3, MaxOrder}).Draw(t, "order")}
		if rapid.Bool().Draw(t, "timed") {
			c.Seasons = DefaultSeasons()
		}
		pace := paceOf(rapid.SampledFrom([]float64{10, 700, 1e4}).Draw(t, "budget"), rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "pace"), AutoRest)
		p, a := profileOf(c), NewAlarm(pace)
		s, u := p.NewState(), a.NewState()
		now := time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "time"), 0)
		step := time.Duration(rapid.Int64().Draw(t, "step"))
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		y := make([]float64, p.dim)
		for range rapid.IntRange(1, 12).Draw(t, "blocks") {
			level := value.Draw(t, "level")
			noise := rapid.SampledFrom([]float64{0, 0, 1e-9, 1, 1e6, 1e19}).Draw(t, "noise")
			for range rapid.SampledFrom([]int{1, 3, 40}).Draw(t, "length") {
				for k := range y {
					y[k] = level + noise*rng.NormFloat64()
					if math.IsInf(y[k], 0) {
						y[k] = level
					}
				}
				out := p.Update(s, pace, now, y)
				threshold := a.Update(u, out.Score, Context{Change: rng.IntN(10) == 0}, nil).Threshold
				if !linear.Finite([]float64{out.Score, out.Fast, threshold}) || out.Score < 0 {
					t.Fatalf("score %v, threshold %v at %v", out.Score, threshold, y)
				}
				for _, v := range out.Views {
					if !(v.Surprise >= 0 && v.Surprise <= maxSurprise && v.Mean >= 0 && v.Mean <= maxSurprise*(1+1e-12)) {
						t.Fatalf("view %+v at %v", v, y)
					}
				}
				now = now.Add(step)
			}
			if err := p.Valid(s); err != nil {
				t.Fatalf("%v after %v", err, level)
			}
		}
	})
}

// Last values that are combinations of each other up to rounding do not amplify it: no entry of L, ζ or v is much
// larger than its inputs.
func TestProfileOfDependentValues(t *testing.T) {
	type block struct {
		level, noise float64
		length       int
	}
	p := profileOf(ProfileConfig{Order: MaxOrder})
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(1, seed))
		s := p.NewState()
		blocks := []block{{1, 1e6, 3}, {1, 0, 3}, {0, 1e19, 40}, {0, 1, 40}, {1e12, 1e3, 40}, {1e15, 1e-3, 40}}
		rng.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
		for _, b := range blocks {
			for range b.length {
				p.Update(s, anyPace, time.Time{}, []float64{b.level + b.noise*rng.NormFloat64()})
				for _, x := range append(slices.Clone(p.factor), p.zeta, p.v) {
					for _, v := range x {
						if !(math.Abs(v) < 1e3*maxStandardized) {
							t.Fatalf("seed %d, in %+v: entry %g", seed, b, v)
						}
					}
				}
			}
		}
	}
}

// Valid refuses a state with a single impossible entry.
func TestProfileRefusesCorruptStates(t *testing.T) {
	times, ys, p, s := profileOfPairs(8, 200)
	for i, y := range ys {
		p.Update(s, anyPace, times[i], y)
	}
	for i := range s {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e200, -1e200} {
			bad := slices.Clone(s)
			bad[i] = v
			if p.Valid(bad) == nil {
				t.Errorf("entry %d = %g passes", i, v)
			}
		}
	}
	if p.Valid(s[1:]) == nil {
		t.Error("a short state passes")
	}
}

func TestProfileConfigValid(t *testing.T) {
	for _, c := range []ProfileConfig{{}, {Dim: 4}, {Order: MaxOrder}, DefaultProfile(), {Calendar: &Calendar{zone: time.Local}}} {
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []ProfileConfig{{Dim: -1}, {Order: -1}, {Order: MaxOrder + 1}, {Seasons: []Season{{0, 3}}}, {Seasons: []Season{{-time.Hour, 3}}}, {Seasons: []Season{{time.Hour, 0}}}} {
		if c.Validate() == nil {
			t.Errorf("%+v passes", c)
		}
	}
}

// The default profile takes at most 2 kB per key, and an update allocates nothing.
func TestProfileCost(t *testing.T) {
	if n := 8 * (profileOf(DefaultProfile()).StateLen() + alarmLen); n > 2048 {
		t.Errorf("%d bytes per key", n)
	}
	if n := profileOf(ProfileConfig{}).StateLen(); n != 25 {
		t.Errorf("%d floats for the level view", n)
	}
	berlin := expect.Get(time.LoadLocation("Europe/Berlin"))(t)
	times, ys := profileStream(9, 201+ticks, 2)
	for _, c := range []ProfileConfig{{Dim: 2}, {Dim: 2, Seasons: DefaultSeasons(), Calendar: &Calendar{zone: berlin}, Order: 3}} {
		p := profileOf(c)
		s := p.NewState()
		i := 0
		update := func() {
			p.Update(s, anyPace, times[i], ys[i])
			i++
		}
		for range ticks { // each tick has its memory afterwards
			update()
		}
		if n := testing.AllocsPerRun(200, update); n != 0 {
			t.Errorf("%d views: %v allocations in an update", p.views, n)
		}
	}
}

func profileOf(c ProfileConfig) *Profile {
	p, err := NewProfile(c)
	if err != nil {
		panic(err)
	}
	return p
}

func equalBits(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(v, w float64) bool { return math.Float64bits(v) == math.Float64bits(w) })
}

// anyPace is the pace of a stream without times.
var anyPace = paceOf(DefaultBudget, 0, AutoRest)

func paceOf(budget float64, step time.Duration, rest int) Pace {
	p, err := NewPace(budget, step, rest, DefaultSettling)
	if err != nil {
		panic(err)
	}
	return p
}
