package expfam

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"hafvf/internal/linear"
)

// matrices returns upper triangular factors of samples, well and badly conditioned.
func matrices(rng *rand.Rand, n int) map[string]linear.Triangle {
	draw := func(rows int, row func(i int) []float64) linear.Triangle {
		t := linear.NewTriangle(n)
		for i := range rows {
			t.Add(row(i))
		}
		return t
	}
	normals := func(int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		return x
	}
	scaled := func(factor func(i int) float64) func(int) []float64 {
		return func(i int) []float64 {
			x := normals(i)
			for j := range x {
				x[j] *= factor(j)
			}
			return x
		}
	}
	return map[string]linear.Triangle{
		"empty":   linear.NewTriangle(n),
		"one row": draw(1, normals),
		"full":    draw(3*n, normals),
		"huge":    draw(3*n, scaled(func(int) float64 { return 1e120 })),
		"tiny":    draw(3*n, scaled(func(int) float64 { return 1e-120 })),
		"graded":  draw(3*n, scaled(func(i int) float64 { return math.Pow(10, float64(3*(i%7)-9)) })),
		"vanishing rows": draw(3*n, func(i int) []float64 {
			x := normals(i)
			for j := range x {
				x[j] *= math.Pow(10, float64(-160*min(i, 1)))
			}
			return x
		}),
		"zero column": draw(3*n, scaled(func(i int) float64 { return float64(min(i, 1)) })),
		"one value":   draw(3*n, func(int) []float64 { return slices.Repeat([]float64{3}, n) }),
		"nearly one value": draw(3*n, func(i int) []float64 {
			x := normals(i)
			for j := range x {
				x[j] = 1e6 + 1e-6*x[j]
			}
			return x
		}),
		"identity": draw(n, func(i int) []float64 { x := make([]float64, n); x[i] = 1; return x }),
	}
}

// The singular values equal gonum's. Rows and column are transformed by the matching singular vectors, so that
// (b, c) ↦ Σ bσc equals the form of the matrix, (u, r) ↦ rᵀRu.
func TestSpectrum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 30))
	for _, n := range []int{1, 2, 3, 8, 17} {
		for name, r := range matrices(rng, n) {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				dense := mat.NewDense(n, n, nil)
				for i := range n {
					for j := range n {
						dense.Set(i, j, r.At(i, j))
					}
				}
				var svd mat.SVD
				if !svd.Factorize(dense, mat.SVDNone) {
					t.Fatal("no reference")
				}
				want := svd.Values(nil)
				largest := math.Max(want[0], math.SmallestNonzeroFloat64)
				sp := newSpectrum(n)
				u, c := make([]float64, 2*n), make([]float64, n)
				for i := range u {
					u[i] = rng.NormFloat64()
				}
				for i := range c {
					c[i] = rng.NormFloat64()
				}
				for i := range n {
					copy(sp.a[i*n:(i+1)*n], dense.RawRowView(i))
				}
				sp.k = min(2, n)
				copy(sp.rows, u)
				copy(sp.c, c)
				sp.decompose()
				for k := range sp.k {
					sum, exact := 0.0, 0.0
					for i := range n {
						sum += sp.rows[k*n+i] * (sp.sigma[i] / largest) * sp.c[i]
						for j := range n {
							exact += c[i] * (dense.At(i, j) / largest) * u[k*n+j]
						}
					}
					if !(math.Abs(sum-exact) < 1e-12*float64(n)) {
						t.Errorf("row %d: %g, want %g", k, sum, exact)
					}
					if got, want := norm(sp.rows[k*n:(k+1)*n]), norm(u[k*n:(k+1)*n]); !(math.Abs(got-want) < 1e-13*float64(n)) {
						t.Errorf("row %d has the length %g, want %g", k, got, want)
					}
				}
				got := slices.Clone(sp.sigma)
				slices.Sort(got)
				slices.Reverse(got)
				for i := range got {
					if !(math.Abs(got[i]-want[i]) <= 1e-14*float64(n)*largest) {
						t.Errorf("singular values %v, want %v", got, want)
						break
					}
				}
			})
		}
	}
}

func norm(v []float64) float64 { return math.Sqrt(linear.Dot(v, v)) }

