package methods

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/mathext"
)

// Stabilised forgetting with a weight that is inferred anew at every step, the two
// rivals that the paper names beside its Beta prior. Both are variational, with a
// factorised posterior q(z)q(w), which makes of either mixture
//
//	q(z) = θ₀ + E[w]d + T(x)
//	E_q(z)[log p_{t−1}(z) − log p₀(z)] = Δ
//
// and differ in q(w). Steps are repeated until E[w] stands.
//
// truncated: w in [0, 1] has density ∝ exp(γw), the truncated exponential prior of
// hierarchical power priors (Masegosa et al. 2017, Bayesian Models of Data Streams with
// Hierarchical Power Priors), whose bound of the log-partition, linear in w, gives
//
//	q(w) ∝ exp(ωw),  ω = γ + Δ,  E[w] = 1/(1−e^−ω) − 1/ω
//
// There γ is set for batches of a thousand observations. Here a step is one observation,
// and γ = 100 gives the weight the prior mean .99.
//
// mixture: p(z) is p_{t−1} with probability π and else p₀, π ~ Beta(a, b), a Bernoulli
// prior with a Beta hyperprior: what the paper says of van de Laar, Cox, van Diepen and
// de Vries 2017, Variational Stabilized Linear Forgetting in State-Space Models. Of that
// paper only the abstract was at hand; the updates are variational message passing on
// this model:
//
//	E[w] = 1/(1+e^−ω),  ω = Δ + ψ(a) − ψ(b),  a ← a + E[w],  b ← b + 1 − E[w]
var mixtures = []Method{
	{Name: "truncated", About: "truncated-exponential prior of the weight", Setting: "γ = 100: weight .99 a priori", Source: "Masegosa et al. 2017",
		New: func(s Start) Follower { return newTruncated(s, 100) }},
	{Name: "mixture", About: "Bernoulli–Beta linear mixture", Setting: "Beta(99, 1)", Source: "van de Laar et al. 2017, as the paper describes it",
		New: func(s Start) Follower { return newLinear(s, 99, 1) }},
}

// A stabilised filter holds what both have in common.
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

// truncated is the filter with the truncated exponential prior.
type truncated struct {
	stabilised
	gamma   float64
	weights []float64 // at equal shares of the prior
	nodes   []float64 // their logarithms of shares
	terms   []float64
}

func newTruncated(s Start, gamma float64) *truncated {
	const n = 24
	x, weight := make([]float64, n), make([]float64, n)
	quad.Legendre{}.FixedLocations(x, weight, 0, 1)
	t := &truncated{stabilised: newStabilised(s), gamma: gamma, weights: x, nodes: weight, terms: make([]float64, n)}
	for i, u := range x {
		t.weights[i] = 1 + math.Log(u+(1-u)*math.Exp(-gamma))/gamma // the u-quantile of the prior
		t.nodes[i] = math.Log(weight[i])
	}
	return t
}

// Update integrates the density over the prior of the weight.
func (f *truncated) Update(x float64) Step {
	f.see(x)
	f.line.Set(f.d, f.stats)
	for i, w := range f.weights {
		f.terms[i] = f.nodes[i] + f.line.Gain(w)
	}
	step := Step{LogPredictive: logSum(f.terms...) + f.base, Age: -1}
	f.finish(&step, f.infer(truncatedMean(f.gamma), func(delta float64) float64 { return truncatedMean(f.gamma + delta) }))
	return step
}

func (f *truncated) Bytes() int { return word * len(f.d) }

// truncatedMean is that of the density ∝ exp(ωw) on [0, 1].
func truncatedMean(omega float64) float64 {
	if math.Abs(omega) < 1e-3 {
		return .5 + omega/12
	}
	return -1/math.Expm1(-omega) - 1/omega
}

// linear is the filter with the linear mixture.
type linear struct {
	stabilised
	a, b float64
}

func newLinear(s Start, a, b float64) *linear { return &linear{newStabilised(s), a, b} }

func (f *linear) Update(x float64) Step {
	f.see(x)
	p := f.a / (f.a + f.b)
	stay := math.Log(p) + f.predictive(f.d, 1)
	step := Step{LogPredictive: logAdd(stay, math.Log1p(-p)+f.predictive(f.d, 0)), Age: -1}
	prior := mathext.Digamma(f.a) - mathext.Digamma(f.b)
	w := f.infer(math.Exp(stay-step.LogPredictive), func(delta float64) float64 { return 1 / (1 + math.Exp(-delta-prior)) })
	f.a += w
	f.b += 1 - w
	f.finish(&step, w)
	return step
}

func (f *linear) Bytes() int { return word * (len(f.d) + 2) }

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
