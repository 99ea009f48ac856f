package segments_test

import (
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/segments"
)

func anyMissing(x []float64) bool { return slices.ContainsFunc(x, math.IsNaN) }

// arRows are the rows of the model of lawful: two past values and an intercept.
func arRows(steps [][][]float64) [][][]float64 {
	value := func(t int) float64 {
		if t < 0 || len(steps[t]) == 0 {
			return math.NaN()
		}
		return steps[t][0][0]
	}
	rows := make([][][]float64, len(steps))
	for t := range steps {
		rows[t] = [][]float64{{value(t - 1), value(t - 2), 1, value(t)}}
	}
	return rows
}

// lawful is every family with a prior and a draw.
var lawful = []law{
	{"bernoulli", nil, func(rng *rand.Rand) []float64 { return []float64{float64(rng.IntN(2))} }},
	{"categorical", expfam.Params{"alpha": []float64{1, .5, 2}}, func(rng *rand.Rand) []float64 { return []float64{float64(rng.IntN(3))} }},
	{"poisson", nil, func(rng *rand.Rand) []float64 { return []float64{math.Floor(5 * rng.ExpFloat64())} }},
	{"exponential", nil, func(rng *rand.Rand) []float64 { return []float64{rng.ExpFloat64()} }},
	{"normal", expfam.Params{"mu": .5, "kappa": .1}, func(rng *rand.Rand) []float64 { return []float64{2 + rng.NormFloat64()} }},
	{"mvnormal", expfam.Params{"mu": []float64{0, 1}}, func(rng *rand.Rand) []float64 { return []float64{rng.NormFloat64(), 3 * rng.NormFloat64()} }},
	{"regression", expfam.Params{"mean": []float64{0, 1}}, func(rng *rand.Rand) []float64 {
		u := rng.NormFloat64()
		return []float64{u, 1, 2*u + rng.NormFloat64()}
	}},
	{"ar", expfam.Params{"order": 2, "intercept": true}, func(rng *rand.Rand) []float64 {
		return []float64{rng.NormFloat64(), rng.NormFloat64(), 1, rng.NormFloat64()}
	}},
}

