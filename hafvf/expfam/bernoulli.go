package expfam

import (
	"fmt"
	"math"
)

func init() {
	Register("bernoulli", func(p Prior, _ int) (Model, error) {
		m := bernoulli{newBeta(p.Positive("alpha", 1), p.Positive("beta", 1))}
		return m, p.Done()
	})
}

// bernoulli has x in {0, 1}, z = logit p, and a Beta(alpha, beta) prior on p.
//
//	T(x) = (x, 1−x),  B = lnΓ(α) + lnΓ(β) − lnΓ(α+β),  log h = 0
type bernoulli struct{ betaPrior }

func (bernoulli) Dim() int        { return 1 }
func (bernoulli) Categories() int { return 2 }

func (bernoulli) Check(x []float64) error {
	if x[0] != 0 && x[0] != 1 {
		return fmt.Errorf("x = %g is neither 0 nor 1", x[0])
	}
	return nil
}

func (bernoulli) Observe(d, x []float64, weight float64) {
	d[0] += weight * x[0]
	d[1] += weight * (1 - x[0])
}

func (bernoulli) LogBase(x []float64) float64 { return 0 }

func (m bernoulli) Predict(mean, sd, d []float64, s float64, _ []float64) {
	a, b := m.posteriorParams(d, s)
	mean[0] = a / (a + b)
	sd[0] = math.Sqrt(a*b) / (a + b)
}

func (m bernoulli) Predictive(dst []Distribution, d []float64, s float64, _ []float64) {
	a, b := m.posteriorParams(d, s)
	dst[0] = Distribution{law: indicator, a: a / (a + b), b: b / (a + b)}
}

// betaPrior is Beta(alpha, beta), the conjugate prior of bernoulli and binomial. A sample is (increment of
// alpha, increment of beta).
type betaPrior struct {
	Natural
	noScale
	alpha, beta float64
}

func newBeta(alpha, beta float64) betaPrior {
	return betaPrior{Natural: Natural{2}, alpha: alpha, beta: beta}
}

// posteriorParams returns the parameters of θ₀ + s·d.
func (b betaPrior) posteriorParams(d []float64, s float64) (alpha, beta float64) {
	return b.alpha + s*d[0], b.beta + s*d[1]
}

func (b betaPrior) PriorMemory() float64       { return b.alpha + b.beta }
func (betaPrior) Memory(d []float64) float64   { return d[0] + d[1] }
func (b betaPrior) NewLine() Line              { return newDirichletLine([]float64{b.alpha, b.beta}) }
func (betaPrior) Params() []Param              { return []Param{{Name: "alpha"}, {Name: "beta"}} }
func (b betaPrior) Posterior(dst, d []float64) { dst[0], dst[1] = b.posteriorParams(d, 1) }
func (betaPrior) Outputs() int                 { return 1 }
func (b betaPrior) Estimate(mean, sd, d, _ []float64) {
	mean[0], sd[0] = betaMoments(b.posteriorParams(d, 1))
}

// betaMoments returns mean and standard deviation of Beta(a, b).
func betaMoments(a, b float64) (mean, sd float64) {
	n := a + b
	return a / n, math.Sqrt(a / n * (b / n) / (n + 1))
}

// Information returns the variance of an observation relative to the variance of a fair coin.
func (m bernoulli) Information(d []float64) float64 {
	var mean, sd [1]float64
	m.Predict(mean[:], sd[:], d, 1, nil)
	return 4 * sd[0] * sd[0]
}

// Reference returns the model with Jeffreys' prior.
func (m bernoulli) Reference() Model {
	m.alpha, m.beta = 0.5, 0.5
	return m
}
