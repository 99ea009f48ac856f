package methods

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// HAFVF's model with the weights integrated out, as in collapsed but with another projection. Each step computes the
// exact mixture over w and b,
//
//	p(z, w, b|x…x) ∝ p(b) p(w|b) p(z|θ₀ + w·d) p(x|z)
//
// by quadrature. It stores the conjugate prior with the same E[T(z)], and the Beta distributions with the same E[log
// w] and E[log(1−w)]. These have the smallest Kullback–Leibler divergence from the mixture. θ is not always θ₀ plus a
// sample: precision and degrees of freedom of a normal mean grow apart.
var matcheds = []Method{
	{Name: "matched", About: "HAFVF, two levels, weights integrated out, E[T(z)] matched", Setting: "levels {.9, .1}, {1, 1}, 41 × 11 nodes", Source: "Moens 2018, outlook",
		New: func(s Start) Follower { return newMatched(s) }},
}

// A law is a likelihood with its conjugate prior, given by textbook parameters θ.
type law interface {
	// forget writes (1−w)·θ₀ + w·θ, computed in natural parameters, to dst.
	forget(dst, naive, theta []float64, w float64)
	learn(theta []float64, x float64)
	logPartition(theta []float64) float64
	logBase(x float64) float64
	// match writes the θ with the expected statistics of the mixture to dst.
	match(dst []float64, mixture [][]float64, share []float64)
	// moments returns mean and standard deviation of the likelihood's mean, NaN if undefined.
	moments(theta []float64) (mean, sd float64)
}

func lawOf(family string) law {
	switch family {
	case "bernoulli":
		return betaLaw{}
	case "poisson":
		return gammaLaw{}
	case "exponential":
		return gammaLaw{exponential: true}
	case "normal":
		return normalLaw{}
	}
	panic("methods: no conjugate prior is known for " + family)
}

// A projection stores one θ. At each observation it forms a mixture over weights, and projects it to the next θ.
type projection struct {
	law
	naive, theta []float64
	weights      []float64
	mixture      [][]float64 // θ after the observation, by weight
	gain         []float64   // log p(x|w)
	share        []float64
}

func newProjection(s Start, weights []float64) projection {
	n := 0
	for _, p := range s.Model.Params() {
		n += p.Size()
	}
	p := projection{law: lawOf(s.Family), naive: make([]float64, n), weights: weights,
		gain: make([]float64, len(weights)), share: make([]float64, len(weights))}
	s.Model.Posterior(p.naive, make([]float64, s.Model.Len()))
	p.theta = append(p.theta, p.naive...)
	for range weights {
		p.mixture = append(p.mixture, make([]float64, n))
	}
	return p
}

// see sets mixture and gain for the observation x.
func (p *projection) see(x float64) {
	base := p.logBase(x)
	for i, w := range p.weights {
		if i > 0 && w == p.weights[i-1] {
			copy(p.mixture[i], p.mixture[i-1])
			p.gain[i] = p.gain[i-1]
			continue
		}
		theta := p.mixture[i]
		p.forget(theta, p.naive, p.theta, w)
		p.gain[i] = base - p.logPartition(theta)
		p.learn(theta, x)
		p.gain[i] += p.logPartition(theta)
	}
}

func (p *projection) finish(step *Step) {
	p.match(p.theta, p.mixture, p.share)
	step.Mean, step.SD = p.moments(p.theta)
}

// nodes is a quadrature over a weight in (0, 1) at equal steps of t, logit w = sinh t. The nodes reach the mass of a
// Beta distribution with a parameter of .1.
type nodes struct{ w, logW, log1W, logStep []float64 }

func newNodes(n int) nodes {
	const end = 6.2
	h := 2 * end / float64(n-1)
	var v nodes
	for i := range n {
		t := -end + h*float64(i)
		u := math.Sinh(t)
		v.w = append(v.w, 1/(1+math.Exp(-u)))
		v.logW = append(v.logW, -math.Log1p(math.Exp(-math.Abs(u)))+min(u, 0))
		v.log1W = append(v.log1W, -math.Log1p(math.Exp(-math.Abs(u)))-max(u, 0))
		v.logStep = append(v.logStep, math.Log(h*math.Cosh(t)))
	}
	return v
}

