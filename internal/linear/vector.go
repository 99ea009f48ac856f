package linear

import "math"

// Dot is aᵀb.
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
	const exponent = 0x7ff << 52 // all its bits are set in infinities and NaNs alone
	for _, f := range v {
		if math.Float64bits(f)&exponent == exponent {
			return false
		}
	}
	return true
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

// Hypot is math.Hypot, faster where squares neither overflow nor vanish.
func Hypot(a, b float64) float64 {
	if r := a*a + b*b; r > 1e-280 && r < 1e280 {
		return math.Sqrt(r)
	}
	return math.Hypot(a, b)
}
