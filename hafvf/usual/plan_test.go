package usual

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hafvf/internal/compact"
	"hafvf/internal/testing/expect"
)

// A planStream is a profile with a plan, with a fixed step from a Monday on.
type planStream struct {
	p    *Profile
	s    State
	plan Plan
	pace Pace
	step time.Duration
	n    int
}

func newPlanStream(c ProfileConfig, step time.Duration) *planStream {
	p := profileOf(c)
	s := p.NewState()
	return &planStream{p: p, s: s, plan: p.NewPlan(s), pace: paceOf(BudgetOver(DefaultBudgetTime, step), step, AutoRest), step: step}
}

func (st *planStream) time() time.Time {
	return time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC).Add(time.Duration(st.n) * st.step)
}

func (st *planStream) take(e Evidence, y ...float64) ProfileStep {
	d := st.p.UpdatePlan(st.s, st.plan, st.pace, st.time(), y, e)
	st.n++
	return d
}

// expected returns the expected mean and standard deviation at each step of a number of weeks, for values from draw.
func expected(c ProfileConfig, step time.Duration, weeks int, draw func(t time.Time, noise float64) float64) (mean, sd []float64) {
	rng := rand.New(rand.NewPCG(3, 9))
	st := newPlanStream(c, step)
	for st.n < weeks*int(168*time.Hour/step) {
		d := st.take(Evidence{}, draw(st.time(), rng.NormFloat64()))
		mean, sd = append(mean, d.Mean[0]), append(sd, d.SD[0])
	}
	return mean, sd
}

// A weekly deviation is not learned at its first time, known at the third, and forgotten after it ends. A nightly
// deviation is known at the third night. A plan by the day has 24 hours.
func TestPlanOffsets(t *testing.T) {
	sunday := func(start, end int) func(time.Time, float64) float64 {
		return func(now time.Time, noise float64) float64 {
			week := planWeek(now)
			if now.Weekday() == time.Sunday && now.Hour() == 3 && week >= start && week < end {
				noise += 12
			}
			return noise
		}
	}
	hour := func(week int) int { return week*168 + 6*24 + 3 }
	for _, c := range []struct {
		name       string
		start, end int
		week       int
		low, high  float64
	}{
		{"the first time", 4, 9, 4, -3, 3},
		{"the second time", 4, 9, 5, -3, 4},
		{"the third time", 4, 9, 6, 6, 14},
		{"the fifth time", 4, 9, 8, 9, 14},
		{"it came once", 4, 5, 6, -2, 2},
		{"three weeks after the last time", 4, 9, 11, -2, 4},
	} {
		mean, _ := expected(DefaultProfile(), time.Hour, 12, sunday(c.start, c.end))
		if m := mean[hour(c.week)]; m < c.low || m > c.high {
			t.Errorf("%s: usual is %.3g, want %g to %g", c.name, m, c.low, c.high)
		}
		if m := mean[hour(c.week)+1]; math.Abs(m) > 2 {
			t.Errorf("%s: usual is %.3g an hour later", c.name, m)
		}
	}
	nightly := func(now time.Time, noise float64) float64 {
		if now.Hour() == 2 && now.Day() >= 23 {
			noise += 15
		}
		return noise
	}
	for name, seasons := range map[string][]Season{"week": DefaultSeasons(), "day": DefaultSeasons()[:1]} {
		c := DefaultProfile()
		c.Seasons = seasons
		mean, _ := expected(c, time.Hour, 5, nightly)
		night := func(n int) float64 { return mean[(21+n)*24+2] }
		if night(0) > 3 || night(1) > 5 || night(3) < 6 || night(7) < 9 {
			t.Errorf("a season of a %s: usual in the nights of an event is %.3g, %.3g, %.3g, %.3g, and in the eighth %.3g", name, night(0), night(1), night(2), night(3), night(7))
		}
	}
	for name, c := range map[string]ProfileConfig{"no seasons": {Order: 3}, "indicators": {Seasons: DefaultSeasons(), Order: 3, Indicators: true}} {
		st := newPlanStream(c, time.Hour)
		for range 500 {
			st.take(Evidence{}, 1)
		}
		if st.plan[0].table.slot != 0 {
			t.Errorf("%s: there is a plan by the hour", name)
		}
	}
}

// planWeek returns the number of weeks from the start of a planStream to t.
func planWeek(t time.Time) int {
	return int(t.Sub(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)) / (168 * time.Hour))
}

