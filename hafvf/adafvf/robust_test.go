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

// logistic trains a logistic regression of 20 weights and an intercept on
// batches of 32, of which one in twenty is corrupt: features a hundred times too
// large, labels at random. It returns the loss on clean data.
func logistic(seed uint64, make func(groups ...adafvf.Group) stepper, corrupt float64) float64 {
	const d, batch, steps = 20, 32, 2000
	rng := rand.New(rand.NewPCG(seed, 1))
	var truth [d]float64
	for i := range truth {
		truth[i] = rng.NormFloat64() / 2
	}
	draw := func(x *[d]float64) (y float64) {
		z := 0.3
		for i := range x {
			x[i] = rng.NormFloat64()
			z += truth[i] * x[i]
		}
		if rng.Float64() < 1/(1+math.Exp(-z)) {
			return 1
		}
		return 0
	}
	var w, dw [d]float64
	var b, db [1]float64
	o := make(adafvf.Group{Name: "w", Params: w[:], Grads: dw[:]}, adafvf.Group{Name: "b", Params: b[:], Grads: db[:]})
	var x [d]float64
	at := func() float64 {
		z := b[0]
		for i := range x {
			z += w[i] * x[i]
		}
		return z
	}
	for range steps {
		clear(dw[:])
		db[0] = 0
		bad := rng.Float64() < corrupt
		for range batch {
			y := draw(&x)
			if bad {
				y = float64(rng.IntN(2))
				for i := range x {
					x[i] *= 100
				}
			}
			e := (1/(1+math.Exp(-at())) - y) / batch
			for i := range x {
				dw[i] += e * x[i]
			}
			db[0] += e
		}
		o.Step()
	}
	loss := 0.0
	const n = 4000
	for range n {
		y := draw(&x)
		z := at()
		loss += math.Log1p(math.Exp(-math.Abs(z))) + math.Max(z, 0) - y*z
	}
	return loss / n
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
// Adam on clipped gradients.
func TestSumPoolingOutlastsCorruptBatches(t *testing.T) {
	for _, problem := range []struct {
		name string
		run  func(seed uint64, make func(groups ...adafvf.Group) stepper) float64
	}{
		{"logistic regression, 5 % corrupt", func(seed uint64, make func(...adafvf.Group) stepper) float64 { return logistic(seed, make, 0.05) }},
		{"quadratic, Cauchy noise", quadratic},
	} {
		for _, rate := range []float64{0.01, 0.03} {
			mean := map[string]float64{}
			for seed := uint64(1); seed <= 2; seed++ {
				loss := map[string]float64{}
				for _, c := range contenders {
					loss[c.name] = problem.run(seed, func(g ...adafvf.Group) stepper { return c.make(rate, g...) })
					mean[c.name] += loss[c.name] / 2
				}
				if !(loss["adafvf sum"] < loss["adam"] && loss["adafvf sum"] < 1.01*loss["adam clipped"]) {
					t.Errorf("%s, rate %g, seed %d: %v", problem.name, rate, seed, loss)
				}
			}
			for _, c := range contenders {
				t.Logf("%s, rate %g: %s %.4f", problem.name, rate, c.name, mean[c.name])
			}
		}
	}
}
