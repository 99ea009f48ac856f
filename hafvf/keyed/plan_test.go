package keyed

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf"
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
