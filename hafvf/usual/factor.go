package usual

import (
	"math"

	"hafvf/internal/linear"
)

// setPrecisions sets the precisions π of the harmonics.
func (p *Profile) setPrecisions(sums []float64) {
	n := max(sums[0], 1)
	per := 1 / (n * n * n)
	column := 1
	for _, s := range p.seasons {
		for range s.Harmonics {
			cos, sin := sums[column], sums[column+s.Harmonics]
			squares := float64(cos*cos) + float64(sin*sin)
			precision := otherPrecision + float64(squares*squares*per)
			p.precision[column], p.precision[column+s.Harmonics] = precision, precision
			column++
		}
		column += s.Harmonics
	}
}

// factorize computes rows from, …, end−1 of L. rows holds the same rows of A. Two rows are computed at a time because
// their sums do not wait for each other.
func (p *Profile) factorize(rows []float64, from, end int) {
	for j := from; j < end; j += 2 {
		l, row := p.factor[j], rows[:j+1]
		rows = rows[j+1:]
		if j+1 == end {
			p.substitute(l, row, j)
			p.pivot(j, row[j], linear.Dot(l[:j], l))
			return
		}
		m, next := p.factor[j+1], rows[:j+2]
		rows = rows[j+2:]
		ll, lm, mm := p.substitutePair(l, row, m, next, j)
		p.pivot(j, row[j], ll)
		m[j] = (next[j] - lm) * p.inverse[j]
		p.pivot(j+1, next[j+1], mm+m[j]*m[j])
	}
}

// pivot completes row j of L. a is the diagonal entry of A, and squares the sum of the squares of the entries before
// the diagonal. Since A is positive semidefinite, the pivot is at least π up to rounding. If it is less than π/2, the
// regressor is numerically a combination of the previous ones and is left out: its row and column of L are zero, and so
// are its entries of ζ and v.
func (p *Profile) pivot(j int, a, squares float64) {
	l := p.factor[j]
	pivot := a + p.precision[j] - squares
	if !(pivot >= p.precision[j]/2) {
		clear(l)
		p.inverse[j] = 0
		return
	}
	l[j] = math.Sqrt(pivot)
	p.inverse[j] = 1 / l[j]
}

// substitute writes the first n entries of L⁻¹a to x.
func (p *Profile) substitute(x, a []float64, n int) {
	for i := range n {
		x[i] = (a[i] - linear.Dot(x[:i], p.factor[i])) * p.inverse[i]
	}
}

// substitutePair substitutes a to x and b to y, two entries at a time: the four sums do not wait for each other, and
// share their reads. It returns xᵀx, xᵀy and yᵀy.
func (p *Profile) substitutePair(x, a, y, b []float64, n int) (xx, xy, yy float64) {
	put := func(i int, s, t float64) (float64, float64) {
		s, t = (a[i]-s)*p.inverse[i], (b[i]-t)*p.inverse[i]
		x[i], y[i] = s, t
		xx, xy, yy = xx+s*s, xy+s*t, yy+t*t
		return s, t
	}
	i := 0
	for ; i+1 < n; i += 2 {
		l, m := p.factor[i][:i], p.factor[i+1][:i+1]
		u, v, next := x[:len(l)], y[:len(l)], m[:len(l)]
		sumX, sumY, nextX, nextY := 0.0, 0.0, 0.0, 0.0
		for k, f := range l {
			g, s, t := next[k], u[k], v[k]
			sumX += f * s
			sumY += f * t
			nextX += g * s
			nextY += g * t
		}
		s, t := put(i, sumX, sumY)
		put(i+1, nextX+m[i]*s, nextY+m[i]*t)
	}
	if i < n {
		l := p.factor[i][:i]
		put(i, linear.Dot(l, x), linear.Dot(l, y))
	}
	return xx, xy, yy
}

// add adds the rows from, …, end−1 of uuᵀ to rows.
func (p *Profile) add(rows []float64, from, end int) {
	for j := from; j < end; j++ {
		row, f := rows[:j+1], p.u[j]
		for i, u := range p.u[:len(row)] {
			row[i] += float64(f * u)
		}
		rows = rows[j+1:]
	}
}
