package keyed

import (
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/internal/testing/familytest"
)

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
