package expfam

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

// student is Student's t with the given location, squared scale and degrees of freedom.
func student(location, scale2, nu float64) Distribution {
	return distuv.StudentsT{Mu: location, Sigma: math.Sqrt(scale2), Nu: nu}
}

// lomax is that of an exponential time whose rate is Gamma(shape, rate).
type lomax struct{ shape, rate float64 }

func (l lomax) CDF(x float64) float64 {
	return -math.Expm1(-l.shape * math.Log1p(math.Max(x, 0)/l.rate))
}

// negativeBinomial is that of a count whose mean is Gamma(shape, rate).
type negativeBinomial struct{ shape, rate float64 }

func (n negativeBinomial) CDF(x float64) float64 {
	if x < 0 {
		return 0
	}
	return mathext.RegIncBeta(n.shape, math.Floor(x)+1, n.rate/(n.rate+1))
}

// indicator is that of 1 with the probability that it is, and else 0.
type indicator float64

func (p indicator) CDF(x float64) float64 {
	switch {
	case x < 0:
		return 0
	case x < 1:
		return 1 - float64(p)
	}
	return 1
}