// Shifts that alternate by the week are known after four weeks, also if the plan starts to alternate later. An outlier
// of the previous fortnight is not learned. After the shifts stop alternating, they are known again after nine weeks.
func TestPlanAlternatingWeeks(t *testing.T) {
	for _, start := range []int{0, 3, 6} {
		level := func(now time.Time) float64 {
			early, late := now.Hour() >= 6 && now.Hour() < 14, now.Hour() >= 14 && now.Hour() < 22
			week := planWeek(now)
			odd := week%2 == 1 && week >= start && week < start+8
			if now.Weekday() != time.Saturday && now.Weekday() != time.Sunday && (early && !odd || late && odd) {
				return 20
			}
			return 0
		}
		mean, _ := expected(DefaultProfile(), time.Hour, start+18, func(now time.Time, noise float64) float64 {
			if planWeek(now) == start+5 && now.Weekday() == time.Sunday && now.Hour() == 12 {
				noise += 30
			}
			return level(now) + noise
		})
		largest := func(first, end int) (most float64) {
			for i := first * 168; i < end*168; i++ {
				now := time.Date(2026, 3, 2, i, 0, 0, 0, time.UTC)
				most = max(most, math.Abs(mean[i]-level(now)))
			}
			return most
		}
		if alternating, after := largest(start+4, start+8), largest(start+17, start+18); alternating > 10 || after > 8 {
			t.Errorf("from week %d: usual deviates by up to %.3g from the fifth week on, and by %.3g after the end", start, alternating, after)
		} else {
			t.Logf("from week %d: %.3g, %.3g", start, alternating, after)
		}
	}
}

// Holidays differ from the weekday that they are like in the evening: this is known at the third holiday. Sundays are
// still known after it.
func TestPlanHolidays(t *testing.T) {
	c := DefaultProfile()
	c.Calendar = expect.Get(NewCalendar(nil, Holidays{Dates: []string{"2026-04-02", "2026-04-21", "2026-05-08", "2026-05-20"}, Like: time.Sunday}))(t)
	work := func(now time.Time) bool {
		switch now.Weekday() {
		case time.Saturday:
			return false
		case time.Sunday:
			return now.Hour() >= 22
		case time.Friday:
			return now.Hour() < 22
		}
		return true
	}
	mean, _ := expected(c, time.Hour, 13, func(now time.Time, noise float64) float64 {
		if work(now) && c.Calendar.shift(now) == 0 {
			return 20 + noise
		}
		return noise
	})
	at := func(month time.Month, day int) float64 {
		return mean[int(time.Date(2026, month, day, 22, 0, 0, 0, time.UTC).Sub(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC))/time.Hour)]
	}
	if third, fourth, sunday := at(5, 8), at(5, 20), at(5, 10); third > 4 || fourth > 4 || sunday < 16 {
		t.Errorf("at 22:00 usual is %.3g and %.3g on holidays, want 0, and %.3g on a Sunday, want 20", third, fourth, sunday)
	}
}

// If hours have ten times the spread of others, the spread is known within a factor of 2.5 after seven weeks. Chance is
// no difference: the spread of similar hours agrees within a tenth.
func TestPlanHours(t *testing.T) {
	night := func(now time.Time) bool { return now.Hour() < 8 || now.Hour() >= 20 }
	_, sd := expected(DefaultProfile(), time.Hour, 8, func(now time.Time, noise float64) float64 {
		if night(now) {
			return 10 * noise
		}
		return noise
	})
	last := sd[7*168:]
	for h, s := range last[24:48] { // a Tuesday
		want := 1.
		if h < 8 || h >= 20 {
			want = 10
		}
		if s < want/2.5 || s > 2.5*want {
			t.Errorf("%d:00 scatters by %.3g, want %g", h, s, want)
		}
	}
	for _, step := range []time.Duration{10 * time.Minute, time.Hour} {
		_, sd = expected(DefaultProfile(), step, 8, func(_ time.Time, noise float64) float64 { return noise })
		last = sd[len(sd)-int(168*time.Hour/step):]
		if low, most := slices.Min(last), slices.Max(last); most > 1.1*low {
			t.Errorf("every %v: hours with equal spread have %.3g to %.3g", step, low, most)
		}
	}
}

// Any days of the week may be free: if they have ten times the spread, the spread is at least 1.5 times as large on
// each of them as on any other day after eight weeks.
func TestPlanFreeDays(t *testing.T) {
	for _, free := range [][]time.Weekday{{time.Friday, time.Saturday}, {time.Saturday, time.Sunday}, {time.Wednesday}} {
		_, sd := expected(DefaultProfile(), time.Hour, 9, func(now time.Time, noise float64) float64 {
			switch work := now.Hour() >= 8 && now.Hour() < 16; {
			case slices.Contains(free, now.Weekday()):
				return 10 * noise
			case work:
				return 50 + noise
			}
			return noise
		})
		minFree, maxWork := math.Inf(1), 0.
		for day := range 7 {
			s := sd[(8*7+day)*24+12]
			if slices.Contains(free, time.Weekday((day+1)%7)) {
				minFree = min(minFree, s)
			} else {
				maxWork = max(maxWork, s)
			}
		}
		if t.Logf("free on %v: at least %.3g, else at most %.3g", free, minFree, maxWork); minFree < 1.5*maxWork {
			t.Errorf("free on %v: the spread is at least %.3g, on other days at most %.3g", free, minFree, maxWork)
		}
	}
}

