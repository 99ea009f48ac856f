package hafvf

import (
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/internal/testing/familytest"
)

// fixedPoint iterates φ ← φ + damping·(φ̂ + u₁ + u₂ + u₃ − φ) over all levels, as
// Proposition 1 describes, from where the levels stand.
func (f *Filter) fixedPoint(at [][2]float64) (ok bool) {
	const damping = 0.2
	for range 20_000 {
		f.evaluate(at)
		change := 0.0
		for i := range f.levels {
			l := &f.levels[i]
			u := l.Increment()
			a := l.Prior.Alpha + u.U1[0] + u.U2[0] + u.U3[0]
			b := l.Prior.Beta + u.U1[1] + u.U2[1] + u.U3[1]
			if !(a > 0 && b > 0) {
				// The paper's reset, only as far as is needed.
				a, b = math.Max(a, l.A/2), math.Max(b, l.B/2)
			}
			change = math.Max(change, math.Max(math.Abs(a-l.A)/l.A, math.Abs(b-l.B)/l.B))
			a, b = l.A+damping*(a-l.A), l.B+damping*(b-l.B)
			at[i] = [2]float64{math.Log(a / b), math.Log(a + b)}
		}
		if change < 1e-11 {
			return true
		}
	}
	return false
}

// TestProposition1: started at the update's φ moved by a tenth, the paper's
// iteration leads back to it.
func TestProposition1(t *testing.T) {
	m := familytest.New(t, "normal", nil)
	rng := rand.New(rand.NewPCG(2, 2))
	f := NewFilter(m, []Beta{{.9, .1}, {1, 1}}, 1)
	s := f.NewState()
	agreed, ended := 0, 0
	for i := range 200 {
		x := rng.NormFloat64() + 4*float64(i/50%2)
		f.Update(s, []float64{x})
		at := make([][2]float64, 2)
		for k, l := range f.levels {
			at[k] = [2]float64{l.X + 0.1, l.Y - 0.1}
		}
		value := f.best.value
		if !f.fixedPoint(at) {
			continue
		}
		ended++
		if f.objective() < value-1e-6 {
			continue // led to another, lower maximum
		}
		agreed++
		for k := range f.levels {
			l, want := &f.levels[k], f.Level(s, k)
			if math.Abs(l.A-want.Alpha) > 1e-5*want.Alpha || math.Abs(l.B-want.Beta) > 1e-5*want.Beta {
				t.Errorf("step %d level %d: fixed point (%.9g, %.9g), update %.9g", i, k, l.A, l.B, want)
			}
		}
	}
	t.Logf("of 200 steps the fixed point converged in %d and agreed in %d", ended, agreed)
	if agreed < 190 {
		t.Errorf("agreed in %d steps only", agreed)
	}
}
