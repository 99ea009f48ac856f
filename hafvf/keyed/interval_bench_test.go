package keyed

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkInterval is an estimate with and without an interval: the ratio is what the interval costs.
func BenchmarkInterval(b *testing.B) {
	draws := map[string]func(*rand.Rand) float64{
		"normal":      func(r *rand.Rand) float64 { return 20 + r.NormFloat64() },
		"poisson":     func(r *rand.Rand) float64 { return float64(r.IntN(9)) },
		"bernoulli":   func(r *rand.Rand) float64 { return float64(r.IntN(2)) },
		"exponential": func(r *rand.Rand) float64 { return r.ExpFloat64() },
	}
	for family, draw := range draws {
		for _, level := range []float64{0, .95} {
			b.Run(fmt.Sprintf("%s/%g", family, level), func(b *testing.B) {
				cfg := Recommended(family)
				cfg.Interval = level
				est := must(NewEstimator(cfg))
				track, r := est.NewTrack("k"), rand.New(rand.NewPCG(1, 2))
				for i := 0; b.Loop(); i++ {
					est.Estimate(track, Value(time.Unix(int64(60*i), 0), "", draw(r)))
				}
			})
		}
	}
}
