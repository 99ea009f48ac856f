package keyed

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"hafvf/hafvf"
	"hafvf/internal/testing/expect"
)

// The sum is the exact sum, rounded once, for any order.
func TestExactSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e300, 1e300), 1, 40).Draw(t, "values")
		values = append(values, rapid.SliceOfN(rapid.Float64Range(-1, 1), 1, 40).Draw(t, "small")...)
		exact := new(big.Float).SetPrec(4000)
		var s exactSum
		for _, v := range values {
			exact.Add(exact, big.NewFloat(v))
			s.add(v)
		}
		if want, _ := exact.Float64(); s.value() != want {
			t.Fatalf("%v, want %v", s.value(), want)
		}
	})
	var s exactSum
	for _, v := range []float64{math.MaxFloat64, math.MaxFloat64, -math.MaxFloat64} {
		s.add(v)
	}
	if !math.IsInf(s.value(), 1) {
		t.Errorf("a sum that overflows is %v", s.value())
	}
}

// plainly computes the observations of a key's events by sorting and grouping. It returns the observations of all
// intervals from the first event to the interval that contains last.
func plainly(key string, a *Aggregation, events []Observation, last time.Time) (observations []Observation) {
	events = slices.Clone(events)
	slices.SortStableFunc(events, Observation.Compare)
	every := int64(a.Every.Seconds())
	start := func(t time.Time) time.Time { return time.Unix(t.Unix()/every*every, 0).UTC() }
	increases, doubtful := plainIncreases(a, events, start)
	for intervalStart := start(events[0].Time); !intervalStart.After(last); intervalStart = intervalStart.Add(a.Every) {
		var xs []float64
		n := 0
		for _, e := range events {
			if start(e.Time).Equal(intervalStart) {
				n++
				if v := e.X[0][0]; v == v {
					xs = append(xs, v)
				}
			}
		}
		x := math.NaN()
		if n == 0 && a.Zero {
			x = 0
		}
		sum := new(big.Float).SetPrec(4000)
		for _, v := range xs {
			sum.Add(sum, big.NewFloat(v))
		}
		total, _ := sum.Float64()
		sorted := slices.Sorted(slices.Values(xs))
		switch {
		case a.Value == Count && n > 0:
			x = float64(n)
		case a.Value == Rate && n > 0:
			x = float64(n) / a.Every.Seconds()
		case len(xs) == 0:
		case a.Value == Sum:
			x = total
		case a.Value == Mean:
			x = total / float64(len(xs))
		case a.Value == Min:
			x = sorted[0]
		case a.Value == Max:
			x = sorted[len(xs)-1]
		case a.Value == Last:
			x = xs[len(xs)-1]
		case a.Value == Increase:
			if rise, ok := increases[intervalStart]; ok {
				x = rise
			}
		default:
			x = sorted[int(quantiles[a.Value]*float64(len(xs)-1))]
		}
		observations = append(observations, Observation{Time: intervalStart, ID: key + "/" + stamp(intervalStart), X: [][]float64{{x}}, Aggregated: true, Events: int64(n), Partial: intervalStart.Add(a.Every).After(last) || a.Value == Increase && doubtful[intervalStart]})
	}
	return observations
}

