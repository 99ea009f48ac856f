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

// row is row i from the diagonal on.
func (t triangle) row(i int) []float64 {
	at := t.index(i, i)
	return t.v[at : at+t.n-i]
}

func (t triangle) identity() {
	clear(t.v)
	for i := range t.n {
		t.set(i, i, 1)
	}
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
		row := t.row(i)
		r := hypot(row[0], x[i])
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

// line makes RᵀR into I + s·QᵀQ by Householder reflections of I and √s·Q, one on the
// other. w is scratch as long as q.
func (t triangle) line(q triangle, s float64, w []float64) {
	t.identity()
	rows := t.n // those after them are zero
	for rows > 0 && zeros(q.row(rows-1)) {
		rows--
	}
	root := math.Sqrt(s)
	column := func(j int) []float64 { // of √s·Q, its first rows
		at := triangleLen(j)
		return w[at : at+min(j+1, rows)]
	}
	for i := range rows {
		for j, v := range q.row(i) {
			w[triangleLen(i+j)+i] = root * v
		}
	}
	for j := range t.n {
		// The reflection takes column j from (1, x) to (β, 0).
		x, row := column(j), t.row(j)
		size := dot(x, x)
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
		for ; k+1 < t.n; k += 2 { // two columns at once, which is faster
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
		if k < t.n {
			y := column(k)[:len(x)]
			row[k-j] = dot(x, y)
			axpy(y, -half*row[k-j], x)
		}
	}
}

// solveT solves Rᵀx = b in place, R the leading block as long as b.
func (t triangle) solveT(b []float64) {
	for i := range b {
		row := t.row(i)
		b[i] /= row[0]
		axpy(b[i+1:], -b[i], row[1:])
	}
}

// solve solves Rx = b in place, R the leading block as long as b.
func (t triangle) solve(b []float64) {
	for i := len(b) - 1; i >= 0; i-- {
		row := t.row(i)
		b[i] = (b[i] - dot(b[i+1:], row[1:])) / row[0]
	}
}

// productOfTriangles is the diagonal block of a that starts at from, times b.
func productOfTriangles(a triangle, from int, b triangle) triangle {
	out := newTriangle(b.n)
	for i := range b.n {
		row, factors := out.row(i), a.row(from + i)[:b.n-i]
		for k, f := range factors {
			axpy(row[k:], f, b.row(i+k))
		}
	}
	return out
}

// square writes RᵀR to dst, by rows, and returns its length.
func (t triangle) square(dst []float64) int {
	n := t.n
	dst = dst[:n*n]
	clear(dst)
	for k := range n {
		row := t.row(k)
		for i, f := range row {
			at := (k+i)*n + k + i
			axpy(dst[at:at+n-k-i], f, row[i:])
		}
	}
	for i := range n {
		for j := range i {
			dst[i*n+j] = dst[j*n+i]
		}
	}
	return len(dst)
}
