package hafvf

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// studentMoments returns mean and standard deviation of Student's t with the
// given location, squared scale and degrees of freedom ν: the mean is undefined
// for ν ≤ 1, and the variance infinite for ν ≤ 2.
func studentMoments(location, scale2, nu float64) (mean, sd float64) {
	if nu <= 1 {
		return math.NaN(), math.NaN()
	}
	return location, math.Sqrt(scale2 * ratioAbove(nu, nu-2))
}

func studentQuantile(p, location, scale2, nu float64) float64 {
	return distuv.StudentsT{Mu: location, Sigma: math.Sqrt(scale2), Nu: nu}.Quantile(p)
}

// negativeBinomialQuantile is the p-quantile of the Poisson distribution whose
// mean is Gamma(shape a, rate b), by bisection on P(X ≤ k) = I(b/(b+1); a, k+1).
func negativeBinomialQuantile(p, a, b float64) float64 {
	cdf := func(k float64) float64 { return mathext.RegIncBeta(a, k+1, b/(b+1)) }
	lo, hi := -1.0, math.Ceil(a/b)
	for cdf(hi) < p {
		lo, hi = hi, 2*hi+1
		if hi > maxCount {
			return hi
		}
	}
	for hi-lo > 1 {
		mid := math.Floor(lo + (hi-lo)/2)
		if cdf(mid) < p {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}
