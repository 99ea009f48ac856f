package keyed

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hafvf/hafvf"
	"hafvf/internal/testing/expect"
)

// plainIncreases returns the increases of a counter by the start of their interval, and the intervals that raise no
// alarm. sorted are the events in order.
func plainIncreases(a *Aggregation, sorted []Observation, start func(time.Time) time.Time) (increases map[time.Time]float64, doubtful map[time.Time]bool) {
	sorted = slices.DeleteFunc(slices.Clone(sorted), func(o Observation) bool { return o.X[0][0] != o.X[0][0] })
	increases, doubtful = map[time.Time]float64{}, map[time.Time]bool{}
	ends, wrongBy := map[time.Time]time.Time{}, map[time.Time]float64{}
	for _, o := range sorted {
		ends[start(o.Time)] = o.Time
	}
	maximum := math.NaN()
	for i, o := range sorted {
		v, interval := o.X[0][0], start(o.Time)
		if i == 0 {
			maximum = v
			continue
		}
		before := sorted[i-1]
		prev := before.X[0][0]
		rise := max(v-maximum, 0)
		note := func(increases float64) { wrongBy[interval] += increases; doubtful[interval] = true }
		switch {
		case prev > 0 && v < prev/2:
			rise, maximum = max(v, 0), v
			note(rise)
		case v < prev:
			note(prev - v)
		case v > maximum && prev < maximum:
			note(maximum - prev)
		}
		maximum = max(maximum, v)
		if start(before.Time).Add(a.Every).Before(interval) {
			first := ends[interval].Add(-a.Every)
			rise *= float64(o.Time.Sub(first)) / float64(o.Time.Sub(before.Time))
		}
		increases[interval] += rise
	}
	for interval := range doubtful {
		doubtful[interval] = wrongBy[interval] >= increases[interval]/4
	}
	for interval := range increases {
		if a.Per > 0 {
			increases[interval] *= a.Per.Seconds() / a.Every.Seconds()
		}
	}
	return increases, doubtful
}

// A counter restarts, falls a little, pauses and has missing values. Its events arrive shuffled within wait, and the
// state is stored and restored between any two events. The increases equal those of a plain loop, with intervals closed
// by the key's own clock and by the watermark.
func TestIncrease(t *testing.T) {
	const wait = 40 * time.Second
	noise := rand.New(rand.NewPCG(3, 4))
	var events [2][]Observation // by coordinate
	eventTime, total := time.Date(2026, 1, 5, 16, 0, 30, 0, time.UTC), [2]float64{1e6, 50}
	for i := range 500 {
		eventTime = eventTime.Add(time.Duration(noise.ExpFloat64() * float64(25*time.Second)).Truncate(time.Millisecond))
		if i%90 == 80 {
			eventTime = eventTime.Add(time.Duration(noise.IntN(400)) * time.Second)
		}
		missing := noise.IntN(20) == 0
		for k := range total {
			total[k] += noise.ExpFloat64()
			switch noise.IntN(30) {
			case 0:
				total[k] *= .9 * noise.Float64()
			case 1:
				total[k] *= .9
			}
			x := total[k]
			if missing {
				x = math.NaN()
			}
			events[k] = append(events[k], Value(eventTime, "", x))
		}
	}
	type arrival struct {
		time time.Time
		o    Observation
	}
	var arrivals []arrival
	for i, o := range events[0] {
		vector := Observation{Time: o.Time, X: [][]float64{{o.X[0][0], events[1][i].X[0][0]}}, Shape: Vector}
		arrivals = append(arrivals, arrival{o.Time.Add(time.Duration(noise.Float64() * float64(wait))), vector})
	}
	slices.SortFunc(arrivals, func(a, b arrival) int { return a.time.Compare(b.time) })
	for _, watermark := range []bool{false, true} {
		a := AggregateConfig{Aggregation: Aggregation{Every: time.Minute, Value: Increase, Per: time.Second}, Wait: wait, Watermark: watermark}
		est := newEstimator(t, Config{Filter: hafvf.Config{Family: "mvnormal", Dim: 2}, Aggregate: &a})
		e := open(t, est, nil)
		var got []Observation
		for i := range arrivals {
			take(t, &e, &arrivals[i].o)
			if watermark {
				e.Release(arrivals[i].time.Add(-wait))
			}
			got = append(got, due(&e)...)
			e = open(t, est, e.append(nil))
		}
		if len(got) < 100 {
			t.Errorf("%d intervals are closed before the end", len(got))
		}
		e.End(eventTime)
		got = append(got, due(&e)...)
		if size := len(e.append(nil)); size > 250 {
			t.Errorf("a key without open intervals has %d bytes", size)
		}
		want := plainly("k", &a.Aggregation, events[0], eventTime)
		for i, other := range plainly("k", &a.Aggregation, events[1], eventTime) {
			w := &want[i]
			w.X[0], w.Shape, w.Partial = append(w.X[0], other.X[0]...), Vector, w.Partial || other.Partial
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateNaNs(), cmpopts.EquateApprox(1e-9, 1e-9), cmpopts.IgnoreFields(Observation{}, "Falls")); diff != "" {
			t.Errorf("watermark %t: %s", watermark, diff)
		}
	}
}

