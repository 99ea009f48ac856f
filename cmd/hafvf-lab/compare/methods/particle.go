package methods

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mathext"
)

// The Rao–Blackwellised particle filter of the paper's own model (Moens 2018, equation FullJointVB) with two levels.
// Its advantage over HAFVF measures the loss of the variational step. Given the weights w of all steps, z is
// conjugate. A particle is a history of weights; it stores the resulting sample d:
//
//	b ~ Beta(β₀ + γ(β − β₀)),  w|b ~ Beta(φ₀ + b(φ − φ₀))
//	d ← w·d + T(x), weighted by p(x|θ₀ + w·d)
//
// q(z) is then a mixture with one conjugate posterior per particle, instead of a single one. The model forgets the
// marginals p(w|x…x) and p(b|x…x). They are stored as the Beta distributions with the same E[log w] and E[log(1−w)].
// Each expectation is its value before x, by integration, plus the change from the weights of the particles. With
// means over particles alone, sampling noise would accumulate as if it were evidence. Particles are resampled
// systematically at every step (Doucet and Johansen 2009).
var particles = []Method{
	particleMethod("particle", "1,000 particles", 1000, false),
	particleMethod("particle-100", "100 particles", 100, false),
	particleMethod("particle-10000", "10,000 particles", 10000, true),
}

func particleMethod(name, setting string, n int, onRequest bool) Method {
	return Method{Name: name, About: "Rao–Blackwellised particle filter of HAFVF's model, two levels", Setting: setting, Source: "Moens 2018, equation FullJointVB",
		OnRequest: onRequest, Slow: n >= 1000, New: func(s Start) Follower { return newParticle(s, n) }}
}

// A betaPrior is a Beta distribution with parameters a and b.
type betaPrior struct{ a, b float64 }

// towards returns the distribution after p is forgotten with weight w: naive for w = 0, p for w = 1.
func (naive betaPrior) towards(p betaPrior, w float64) betaPrior {
	return betaPrior{naive.a + w*(p.a-naive.a), naive.b + w*(p.b-naive.b)}
}

type particle struct {
	conjugate
	naive, posterior [2]betaPrior // index 0 for w, 1 for b
	top              float64
	samples, next    [][]float64
	rng              *rand.Rand

	logWeight, w, weight []float64
	logs                 [4][]float64 // log w, log(1−w), log b, log(1−b)
}

func newParticle(s Start, n int) *particle {
	p := &particle{conjugate: newConjugate(s.Model), top: 1, rng: rand.New(rand.NewPCG(s.Seed, 2018))}
	p.naive = [2]betaPrior{{.9, .1}, {1, 1}}
	p.posterior = p.naive
	for _, buffer := range []*[][]float64{&p.samples, &p.next} {
		*buffer = make([][]float64, n)
		for i := range *buffer {
			(*buffer)[i] = make([]float64, s.Model.Len())
		}
	}
	p.logWeight, p.w, p.weight = make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range p.logs {
		p.logs[i] = make([]float64, n)
	}
	return p
}

func (p *particle) Update(x float64) Step {
	p.see(x)
	top := math.Inf(-1)
	priorB := p.naive[1].towards(p.posterior[1], p.top)
	for i, d := range p.samples {
		var b float64
		b, p.logs[2][i], p.logs[3][i] = priorB.rand(p.rng)
		priorW := p.naive[0].towards(p.posterior[0], b)
		p.w[i], p.logs[0][i], p.logs[1][i] = priorW.rand(p.rng)
		p.logWeight[i] = p.predictive(d, p.w[i])
		top = max(top, p.logWeight[i])
	}
	sum := 0.0
	for i, l := range p.logWeight {
		p.weight[i] = math.Exp(l - top)
		sum += p.weight[i]
	}
	n := float64(len(p.weight))
	means := p.priorMeans(priorB)
	var estimate blend
	for i, d := range p.samples {
		p.weight[i] /= sum
		p.learn(d, p.w[i])
		for j, logs := range p.logs {
			means[j] += (p.weight[i] - 1/n) * logs[i]
		}
		if p.weight[i] == 0 {
			continue
		}
		mean, sd := p.estimate(d)
		estimate.add(p.weight[i], mean, sd)
	}
	for j := range p.posterior {
		p.posterior[j] = betaOfLogs(means[2*j], means[2*j+1], p.posterior[j])
	}
	p.resample()
	step := Step{LogPredictive: top + math.Log(sum/n), Age: -1}
	step.Mean, step.SD = estimate.moments()
	return step
}