// Steps of less than a quarter of an hour have no offsets, and steps of less than ten minutes or more than six hours
// have no hours.
func TestPlanSteps(t *testing.T) {
	for step, want := range map[time.Duration][2]bool{
		time.Minute: {false, false}, 5 * time.Minute: {false, false}, 10 * time.Minute: {true, false}, 15 * time.Minute: {true, true},
		6 * time.Hour: {true, true}, 8 * time.Hour: {false, false}, 24 * time.Hour: {false, false},
	} {
		if p := paceOf(1000, step, AutoRest); p.hours != want[0] || p.offsets != want[1] {
			t.Errorf("every %v: hours %v, offsets %v", step, p.hours, p.offsets)
		}
	}
}

// The recent spread follows a change within a factor of 1.5 after 200 values. A level is not spread.
func TestPlanRecentSpread(t *testing.T) {
	for _, factor := range []float64{10, 3, 1, .2} {
		logs, keys := 0., 12
		for k := range keys {
			rng := rand.New(rand.NewPCG(uint64(k), 4))
			st := newPlanStream(DefaultProfile(), time.Hour)
			var d ProfileStep
			for i := range 920 {
				y := rng.NormFloat64()
				if i >= 720 {
					y *= factor
				}
				d = st.take(Evidence{}, y)
			}
			logs += math.Log(d.SD[0] * d.RecentSpread[0] / factor)
		}
		if off := math.Exp(logs / float64(keys)); off < 1/1.5 || off > 1.5 {
			t.Errorf("scatter × %g: shown is %.2f of it after 200 values", factor, off)
		} else {
			t.Logf("scatter × %g: shown is %.2f of it after 200 values", factor, off)
		}
	}
	rng := rand.New(rand.NewPCG(1, 4))
	st := newPlanStream(ProfileConfig{Order: 3}, 0) // also without times
	for i := range 2000 {
		y := rng.NormFloat64()
		if i >= 1500 && i < 1600 {
			y += 8
		}
		if d := st.take(Evidence{}, y); i >= 1500 && i < 1600 && d.RecentSpread[0] > 1.4 {
			t.Errorf("a level: values scatter %.2f times as always after %d", d.RecentSpread[0], i-1500)
		}
	}
}

// An average of many events has a smaller spread than one of few, and a share of two trials is not a surprise.
func TestPlanEvents(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 2))
	st := newPlanStream(DefaultProfile(), time.Hour)
	var few, many float64
	for i := range 1500 {
		n := 2.
		if i%24 >= 8 && i%24 < 20 {
			n = 200
		}
		d := st.take(Evidence{Events: n}, rng.NormFloat64()/math.Sqrt(n))
		if n == 2 {
			few = d.SD[0]
		} else {
			many = d.SD[0]
		}
	}
	if ratio := few / many; ratio < 5 || ratio > 20 {
		t.Errorf("averages of 2 scatter %.3g times as those of 200", ratio)
	}
	share := func(k, n float64) (e Evidence, y float64) {
		return Evidence{Events: n, Share: true, Location: .02, Scale: .01}, (k/n - .02) / .01
	}
	shares := newPlanStream(DefaultProfile(), time.Hour)
	shares.plan.Prime(20, 1000, 2e4)
	for range 500 {
		e, y := share(math.Round(40+6*rng.NormFloat64()), 2000)
		shares.take(e, y)
	}
	for _, c := range []struct {
		k, n  float64
		alarm bool
	}{{1, 2, false}, {2, 2, false}, {100, 2000, true}} {
		s, plan := slices.Clone(shares.s), slices.Clone(shares.plan)
		e, y := share(c.k, c.n)
		d := shares.p.UpdatePlan(s, plan, shares.pace, shares.time(), []float64{y}, e)
		if (d.Score > 2.2) != c.alarm {
			t.Errorf("%g of %g scores %.3g", c.k, c.n, d.Score)
		}
	}
}