// logShares writes the logarithms of the nodes' shares under the Beta distribution p to dst.
func (v nodes) logShares(dst []float64, p betaPrior) {
	norm := mathext.Lbeta(p.a, p.b)
	for i := range dst {
		dst[i] = p.a*v.logW[i] + p.b*v.log1W[i] - norm + v.logStep[i]
	}
	total := logSum(dst...)
	for i := range dst {
		dst[i] -= total
	}
}

// project returns the Beta distribution nearest to the shares. The search starts from start.
func (v nodes) project(share []float64, start betaPrior) betaPrior {
	var logW, log1W float64
	for i, p := range share {
		logW += p * v.logW[i]
		log1W += p * v.log1W[i]
	}
	return betaOfLogs(logW, log1W, start)
}

type matched struct {
	projection
	nodesW, nodesB   nodes
	naive, posterior [2]betaPrior // index 0 for w, 1 for b
	priorW, priorB   []float64
	shareB           []float64
}

func newMatched(s Start) *matched {
	m := &matched{nodesW: newNodes(41), nodesB: newNodes(11)}
	m.projection = newProjection(s, m.nodesW.w)
	m.naive = [2]betaPrior{{.9, .1}, {1, 1}}
	m.posterior = m.naive
	m.priorW, m.priorB, m.shareB = make([]float64, 41), make([]float64, 11), make([]float64, 11)
	return m
}

func (m *matched) Update(x float64) Step {
	m.see(x)
	clear(m.share)
	clear(m.shareB)
	m.nodesB.logShares(m.priorB, m.posterior[1]) // γ = 1
	top := m.gain[0]
	for _, g := range m.gain {
		top = max(top, g)
	}
	total := 0.0
	for j, b := range m.nodesB.w {
		m.nodesW.logShares(m.priorW, m.naive[0].towards(m.posterior[0], b))
		for i, g := range m.gain {
			p := math.Exp(m.priorB[j] + m.priorW[i] + g - top)
			m.share[i] += p
			m.shareB[j] += p
			total += p
		}
	}
	for _, shares := range [][]float64{m.share, m.shareB} {
		for i := range shares {
			shares[i] /= total
		}
	}
	m.posterior[0] = m.nodesW.project(m.share, m.posterior[0])
	m.posterior[1] = m.nodesB.project(m.shareB, m.posterior[1])
	step := Step{LogPredictive: top + math.Log(total), Age: -1}
	m.finish(&step)
	return step
}

func (m *matched) Bytes() int { return word * (len(m.theta) + 4) }

// betaLaw: x ~ Bernoulli(p), p ~ Beta(θ).
type betaLaw struct{}

func (betaLaw) forget(dst, naive, theta []float64, w float64) {
	for i := range dst {
		dst[i] = (1-w)*naive[i] + w*theta[i]
	}
}

func (betaLaw) learn(theta []float64, x float64) {
	theta[0] += x
	theta[1] += 1 - x
}

func (betaLaw) logPartition(theta []float64) float64 { return mathext.Lbeta(theta[0], theta[1]) }
func (betaLaw) logBase(float64) float64              { return 0 }

func (betaLaw) match(dst []float64, mixture [][]float64, share []float64) {
	var logP, log1P, a, b float64
	for i, p := range share {
		theta := mixture[i]
		digammaSum := mathext.Digamma(theta[0] + theta[1])
		logP += p * (mathext.Digamma(theta[0]) - digammaSum)
		log1P += p * (mathext.Digamma(theta[1]) - digammaSum)
		a += p * theta[0]
		b += p * theta[1]
	}
	matched := betaOfLogs(logP, log1P, betaPrior{a, b})
	dst[0], dst[1] = matched.a, matched.b
}

func (betaLaw) moments(theta []float64) (mean, sd float64) {
	n := theta[0] + theta[1]
	mean = theta[0] / n
	return mean, math.Sqrt(mean * theta[1] / n / (n + 1))
}

// gammaLaw: x ~ Poisson(λ), or x ~ Exponential(λ), λ ~ Gamma(shape, rate).
type gammaLaw struct{ exponential bool }

func (gammaLaw) forget(dst, naive, theta []float64, w float64) {
	betaLaw{}.forget(dst, naive, theta, w)
}

