package hafvf_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/familytest"
)

// same runs two filters side by side on observations that mean the same.
func same(t *testing.T, a, b expfam.Model, xs, ys [][]float64, baseA, baseB float64) {
	t.Helper()
	f, g := hafvf.NewFilter(a, levels(2), 1), hafvf.NewFilter(b, levels(2), 1)
	s, u := f.NewState(), g.NewState()
	for i := range xs {
		p, q := f.Update(s, xs[i]), g.Update(u, ys[i])
		for _, v := range [][2]float64{{p.LogPredictive + baseA, q.LogPredictive + baseB}, {p.ELBO + baseA, q.ELBO + baseB}, {p.Weight, q.Weight}, {p.Memory, q.Memory}} {
			if math.Abs(v[0]-v[1]) > 1e-7*(1+math.Abs(v[0])) {
				t.Fatalf("step %d: %+v\n%+v", i, p, q)
			}
		}
	}
}

// The normal is the one-dimensional mvnormal, and regression on an intercept.
func TestNormalIsRegressionOnAnIntercept(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 8))
	var xs, rows [][]float64
	for i := range 200 {
		x := rng.NormFloat64() + 4*float64(i/50%2)
		xs, rows = append(xs, []float64{x}), append(rows, []float64{1, x})
	}
	n := familytest.New(t, "normal", expfam.Params{"mu": .3, "kappa": .5, "alpha": 2., "beta": 3.})
	same(t, n, familytest.New(t, "mvnormal", expfam.Params{"mu": []float64{.3}, "kappa": .5, "nu": 4., "scale": 6.}), xs, xs, 0, 0)
	same(t, n, familytest.New(t, "regression", expfam.Params{"mean": []float64{.3}, "precision": .5, "alpha": 2., "beta": 3.}), xs, rows, 0, 0)
}

func TestBernoulliIsCategoricalOfTwo(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	var xs [][]float64
	for range 200 {
		xs = append(xs, []float64{float64(rng.IntN(2))})
	}
	// Bernoulli's alpha counts the ones.
	same(t, familytest.New(t, "bernoulli", expfam.Params{"alpha": 2., "beta": .7}), familytest.New(t, "categorical", expfam.Params{"alpha": []float64{.7, 2}}), xs, xs, 0, 0)
}

// In a steady stream the same surprising x is forgiven more after a longer run.
func TestAssumption1AndCorollary1(t *testing.T) {
	m := familytest.New(t, "normal", nil)
	last := 0.0
	for _, run := range []int{10, 40, 160} {
		f := hafvf.NewFilter(m, levels(1), 1)
		s := f.NewState()
		rng := rand.New(rand.NewPCG(4, 4))
		for range run {
			f.Update(s, []float64{rng.NormFloat64()})
		}
		w := f.Update(s, []float64{4}).Weight
		if !(w > last) {
			t.Errorf("after %d steady observations E[w] = %g, not above %g", run, w, last)
		}
		last = w
	}
}

// δL → 0 as θ^η → ∞: at w = 1, δL is the line's q′.
func TestLemma1(t *testing.T) {
	m := familytest.New(t, "bernoulli", nil)
	last := math.Inf(1)
	for n := 10.; n < 1e7; n *= 10 {
		l := m.NewLine()
		l.Set([]float64{.7 * n, .3 * n}, []float64{0, 1})
		dl := math.Abs(l.Jet(1).Q1)
		if !(dl < last) {
			t.Errorf("|δL| = %g at memory %g, %g before", dl, n, last)
		}
		last = dl
	}
	if last > 1e-5 {
		t.Errorf("|δL| = %g is left", last)
	}
}
