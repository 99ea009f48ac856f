package keyed

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// Predictive intervals have about the right coverage, in the centre and in the tails, even if the spread changes by
// the hour. The bank alone covers .70 instead of .5, and loses .56 nats per value against the true density.
func TestSpread(t *testing.T) {
	expect.Long(t, "long streams")
	for _, c := range []struct {
		name    string
		sd      func(i int) float64
		maxLoss float64 // maximum loss, nats per value
	}{
		{"stays", func(int) float64 { return 1 }, .006},
		{"by the hour", func(i int) float64 { return math.Pow(6, math.Sin(2*math.Pi*float64(i)/144)) }, .3},
	} {
		const n, first = 6000, 1000
		inside, lost := [2]float64{}, 0.
		for k, level := range []float64{.5, .95} {
			cfg := Recommended("normal")
			cfg.Interval = level
			est, rng := newEstimator(t, cfg), rand.New(rand.NewPCG(4, 2))
			track := est.NewTrack("k")
			for i := range n {
				z := rng.NormFloat64()
				e := est.Estimate(track, Value(time.Unix(int64(600*i), 0), "", 20+c.sd(i)*z))
				if i < first {
					continue
				}
				if x := e.X[0][0]; e.Lower[0] <= x && x <= e.Upper[0] {
					inside[k]++
				}
				lost -= (e.LogPredictive + z*z/2 + math.Log(c.sd(i)*math.Sqrt(2*math.Pi))) / 2
			}
		}
		half, wide := inside[0]/(n-first), inside[1]/(n-first)
		if lost /= n - first; math.Abs(half-.5) > .035 || math.Abs(wide-.95) > .015 || lost > c.maxLoss {
			t.Errorf("%s: intervals of .5 and .95 cover %.3f and %.3f, and the loss is %.4f nats per value", c.name, half, wide, lost)
		}
	}
}
