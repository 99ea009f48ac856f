package hafvf_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/familytest"
)

// A fitted binomial has the share of the data and the correlation of their trials, and its predictive is a
// distribution of k.
func TestBinomialFits(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, spread := range []float64{0, .3} {
		var xs [][]float64
		for range 2000 {
			n, p, k := 500+rng.IntN(1000), .04*math.Exp(spread*rng.NormFloat64()-spread*spread/2), 0.
			for range n {
				if rng.Float64() < p {
					k++
				}
			}
			xs = append(xs, []float64{k, float64(n)})
		}
		fitted := familytest.New(t, "binomial", nil).(expfam.Fitted)
		ls := fitted.LocationScale(xs)
		// Var p = ρ·p(1−p)
		want := .04 * .04 * math.Expm1(spread*spread) / (.04 * .96)
		if math.Abs(ls[0]-.04) > .001 || math.Abs(ls[1]-want) > .15*want+1e-4 /* three of its standard deviations, √(2m)/Σn */ {
			t.Errorf("spread %g: share %g, correlation %g, want .04 and %g", spread, ls[0], ls[1], want)
		}
		f := hafvf.NewFilter(fitted.Fit(ls), nil, 1)
		s := f.NewState()
		for _, x := range xs[:100] {
			f.Update(s, x)
		}
		sum, mean, square := 0., 0., 0.
		for k := range 801 {
			p := math.Exp(f.Update(slices.Clone(s), []float64{float64(k), 800}).LogPredictive)
			sum += p
			mean += p * float64(k) / 800
			square += p * float64(k*k) / 800 / 800
		}
		predicted, sd := make([]float64, 1), make([]float64, 1)
		f.Model().Predict(predicted, sd, f.Sample(s), 1, []float64{math.NaN(), 800})
		// The continuation by the gamma function is within a few percent if wn·p is above 5.
		if math.Abs(sum-1) > .05 || math.Abs(mean/sum-predicted[0]) > .03*predicted[0] || math.Abs(math.Sqrt(square/sum-mean*mean/sum/sum)-sd[0]) > .1*sd[0] {
			t.Errorf("spread %g: mass %g, mean %g, sd %g; predicted %g, %g", spread, sum, mean/sum, math.Sqrt(square/sum-mean*mean/sum/sum), predicted[0], sd[0])
		}
	}
}

func TestBinomialChecks(t *testing.T) {
	f := hafvf.NewFilter(familytest.New(t, "binomial", nil), nil, 1)
	for want, x := range map[string][]float64{
		"6 successes of 5 trials":                         {6, 5},
		"-1 successes are below zero":                     {-1, 5},
		"-2 trials are below zero":                        {0, -2},
		"1.5 successes are not a whole number up to 2^53": {1.5, 5},
		"x has 3 values, want 2":                          {1, 2, 3},
	} {
		if err := f.Check([][]float64{x}); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", x, err, want)
		}
	}
	if err := f.Check([][]float64{{0, 0}, {math.NaN(), 3}}); err != nil {
		t.Error(err)
	}
	s := f.NewState()
	f.Update(s, []float64{2, 5})
	before := slices.Clone(s)
	if step := f.Update(s, []float64{0, 0}); !slices.Equal(s, before) || !math.IsNaN(step.LogPredictive) {
		t.Errorf("no trial is an observation: %+v", step)
	}
}
