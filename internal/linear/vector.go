package linear

import "math"

// Dot returns aᵀb.
func Dot(a, b []float64) float64 {
	sum := 0.0
	b = b[:len(a)]
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// Zeros reports whether all entries are zero.
func Zeros(v []float64) bool {
	for _, f := range v {
		if f != 0 {
			return false
		}
	}
	return true
}

// Finite reports whether all entries are finite.
func Finite(v []float64) bool {
	var a, b, c, d float64 // independent of each other; 0, or NaN if an entry is not finite
	for ; len(v) >= 4; v = v[4:] {
		a += 0 * v[0]
		b += 0 * v[1]
		c += 0 * v[2]
		d += 0 * v[3]
	}
	for _, f := range v {
		a += 0 * f
	}
	return a+b+c+d == 0
}

// Scale multiplies v by a.
func Scale(v []float64, a float64) {
	for i := range v {
		v[i] *= a
	}
}

// Axpy adds a·x to y.
func Axpy(y []float64, a float64, x []float64) {
	x = x[:len(y)]
	for i, v := range x {
		y[i] += a * v
	}
}

// Hypot is math.Hypot, but faster if the squares neither overflow nor underflow.
func Hypot(a, b float64) float64 {
	if r := a*a + b*b; r > 1e-280 && r < 1e280 {
		return math.Sqrt(r)
	}
	return math.Hypot(a, b)
}
