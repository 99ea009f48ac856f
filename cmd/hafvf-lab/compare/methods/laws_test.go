package methods

import (
	"fmt"
	"hafvf/internal/testing/expect"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// begin starts a method on a stream, whose first 50 values set the units.
func begin(t *testing.T, m Method, family string, x []float64) Follower {
	t.Helper()
	s := expect.Get(Begin(family, x[:min(len(x), 50)]))(t)
	s.Seed = 1
	if m.Hindsight {
		s.Whole = x
	}
	return m.New(s)
}

// near fails the test if got differs from want by more than the tolerance.
func near(t *testing.T, got, want, tolerance float64, what ...any) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s: %.12g, want %.12g", fmt.Sprint(what...), got, want)
	}
}

func normals(n int) []float64 {
	rng := rand.New(rand.NewPCG(1, 1))
	x := make([]float64, n)
	for i := range x {
		x[i] = 3 + 2*rng.NormFloat64()
		if i > n/2 {
			x[i] += 6
		}
	}
	return x
}

func coins(n int) []float64 {
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, n)
	for i := range x {
		if rng.Float64() < .3 {
			x[i] = 1
		}
	}
	return x
}

// The result for an observation does not depend on later ones, except for methods with hindsight.
func TestMethodsAreCausal(t *testing.T) {
	for family, x := range map[string][]float64{"normal": normals(150), "bernoulli": coins(150)} {
		y := slices.Clone(x)
		for i := 120; i < len(y); i++ {
			y[i] = 1 - y[i]
		}
		for _, m := range All {
			if m.Hindsight || m.OnRequest {
				continue
			}
			f, g := begin(t, m, family, x), begin(t, m, family, y)
			differ := false
			for i := range x {
				a, b := f.Update(x[i]), g.Update(y[i])
				same := func(v, w float64) bool { return v == w || v != v && w != w }
				equal := same(a.LogPredictive, b.LogPredictive) && same(a.Mean, b.Mean) && a.Change == b.Change
				if i < 120 && !equal {
					t.Errorf("%s, %s: observation %d: %+v and %+v", m.Name, family, i, a, b)
					break
				}
				differ = differ || !equal
			}
			if !differ {
				t.Errorf("%s, %s: nothing depends on the values", m.Name, family)
			}
			if f.Bytes() <= 0 {
				t.Errorf("%s: %d bytes of state", m.Name, f.Bytes())
			}
		}
	}
}

// Predictive densities sum or integrate to 1.
func TestPredictiveDensities(t *testing.T) {
	expect.Long(t, "integrals of densities")
	last := func(m Method, family string, past []float64, x float64) float64 {
		f := begin(t, m, family, past)
		for _, v := range past {
			f.Update(v)
		}
		return f.Update(x).LogPredictive
	}
	past, tosses := normals(60), coins(60)
	for _, m := range All {
		if m.OnRequest || m.Smooths || m.Name == "particle" { // particle-100 is the same with fewer particles
			continue
		}
		if math.IsNaN(last(m, "normal", past, 3)) {
			continue
		}
		if !m.Gaussian {
			near(t, math.Exp(last(m, "bernoulli", tosses, 0))+math.Exp(last(m, "bernoulli", tosses, 1)), 1, 1e-6, m.Name, ": probabilities of a coin")
		}
		// x = 6 + 3 sinh u reaches the tails.
		sum := 0.0
		const step = .2
		for u := -9.; u <= 9; u += step {
			sum += math.Exp(last(m, "normal", past, 6+3*math.Sinh(u))) * 3 * math.Cosh(u) * step
		}
		near(t, sum, 1, 2e-3, m.Name, ": integral of the density")
	}
}

// The error for an unknown name lists the known names.
func TestSelect(t *testing.T) {
	selected, err := Select([]string{"ewma", "hafvf"}, true)
	if err != nil || len(selected) != 2 || selected[0].Name != "hafvf" || selected[1].Name != "ewma" {
		t.Errorf("%v, error %v", selected, err)
	}
	if _, err := Select([]string{"bocdp"}, false); err == nil || err.Error() == "" {
		t.Error("no error")
	}
	for _, c := range []struct{ quick, particle bool }{{false, true}, {true, false}} {
		selected, err := Select(nil, c.quick)
		contains := func(name string) bool {
			return slices.ContainsFunc(selected, func(m Method) bool { return m.Name == name })
		}
		if err != nil || contains("particle") != c.particle || contains("particle-10000") || !contains("particle-100") {
			t.Errorf("quick %t: %d methods, error %v", c.quick, len(selected), err)
		}
	}
	seen := map[string]bool{}
	for _, m := range All {
		if seen[m.Name] || m.About == "" || m.Setting == "" || m.Source == "" {
			t.Errorf("%+v is without name, setting or source, or twice", m)
		}
		seen[m.Name] = true
	}
}