// Intervals without a value get no share of a rise. The next interval gets its share, rounded for a family of whole
// numbers. Many values in an interval need little memory.
func TestIncreaseOverGaps(t *testing.T) {
	start := time.Date(2026, 1, 5, 16, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		family string
		want   []string
	}{
		{"normal", []string{"16:00 NaN", "17:00 10", "18:00 NaN", "19:00 NaN", "20:00 10.33333", "21:00 4996"}},
		{"poisson", []string{"16:00 NaN", "17:00 10", "18:00 NaN", "19:00 NaN", "20:00 10", "21:00 4996"}},
	} {
		est := newEstimator(t, Config{Filter: hafvf.Config{Family: c.family}, Aggregate: &AggregateConfig{Aggregation: Aggregation{Every: time.Hour, Value: Increase}}})
		e := open(t, est, nil)
		give := func(minutes, x float64) {
			o := Value(start.Add(time.Duration(minutes*float64(time.Minute))), "", x)
			take(t, &e, &o)
		}
		give(0, 70)
		give(60, 80)
		give(240, 111)
		for i := range 5000 {
			give(300+float64(i)/100, 108+float64(i))
		}
		if size := len(e.append(nil)); size > 20*maxCounterValues {
			t.Errorf("%d bytes", size)
		}
		e.End(time.Time{})
		var got []string
		for _, o := range due(&e) {
			got = append(got, fmt.Sprintf("%s %.7g", o.Time.Format("15:04"), o.X[0][0]))
		}
		expect.Same(t, c.want, got, c.family)
	}
}

