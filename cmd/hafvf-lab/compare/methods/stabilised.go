package methods

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// stabilised is the common part of truncated and mixture, which forget with a weight w that is inferred at every
// step. The paper names both as alternatives to its Beta prior. Both are variational, with a factorised posterior
// q(z)q(w). For both,
//
//	q(z) = θ₀ + E[w]d + T(x)
//	Δ = E_q(z)[log p_{t−1}(z) − log p₀(z)]
//
// They differ in q(w). The updates are repeated until E[w] converges.
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

// infer returns E[w] at the fixed point of the updates, starting from w. weight returns E[w] for a value of Δ. infer
// stops after 200 updates.
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

// finish learns the observation with weight w, and sets the estimate of step.
func (f *stabilised) finish(step *Step, w float64) {
	f.learn(f.d, w)
	step.Mean, step.SD = f.estimate(f.d)
}

// expectedLog returns E_q[log p(z)]. q and p are conjugate priors of the family, given by textbook parameters.
func expectedLog(family string, q, p []float64) float64 {
	lgamma := func(x float64) float64 { v, _ := math.Lgamma(x); return v }
	switch family {
	case "bernoulli":
		a, b := q[0], q[1]
		digammaSum := mathext.Digamma(a + b)
		return (p[0]-1)*(mathext.Digamma(a)-digammaSum) + (p[1]-1)*(mathext.Digamma(b)-digammaSum) - mathext.Lbeta(p[0], p[1])
	case "poisson", "exponential":
		shape, rate := p[0], p[1]
		return shape*math.Log(rate) - lgamma(shape) + (shape-1)*(mathext.Digamma(q[0])-math.Log(q[1])) - rate*q[0]/q[1]
	case "normal":
		mu, kappa, alpha, beta := q[0], q[1], q[2], q[3]
		precision := alpha / beta                              // E[1/σ²]
		logVariance := math.Log(beta) - mathext.Digamma(alpha) // E[log σ²]
		distance := (mu-p[0])*(mu-p[0])*precision + 1/kappa
		return .5*math.Log(p[1]/(2*math.Pi)) - .5*p[1]*distance +
			p[2]*math.Log(p[3]) - lgamma(p[2]) - (p[2]+1.5)*logVariance - p[3]*precision
	}
	panic("methods: no conjugate prior is known for " + family)
}
