package expfam

import (
	"cmp"
	"math"

	"hafvf/internal/linear"
)

func init() {
	Register("regression", func(p Prior, dim int) (Model, error) {
		n := cmp.Or(p.Len("mean"), p.Len("precision"), dim-1)
		if n < 1 {
			p.Fail("mean", "the number of regressors is open: give mean as a list, or dim (regressors and target)")
			n = 1
		}
		return newRegression(p, n), p.Done()
	})
	Register("ar", func(p Prior, _ int) (Model, error) {
		a := ar{order: p.Count("order", 1, 2), intercept: p.Bool("intercept", false)}
		n := a.order
		if a.intercept {
			n++
		}
		a.regression = newRegression(p, n)
		return a, p.Done()
	})
}

// regression has y ~ N(cᵀu, σ²), c|σ² ~ N(mean, σ²·precision⁻¹),
// σ² ~ InvGamma(alpha, beta); an observation is the regressors u, then y. It is
// gram with one target, ν = 2·alpha, Λ = 2·beta.
type regression struct{ gram }

func newRegression(p Prior, n int) regression {
	mean := p.Vector("mean", n, 0)
	rK := p.cholesky("precision", n, 1)
	alpha, beta := p.Positive("alpha", 1), p.Positive("beta", 1)
	rL := linear.NewTriangle(1)
	rL.Set(0, 0, math.Sqrt(2*beta))
	return regression{newGram(rK, rL, [][]float64{mean}, 2*alpha)}
}

func (r regression) Dim() int                { return r.p + 1 }
func (r regression) Regressors() int         { return r.p }
func (r regression) Check(x []float64) error { return CheckFinite(x) }

func (r regression) Observe(d, x []float64, weight float64) {
	var stack [64]float64
	r.observe(d, append(stack[:0], x...), weight)
}

// PriorMemory is 2·alpha.
func (r regression) PriorMemory() float64 { return r.nu }

func (r regression) Params() []Param {
	return []Param{{Name: "mean", Rows: r.p}, {Name: "precision", Rows: r.p, Cols: r.p}, {Name: "alpha"}, {Name: "beta"}}
}

func (r regression) Posterior(dst, d []float64) {
	g := r.at(d, 1)
	n := copy(dst, g.coefficients()[0])
	n += g.precision(dst[n:])
	dst[n] = g.nu / 2
	g.scale(dst[n+1:])
	dst[n+1] /= 2
}

func (r regression) Outputs() int { return 1 }

// regressors are those of the row x, whose target may be left out.
func (r regression) regressors(x []float64) []float64 {
	if len(x) < r.p {
		panic("family: too few regressors")
	}
	return x[:r.p]
}

func (r regression) Estimate(mean, sd, d, x []float64) {
	r.moments(mean, sd, d, 1, r.regressors(x), 0)
}

func (r regression) Predict(mean, sd, d []float64, s float64, x []float64) {
	r.moments(mean, sd, d, s, r.regressors(x), 1)
}

func (r regression) Predictive(dst []Distribution, d []float64, s float64, x []float64) {
	r.predictive(dst, d, s, r.regressors(x))
}

// ar is regression on the entity's own last values, latest first, then 1 for
// the intercept.
type ar struct {
	regression
	order     int
	intercept bool
}

// unsure is what rounding leaves open of a value, relative to it, after some sums.
const unsure = 0x1p-48

// Observe adds what rounding leaves open to the factor of a sample that has observations. If each
// value is a multiple of the last one, regressors and residuals would otherwise be told apart by
// rounding alone, and the next value would be anywhere.
func (a ar) Observe(d, x []float64, weight float64) {
	before := d[0]
	a.regression.Observe(d, x, weight)
	if before == 0 {
		return
	}
	r := a.factor(d)
	for i := range r.N {
		unit := a.rL.V[0]
		if i < a.p {
			unit = a.rK.At(i, i)
		}
		at := &r.V[r.Index(i, i)]
		if open := unsure * x[i] / unit; math.Abs(*at) < 1e8*math.Abs(open) { // else it is nothing
			*at = math.Hypot(*at, open)
		}
	}
}

func (a ar) Window() int { return a.order }

func (a ar) Row(row, window []float64, x float64) {
	copy(row, window)
	if a.intercept {
		row[a.order] = 1
	}
	row[a.p] = x
}
