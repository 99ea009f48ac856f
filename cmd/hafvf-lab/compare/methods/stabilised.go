package methods

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// A stabilised filter forgets with a weight w that is inferred anew at every step: truncated
// and mixture, the two rivals that the paper names beside its Beta prior. Both are
// variational, with a factorised posterior q(z)q(w), which makes of either mixture
//
//	q(z) = θ₀ + E[w]d + T(x)
//	Δ = E_q(z)[log p_{t−1}(z) − log p₀(z)]
//
// and differ in q(w). Steps are repeated until E[w] stands.
type stabilised struct {
	conjugate
	family         string
	d, trial       []float64
	naive, past, q []float64 // textbook parameters
}

func newStabilised(s Start) stabilised {
	f := stabilised{conjugate: newConjugate(s.Model), family: s.Family, d: make([]float64, s.Model.Len()), trial: make([]float64, s.Model.Len())}
	n := 0
	for _, p := range s.Model.Params() {
		n += p.Size()
	}
	f.naive, f.past, f.q = make([]float64, n), make([]float64, n), make([]float64, n)
	f.Posterior(f.naive, f.trial)
	return f
}

// infer returns E[w] at the fixed point that repeated steps reach from w.
func (f *stabilised) infer(w float64, weight func(delta float64) float64) float64 {
	f.Posterior(f.past, f.d)
	for range 200 {
		copy(f.trial, f.d)
		f.learn(f.trial, w)
		f.Posterior(f.q, f.trial)
		next := weight(expectedLog(f.family, f.q, f.past) - expectedLog(f.family, f.q, f.naive))
		if math.Abs(next-w) < 1e-10 {
			return next
		}
		w = next
	}
	return w
}

// finish learns the observation, and fills in the step's estimate.
func (f *stabilised) finish(step *Step, w float64) {
	f.learn(f.d, w)
	step.Mean, step.SD = f.estimate(f.d)
}

// expectedLog is E_q[log p(z)], where q and p are the conjugate prior of the family with
// these textbook parameters.
func expectedLog(family string, q, p []float64) float64 {
	lgamma := func(x float64) float64 { v, _ := math.Lgamma(x); return v }
	switch family {
	case "bernoulli":
		a, b := q[0], q[1]
		both := mathext.Digamma(a + b)
		return (p[0]-1)*(mathext.Digamma(a)-both) + (p[1]-1)*(mathext.Digamma(b)-both) - mathext.Lbeta(p[0], p[1])
	case "poisson", "exponential":
		shape, rate := p[0], p[1]
		return shape*math.Log(rate) - lgamma(shape) + (shape-1)*(mathext.Digamma(q[0])-math.Log(q[1])) - rate*q[0]/q[1]
	case "normal":
		mu, kappa, alpha, beta := q[0], q[1], q[2], q[3]
		precision := alpha / beta                              // E[1/σ²]
		logVariance := math.Log(beta) - mathext.Digamma(alpha) // E[log σ²]
		off := (mu-p[0])*(mu-p[0])*precision + 1/kappa
		return .5*math.Log(p[1]/(2*math.Pi)) - .5*p[1]*off +
			p[2]*math.Log(p[3]) - lgamma(p[2]) - (p[2]+1.5)*logVariance - p[3]*precision
	}
	panic("methods: no conjugate prior is known for " + family)
}
