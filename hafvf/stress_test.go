package hafvf

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
)

var long = flag.Bool("long", false, "run the searches at full length instead of one hundredth")

func length(full int) int {
	if *long {
		return full
	}
	return full / 100
}

// logUniform draws from [lo, hi], uniform in the logarithm.
func logUniform(rng *rand.Rand, lo, hi float64) float64 {
	return math.Exp(math.Log(lo) + rng.Float64()*math.Log(hi/lo))
}

// randomModel draws a family with a prior between 1e-4 and 1e6, and a stream of its observations at a scale
// between 1e-12 and 1e12, with outliers of 8 and 100 standard deviations.
func randomModel(t *testing.T, rng *rand.Rand) (Model, func() []float64) {
	t.Helper()
	u := func() float64 { return logUniform(rng, 1e-4, 1e6) }
	scale := logUniform(rng, 1e-12, 1e12)
	level := 0.0
	noise := func() float64 {
		x := rng.NormFloat64()
		switch r := rng.Float64(); {
		case r < 0.01:
			x *= 100
		case r < 0.03:
			x *= 8
		case r < 0.04:
			level = 10 * rng.NormFloat64()
		}
		return scale * (level + x)
	}
	families := familytest.All()
	c := families[rng.IntN(len(families))]
	params := Params{}
	maps.Copy(params, c.Prior)
	for _, name := range c.Sizes {
		params[name] = u()
	}
	if c.Name == "categorical" {
		params["alpha"] = []float64{u(), u(), u()}
	}
	if _, ok := params["mu"].(float64); ok {
		params["mu"] = noise()
	}
	m := familytest.New(t, c.Name, params)
	return m, func() []float64 { return c.At(rng, level, max(-1e15, min(noise(), 1e15))) }
}

func randomLevels(rng *rand.Rand, n int) []Beta {
	out := make([]Beta, n)
	for i := range out {
		out[i] = Beta{logUniform(rng, 1e-4, 1e6), logUniform(rng, 1e-4, 1e6)}
	}
	return out
}

// TestHostile runs random families, priors, levels and data. Every figure must be a number, every state valid,
// and at most 1 step in 10⁵ may report that it has not converged.
func TestHostile(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	steps, failures := 0, map[string]int{}
	for steps < length(1_000_000) {
		m, draw := randomModel(t, rng)
		top := rng.Float64()
		if rng.IntN(2) == 0 {
			top = 1
		}
		lv := randomLevels(rng, rng.IntN(4))
		f := NewFilter(m, lv, top)
		s := f.NewState()
		for i := range 50 + rng.IntN(200) {
			x := draw()
			expect.OK(t, f.Check([][]float64{x}))
			before := fmt.Sprint(s)
			step := f.Update(s, x)
			steps++
			if step.Missing {
				continue
			}
			if !step.Converged {
				failures[fmt.Sprintf("%T", m)]++
			}
			bad := math.IsNaN(step.LogPredictive) || math.IsInf(step.LogPredictive, 0) || math.IsNaN(step.ELBO) || math.IsInf(step.ELBO, 0) ||
				!(step.Weight >= 0 && step.Weight <= 1) || !(step.Memory >= 0)
			for i := range f.naive {
				b := f.Level(s, i)
				bad = bad || !(b.Alpha > 0 && b.Beta > 0 && b.Alpha+b.Beta < math.Inf(1))
			}
			for _, v := range f.Sample(s) {
				bad = bad || math.IsNaN(v) || math.IsInf(v, 0)
			}
			if bad {
				t.Fatalf("%T %+v levels %v top %g step %d x %v: %+v\nstate %s\n -> %v", m, m, lv, top, i, x, step, before, s)
			}
		}
	}
	total := 0
	for _, n := range failures {
		total += n
	}
	t.Logf("%d steps, %d not converged %v", steps, total, failures)
	if float64(total) > math.Max(1, 1e-5*float64(steps)) {
		t.Errorf("%d of %d steps did not converge", total, steps)
	}
}
