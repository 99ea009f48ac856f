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
			p.Fail("mean", "the number of regressors is unknown: give mean as a list, or dim (regressors and target)")
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

// regression has y ~ N(cᵀu, σ²), c|σ² ~ N(mean, σ²·precision⁻¹), σ² ~ InvGamma(alpha, beta). An observation is
// the regressors u, then y. It is gram with one target, ν = 2·alpha, Λ = 2·beta.
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

// PriorMemory returns 2·alpha.
func (r regression) PriorMemory() float64 { return r.nu }

func (r regression) Params() []Param {
	return []Param{{Name: "mean", Rows: r.p}, {Name: "precision", Rows: r.p, Cols: r.p}, {Name: "alpha"}, {Name: "beta"}}
}

func (r regression) Posterior(dst, d []float64) {
	g := r.posteriorAt(d, 1)
	n := copy(dst, g.coefficients()[0])
	n += g.precision(dst[n:])
	dst[n] = g.nu / 2
	g.scale(dst[n+1:])
	dst[n+1] /= 2
}

func (r regression) Outputs() int { return 1 }

// regressors returns the regressors of the row x, which may lack the target. It panics if a regressor is
// missing.
func (r regression) regressors(x []float64) []float64 {
	if len(x) < r.p {
		panic("expfam: too few regressors")
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

// ar is a regression on the stream's own previous values, latest first, then 1 for the intercept.
type ar struct {
	regression
	order     int
	intercept bool
}

// roundingError is the relative rounding error of a value after some sums.
const roundingError = 0x1p-48

// Observe adds the rounding error to the factor of a sample that has observations. If each value is a multiple
// of the previous one, only rounding would otherwise separate regressors from residuals, and the prediction
// would be arbitrary.
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
		diagonal := &r.V[r.Index(i, i)]
		if uncertainty := roundingError * x[i] / unit; math.Abs(*diagonal) < 1e8*math.Abs(uncertainty) {
			*diagonal = math.Hypot(*diagonal, uncertainty)
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
