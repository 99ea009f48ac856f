package keyed

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Exponential values with detection have standard deviations, from the second observation on:
// the prior that the warm-up sets is worth enough for that, also where an excursion has seen one
// observation only. They are about those of the values.
func TestExponentialHasDeviations(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 61))
	est := newEstimator(t, Recommended("exponential"))
	track := est.NewTrack("k")
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ratio := 0.
	for i := range 1000 {
		x := 10 * rng.ExpFloat64() * math.Pow(5, float64(i/400))
		if i%100 == 50 {
			x *= 30
		}
		e := est.Estimate(track, Value(at.Add(time.Duration(i)*time.Minute), "", x))
		if i == 0 {
			continue // there is no prior yet
		}
		for _, sd := range []float64{e.Predicted.SD[0], e.Estimate.SD[0], e.Regime.SD[0]} {
			if !(sd > 0 && sd < math.Inf(1)) {
				t.Fatalf("observation %d: predicted ± %g, estimated ± %g, regime ± %g", i+1, e.Predicted.SD[0], e.Estimate.SD[0], e.Regime.SD[0])
			}
		}
		if i >= 200 && i < 400 {
			ratio += e.Predicted.SD[0] / 10 / 200
		}
	}
	if ratio < .9 || ratio > 1.6 {
		t.Errorf("the predicted deviation is %.2f of that of the values", ratio)
	}
}
