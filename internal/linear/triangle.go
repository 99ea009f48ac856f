// Package linear has linear algebra with small triangular matrices, which regressions and seasons learn row by row.
// Only New… and ProductOfTriangles allocate memory.
package linear

import "math"

// A Triangle is an upper triangular matrix, packed by rows.
type Triangle struct {
	N int       // rows and columns
	V []float64 // TriangleLen(N) entries
}

// TriangleLen returns the number of entries of an upper triangle with n rows.
func TriangleLen(n int) int { return n * (n + 1) / 2 }

// NewTriangle returns a triangle with n rows of zeros.
func NewTriangle(n int) Triangle { return Triangle{n, make([]float64, TriangleLen(n))} }

// Index returns the index of entry (i, j), i ≤ j, in V.
func (t Triangle) Index(i, j int) int { return i*t.N - i*(i-1)/2 + j - i }

// At returns entry (i, j).
func (t Triangle) At(i, j int) float64 {
	if i > j {
		return 0
	}
	return t.V[t.Index(i, j)]
}

// Row returns row i from the diagonal on. It shares memory with t.
func (t Triangle) Row(i int) []float64 {
	start := t.Index(i, i)
	return t.V[start : start+t.N-i]
}

// Identity sets t to the identity.
func (t Triangle) Identity() {
	clear(t.V)
	for i := range t.N {
		t.Set(i, i, 1)
	}
}

// Set sets entry (i, j), i ≤ j.
func (t Triangle) Set(i, j int, f float64) { t.V[t.Index(i, j)] = f }

// Add replaces RᵀR by RᵀR + x·xᵀ with Givens rotations. It overwrites x.
func (t Triangle) Add(x []float64) { t.AddTop(x, t.N) }

// AddTop is Add for the first rows only, which do not depend on the others.
func (t Triangle) AddTop(x []float64, rows int) {
	for i := range rows {
		if x[i] == 0 {
			continue
		}
		row := t.Row(i)
		r := Hypot(row[0], x[i])
		c, s := row[0]/r, x[i]/r
		row[0] = r
		y := x[i : i+len(row)]
		for j := 1; j < len(row); j++ {
			a, b := row[j], y[j]
			row[j] = c*a + s*b
			y[j] = c*b - s*a
		}
	}
}

// Line replaces RᵀR by I + s·QᵀQ with Householder reflections of I stacked on √s·Q. w is scratch with the length of
// q.V.
func (t Triangle) Line(q Triangle, s float64, w []float64) {
	t.Identity()
	rows := t.N // the rows after them are zero
	for rows > 0 && Zeros(q.Row(rows-1)) {
		rows--
	}
	root := math.Sqrt(s)
	column := func(j int) []float64 { // the first rows of a column of √s·Q
		start := TriangleLen(j)
		return w[start : start+min(j+1, rows)]
	}
	for i := range rows {
		for j, v := range q.Row(i) {
			w[TriangleLen(i+j)+i] = root * v
		}
	}
	for j := range t.N {
		// The reflection maps column j from (1, x) to (β, 0).
		x, row := column(j), t.Row(j)
		size := Dot(x, x)
		if size == 0 {
			continue
		}
		beta := math.Sqrt(1 + size)
		if beta > 1e150 {
			beta = 1
			for _, v := range x {
				beta = math.Hypot(beta, v)
			}
		}
		row[0] = beta
		for i := range x {
			x[i] /= beta
		}
		half := beta / (1 + beta)
		k := j + 1
		for ; k+1 < t.N; k += 2 { // two columns at once are faster
			y, z := column(k)[:len(x)], column(k + 1)[:len(x)]
			a, b := 0.0, 0.0
			for i, v := range x {
				a += v * y[i]
				b += v * z[i]
			}
			row[k-j], row[k+1-j] = a, b
			a, b = half*a, half*b
			for i, v := range x {
				y[i] -= a * v
				z[i] -= b * v
			}
		}
		if k < t.N {
			y := column(k)[:len(x)]
			row[k-j] = Dot(x, y)
			Axpy(y, -half*row[k-j], x)
		}
	}
}

// SolveT solves Rᵀx = b in place. R is the leading block with the size of b.
func (t Triangle) SolveT(b []float64) {
	for i := range b {
		row := t.Row(i)
		b[i] /= row[0]
		Axpy(b[i+1:], -b[i], row[1:])
	}
}

// Solve solves Rx = b in place. R is the leading block with the size of b.
func (t Triangle) Solve(b []float64) {
	for i := len(b) - 1; i >= 0; i-- {
		row := t.Row(i)
		b[i] = (b[i] - Dot(b[i+1:], row[1:])) / row[0]
	}
}

// ProductOfTriangles returns the diagonal block of a from row start on, with the size of b, times b.
func ProductOfTriangles(a Triangle, start int, b Triangle) Triangle {
	out := NewTriangle(b.N)
	for i := range b.N {
		row, factors := out.Row(i), a.Row(start + i)[:b.N-i]
		for k, f := range factors {
			Axpy(row[k:], f, b.Row(i+k))
		}
	}
	return out
}

// Square writes RᵀR to dst by rows. It returns the number of entries.
func (t Triangle) Square(dst []float64) int {
	n := t.N
	dst = dst[:n*n]
	clear(dst)
	for k := range n {
		row := t.Row(k)
		for i, f := range row {
			start := (k+i)*n + k + i
			Axpy(dst[start:start+n-k-i], f, row[i:])
		}
	}
	for i := range n {
		for j := range i {
			dst[i*n+j] = dst[j*n+i]
		}
	}
	return len(dst)
}
