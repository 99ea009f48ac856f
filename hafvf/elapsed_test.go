package hafvf

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The returned φ is a stationary point of the objective for any elapsed time.
func TestUpdateAfterIsStationary(t *testing.T) {
	for _, family := range []string{"normal", "bernoulli", "poisson", "mvnormal"} {
		rng := rand.New(rand.NewPCG(5, 4))
		m, draw := familyStream(t, family, rng)
		f := NewFilter(m, []Beta{{.9, .1}, {1, 1}}, 1)
		s := f.NewState()
		for i := range 100 {
			step := f.UpdateAfter(s, logUniform(rng, .02, 50), draw())
			if !step.Converged {
				t.Errorf("%s, step %d: not converged", family, i)
			}
			// The line is still prepared as in the step, and the level has the elapsed time.
			z := slices.Clone(f.best.point)
			value := func(k, c int, delta float64) float64 {
				y := slices.Clone(z)
				y[k][c] += delta
				f.evaluate(y)
				return f.objective()
			}
			for k := range z {
				for c := range 2 {
					const h = 1e-4
					slope := (value(k, c, h) - value(k, c, -h)) / (2 * h)
					if math.Abs(slope) > 1e-5 {
						t.Fatalf("%s, step %d: slope %g in coordinate %d of level %d", family, i, slope, c, k)
					}
				}
			}
		}
	}
}

// Without a level, Δ units weigh as Δ steps. Zero elapsed time means no forgetting, and a very long time
// forgets everything.
func TestUpdateAfterExtremes(t *testing.T) {
	m, _ := familyStream(t, "normal", nil)
	f := NewFilter(m, nil, .9)
	s := f.NewState()
	f.Update(s, []float64{1})
	if step := f.UpdateAfter(s, 2.5, []float64{2}); math.Abs(step.Memory-(1+math.Pow(.9, 2.5))) > 1e-14 {
		t.Errorf("memory %g", step.Memory)
	}
	if w, want := f.PriorWeightAfter(s, 2.5), math.Pow(.9, 2.5); w != want {
		t.Errorf("prior weight %g, want %g", w, want)
	}
	f = NewFilter(m, []Beta{{9, 1}, {1, 1}}, 1)
	s = f.NewState()
	for i := range 20 {
		f.Update(s, []float64{math.Sin(float64(i))})
	}
	none, eternity := slices.Clone(s), slices.Clone(s)
	before := m.Memory(f.Sample(s))
	exact := NewFilter(m, nil, 1)
	want := exact.Update(slices.Clone(exact.Sample(s)), []float64{1})
	if step := f.UpdateAfter(none, 0, []float64{1}); math.Abs(step.Memory-before-1) > 1e-9 || math.Abs(step.LogPredictive-want.LogPredictive) > 1e-12 {
		t.Errorf("after no time: %+v, without forgetting %+v", step, want)
	}
	if step := f.UpdateAfter(eternity, 1e6, []float64{1}); math.Abs(step.Memory-1) > .01 {
		t.Errorf("after a long time: %+v", step)
	}
	if w := f.PriorWeightAfter(s, 0); w != 1 {
		t.Errorf("prior weight %g after no time", w)
	}
}
