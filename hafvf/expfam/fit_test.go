package expfam_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/familytest"
)

// The scale of a session whose level jumps is the scale of the noise, for any levels, in every coordinate.
func TestFitSegments(t *testing.T) {
	rng := rand.New(rand.NewPCG(71, 1))
	var one, two [][]float64
	for i := range 280 {
		level := 100 * float64(i/7%2)
		x := level + rng.NormFloat64()
		one = append(one, []float64{x})
		two = append(two, []float64{x, 1e3 * rng.NormFloat64()})
	}
	scale := math.Sqrt(familytest.Posterior(familytest.New(t, "normal", nil).(expfam.Segmented).FitSegments(one), make([]float64, 3))[3])
	if !(scale > .8 && scale < 1.4) {
		t.Errorf("scale %g of noise of 1", scale)
	}
	m := familytest.New(t, "mvnormal", expfam.Params{"mu": []float64{0, 0}}).(expfam.Segmented).FitSegments(two)
	mean, sd := make([]float64, 2), make([]float64, 2)
	d := make([]float64, m.Len())
	for _, x := range two[:7] {
		m.Observe(d, x, 1)
	}
	if m.Predict(mean, sd, d, 1, nil); !(sd[0] > .5 && sd[0] < 3) || !(sd[1] > 400 && sd[1] < 2500) {
		t.Errorf("standard deviations %v of noise of 1 and 1000", sd)
	}
}
