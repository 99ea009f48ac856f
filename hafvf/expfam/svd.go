package expfam

import (
	"math"

	"hafvf/internal/linear"
)

// decompose writes the singular values of the matrix a to sigma, unordered. It multiplies rows by the right and
// c by the left singular vectors, which it does not store: for a = UΣVᵀ, rows become rows·V, and c becomes Uᵀc.
// It overwrites a. If an entry is not finite, the singular values are NaN.
func (sp *spectrum) decompose() {
	largest := 0.0
	for _, v := range sp.a {
		largest = max(largest, math.Abs(v))
	}
	if largest == 0 {
		clear(sp.sigma)
		return
	}
	for i := range sp.a { // avoid overflow of squares
		sp.a[i] /= largest
	}
	sp.bidiagonalise()
	if !sp.iterate() {
		largest = math.NaN()
	}
	linear.Scale(sp.sigma, largest)
}

// bidiagonalise reduces a, whose entries are at most 1, to the upper bidiagonal matrix with diagonal sigma and
// superdiagonal e, by Householder reflections (Golub and Kahan 1965). Sums of squares up to vanishing count as
// zero.
func (sp *spectrum) bidiagonalise() {
	const vanishing = 1e-290
	n, a, w := sp.n, sp.a, sp.w
	for j := range n {
		// Reflection from the left, for column j.
		top := a[j*n+j : (j+1)*n]
		size := 0.0
		for i := j + 1; i < n; i++ {
			size += a[i*n+j] * a[i*n+j]
		}
		sp.sigma[j] = top[0]
		if size > vanishing {
			beta := math.Copysign(math.Sqrt(top[0]*top[0]+size), top[0])
			first := top[0] + beta
			sp.sigma[j] = -beta
			w := w[:len(top)-1]
			c := first * sp.c[j]
			for l, v := range top[1:] {
				w[l] = first * v
			}
			for i := j + 1; i < n; i++ {
				linear.Axpy(w, a[i*n+j], a[i*n+j+1:(i+1)*n])
				c += a[i*n+j] * sp.c[i]
			}
			half := 1 / (beta * first)
			for l := range w {
				w[l] *= half
			}
			c *= half
			linear.Axpy(top[1:], -first, w)
			sp.c[j] -= first * c
			for i := j + 1; i < n; i++ {
				linear.Axpy(a[i*n+j+1:(i+1)*n], -a[i*n+j], w)
				sp.c[i] -= a[i*n+j] * c
			}
		}
		if j+1 == n {
			break
		}
		// Reflection from the right, for row j.
		v := top[1:]
		sp.e[j] = v[0]
		size = linear.Dot(v[1:], v[1:])
		if size <= vanishing {
			continue
		}
		beta := math.Copysign(math.Sqrt(v[0]*v[0]+size), v[0])
		sp.e[j] = -beta
		v[0] += beta
		half := 1 / (beta * v[0])
		for i := j + 1; i < n; i++ {
			row := a[i*n+j+1 : (i+1)*n]
			linear.Axpy(row, -half*linear.Dot(row, v), v)
		}
		for i := range sp.k {
			row := sp.rows[i*n+j+1 : (i+1)*n]
			linear.Axpy(row, -half*linear.Dot(row, v), v)
		}
	}
}

// iterate diagonalises the bidiagonal matrix by implicit QR steps, as LINPACK's dsvdc does. It reports whether
// the iteration has converged.
func (sp *spectrum) iterate() bool {
	const tiny, steps = 0x1p-966, 60 // maximum number of steps per value; two are usually enough
	s, e := sp.sigma, sp.e
	p := sp.n // the values from p on are found
	for left := steps * sp.n; p > 0 && left > 0; left-- {
		// The block from k to p−1 has no negligible superdiagonal entry.
		k := p - 1
		for ; k > 0; k-- {
			if math.Abs(e[k-1]) <= tiny+0x1p-52*(math.Abs(s[k-1])+math.Abs(s[k])) {
				e[k-1] = 0
				break
			}
		}
		if k == p-1 {
			if s[k] < 0 {
				s[k] = -s[k]
				for i := range sp.k {
					sp.rows[i*sp.n+k] *= -1
				}
			}
			p--
			continue
		}
		zero := -1 // the last negligible diagonal entry
		for i := p - 1; i >= k && zero < 0; i-- {
			t := 0.0
			if i < p-1 {
				t += math.Abs(e[i])
			}
			if i > k {
				t += math.Abs(e[i-1])
			}
			if math.Abs(s[i]) <= tiny+0x1p-52*t {
				s[i], zero = 0, i
			}
		}
		switch {
		case zero == p-1: // remove its column
			f := e[p-2]
			e[p-2] = 0
			for j := p - 2; j >= k; j-- {
				var c, t float64
				c, t, s[j] = rotation(s[j], f)
				if j > k {
					f, e[j-1] = -t*e[j-1], c*e[j-1]
				}
				sp.turnRight(j, p-1, c, t)
			}
		case zero >= 0: // remove its row
			f := e[zero]
			e[zero] = 0
			for j := zero + 1; j < p; j++ {
				var c, t float64
				c, t, s[j] = rotation(s[j], f)
				if j < p-1 {
					f, e[j] = -t*e[j], c*e[j]
				}
				sp.turnLeft(j, zero, c, t)
			}
		default:
			sp.step(k, p)
		}
	}
	return p == 0
}

// step is one QR step on the block from k to p−1.
func (sp *spectrum) step(k, p int) {
	s, e := sp.sigma, sp.e
	scale := max(math.Abs(s[p-1]), math.Abs(s[p-2]), math.Abs(e[p-2]), math.Abs(s[k]), math.Abs(e[k]))
	last, before, off := s[p-1]/scale, s[p-2]/scale, e[p-2]/scale
	first := s[k] / scale
	b, c := ((before+last)*(before-last)+off*off)/2, last*off*last*off
	shift := 0.0
	if b != 0 || c != 0 {
		shift = c / (b + math.Copysign(math.Sqrt(b*b+c), b))
	}
	f, g := (first+last)*(first-last)+shift, first*(e[k]/scale)
	for j := k; j < p-1; j++ {
		c, t, r := rotation(f, g)
		if j > k {
			e[j-1] = r
		}
		f, e[j] = c*s[j]+t*e[j], c*e[j]-t*s[j]
		g, s[j+1] = t*s[j+1], c*s[j+1]
		sp.turnRight(j, j+1, c, t)
		c, t, s[j] = rotation(f, g)
		f, s[j+1] = c*e[j]+t*s[j+1], c*s[j+1]-t*e[j]
		if j < p-2 {
			g, e[j+1] = t*e[j+1], c*e[j+1]
		}
		sp.turnLeft(j, j+1, c, t)
	}
	e[p-2] = f
}

func (sp *spectrum) turnRight(i, j int, c, t float64) {
	for k := range sp.k {
		turn(sp.rows[k*sp.n:(k+1)*sp.n], i, j, c, t)
	}
}

func (sp *spectrum) turnLeft(i, j int, c, t float64) { turn(sp.c, i, j, c, t) }

func turn(v []float64, i, j int, c, t float64) {
	v[i], v[j] = c*v[i]+t*v[j], c*v[j]-t*v[i]
}

// rotation returns cosine and sine of the rotation of (f, g) to (r, 0), and r.
func rotation(f, g float64) (c, t, r float64) {
	if g == 0 {
		return 1, 0, f
	}
	r = linear.Hypot(f, g)
	if r < 1e-300 { // the inverse could overflow
		return f / r, g / r, r
	}
	inverse := 1 / r
	return f * inverse, g * inverse, r
}
