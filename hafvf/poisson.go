package hafvf

import "math"

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

// Quantile is that of the negative binomial, by bisection on the regularised
// incomplete beta function.
func (m poisson) Quantile(p float64, d []float64, s float64, _ []float64) float64 {
	a, b := m.shape+s*d[0], m.rate+s*d[1]
	return negativeBinomialQuantile(p, a, b)
}

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}
