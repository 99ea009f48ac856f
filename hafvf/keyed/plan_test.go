package keyed

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/usual"
)

// A key that is encoded and decoded after each observation has the same estimates, to the last bit, as one that is
// not: for any step, with event counts, shares, vectors, and without times.
func TestRestoreEachObservation(t *testing.T) {
	binomial := Recommended("binomial")
	vectors := Recommended("mvnormal")
	vectors.Filter.Dim = 2
	log := Recommended("normal")
	log.Filter.Scale = hafvf.Log
	arrival := Recommended("normal")
	arrival.Order = Arrival
	for _, c := range []struct {
		name string
		cfg  Config
		step time.Duration
		x    func(rng *rand.Rand, i int) [][]float64
		each func(o *Observation, i int)
	}{
		{"an hour, with a plan", Recommended("normal"), time.Hour, func(rng *rand.Rand, i int) [][]float64 {
			x := -5 + rng.NormFloat64()
			if i%168 < 40 {
				x = 30 + 3*rng.NormFloat64()
			}
			return [][]float64{{x}}
		}, nil},
		{"averages", Recommended("normal"), 10 * time.Minute, func(rng *rand.Rand, i int) [][]float64 {
			return [][]float64{{-3 + rng.NormFloat64()/math.Sqrt(float64(1+i%9))}}
		}, func(o *Observation, i int) { o.Aggregated, o.Events = true, int64(1+i%9) }},
		{"averages of very many", Recommended("normal"), time.Hour, func(rng *rand.Rand, i int) [][]float64 {
			return [][]float64{{rng.NormFloat64() * math.Pow(10, float64(rng.IntN(130)))}}
		}, func(o *Observation, i int) { o.Aggregated, o.Events = true, math.MaxInt64>>(i%60) }},
		{"shares", binomial, time.Hour, func(rng *rand.Rand, i int) [][]float64 {
			n := 1 + rng.IntN(50)
			return [][]float64{{float64(rng.IntN(1 + n/9)), float64(n)}}
		}, nil},
		{"vectors", vectors, 15 * time.Minute, func(rng *rand.Rand, i int) [][]float64 {
			return [][]float64{{rng.NormFloat64(), 4 * rng.ExpFloat64()}}
		}, nil},
		{"days, on a logarithmic scale", log, 24 * time.Hour, func(rng *rand.Rand, i int) [][]float64 { return [][]float64{{rng.ExpFloat64() + .1}} }, nil},
		{"no times", arrival, 0, func(rng *rand.Rand, i int) [][]float64 {
			return [][]float64{{rng.NormFloat64() * float64(1+9*(i/400))}}
		}, nil},
		{"a minute", Recommended("normal"), time.Minute, func(rng *rand.Rand, i int) [][]float64 {
			x := rng.NormFloat64()
			if i%60 == 0 {
				x += 20
			}
			return [][]float64{{x}}
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(6, 5))
			est := newEstimator(t, c.cfg)
			whole, decoded := est.NewTrack("k"), est.NewTrack("k")
			for i := range 900 {
				o := Observation{X: c.x(rng, i)}
				if c.step > 0 {
					o.Time = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * c.step)
				}
				if c.each != nil {
					c.each(&o, i)
				}
				want, got := est.Estimate(whole, o.Clone()), est.Estimate(decoded, o)
				b, _ := want.AppendBinary(nil)
				if a, _ := got.AppendBinary(nil); string(a) != string(b) {
					t.Fatalf("observation %d: %+v, want %+v", i, got.Detection, want.Detection)
				}
				decoded = must(est.RestoreTrack("k", must(decoded.AppendBinary(nil))))
			}
		})
	}
}

// Shifts that change every week raise at most two alarms per key after four weeks. A track that is encoded and decoded
// every day continues identically, with free days, alternating weeks and holidays.
func TestAlternatingShifts(t *testing.T) {
	cfg := Recommended("normal")
	cfg.Alarms.Holidays = usual.Holidays{Dates: []string{"2026-03-18", "2026-04-07", "2026-04-22"}}
	est := newEstimator(t, cfg)
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) // a Monday
	for key := range 4 {
		rng := rand.New(rand.NewPCG(uint64(key), 7))
		whole, decoded, alarms := est.NewTrack("k"), est.NewTrack("k"), 0
		for i := range 12 * 168 {
			now := start.Add(time.Duration(i) * time.Hour)
			first, x := 6+8*(i/168%2), 3+.5*rng.NormFloat64()
			work := now.Weekday() != time.Friday && now.Weekday() != time.Saturday && now.Hour() >= first && now.Hour() < first+8
			if work && !slices.Contains(cfg.Alarms.Holidays.Dates, now.Format(time.DateOnly)) {
				x += 30 + 2*rng.NormFloat64()
			}
			o := Observation{X: [][]float64{{x}}, Time: now}
			want, got := est.Estimate(whole, o.Clone()), est.Estimate(decoded, o)
			b, _ := want.AppendBinary(nil)
			if a, _ := got.AppendBinary(nil); string(a) != string(b) {
				t.Fatalf("observation %d: %+v, want %+v", i, got.Detection, want.Detection)
			}
			if i >= 4*168 && want.Alarm != nil {
				alarms++
			}
			if i%24 == 0 {
				decoded = must(est.RestoreTrack("k", must(decoded.AppendBinary(nil))))
			}
		}
		if t.Logf("key %d: %d alarms", key, alarms); alarms > 2 {
			t.Errorf("key %d: %d alarms after four weeks", key, alarms)
		}
	}
}
