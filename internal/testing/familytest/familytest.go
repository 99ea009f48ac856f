// Package familytest has a row for each family with priors and observations, and streams of known kinds, for tests.
package familytest

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"

	"hafvf/hafvf/expfam"
)

// New returns the model of the family with Prior.
func (f Family) New(t testing.TB) expfam.Model { return New(t, f.Name, f.Prior) }

// OfStreams returns the model of a family for the streams of package streams, with one prior for all streams.
func OfStreams(t testing.TB, family string) expfam.Model {
	t.Helper()
	if family == "normal" {
		return New(t, family, expfam.Params{"mu": 0., "kappa": .01, "alpha": 1., "beta": 1.})
	}
	return New(t, family, nil)
}

// Steps draws n steps of m. change modifies the first vector of step i. Some steps have no vector, some a missing
// one, and some four if m is not sequential.
func (f Family) Steps(m expfam.Model, rng *rand.Rand, n int, change func(i int, x []float64)) (steps [][][]float64) {
	_, sequential := m.(expfam.Sequential)
	for i := range n {
		x := f.Vector(m, rng)
		change(i, x)
		step := [][]float64{x}
		switch {
		case i%13 == 5:
			step = [][]float64{{math.NaN()}}
		case i%17 == 3:
			step = nil
		case i%11 == 7 && !sequential:
			step = append(step, f.Draw(rng), []float64{math.NaN()}, f.Draw(rng))
		}
		steps = append(steps, step)
	}
	return steps
}

// Vector draws an observation in the form for a filter of m: for a sequential model only the target.
func (f Family) Vector(m expfam.Model, rng *rand.Rand) []float64 {
	x := f.Draw(rng)
	if _, sequential := m.(expfam.Sequential); sequential {
		x = x[len(x)-1:]
	}
	return x
}

// New returns a model of a family.
func New(t testing.TB, family string, prior expfam.Params) expfam.Model {
	t.Helper()
	m, err := expfam.New(family, prior, 0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Posterior returns the textbook parameters of the posterior with statistics d.
func Posterior(m expfam.Model, d []float64) []float64 {
	n := 0
	for _, p := range m.Params() {
		n += p.Size()
	}
	out := make([]float64, n)
	m.Posterior(out, d)
	return out
}

// ARRows returns the rows for the ar model in Families: two past values and an intercept.
func ARRows(steps [][][]float64) [][][]float64 {
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

// AnyMissing reports whether a coordinate is NaN.
func AnyMissing(x []float64) bool { return slices.ContainsFunc(x, math.IsNaN) }

// ReadJSON decodes a file into v.
func ReadJSON(t testing.TB, path string, v any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// Single returns steps with one observation each.
func Single(x []float64) [][][]float64 {
	steps := make([][][]float64, len(x))
	for i := range x {
		steps[i] = [][]float64{x[i : i+1]}
	}
	return steps
}

// SingleStream returns a stream of a kind as steps with one observation each.
func SingleStream(kind string, n int) [][][]float64 {
	x := make([]float64, n)
	for i, v := range Stream(kind, n) {
		x[i] = v[0]
	}
	return Single(x)
}

// Stream draws a stream of one of the Kinds.
func Stream(kind string, n int) [][]float64 {
	rng := rand.New(rand.NewPCG(1, 2))
	xs := make([][]float64, n)
	for t := range xs {
		xs[t] = []float64{Kinds[kind](rng, t)}
	}
	return xs
}

// Kinds are the streams for which update times are measured.
var Kinds = map[string]func(rng *rand.Rand, t int) float64{
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

// SameOnAnyNumberOfGoroutines checks for each family that smooth returns the same for one and for several
// goroutines. The session is long and has missing steps; the mean of normal alternates by shift every 370 steps.
func SameOnAnyNumberOfGoroutines(t *testing.T, shift float64, smooth func(m expfam.Model, steps [][][]float64) []string) {
	t.Helper()
	procs := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(procs) })
	for _, c := range All() {
		t.Run(c.Name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(9, 10))
			m := c.New(t)
			_, sequential := m.(expfam.Sequential)
			var steps [][][]float64
			for i := range 1500 {
				x := c.Draw(rng)
				if c.Name == "normal" {
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
