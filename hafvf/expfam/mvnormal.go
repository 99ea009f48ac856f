package expfam

import (
	"cmp"
	"fmt"
	"math"

	"hafvf/internal/linear"
)

func init() {
	Register("mvnormal", func(p Prior, dim int) (Model, error) {
		dim = cmp.Or(p.Len("mu"), p.Len("scale"), dim)
		if dim < 1 {
			p.Fail("mu", "the dimension is unknown: give mu as a list, or dim")
			dim = 1
		}
		mu := p.Vector("mu", dim, 0)
		mean := make([][]float64, dim)
		for i, v := range mu {
			mean[i] = []float64{v}
		}
		rK := linear.NewTriangle(1)
		rK.Set(0, 0, math.Sqrt(p.Positive("kappa", 1)))
		nu := p.Float("nu", float64(dim+1))
		if nu <= float64(dim-1) {
			p.Fail("nu", fmt.Sprintf("%g is not above dim − 1 = %d", nu, dim-1))
		}
		m := mvnormal{newGram(rK, p.cholesky("scale", dim, 1), mean, nu)}
		return m, p.Done()
	})
}

// mvnormal has x ~ N(μ, Σ), μ|Σ ~ N(mu, Σ/kappa), Σ ~ InvWishart(scale, nu). It is gram with the single
// regressor 1.
type mvnormal struct{ gram }

func (m mvnormal) Dim() int                { return m.m }
func (m mvnormal) Check(x []float64) error { return CheckFinite(x) }

func (m mvnormal) Observe(d, x []float64, weight float64) {
	var stack [64]float64
	v := append(append(stack[:0], 1), x...)
	m.observe(d, v, weight)
}

// PriorMemory returns kappa.
func (m mvnormal) PriorMemory() float64 { return m.rK.At(0, 0) * m.rK.At(0, 0) }

func (m mvnormal) Params() []Param {
	return []Param{{Name: "mu", Rows: m.m}, {Name: "kappa"}, {Name: "nu"}, {Name: "scale", Rows: m.m, Cols: m.m}}
}

func (m mvnormal) Posterior(dst, d []float64) {
	g := m.posteriorAt(d, 1)
	n := 0
	for _, c := range g.coefficients() {
		n += copy(dst[n:], c)
	}
	n += g.precision(dst[n:])
	dst[n] = g.nu
	g.scale(dst[n+1:])
}

func (m mvnormal) Outputs() int { return m.m }

func (m mvnormal) Estimate(mean, sd, d, _ []float64) {
	m.moments(mean, sd, d, 1, []float64{1}, 0)
}

func (m mvnormal) Predict(mean, sd, d []float64, s float64, _ []float64) {
	m.moments(mean, sd, d, s, []float64{1}, 1)
}

func (m mvnormal) Predictive(dst []Distribution, d []float64, s float64, _ []float64) {
	m.predictive(dst, d, s, []float64{1})
}