// A plan is decoded to the same bits at any time, and continues identically. Other bytes are refused, or decoded to a
// plan that can continue.
func TestPlanEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		step := rapid.SampledFrom([]time.Duration{time.Minute, 10 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 24 * time.Hour}).Draw(t, "step")
		c := DefaultProfile()
		c.Dim = rapid.IntRange(1, 2).Draw(t, "dim")
		c.Seasons = DefaultSeasons()[:rapid.IntRange(0, 2).Draw(t, "seasons")]
		c.Calendar, _ = NewCalendar(nil, Holidays{Dates: []string{"2026-03-05", "2026-03-25", "2026-04-10"}, Like: time.Saturday})
		st := newPlanStream(c, step)
		level := rapid.SampledFrom([]float64{0, 20}).Draw(t, "level")
		size := rapid.SampledFrom([]float64{1, 1e8, 1e20}).Draw(t, "size")
		events := rapid.SampledFrom([]float64{0, 1, 1e6}).Draw(t, "events")
		take := func(st *planStream, rng *rand.Rand) ProfileStep {
			y := make([]float64, c.Dim)
			for i := range y {
				y[i] = rng.NormFloat64()
				if st.time().Hour() >= 12 != (planWeek(st.time())%2 == 0) {
					y[i] += level
				}
				if rng.IntN(50) == 0 {
					y[i] *= size
				}
			}
			return st.take(Evidence{Events: events * float64(rng.IntN(100)), Share: events == 1, Location: .5, Scale: .1}, y...)
		}
		for range rapid.IntRange(0, 700).Draw(t, "n") {
			take(st, rng)
		}
		b := compact.Encode(nil, st.plan, st.p.planForm(st.s))
		read := *st
		read.s = slices.Clone(st.s)
		expect.OK(t, compact.Decode(b, &read.plan, st.p.planForm(st.s)))
		seed := rng.Uint64()
		go1, go2 := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 1))
		for range 60 {
			if d, want := take(&read, go1), take(st, go2); d.Score != want.Score || d.RecentSpread[0] != want.RecentSpread[0] {
				t.Fatalf("%+v, want %+v", d, want)
			}
		}
		expect.Same(t, compact.Encode(nil, st.plan, st.p.planForm(st.s)), compact.Encode(nil, read.plan, read.p.planForm(read.s)))
		if len(b) > 0 {
			bad := slices.Clone(b)
			for range 1 + rng.IntN(3) {
				bad[rng.IntN(len(bad))] = byte(rng.Uint32())
			}
			if compact.Decode(bad[:len(bad)-rng.IntN(2)], &st.plan, st.p.planForm(st.s)) == nil {
				for range 60 {
					if d := take(st, rng); math.IsNaN(d.Score) {
						t.Fatalf("a plan of changed bytes gives %+v", d)
					}
				}
			}
		}
	})
}

// The rank of peaks equals the rank of a list of episodes, each of them decayed separately.
func TestPeaks(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	pace := paceOf(2016, 5*time.Minute, 60)
	s := make(peaks, peaksLen)
	type episode struct{ peak, counted float64 }
	var past []episode
	var running episode // its count is its last observation
	v := 1 - 1/(8*2016.)
	high := 0
	for n := 1.; n <= 30_000; n++ {
		q := rng.ExpFloat64() * .4
		if rng.IntN(300) == 0 {
			q = 50 * rng.Float64()
		}
		allowed := 0.
		for i := 0.; i < n; i++ {
			if i > 60_000 {
				break
			}
			allowed += math.Pow(v, i)
			if n > 1000 && math.Mod(n, 997) != 0 {
				break
			}
		}
		if n <= 1000 || math.Mod(n, 997) == 0 {
			want := 0.
			for i := len(peakEdges) - 1; i >= 0; i-- {
				reached := 0.
				for _, e := range past {
					if e.peak >= peakEdges[i] {
						reached += math.Pow(v, n-e.counted)
					}
				}
				if reached > 3*allowed/2016 {
					if want = 60; i+1 < len(peakEdges) {
						want = peakEdges[i+1]
					}
					break
				}
			}
			if got := s.rank(n, &pace); got != want {
				t.Fatalf("observation %g: rank %g, want %g", n, got, want)
			}
			if want > 0 {
				high++
			}
		}
		if running.peak > 0 && n-running.counted > 60 {
			past = append(past, episode{running.peak, n})
			running = episode{}
		}
		if q >= 2 {
			running = episode{max(running.peak, q), n}
		}
		s.record(n, q, &pace)
		if n == 20_000 {
			out := compact.Codec{Writes: true}
			s.form(&out)
			read := make(peaks, peaksLen)
			read.form(&compact.Codec{Reader: out.Reader})
			expect.Same(t, s, read)
			s = read
		}
		if !s.valid(n) {
			t.Fatalf("observation %g: %v", n, s)
		}
	}
	if high == 0 {
		t.Error("no rank is above zero")
	}
}
