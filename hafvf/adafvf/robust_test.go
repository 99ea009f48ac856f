package adafvf_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/hafvf/adafvf"
)

// contenders are what the statements compare.
var contenders = []struct {
	name string
	make func(rate float64, groups ...adafvf.Group) stepper
}{
	{"adam", func(rate float64, g ...adafvf.Group) stepper {
		return must(adafvf.NewAdam(adafvf.AdamConfig{Rate: rate}, g...))
	}},
	{"adam clipped", func(rate float64, g ...adafvf.Group) stepper {
		return must(adafvf.NewAdam(adafvf.AdamConfig{Rate: rate, Clip: 1}, g...))
	}},
	{"adam .95", func(rate float64, g ...adafvf.Group) stepper {
		return must(adafvf.NewAdam(adafvf.AdamConfig{Rate: rate, Beta2: .95}, g...))
	}},
	{"adafvf mean", func(rate float64, g ...adafvf.Group) stepper {
		return must(adafvf.New(adafvf.Config{Rate: rate}, g...))
	}},
	{"adafvf sum", func(rate float64, g ...adafvf.Group) stepper {
		return must(adafvf.New(adafvf.Config{Rate: rate, Pooling: 1}, g...))
	}},
}

// quadratic descends ½Σhᵢpᵢ², h from 0.1 to 1 over 50 coordinates, on gradients
// with Cauchy noise, and returns the mean of hᵢpᵢ² over the last hundred steps.
func quadratic(seed uint64, make func(groups ...adafvf.Group) stepper) float64 {
	const n, steps = 50, 3000
	rng := rand.New(rand.NewPCG(seed, 2))
	var p, g [n]float64
	for i := range p {
		p[i] = rng.NormFloat64()
	}
	o := make(adafvf.Group{Name: "p", Params: p[:], Grads: g[:]})
	loss := 0.0
	for t := range steps {
		for i := range p {
			h := 0.1 + 0.9*float64(i)/(n-1)
			g[i] = h*p[i] + 0.3*math.Tan(math.Pi*(rng.Float64()-0.5))
			if t >= steps-100 {
				loss += h * p[i] * p[i] / n / 100
			}
		}
		o.Step()
	}
	return loss
}

// On every seed the sum pooling ends below Adam, and at most a hundredth above
// Adam on clipped gradients. The example has corrupt batches.
func TestSumPoolingOutlastsOutliers(t *testing.T) {
	for _, rate := range []float64{0.01, 0.03} {
		for seed := uint64(1); seed <= 2; seed++ {
			loss := map[string]float64{}
			for _, c := range contenders {
				loss[c.name] = quadratic(seed, func(g ...adafvf.Group) stepper { return c.make(rate, g...) })
			}
			t.Logf("rate %g, seed %d: %.4v", rate, seed, loss)
			if !(loss["adafvf sum"] < loss["adam"] && loss["adafvf sum"] < 1.01*loss["adam clipped"]) {
				t.Errorf("rate %g, seed %d: %v", rate, seed, loss)
			}
		}
	}
}
