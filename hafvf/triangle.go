package hafvf

import "math"

// A triangle is an upper triangular matrix, packed by rows.
type triangle struct {
	n int
	v []float64
}

func triangleLen(n int) int { return n * (n + 1) / 2 }

func newTriangle(n int) triangle { return triangle{n, make([]float64, triangleLen(n))} }

func (t triangle) index(i, j int) int { return i*t.n - i*(i-1)/2 + j - i }

func (t triangle) at(i, j int) float64 {
	if i > j {
		return 0
	}
	return t.v[t.index(i, j)]
}

func (t triangle) set(i, j int, f float64) { t.v[t.index(i, j)] = f }

// add makes RᵀR into RᵀR + x·xᵀ by Givens rotations, and overwrites x.
func (t triangle) add(x []float64) { t.addTop(x, t.n) }

// addTop is add to the first rows alone, which do not depend on the others.
func (t triangle) addTop(x []float64, rows int) {
	for i := range rows {
		if x[i] == 0 {
			continue
		}
		row := t.v[t.index(i, i):t.index(i, t.n)]
		r := math.Hypot(row[0], x[i])
		c, s := row[0]/r, x[i]/r
		row[0] = r
		for j := 1; j < len(row); j++ {
			a, b := row[j], x[i+j]
			row[j] = c*a + s*b
			x[i+j] = c*b - s*a
		}
	}
}

// solveT solves Rᵀx = b in place, R the leading block as long as b.
func (t triangle) solveT(b []float64) {
	for i := range b {
		b[i] /= t.at(i, i)
		for j := i + 1; j < len(b); j++ {
			b[j] -= t.at(i, j) * b[i]
		}
	}
}

// solve solves Rx = b in place, R the leading block as long as b.
func (t triangle) solve(b []float64) {
	for i := len(b) - 1; i >= 0; i-- {
		for j := i + 1; j < len(b); j++ {
			b[i] -= t.at(i, j) * b[j]
		}
		b[i] /= t.at(i, i)
	}
}

// productOfTriangles is the diagonal block of a that starts at from, times b.
func productOfTriangles(a triangle, from int, b triangle) triangle {
	out := newTriangle(b.n)
	for i := range b.n {
		for j := i; j < b.n; j++ {
			sum := 0.0
			for k := i; k <= j; k++ {
				sum += a.at(from+i, from+k) * b.at(k, j)
			}
			out.set(i, j, sum)
		}
	}
	return out
}
