package expfam

import (
	"math"

	"hafvf/internal/special"
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
	return studentsT{location, math.Sqrt(scale2), nu}
}

type studentsT struct{ location, scale, nu float64 }

func (t studentsT) CDF(x float64) float64 {
	if x == t.location {
		return .5
	}
	z2 := (x - t.location) / t.scale
	z2 *= z2
	return special.StudentCDF(z2, t.nu, x > t.location)
}

// lomax is that of an exponential time whose rate is Gamma(shape, rate).
type lomax struct{ shape, rate float64 }

func (l lomax) CDF(x float64) float64 {
	return -math.Expm1(-l.shape * math.Log1p(math.Max(x, 0)/l.rate))
}

// negativeBinomial is that of a count whose mean is Gamma(shape, rate).
type negativeBinomial struct{ shape, rate float64 }

// few is how many probabilities are summed at most.
const few = 64

func (negativeBinomial) PerUnit() float64 { return 1 }

func (n negativeBinomial) CDF(x float64) float64 {
	switch {
	case x < 0:
		return 0
	case math.IsInf(x, 1):
		return 1
	}
	k := math.Floor(x)
	if none := n.shape * math.Log1p(1/n.rate); k < few && none < 600 { // a sum of few is exact, and faster
		term := math.Exp(-none)
		sum := term
		for i := range int(k) {
			term *= (n.shape + float64(i)) / float64(i+1) / (1 + n.rate)
			sum += term
		}
		return math.Min(sum, 1)
	}
	return special.BetaCDF(n.shape, k+1, 1/(1+1/n.rate), 1/(1+n.rate))
}

// indicator is that of 1 with the probability that it is, and else 0.
type indicator float64

func (indicator) PerUnit() float64 { return 1 }

func (p indicator) CDF(x float64) float64 {
	switch {
	case x < 0:
		return 0
	case x < 1:
		return max(0, 1-float64(p))
	}
	return 1
}
