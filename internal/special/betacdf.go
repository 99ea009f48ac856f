package special

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"
)

// BetaCDF is the probability of Beta(a, b) up to x, the regularised incomplete beta function
// Iₓ(a, b). y is 1−x: who knows it gives it, as the difference loses the digits of an x next to
// 1. The error is below 1e-11 at any a and b, where that of the parameters themselves is no
// larger. Where one of a and b is 0, all is at 0 or at 1. It is NaN where both are, or one is
// below that or infinite, or x or y is NaN.
//
// All of it is about the mean a/(a+b), where the density is exp(a·g(u) + b·g(v)) of its largest
// value, with the relative distances u and v of x and y from their means and g(u) = ln(1+u) − u:
// no large numbers are subtracted.
func BetaCDF(a, b, x, y float64) float64 {
	switch {
	case !(a >= 0 && b >= 0 && a+b > 0) || math.IsInf(a+b, 1) || x != x || y != y:
		return math.NaN()
	case y <= 0 || a == 0 && x >= 0:
		return 1
	case x <= 0 || b == 0:
		return 0
	}
	// From far alone logLess would not know an x that is much below its mean.
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
	case x <= .9 && (b*x <= 1 || (a+b)*x < .5*(a+1)): // then terms shrink at once
		return seriesBeta(a, b, x, powers)
	case y <= .9 && a*y <= 1:
		return 1 - seriesBeta(b, a, y, powers)
	}
	return fractionBeta(a, b, x, y, far, powers)
}

// stirling is Stirling of 1/x, for all x > 0.
func stirling(x float64) float64 {
	if x >= Lift {
		return Stirling(1 / x)
	}
	z := x + Lift
	z2 := z * z
	z4 := z2 * z2
	return Stirling(1/z) + (x-.5)*Log(z/x) + Log(z4*z4/Product(x)) - Lift
}

// logLess is ln r − u of r = 1 + u.
func logLess(u, r float64) float64 {
	if math.Abs(u) > .01 {
		return Log(r) - u
	}
	w := u / (2 + u)
	t := w * w
	return w * (2*t*(1./3+t*(1./5+t*(1./7+t*(1./9)))) - u)
}

// seriesBeta is the power series in x of xᵃyᵇ/aB(a, b)·₂F₁(a+b, 1; a+1; x) (Abramowitz and Stegun 26.5.4), whose terms
// are all of one sign.
func seriesBeta(a, b, x, powers float64) float64 {
	sum, term := 1., 1.
	for n := 0.; n < 2000 && term > 0x1p-54; n++ {
		term *= (a + b + n) / (a + 1 + n) * x
		sum += term
	}
	return min(1, powers*sum/a)
}

// fractionBeta is the continued fraction of DiDonato and Morris (ACM TOMS 18, 1992, eq. 9),
// by the method of Lentz.
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

// manyTrials is the parameter from which the density is nearly normal.
const manyTrials = 500

// centralBeta integrates the density from the mean less far/(a+b) down to where it is nothing.
func centralBeta(a, b, far float64) float64 {
	const nothing = 12 // standard deviations from the mean
	n := a + b
	sd := math.Sqrt(a * (b / n)) // of far
	z := far / sd
	if z >= nothing {
		return 0
	}
	sum := 0.
	for i, t := range nodesBeta.at {
		far := (z + t*(nothing-z)) * sd
		u, v := -far/a, far/b
		if u <= -1 {
			continue
		}
		sum += nodesBeta.weights[i] * Exp(a*logLess(u, 1+u)+b*logLess(v, 1+v)) / ((1 + u) * (1 + v))
	}
	return sum * (nothing - z) * Exp(-halfLog2Pi+stirling(n)-stirling(a)-stirling(b))
}

// nodesBeta are those of Gauss and Legendre on [0, 1].
var nodesBeta = func() (nodes struct{ at, weights [40]float64 }) {
	quad.Legendre{}.FixedLocations(nodes.at[:], nodes.weights[:], 0, 1)
	return nodes
}()