// Events in any order, with the state stored and restored between any two of them, yield the same observations as a
// plain loop over the sorted events.
func TestKeyStateAggregates(t *testing.T) {
	tolerance := cmp.Options{cmpopts.EquateNaNs(), cmpopts.EquateApprox(quantileError, 0)}
	for _, value := range Aggregates() {
		if value == Share {
			continue
		}
		for _, watermark := range []bool{false, true} {
			a := AggregateConfig{Aggregation: Aggregation{Every: time.Minute, Value: value, Zero: value.EmptyIsZero()}, Wait: 24 * time.Hour, Watermark: watermark}
			noise := rand.New(rand.NewPCG(1, 2))
			var events []Observation
			eventTime := time.Date(2026, 1, 5, 16, 0, 30, 0, time.UTC)
			for i := range 300 {
				eventTime = eventTime.Add(time.Duration(noise.ExpFloat64() * float64(20*time.Second)))
				if i == 200 {
					eventTime = eventTime.Add(10 * time.Minute) // a pause without events
				}
				x := 100 * noise.NormFloat64()
				if noise.IntN(20) == 0 {
					x = math.NaN()
				}
				o := Value(eventTime, fmt.Sprint(i), x)
				o.Log, o.Seq = "events-0", int64(i)
				events = append(events, o)
			}
			want := plainly("k", &a.Aggregation, events, eventTime)
			noise.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
			for i := range events {
				events[i].Seq = int64(i) // in the order of arrival
			}
			est := newEstimator(t, Config{Filter: hafvf.Config{Family: "normal"}, Aggregate: &a})
			e := open(t, est, nil)
			var got []Observation
			for i := range events {
				if now, err := e.take(&events[i]); now || err != nil {
					t.Fatal(now, err)
				}
				got = append(got, due(&e)...)
				e = open(t, est, e.append(nil))
			}
			if p := e.WaitingOffsets(); len(p) == 0 || !slices.Contains(p, Offset{"events-0", 0}) {
				t.Errorf("%s: waiting offsets %v", value, p)
			}
			if _, err := e.take(&events[7]); err != nil { // the state already includes it
				t.Error(err)
			}
			e.End(eventTime)
			got = append(got, due(&e)...)
			exact := cmp.Options{cmpopts.EquateNaNs(), cmpopts.IgnoreFields(Observation{}, "Falls")}
			if quantiles[value] > 0 {
				exact = tolerance
			}
			if diff := cmp.Diff(want, got, exact); diff != "" {
				t.Errorf("%s, watermark %t: %s", value, watermark, diff)
			}
		}
	}
}

// The key's own clock or the watermark closes an interval. Later events of the interval are late.
func TestIntervalsClose(t *testing.T) {
	timeAt := func(clock string) time.Time {
		timeAt := must(time.Parse("15:04:05", clock))
		return timeAt.AddDate(2026, 0, 4)
	}
	take := func(e *KeyState, clock string) error {
		o := Observation{Time: timeAt(clock)}
		_, err := e.take(&o)
		return err
	}
	describe := func(observations []Observation) string {
		var text []string
		for _, o := range observations {
			text = append(text, fmt.Sprintf("%s %g", o.Time.Format("15:04"), o.X[0][0]))
		}
		return strings.Join(text, ", ")
	}
	for _, c := range []struct {
		name      string
		watermark bool
		want      []string
	}{
		{"own clock", false, []string{"16:00 2, 16:05 0, 16:10 0", ""}},
		{"watermark", true, []string{"", "16:00 3"}},
	} {
		est := newEstimator(t, Config{Filter: hafvf.Config{Family: "poisson"}, Aggregate: &AggregateConfig{
			Aggregation: Aggregation{Every: 5 * time.Minute, Value: Count, Zero: true}, Watermark: c.watermark, Unbounded: c.watermark,
		}})
		e := open(t, est, nil)
		for _, clock := range []string{"16:01:00", "16:04:59", "16:16:00"} {
			fatal(t, take(&e, clock))
		}
		expect.Same(t, c.want[0], describe(due(&e)), c.name)
		late := take(&e, "16:03:00")
		if (late != nil) != !c.watermark || late != nil && late.Error() != "late: 2026-01-05T16:03:00Z is before 2026-01-05T16:15:00Z, up to which the intervals of this key are closed" {
			t.Errorf("%s: %v", c.name, late)
		}
		e.Release(timeAt("16:06:00"))
		expect.Same(t, c.want[1], describe(due(&e)), c.name)
		if !c.watermark {
			continue
		}
		if first, last := e.Waiting(); !first.Equal(timeAt("16:10:00")) || !last.Equal(timeAt("16:20:00")) {
			t.Errorf("waiting from %v to %v", first, last)
		}
		e.Release(timeAt("16:31:00"))
		expect.Same(t, "16:05 0, 16:10 0, 16:15 1, 16:20 0, 16:25 0", describe(due(&e)))
		if first, _ := e.Waiting(); !first.Equal(timeAt("16:35:00")) {
			t.Errorf("waiting from %v", first)
		}
	}
}

