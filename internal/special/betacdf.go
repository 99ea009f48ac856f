package special

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"
)

// BetaCDF returns the probability of Beta(a, b) up to x, the regularised incomplete beta function Iₓ(a, b). y is
// 1−x; pass it as exactly as known, since 1−x loses the digits of an x near 1. The error is below 1e-11 for all a
// and b for which rounding of the parameters causes no larger one. If a = 0, all probability is at 0; if b = 0, at
// 1. BetaCDF returns NaN if both are 0, if a or b is negative or infinite, or if x or y is NaN.
//
// The calculation is relative to the mean a/(a+b). The density is exp(a·g(u) + b·g(v)) times its largest value,
// with the relative distances u and v of x and y from their means and g(u) = ln(1+u) − u, so no large numbers are
// subtracted.
func BetaCDF(a, b, x, y float64) float64 {
	switch {
	case !(a >= 0 && b >= 0 && a+b > 0) || math.IsInf(a+b, 1) || x != x || y != y:
		return math.NaN()
	case y <= 0 || a == 0 && x >= 0:
		return 1
	case x <= 0 || b == 0:
		return 0
	}
	// Computed from far alone, r in logLess would be inexact for an x much below its mean.
	far := y*a - x*b
	norm := math.Sqrt(a*(b/(a+b))) * Exp(-halfLog2Pi+stirling(a+b)-stirling(a)-stirling(b))
	powers := norm * Exp(a*logLess(-far/a, x/a*(a+b))+b*logLess(far/b, y/b*(a+b)))
	if far < 0 {
		return 1 - lowerBeta(b, a, y, x, -far, powers)
	}
	return lowerBeta(a, b, x, y, far, powers)
}

// lowerBeta is BetaCDF below the mean: far is ya − xb, and at least 0. powers is xᵃyᵇ/B(a, b).
func lowerBeta(a, b, x, y, far, powers float64) float64 {
	switch {
	case min(a, b) >= manyTrials:
		return centralBeta(a, b, far)
	case x <= .9 && (b*x <= 1 || (a+b)*x < .5*(a+1)): // then the terms shrink from the start
		return seriesBeta(a, b, x, powers)
	case y <= .9 && a*y <= 1:
		return 1 - seriesBeta(b, a, y, powers)
	}
	return fractionBeta(a, b, x, y, far, powers)
}

// stirling returns Stirling of 1/x, for all x > 0.
func stirling(x float64) float64 {
	if x >= Lift {
		return Stirling(1 / x)
	}
	z := x + Lift
	z2 := z * z
	z4 := z2 * z2
	return Stirling(1/z) + (x-.5)*Log(z/x) + Log(z4*z4/Product(x)) - Lift
}

// logLess returns ln r − u for r = 1 + u.
func logLess(u, r float64) float64 {
	if math.Abs(u) > .01 {
		return Log(r) - u
	}
	w := u / (2 + u)
	t := w * w
	return w * (2*t*(1./3+t*(1./5+t*(1./7+t*(1./9)))) - u)
}

// seriesBeta sums the power series in x of xᵃyᵇ/aB(a, b)·₂F₁(a+b, 1; a+1; x) (Abramowitz and Stegun 26.5.4). All
// terms have the same sign.
func seriesBeta(a, b, x, powers float64) float64 {
	sum, term := 1., 1.
	for n := 0.; n < 2000 && term > 0x1p-54; n++ {
		term *= (a + b + n) / (a + 1 + n) * x
		sum += term
	}
	return min(1, powers*sum/a)
}

// fractionBeta evaluates the continued fraction of DiDonato and Morris (ACM TOMS 18, 1992, eq. 9) with the method
// of Lentz.
func fractionBeta(a, b, x, y, far, powers float64) float64 {
	const tiny = 1e-300
	f := tiny
	c, d := f, 0.
	up := 1.
	for n := 0.; n < 2000; n++ {
		if n > 0 {
			t := a + 2*n - 1
			up = (a + n - 1) / t * ((a + b + n - 1) / t * x) * n * ((b - n) * x)
		}
		down := n + n*(b-n)*x/(a+2*n-1) + (a+n)/(a+2*n+1)*(far+1+n*(1+y))
		if d = down + up*d; d == 0 {
			d = tiny
		}
		if c = down + up/c; c == 0 {
			c = tiny
		}
		d = 1 / d
		f *= c * d
		if math.Abs(c*d-1) < 0x1p-50 {
			break
		}
	}
	return min(1, powers*f)
}

// manyTrials is the parameter above which the density is nearly normal.
const manyTrials = 500

// centralBeta integrates the density from the mean less far/(a+b) down to where it vanishes.
func centralBeta(a, b, far float64) float64 {
	const maxSD = 12 // standard deviations from the mean at which the density vanishes
	n := a + b
	sd := math.Sqrt(a * (b / n)) // of far
	z := far / sd
	if z >= maxSD {
		return 0
	}
	sum := 0.
	for i, t := range nodesBeta.locations {
		far := (z + t*(maxSD-z)) * sd
		u, v := -far/a, far/b
		if u <= -1 {
			continue
		}
		sum += nodesBeta.weights[i] * Exp(a*logLess(u, 1+u)+b*logLess(v, 1+v)) / ((1 + u) * (1 + v))
	}
	return sum * (maxSD - z) * Exp(-halfLog2Pi+stirling(n)-stirling(a)-stirling(b))
}

// nodesBeta has the nodes and weights of Gauss-Legendre quadrature on [0, 1].
var nodesBeta = func() (nodes struct{ locations, weights [40]float64 }) {
	quad.Legendre{}.FixedLocations(nodes.locations[:], nodes.weights[:], 0, 1)
	return nodes
}()