func mustNew(t testing.TB, family string, prior expfam.Params) expfam.Model {
	t.Helper()
	m, err := expfam.New(family, prior, 0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// natural are coordinates in which a posterior, given by its textbook
// parameters, is linear in the statistics of the data.
func natural(family string, p []float64) []float64 {
	switch family {
	case "normal":
		mu, kappa, alpha, beta := p[0], p[1], p[2], p[3]
		return []float64{kappa * mu, kappa, 2*beta + kappa*mu*mu, 2 * alpha}
	case "mvnormal":
		n := 2
		mu, kappa, nu, scale := p[:n], p[n], p[n+1], p[n+2:]
		out := []float64{kappa, nu}
		for i := range n {
			out = append(out, kappa*mu[i])
			for j := range n {
				out = append(out, scale[i*n+j]+kappa*mu[i]*mu[j])
			}
		}
		return out
	case "regression", "ar":
		n := 2
		if family == "ar" {
			n = 3
		}
		mean, precision, alpha, beta := p[:n], p[n:n+n*n], p[n+n*n], p[n+n*n+1]
		out := append([]float64{2 * alpha}, precision...)
		square := 2 * beta
		for i := range n {
			sum := 0.0
			for j := range n {
				sum += precision[i*n+j] * mean[j]
			}
			out = append(out, sum)
			square += mean[i] * sum
		}
		return append(out, square)
	}
	return p
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// single are steps of one observation each.
func single(x []float64) [][][]float64 {
	steps := make([][][]float64, len(x))
	for i := range x {
		steps[i] = [][]float64{x[i : i+1]}
	}
	return steps
}

type law struct {
	family string
	prior  expfam.Params
	draw   func(rng *rand.Rand) []float64
}

func posterior(m expfam.Model, d []float64) []float64 {
	n := 0
	for _, p := range m.Params() {
		n += p.Size()
	}
	out := make([]float64, n)
	m.Posterior(out, d)
	return out
}

// sameOnAnyNumberOfGoroutines compares what smooth says of a long session with missing
// steps, for every family. That of normal shifts by shift and back every 370 steps.
func sameOnAnyNumberOfGoroutines(t *testing.T, shift float64, smooth func(m expfam.Model, steps [][][]float64) []string) {
	t.Helper()
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	for _, c := range lawful {
		t.Run(c.family, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(9, 10))
			m := mustNew(t, c.family, c.prior)
			_, sequential := m.(expfam.Sequential)
			var steps [][][]float64
			for i := range 1500 {
				x := c.draw(rng)
				if c.family == "normal" {
					x[0] += shift * float64(i/370%2)
				}
				switch {
				case i%13 == 5:
					x = []float64{math.NaN()}
				case sequential:
					x = x[len(x)-1:]
				}
				steps = append(steps, [][]float64{x})
			}
			run := func(goroutines int) []string {
				runtime.GOMAXPROCS(goroutines)
				return smooth(m, steps)
			}
			want := run(1)
			for _, goroutines := range []int{2, 8} {
				for i, got := range run(goroutines) {
					if got != want[i] {
						t.Fatalf("step %d on %d goroutines: %s, on one %s", i, goroutines, got, want[i])
					}
				}
			}
		})
	}
}

// singleStream is a stream of normal observations, one in a step.
func singleStream(kind string, n int) [][][]float64 {
	x := make([]float64, n)
	for i, v := range stream(kind, n) {
		x[i] = v[0]
	}
	return single(x)
}

// statistics are T(x) in the coordinates of natural.
func statistics(family string, x []float64) []float64 {
	switch family {
	case "bernoulli":
		return []float64{x[0], 1 - x[0]}
	case "categorical":
		out := make([]float64, 3)
		out[int(x[0])] = 1
		return out
	case "poisson":
		return []float64{x[0], 1}
	case "exponential":
		return []float64{1, x[0]}
	case "normal":
		return []float64{x[0], 1, x[0] * x[0], 1}
	case "mvnormal":
		return []float64{1, 1, x[0], x[0] * x[0], x[0] * x[1], x[1], x[1] * x[0], x[1] * x[1]}
	}
	u, y := x[:len(x)-1], x[len(x)-1]
	out := []float64{1}
	for i := range u {
		for j := range u {
			out = append(out, u[i]*u[j])
		}
	}
	for i := range u {
		out = append(out, u[i]*y)
	}
	return append(out, y*y)
}

// streamModel is the same prior for every stream of its family.
func streamModel(t testing.TB, family string) expfam.Model {
	t.Helper()
	params := expfam.Params{}
	if family == "normal" {
		params = expfam.Params{"mu": 0., "kappa": .01, "alpha": 1., "beta": 1.}
	}
	m, err := expfam.New(family, params, 0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var long = flag.Bool("long", false, "run the searches at full length instead of one hundredth")

var seed = flag.Uint64("seed", 1, "seed of the streams, and of the search for missed maxima")

var seeds = flag.Int("seeds", 1, "number of seeds, from -seed on, that streams are averaged over")

func stream(kind string, n int) [][]float64 {
	rng := rand.New(rand.NewPCG(1, 2))
	xs := make([][]float64, n)
	for t := range xs {
		xs[t] = []float64{shapes[kind](rng, t)}
	}
	return xs
}

// streams are the kinds of data on which the update is timed.
var shapes = map[string]func(rng *rand.Rand, t int) float64{
	"stationary": func(rng *rand.Rand, t int) float64 { return rng.NormFloat64() },
	"jumping":    func(rng *rand.Rand, t int) float64 { return rng.NormFloat64() + 5*float64(t/200%3) },
	"drifting":   func(rng *rand.Rand, t int) float64 { return rng.NormFloat64() + 0.01*float64(t) },
	"outliers": func(rng *rand.Rand, t int) float64 {
		x := rng.NormFloat64()
		if rng.Float64() < 0.02 {
			x += 8 * float64(2*rng.IntN(2)-1)
		}
		return x
	},
}

// means are those of every step, and deviations their standard deviations.
func means(g *segments.Segmentation) []float64 {
	return each(g, func(t int) float64 { return g.Mean(t)[0] })
}

func deviations(g *segments.Segmentation) []float64 {
	return each(g, func(t int) float64 { return g.SD(t)[0] })
}

func each(g *segments.Segmentation, f func(t int) float64) (all []float64) {
	for t := range g.Len() {
		all = append(all, f(t))
	}
	return all
}
