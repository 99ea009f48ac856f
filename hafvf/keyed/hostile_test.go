package keyed

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Streams at the limits of floating-point numbers, and exponential values with outliers, have finite bounds, standard
// deviations and log predictive densities from the fourth observation after the start or a reset of the key. Otherwise
// the observation is not learned, with a reason.
func TestHostileStreams(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 62))
	pair := func(k, n float64) func(int) [][]float64 { return func(int) [][]float64 { return [][]float64{{k, n}} } }
	for _, c := range []struct {
		name, family string
		n, unlearned int
		x            func(i int) [][]float64
	}{
		{"all of 10⁸", "binomial", 150, 0, pair(1e8, 1e8)},
		{"all of 10⁶", "binomial", 150, 0, pair(1e6, 1e6)},
		{"none of 10⁸", "binomial", 150, 0, pair(0, 1e8)},
		{"counts of 10¹⁵", "poisson", 500, 0, func(int) [][]float64 { return [][]float64{{math.Floor(1e15 + 1e7*rng.NormFloat64())}} }},
		{"exponential, with outliers", "exponential", 1000, 0, func(i int) [][]float64 {
			x := 10 * rng.ExpFloat64() * math.Pow(5, float64(i/400))
			if i%100 == 50 {
				x *= 30
			}
			return [][]float64{{x}}
		}},
		{"powers of 1.1", "ar", 2700, 2, func(i int) [][]float64 { return [][]float64{{math.Pow(1.1, float64(i))}} }},
	} {
		for _, detect := range []bool{false, true} {
			if !detect && c.family == "exponential" {
				continue // after an outlier, the prediction may have no standard deviation
			}
			cfg := Recommended(c.family)
			cfg.Interval = .95
			if !detect {
				cfg.Filter.Detect, cfg.Filter.Bank, cfg.Alarms = nil, nil, nil
			}
			est := newEstimator(t, cfg)
			track := est.NewTrack("k")
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			unlearned, learned := 0, 0
			for i := range c.n {
				e := est.Estimate(track, Observation{Time: start.Add(time.Duration(i) * time.Minute), X: c.x(i)})
				if e.Panic != nil {
					t.Fatalf("%s, detection %v, observation %d: %v\n%s", c.name, detect, i+1, e.Panic, e.Panic.Stack)
				}
				if e.SkipReason != "" {
					unlearned++
					continue
				}
				if learned++; e.Reset {
					learned = 1
				}
				for _, v := range []float64{e.Lower[0], e.Upper[0], e.Predicted.Mean[0], e.Predicted.SD[0], e.Estimate.Mean[0], e.Estimate.SD[0], e.LogPredictive} {
					if learned > 3 && notFinite(v) || e.Lower[0] > e.Upper[0] || c.family == "binomial" && e.Upper[0] > 1 {
						t.Fatalf("%s, detection %v, observation %d: [%g, %g], predicted %g ± %g, estimate %g ± %g, %g nats", c.name, detect, i+1, e.Lower, e.Upper, e.Predicted.Mean, e.Predicted.SD, e.Estimate.Mean, e.Estimate.SD, e.LogPredictive)
					}
				}
			}
			if unlearned > c.unlearned {
				t.Errorf("%s, detection %v: %d observations were not learned", c.name, detect, unlearned)
			}
		}
	}
}