// A key that has expired does not count from its earlier value.
func TestIncreaseAfterExpiry(t *testing.T) {
	est := newEstimator(t, Config{
		Filter: hafvf.Config{Family: "normal"}, Expire: 24 * time.Hour,
		Aggregate: &AggregateConfig{Aggregation: Aggregation{Every: time.Hour, Value: Increase}},
	})
	e := open(t, est, nil)
	start := time.Date(2026, 1, 5, 16, 0, 0, 0, time.UTC)
	for i, hour := range []int{0, 1, 100, 101} {
		o := Value(start.Add(time.Duration(hour)*time.Hour), "", float64(10*i))
		take(t, &e, &o)
	}
	e.End(time.Time{})
	var got []float64
	for _, o := range due(&e) {
		if o.Events > 0 {
			got = append(got, o.X[0][0])
		}
	}
	if diff := cmp.Diff([]float64{math.NaN(), 10, math.NaN(), 10}, got, cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
}

// wrappedIncrease returns the sum of the increases of a counter with one value per poll, and its falls. It stores and
// restores the state after every seventh poll.
func wrappedIncrease(t *testing.T, a Aggregation, polls int, value func(poll int) float64) (sum float64, falls CounterFalls) {
	t.Helper()
	a.Every, a.Value = time.Minute, Increase
	est := newEstimator(t, Config{Filter: hafvf.Config{Family: "normal"}, Aggregate: &AggregateConfig{Aggregation: a}})
	e := open(t, est, nil)
	collect := func() {
		for _, o := range due(&e) {
			if !math.IsNaN(o.X[0][0]) {
				sum += o.X[0][0]
			}
			if counts := o.Falls; counts != nil {
				falls.Wraps, falls.Restarts, falls.Recovered = falls.Wraps+counts.Wraps, falls.Restarts+counts.Restarts, falls.Recovered+counts.Recovered
			}
		}
	}
	for i := range polls {
		o := Value(sunday.Add(time.Duration(i)*time.Minute), "", value(i))
		take(t, &e, &o)
		if collect(); i%7 == 0 {
			e = open(t, est, e.append(nil))
		}
	}
	e.End(time.Time{})
	collect()
	return sum, falls
}

// The increases of a counter that wraps every few polls equal those of a counter that does not wrap. Without a modulus,
// a fall is a restart if its rise would be too large.
func TestWraps(t *testing.T) {
	const polls = 2000
	for _, modulus := range []float64{1 << 32, 1 << 64, 1000} {
		for _, every := range []float64{50, 20, 10, 6, 3, 1.8} {
			rng := rand.New(rand.NewPCG(1, uint64(every)))
			total, first := 0., 0.
			var a Aggregation
			if modulus == 1000 {
				a.Modulus = modulus
			}
			sum, falls := wrappedIncrease(t, a, polls, func(i int) float64 {
				if total += modulus / every * (.9 + .2*rng.Float64()); i == 0 {
					first = total
				}
				return math.Mod(total, modulus)
			})
			tolerance, restarts := 1e-9, 0
			if every < 2 && a.Modulus == 0 { // the first fall is before the first rise
				tolerance, restarts = 1e-3, 1
			}
			if ratio := sum / (total - first); math.Abs(ratio-1) > tolerance || falls.Restarts != restarts || falls.Wraps < int(.8*polls/every) {
				t.Errorf("modulus %g, every %g polls: %g of the true increase, %+v", modulus, every, ratio, falls)
			}
		}
	}
	daily := func(i int) float64 { return float64(i%1440) * 3 }
	for name, c := range map[string]struct {
		value func(i int) float64
		want  CounterFalls
		most  float64
	}{
		"a counter of 64 bits that restarts": {func(i int) float64 {
			if i >= 1000 {
				i -= 1000
			}
			return 3e6 * float64(i)
		}, CounterFalls{Restarts: 1}, 6e9},
		"a meter that restarts every day": {daily, CounterFalls{Restarts: 1}, 6000},
		"two counters under one name":     {func(i int) float64 { return float64(i%2)*1e6 + float64(i) }, CounterFalls{Restarts: 999, Recovered: 999}, math.Inf(1)},
	} {
		sum, falls := wrappedIncrease(t, Aggregation{}, polls, c.value)
		if falls != c.want || sum > c.most {
			t.Errorf("%s: %+v, rises by %g", name, falls, sum)
		}
	}
}

// An increase raises no alarm if a fall and the rise after it are a quarter of it or more. Smaller falls do not matter.
func TestSmallFallsDoNotMatter(t *testing.T) {
	for fall, partial := range map[float64]bool{.1: false, .45: false, .55: true} {
		increase := &AggregateConfig{Aggregation: Aggregation{Every: time.Minute, Value: Increase}}
		est := newEstimator(t, Config{Filter: hafvf.Config{Family: "normal"}, Aggregate: increase})
		e := open(t, est, nil)
		var got []Observation
		for i, v := range []float64{10, 10, 11, 12, 12 - fall, 15, 16, 16} {
			o := Value(time.Unix(int64(20*i), 0), "", v)
			take(t, &e, &o)
			got = append(got, due(&e)...)
		}
		if o := got[1]; o.X[0][0] != 4 || o.Partial != partial {
			t.Errorf("a fall of %g: %+v", fall, o)
		}
	}
}
