package methods

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"
)

// Stabilised exponential forgetting with a truncated exponential prior of the weight, as in hierarchical power priors
// (Masegosa et al. 2017, Bayesian Models of Data Streams with Hierarchical Power Priors): w in [0, 1] has density ∝
// exp(γw). With the linear bound of the log-partition in Masegosa et al., and with Δ as in the stabilised filter,
//
//	q(w) ∝ exp(ωw),  ω = γ + Δ,  E[w] = 1/(1−e^−ω) − 1/ω
//
// Masegosa et al. update once per batch. Here a batch is one observation, and γ = 100 gives the weight the prior mean
// .99.
var truncateds = []Method{
	{Name: "truncated", About: "truncated-exponential prior of the weight", Setting: "γ = 100: weight .99 a priori", Source: "Masegosa et al. 2017",
		New: func(s Start) Follower { return newTruncated(s, 100) }},
}

type truncated struct {
	stabilised
	gamma     float64
	weights   []float64 // quantiles of the prior at the nodes of a quadrature
	logShares []float64 // logarithms of the shares of the nodes
	terms     []float64
}

func newTruncated(s Start, gamma float64) *truncated {
	const n = 24
	x, weight := make([]float64, n), make([]float64, n)
	quad.Legendre{}.FixedLocations(x, weight, 0, 1)
	t := &truncated{stabilised: newStabilised(s), gamma: gamma, weights: x, logShares: weight, terms: make([]float64, n)}
	for i, u := range x {
		t.weights[i] = 1 + math.Log(u+(1-u)*math.Exp(-gamma))/gamma // the u-quantile of the prior
		t.logShares[i] = math.Log(weight[i])
	}
	return t
}

// Update integrates the predictive density over the prior of the weight, and learns x.
func (f *truncated) Update(x float64) Step {
	f.see(x)
	f.line.Set(f.d, f.stats)
	for i, w := range f.weights {
		f.terms[i] = f.logShares[i] + f.line.Gain(w)
	}
	step := Step{LogPredictive: logSum(f.terms...) + f.base, Age: -1}
	f.finish(&step, f.infer(truncatedMean(f.gamma), func(delta float64) float64 { return truncatedMean(f.gamma + delta) }))
	return step
}

func (f *truncated) Bytes() int { return word * len(f.d) }

// truncatedMean returns the mean of the density ∝ exp(ωw) on [0, 1].
func truncatedMean(omega float64) float64 {
	if math.Abs(omega) < 1e-3 {
		return .5 + omega/12
	}
	return -1/math.Expm1(-omega) - 1/omega
}
