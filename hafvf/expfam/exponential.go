package expfam

import (
	"fmt"
	"math"
)

func init() {
	Register("exponential", func(p Prior, _ int) (Model, error) {
		m := exponential{gammaPrior: newGammaPrior(p)}
		return m, p.Done()
	})
}

// exponential has x ≥ 0 and a Gamma(shape, rate) prior on its rate.
//
//	T(x) = (1, x),  B = lnΓ(a) − a ln b,  log h = 0
type exponential struct{ gammaPrior }

func (exponential) Check(x []float64) error {
	if x[0] < 0 {
		return fmt.Errorf("x = %g is below zero", x[0])
	}
	return CheckFinite(x)
}

func (exponential) Observe(d, x []float64, weight float64) {
	d[0] += weight
	d[1] += weight * x[0]
}

func (m exponential) PriorMemory() float64     { return m.shape }
func (exponential) Memory(d []float64) float64 { return d[0] }
func (exponential) LogBase([]float64) float64  { return 0 }

// Estimate describes the mean 1/rate, whose posterior is inverse-gamma.
func (m exponential) Estimate(mean, sd, d, _ []float64) {
	a, b := m.shape+d[0], m.rate+d[1]
	mean[0] = ratioAbove(b, a-1)
	sd[0] = mean[0] * math.Sqrt(ratioAbove(1, a-2))
}

// Predict returns the moments of the Lomax distribution.
func (m exponential) Predict(mean, sd, d []float64, s float64, _ []float64) {
	mean[0], sd[0] = lomaxMoments(m.shape+s*d[0], m.rate+s*d[1])
}

func (m exponential) Predictive(dst []Distribution, d []float64, s float64, _ []float64) {
	dst[0] = Distribution{law: lomax, a: m.shape + s*d[0], b: m.rate + s*d[1]}
}

// ratioAbove returns x/y, or +Inf if y is not above zero. It is used for moments that can be infinite.
func ratioAbove(x, y float64) float64 {
	if y <= 0 {
		return math.Inf(1)
	}
	return x / y
}