// The factor of I + s·RᵀR from reflections equals the factor from rotations of one row after another.
func TestTriangleLine(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 31))
	for _, n := range []int{1, 2, 5, 17} {
		for name, q := range matrices(rng, n) {
			for _, s := range []float64{.3, 1} {
				got, want := linear.NewTriangle(n), linear.NewTriangle(n)
				got.Line(q, s, make([]float64, len(q.V)))
				want.Identity()
				for i := range n {
					row := make([]float64, n)
					for j := i; j < n; j++ {
						row[j] = math.Sqrt(s) * q.At(i, j)
					}
					want.Add(row)
				}
				for j := range n {
					size := 0.0 // size of the column, to which rounding is relative
					for i := range j + 1 {
						size = math.Hypot(size, want.At(i, j))
					}
					if !(got.At(j, j) >= 1) {
						t.Errorf("%s, %d: diagonal %g", name, n, got.At(j, j))
					}
					// The Gram matrix is unique up to rounding, while nearly equal columns leave its factor
					// free.
					for i := range j + 1 {
						a, b, left := 0.0, 0.0, 0.0
						for k := range i + 1 {
							a += got.At(k, i) / size * got.At(k, j)
							b += want.At(k, i) / size * want.At(k, j)
							left = math.Hypot(left, want.At(k, i))
						}
						if !(math.Abs(a-b) <= 1e-13*left*float64(n)) {
							t.Fatalf("%s, %d: entry %d, %d of the Gram matrix is %g, want %g", name, n, i, j, a*size, b*size)
						}
					}
				}
			}
		}
	}
}

// All ways to a gain and to derivatives agree: a factor, the spectrum of G_uu alone for a step of one
// observation, and both spectra. Weigh has the same effect as Set with weighted statistics.
func TestGramLine(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 32))
	const w = .3
	for _, n := range []int{1, 2, 6, 16} {
		m, err := New("regression", Params{"precision": .2, "alpha": 2., "beta": 3.}, n+1)
		if err != nil {
			t.Fatal(err)
		}
		g := m.(regression).gram
		for _, seen := range []int{0, 1, 5, 60} {
			t.Run(fmt.Sprintf("%d/%d", n, seen), func(t *testing.T) {
				draw := func() []float64 {
					x := make([]float64, n+1)
					for i := range x {
						x[i] = rng.NormFloat64()
					}
					x[n] += 2 * x[0]
					return x
				}
				d, u := make([]float64, m.Len()), make([]float64, m.Len())
				for range seen {
					m.Observe(d, draw(), 1)
				}
				x := draw()
				if seen == 5 {
					clear(x[:n]) // an observation without information on the coefficients
				}
				m.Observe(u, x, 1)
				near := func(what string, got, want, size float64) {
					if !(math.Abs(got-want) <= 1e-10*(size+math.Abs(want))) {
						t.Errorf("%s: %.15g, want %.15g", what, got, want)
					}
				}
				compare := func(what string, a, b Line) {
					for _, s := range []float64{0, .2, .9, 1} {
						p, q := a.Jet(s), b.Jet(s)
						near(what+": gain", a.Gain(s), b.Gain(s), 1)
						near(what+": Q1", p.Q1, q.Q1, 1)
						near(what+": Q2", p.Q2, q.Q2, 1)
						near(what+": F2", p.F2, q.F2, float64(seen))
						near(what+": F3", p.F3, q.F3, float64(seen))
						near(what+": F4", p.F4, q.F4, float64(seen))
					}
				}
				one, both := g.NewLine().(*gramLine), g.NewLine().(*gramLine)
				v := make([]float64, m.Len())
				m.Observe(v, draw(), 1)
				one.Set(d, v)
				one.Jet(.5) // must leave no trace
				one.Set(d, u)
				both.Set(d, u)
				both.k = 2 // with a row of zeros, which is no observation
				compare("spectra", one, both)
				for _, s := range []float64{0, .4, 1} {
					factored := g.NewLine()
					factored.Set(d, u)
					near("factor", factored.Gain(s), one.Gain(s), 1)
				}
				for _, warm := range []bool{false, true} {
					weighed, set := g.NewLine().(*gramLine), g.NewLine()
					weighed.Set(d, u)
					if weighed.Gain(.7); warm {
						weighed.Jet(.5)
					}
					weighed.Weigh(w)
					v := slices.Clone(u)
					m.Scale(v, w)
					set.Set(d, v)
					near("weighed", weighed.Gain(.7), set.Gain(.7), 1)
					compare("weighed", weighed, set)
				}
			})
		}
	}
}
