package expfam

import (
	"fmt"
	"math"
)

func init() {
	Register("poisson", func(p Prior, _ int) (Model, error) {
		m := poisson{gammaPrior: newGammaPrior(p)}
		return m, p.Done()
	})
}

// poisson has x in {0, 1, …} and a Gamma(shape, rate) prior on the mean.
//
//	T(x) = (x, 1),  B = lnΓ(a) − a ln b,  log h = −ln x!
type poisson struct{ gammaPrior }

func (poisson) Check(x []float64) error { return checkCount(x[0]) }

func (poisson) Observe(d, x []float64, weight float64) {
	d[0] += weight * x[0]
	d[1] += weight
}

func (m poisson) PriorMemory() float64      { return m.rate }
func (poisson) Memory(d []float64) float64  { return d[1] }
func (poisson) LogBase(x []float64) float64 { return -lgamma(x[0] + 1) }

func (m poisson) Estimate(mean, sd, d, _ []float64) {
	a, b := m.shape+d[0], m.rate+d[1]
	mean[0], sd[0] = a/b, math.Sqrt(a)/b
}

func (m poisson) Predict(mean, sd, d []float64, s float64, _ []float64) {
	a, b := m.shape+s*d[0], m.rate+s*d[1]
	mean[0], sd[0] = a/b, math.Sqrt(a*(b+1))/b
}

func (m poisson) Predictive(dst []Distribution, d []float64, s float64, _ []float64) {
	dst[0] = Distribution{law: negativeBinomial, a: m.shape + s*d[0], b: m.rate + s*d[1]}
}

// Exposable is a model of counts that can have an exposure, such as the time or traffic that a count covers.
type Exposable interface {
	Model
	// Exposed returns the model, with the same prior, of vectors of an exposure and a count.
	Exposed() Exposed
}

// Exposed is a model of vectors of an exposure and a count. Its moments describe counts under the exposure in
// the row.
type Exposed interface {
	Model
	// Unit returns the row with one unit of exposure.
	Unit() []float64
}

func (m poisson) Exposed() Exposed { return exposed(m) }

// exposed has x ~ Poisson(λr) with the exposure r > 0, and rows (r, x).
//
//	T(x) = (x, r),  log h = x ln r − ln x!
type exposed struct{ gammaPrior }

func (exposed) Dim() int                   { return 2 }
func (exposed) Unit() []float64            { return []float64{1, 0} }
func (m exposed) PriorMemory() float64     { return m.rate }
func (exposed) Memory(d []float64) float64 { return d[1] }

func (exposed) Check(x []float64) error {
	if !(x[0] > 0 && x[0] < math.Inf(1)) {
		return fmt.Errorf("exposure %g is not above zero", x[0])
	}
	return checkCount(x[1])
}

func (exposed) Observe(d, x []float64, weight float64) {
	d[0] += weight * x[1]
	d[1] += weight * x[0]
}

func (exposed) LogBase(x []float64) float64 { return x[1]*math.Log(x[0]) - lgamma(x[1]+1) }

func (m exposed) Estimate(mean, sd, d, x []float64) {
	poisson(m).Estimate(mean, sd, d, nil)
	mean[0] *= x[0]
	sd[0] *= x[0]
}

func (m exposed) Predict(mean, sd, d []float64, s float64, x []float64) {
	a, b, r := m.shape+s*d[0], m.rate+s*d[1], x[0]
	mean[0], sd[0] = a/b*r, math.Sqrt(a*r*(b+r))/b
}

func (m exposed) Predictive(dst []Distribution, d []float64, s float64, x []float64) {
	dst[0] = Distribution{law: negativeBinomial, a: m.shape + s*d[0], b: (m.rate + s*d[1]) / x[0]}
}

// LocationScale returns the count per exposure, with half a count added.
func (exposed) LocationScale(xs [][]float64) []float64 {
	counts, exposure := .5, 0.
	for _, x := range xs {
		counts += x[1]
		exposure += x[0]
	}
	if exposure == 0 {
		exposure = 1
	}
	return []float64{counts / exposure}
}

func (exposed) Fit(ls []float64) Model { return exposed{newGamma(1, 1/ls[0])} }

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}
