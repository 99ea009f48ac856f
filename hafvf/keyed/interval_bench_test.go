package keyed

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/internal/testing/familytest"
)

// BenchmarkInterval measures an estimate with and without an interval. The ratio is the cost of the interval.
func BenchmarkInterval(b *testing.B) {
	draws := map[string]func(*rand.Rand) []float64{
		"normal":      func(r *rand.Rand) []float64 { return []float64{20 + r.NormFloat64()} },
		"mvnormal":    func(r *rand.Rand) []float64 { return []float64{20 + r.NormFloat64(), r.ExpFloat64()} },
		"poisson":     func(r *rand.Rand) []float64 { return []float64{float64(r.IntN(9))} },
		"bernoulli":   func(r *rand.Rand) []float64 { return []float64{float64(r.IntN(2))} },
		"binomial":    func(r *rand.Rand) []float64 { return []float64{float64(r.IntN(9)), 20} },
		"exponential": func(r *rand.Rand) []float64 { return []float64{r.ExpFloat64()} },
	}
	for family, draw := range draws {
		for _, level := range []float64{0, .95} {
			b.Run(fmt.Sprintf("%s/%g", family, level), func(b *testing.B) {
				cfg := Recommended(family)
				cfg.Interval = level
				if family == "mvnormal" {
					cfg.Filter.Dim = 2
				}
				est := must(NewEstimator(cfg))
				track, r := est.NewTrack("k"), rand.New(rand.NewPCG(1, 2))
				for i := 0; b.Loop(); i++ {
					est.Estimate(track, Observation{Time: time.Unix(int64(60*i), 0), X: [][]float64{draw(r)}})
				}
			})
		}
	}
}

// EstimateIn with an interval does not allocate unless an alert is raised.
func TestEstimateInAllocatesNothing(t *testing.T) {
	for _, f := range familytest.Families {
		cfg := Recommended(f.Name)
		cfg.Filter.Prior, cfg.Filter.Dim, cfg.Interval, cfg.OmitPosterior = f.MinParams, f.Dim, .95, true
		if cfg.Filter.WarmUp > 0 {
			cfg.Filter.Prior = nil
		}
		est, r := must(NewEstimator(cfg)), rand.New(rand.NewPCG(1, 2))
		track, n := est.NewTrack("k"), 0
		var m Memory
		var out Estimate
		observations := make([]Observation, 1500)
		for i := range observations {
			observations[i] = Observation{Time: time.Unix(int64(60*i), 0), X: [][]float64{f.At(r, .5, r.NormFloat64())}}
		}
		next := func() {
			est.EstimateIn(&m, &out, track, &observations[n])
			n++
		}
		for range 1000 {
			next()
		}
		if allocations := testing.AllocsPerRun(400, next); allocations != 0 {
			t.Errorf("%s: %g", f.Name, allocations)
		}
	}
}