func (l gammaLaw) learn(theta []float64, x float64) {
	if l.exponential {
		theta[0]++
		theta[1] += x
		return
	}
	theta[0] += x
	theta[1]++
}

func (gammaLaw) logPartition(theta []float64) float64 {
	v, _ := math.Lgamma(theta[0])
	return v - theta[0]*math.Log(theta[1])
}

func (l gammaLaw) logBase(x float64) float64 {
	if l.exponential {
		return 0
	}
	v, _ := math.Lgamma(x + 1)
	return -v
}

func (gammaLaw) match(dst []float64, mixture [][]float64, share []float64) {
	var mean, logMean, shape float64
	for i, p := range share {
		theta := mixture[i]
		mean += p * theta[0] / theta[1]
		logMean += p * (mathext.Digamma(theta[0]) - math.Log(theta[1]))
		shape += p * theta[0]
	}
	dst[0] = gammaShape(logMean-math.Log(mean), shape)
	dst[1] = dst[0] / mean
}

func (l gammaLaw) moments(theta []float64) (mean, sd float64) {
	shape, rate := theta[0], theta[1]
	if !l.exponential {
		return shape / rate, math.Sqrt(shape) / rate
	}
	// 1/λ has an inverse gamma distribution.
	mean, sd = nan, nan
	if shape > 1 {
		mean = rate / (shape - 1)
	}
	if shape > 2 {
		sd = mean / math.Sqrt(shape-2)
	}
	return mean, sd
}

// gammaShape returns the a that solves ψ(a) − log a = v < 0, by Newton's method on log a from the given a.
func gammaShape(v, a float64) float64 {
	for range 100 {
		step := (mathext.Digamma(a) - math.Log(a) - v) / (a*trigamma(a) - 1)
		if step = max(-1, min(step, 1)); math.IsNaN(step) {
			return a
		}
		a *= math.Exp(-step)
		if math.Abs(step) < 1e-12 {
			break
		}
	}
	return a
}

// normalLaw: x ~ N(μ, 1/τ), μ|τ ~ N(m, 1/(κτ)), τ ~ Gamma(α, β); θ = (m, κ, α, β).
type normalLaw struct{}

func (normalLaw) forget(dst, naive, theta []float64, w float64) {
	k0, k := (1-w)*naive[1], w*theta[1]
	delta := theta[0] - naive[0]
	dst[1] = k0 + k
	dst[0] = naive[0] + k/dst[1]*delta
	dst[2] = (1-w)*naive[2] + w*theta[2]
	dst[3] = (1-w)*naive[3] + w*theta[3] + .5*k0*(k/dst[1])*delta*delta
}

func (normalLaw) learn(theta []float64, x float64) {
	delta := x - theta[0]
	theta[3] += .5 * theta[1] / (theta[1] + 1) * delta * delta
	theta[1]++
	theta[0] += delta / theta[1]
	theta[2] += .5
}

func (normalLaw) logPartition(theta []float64) float64 {
	v, _ := math.Lgamma(theta[2])
	return v - theta[2]*math.Log(theta[3]) - .5*math.Log(theta[1])
}

func (normalLaw) logBase(float64) float64 { return -.5 * math.Log(2*math.Pi) }

// match preserves E[τ], E[τμ], E[τμ²] and E[log τ].
func (normalLaw) match(dst []float64, mixture [][]float64, share []float64) {
	var precision, mean, logPrecision, alpha float64
	for i, p := range share {
		m, a, b := mixture[i][0], mixture[i][2], mixture[i][3]
		precision += p * a / b
		mean += p * a / b * m
		logPrecision += p * (mathext.Digamma(a) - math.Log(b))
		alpha += p * a
	}
	mean /= precision
	variance := 0.0
	for i, p := range share {
		theta := mixture[i]
		delta := theta[0] - mean
		variance += p * (1/theta[1] + theta[2]/theta[3]*delta*delta)
	}
	dst[0], dst[1] = mean, 1/variance
	dst[2] = gammaShape(logPrecision-math.Log(precision), alpha)
	dst[3] = dst[2] / precision
}

func (normalLaw) moments(theta []float64) (mean, sd float64) {
	sd = nan
	if theta[2] > 1 {
		sd = math.Sqrt(theta[3] / (theta[1] * (theta[2] - 1)))
	}
	return theta[0], sd
}