// If a clock that is set back skips the end of an interval, the interval extends to the next end.
func TestIntervalOverClockThatGoesBack(t *testing.T) {
	est := newEstimator(t, Config{Filter: hafvf.Config{Family: "poisson"}, Aggregate: &AggregateConfig{
		Aggregation: Aggregation{Every: 2 * time.Hour, Value: Count, Zone: "America/New_York"},
	}})
	e := open(t, est, nil)
	for _, hour := range []int{5, 6, 7} {
		o := Observation{Time: time.Date(2017, 11, 5, hour, 30, 0, 0, time.UTC)}
		take(t, &e, &o)
	}
	if observations := due(&e); len(observations) != 1 || observations[0].Events != 2 {
		t.Errorf("%v", observations)
	}
}

// Silence is measured between events. After a reported silence there are no intervals without events until the next
// event.
func TestSilenceStopsIntervals(t *testing.T) {
	start := time.Date(2026, 1, 5, 16, 0, 0, 0, time.UTC)
	minuteTime := func(minute float64) time.Time { return start.Add(time.Duration(minute * float64(time.Minute))) }
	for _, live := range []bool{false, true} {
		est := newEstimator(t, Config{
			Filter: hafvf.Config{Family: "poisson"}, Silence: &SilenceConfig{After: 12 * time.Minute},
			Aggregate: &AggregateConfig{Aggregation: Aggregation{Every: 5 * time.Minute, Value: Count, Zero: true}, Watermark: live, Unbounded: live},
		})
		e := open(t, est, nil)
		var got []string
		collect := func() {
			for _, o := range due(&e) {
				got = append(got, fmt.Sprintf("%s %g", o.Time.Format("15:04"), o.X[0][0]))
			}
			for _, s := range e.endedSilences {
				got = append(got, fmt.Sprintf("silent since %s, reported %t, until %s", s.Since.Format("15:04"), s.Reported, s.Until.Format("15:04")))
			}
			e.endedSilences = nil
			e = open(t, est, e.append(nil))
		}
		want := []string{"16:00 4", "16:05 3", "16:10 0", "16:15 0", "16:20 0", "silent since 16:09, reported false, until 16:41", "16:40 2", "16:45 1"}
		if live {
			want[5] = "silent since 16:09, reported true, until 16:41"
		}
		for _, minute := range []float64{1, 2, 3, 4, 6, 8, 9, 41, 42, 46} {
			if live {
				// The watermark advances minute by minute.
				for w := e.clock; w.Before(minuteTime(minute)) && !e.clock.IsZero(); w = w.Add(time.Minute) {
					e.Release(w)
					collect()
					e.ReportSilence(w)
				}
			}
			o := Observation{Time: minuteTime(minute)}
			take(t, &e, &o)
			collect()
		}
		e.End(minuteTime(46))
		collect()
		expect.Same(t, want, got, live)
	}
}

// Invalid aggregations are rejected with the reason.
func TestAggregateRefuses(t *testing.T) {
	for want, a := range map[string]AggregateConfig{
		"wait -1s is negative":                           {Aggregation: Aggregation{Every: time.Minute, Value: Mean}, Wait: -time.Second},
		"every must be within":                           {Aggregation: Aggregation{Every: time.Second - 1, Value: Mean}},
		"(31 days), not 744h":                            {Aggregation: Aggregation{Every: maxEvery + 1, Value: Mean}},
		`unknown value "middle": use one`:                {Aggregation: Aggregation{Every: maxEvery, Value: "middle"}},
		"zero is not allowed with an incre":              {Aggregation: Aggregation{Every: time.Minute, Value: Increase, Zero: true}},
		"per 1s must be a positive duration":             {Aggregation: Aggregation{Every: time.Minute, Value: Sum, Per: time.Second}},
		`"Nowhere" is not a time zone: use an IANA name`: {Aggregation: Aggregation{Every: minEvery, Value: Mean, Zone: "Nowhere"}},
	} {
		_, err := NewEstimator(Config{Filter: hafvf.Config{Family: "normal"}, Aggregate: &a})
		expect.Error(t, err, want, a)
	}
}