// priorMeans returns E[log w], E[log(1−w)], E[log b] and E[log(1−b)] before an observation. It computes the first two
// by the trapezoidal rule in u = logit b, up to eight standard deviations from the mean.
func (p *particle) priorMeans(priorB betaPrior) (means [4]float64) {
	means[2], means[3] = priorB.meanLogs()
	const nodes = 16 // nodes on either side
	mid, step := means[2]-means[3], 8*math.Sqrt(trigamma(priorB.a)+trigamma(priorB.b))/nodes
	density := func(u float64) float64 { // logarithm of the density, up to a constant
		return -priorB.a*softplus(-u) - priorB.b*softplus(u)
	}
	sum := 0.0
	for k := -nodes; k <= nodes; k++ {
		u := mid + float64(k)*step
		weight := math.Exp(density(u) - density(mid))
		logW, log1W := p.naive[0].towards(p.posterior[0], math.Exp(-softplus(-u))).meanLogs()
		sum += weight
		means[0] += weight * logW
		means[1] += weight * log1W
	}
	means[0] /= sum
	means[1] /= sum
	return means
}

// softplus returns log(1 + e^u).
func softplus(u float64) float64 { return max(u, 0) + math.Log1p(math.Exp(-math.Abs(u))) }

// meanLogs returns E[log w] and E[log(1−w)].
func (p betaPrior) meanLogs() (logW, log1W float64) {
	digammaSum := mathext.Digamma(p.a + p.b)
	return mathext.Digamma(p.a) - digammaSum, mathext.Digamma(p.b) - digammaSum
}

// resample draws particles systematically: particle i is drawn ⌊nWᵢ⌋ or ⌈nWᵢ⌉ times.
func (p *particle) resample() {
	n := float64(len(p.weight))
	offset, source := p.rng.Float64(), 0
	cumulated := p.weight[0] * n
	for i := range p.next {
		for offset+float64(i) > cumulated && source < len(p.weight)-1 {
			source++
			cumulated += p.weight[source] * n
		}
		copy(p.next[i], p.samples[source])
	}
	p.samples, p.next = p.next, p.samples
}

func (p *particle) Bytes() int { return word * (len(p.samples)*len(p.samples[0]) + 4) }

// rand draws w, log w and log(1−w) from the ratio of two gamma variables. The logarithms have the precision that w
// and 1−w lose by rounding.
func (p betaPrior) rand(rng *rand.Rand) (w, logW, log1W float64) {
	odds := logGamma(p.a, rng) - logGamma(p.b, rng)
	e := math.Exp(-math.Abs(odds))
	l := -math.Log1p(e)
	if odds < 0 {
		return e / (1 + e), odds + l, l
	}
	return 1 / (1 + e), l, l - odds
}

// logGamma draws the logarithm of a gamma variable with scale 1 (Marsaglia and Tsang 2000).
func logGamma(shape float64, rng *rand.Rand) float64 {
	boost := 0.0
	if shape < 1 {
		boost = math.Log(rng.Float64()) / shape
		shape++
	}
	d := shape - 1./3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		u := rng.Float64()
		if u < 1-.0331*x*x*x*x || math.Log(u) < .5*x*x+d*(1-v+math.Log(v)) {
			return math.Log(d*v) + boost
		}
	}
}

// betaOfLogs returns the Beta distribution with the given E[log w] and E[log(1−w)], by Newton's method on log a and
// log b. It starts from start, and returns start if a parameter leaves the range from 1e-8 to 1e8.
func betaOfLogs(logW, log1W float64, start betaPrior) betaPrior {
	a, b := start.a, start.b
	for range 100 {
		digammaSum, slope := mathext.Digamma(a+b), trigamma(a+b)
		f, g := mathext.Digamma(a)-digammaSum-logW, mathext.Digamma(b)-digammaSum-log1W
		// The Jacobian of (f, g) with respect to (log a, log b).
		fa, fb := a*(trigamma(a)-slope), -b*slope
		ga, gb := -a*slope, b*(trigamma(b)-slope)
		det := fa*gb - fb*ga
		da, db := (g*fb-f*gb)/det, (f*ga-g*fa)/det
		const maxStep = 1.
		if size := max(math.Abs(da), math.Abs(db)); size > maxStep {
			da, db = da*maxStep/size, db*maxStep/size
		}
		a *= math.Exp(da)
		b *= math.Exp(db)
		if !(a < 1e8 && b < 1e8 && a > 1e-8 && b > 1e-8) {
			return start // the distribution is so narrow or so extreme that start is close enough
		}
		if max(math.Abs(da), math.Abs(db)) < 1e-10 {
			break
		}
	}
	return betaPrior{a, b}
}

// trigamma returns ψ′(x) for x > 0. It raises x to at least 8 by the recurrence, and uses the asymptotic series there.
func trigamma(x float64) float64 {
	sum := 0.0
	for ; x < 8; x++ {
		sum += 1 / (x * x)
	}
	r := 1 / (x * x)
	return sum + 1/x + r/2 + r/x*(1./6-r*(1./30-r*(1./42-r*(1./30-r*5/66))))
}
