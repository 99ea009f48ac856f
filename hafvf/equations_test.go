package hafvf

import (
	"math"
	"testing"

	"hafvf/internal/testing/familytest"
)

// The prior of a weight is the mixture of its last posterior and its naive prior in their parameters, with the
// mean of the weight above: φ̂ = b φ_t₋₁ + (1 − b) φ₀ (equation MixtExpPrior, used in FullJointVB for every
// level).
func TestMixtExpPriorOfTheWeights(t *testing.T) {
	f := NewFilter(familytest.New(t, "poisson", nil), []Beta{{Alpha: 9, Beta: 1}, {Alpha: 2, Beta: 3}}, .75)
	s := f.NewState()
	copy(s[f.model.Len():], []float64{20, 4, 5, 6}) // the previous posteriors
	above := f.prior(s, 1, .75)
	if want := (Beta{2 + .75*3, 3 + .75*3}); above != want {
		t.Errorf("the prior of b is %v, want %v", above, want)
	}
	b := 4.25 / 9.5
	if got, want := f.prior(s, 0, b), (Beta{9 + b*11, 1 + b*3}); math.Abs(got.Alpha-want.Alpha) > 1e-12 || math.Abs(got.Beta-want.Beta) > 1e-12 {
		t.Errorf("the prior of w is %v, want %v", got, want)
	}
	if got, want := f.PriorWeight(s), (9+b*11)/(10+b*14); math.Abs(got-want) > 1e-12 {
		t.Errorf("its mean is %g, want %g", got, want)
	}
}

// A step adds T(x) to the share E[w] of the previous sample: θ_t − θ₀ = T(x_t) + E[w](θ_t₋₁ − θ₀) (equation
// updCVMP). A learning rate of 1/(θ^η) moves the mean from the previous one towards x (equation RL).
func TestUpdCVMPAndRL(t *testing.T) {
	f := NewFilter(familytest.New(t, "poisson", nil), []Beta{{Alpha: 9, Beta: 1}}, 1)
	s := f.NewState()
	var sum, n float64
	for _, x := range []float64{3, 5, 0, 4, 4} {
		f.Update(s, []float64{x})
		w := f.Weight(s)
		sum, n = x+w*sum, 1+w*n
		if got := f.Sample(s); math.Abs(got[0]-sum) > 1e-9 || math.Abs(got[1]-n) > 1e-9 {
			t.Fatalf("after %g the sample is %v, want %g and %g", x, got, sum, n)
		}
		if got, want := f.LearningRate(s), 1/(n+f.model.PriorMemory()); math.Abs(got-want) > 1e-12 {
			t.Errorf("after %g the learning rate is %g, want %g", x, got, want)
		}
	}
}
