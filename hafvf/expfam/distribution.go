package expfam

import (
	"math"

	"hafvf/internal/special"
)

// A Distribution is a distribution of real numbers: the kind law, its parameters a, b and c, and the variance
// of a share.
type Distribution struct {
	law
	a, b, c, variance float64
}

type law int

const (
	studentsT        law = iota + 1 // location, squared scale, degrees of freedom
	lomax                           // shape, rate: an exponential time with a Gamma rate
	negativeBinomial                // shape, rate: a count with a Gamma mean
	betaShare                       // alpha, beta, trials: see shareCDF
	indicator                       // probabilities of 1 and of 0
)

// Student returns Student's t distribution with the given location, squared scale and degrees of freedom.
func Student(location, scale2, nu float64) Distribution {
	return Distribution{law: studentsT, a: location, b: scale2, c: nu}
}

// studentMoments returns mean and standard deviation of Student's t with the given location, squared scale and
// degrees of freedom ν: the mean is undefined for ν ≤ 1, and the variance infinite for ν ≤ 2.
func studentMoments(location, scale2, nu float64) (mean, sd float64) {
	if nu <= 1 {
		return math.NaN(), math.NaN()
	}
	return location, math.Sqrt(scale2 * ratioAbove(nu, nu-2))
}

// Moments returns mean and standard deviation.
func (d Distribution) Moments() (mean, sd float64) {
	switch d.law {
	case studentsT:
		return studentMoments(d.a, d.b, d.c)
	case lomax:
		return lomaxMoments(d.a, d.b)
	case negativeBinomial:
		return d.a / d.b, math.Sqrt(d.a*(d.b+1)) / d.b
	case betaShare:
		return d.a / (d.a + d.b), math.Sqrt(d.variance)
	}
	return d.a, math.Sqrt(d.a * d.b)
}

// lomaxMoments returns the moments of an exponential time whose rate is Gamma(shape, rate).
func lomaxMoments(shape, rate float64) (mean, sd float64) {
	mean = ratioAbove(rate, shape-1)
	return mean, mean * math.Sqrt(shape*ratioAbove(1, shape-2))
}

// Lattice reports whether all values are integer multiples of 1/perUnit. perUnit is 0 if the number of trials
// of a share is unknown.
func (d Distribution) Lattice() (perUnit float64, ok bool) {
	switch d.law {
	case negativeBinomial, indicator:
		return 1, true
	case betaShare: // with an unknown number of trials, a share has only the steps 0 and 1
		return d.c, true
	}
	return 0, false
}

// CDF returns P(X ≤ x).
func (d Distribution) CDF(x float64) float64 {
	switch d.law {
	case studentsT, lomax:
		p, _ := d.At(x)
		return math.Max(p, 0)
	case negativeBinomial:
		return countCDF(d.a, d.b, x)
	case betaShare:
		return shareCDF(d.a, d.b, d.c, x)
	}
	switch {
	case x < 0:
		return 0
	case x < 1:
		return math.Min(d.b, 1)
	}
	return 1
}

// At returns P(X ≤ x) and the density at x of a distribution that is not on a lattice. Below 0, where both are zero for a
// time, it returns the tangent at 0 instead, which leads Newton's method back.
func (d Distribution) At(x float64) (cdf, density float64) {
	if d.law == lomax {
		if density = d.a / d.b; x < 0 {
			return density * x, density
		}
		tail := special.Exp(-d.a * special.Log1p(x/d.b))
		return 1 - tail, d.a / (d.b + x) * tail
	}
	scale := math.Sqrt(d.b)
	cdf, density = special.Student(d.c, (x-d.a)/scale)
	if x > d.a {
		cdf = 1 - cdf
	}
	return cdf, density / scale
}

// Width returns the approximate distance over which the density changes. The distribution is not on a lattice.
func (d Distribution) Width() float64 {
	if d.law == lomax {
		return d.b / math.Max(d.a, 1)
	}
	return math.Sqrt(d.b)
}

// Near returns the approximate quantile of p of a distribution that is not on a lattice. z is the quantile of p of a
// standard normal.
func (d Distribution) Near(p, z float64) float64 {
	if d.law == lomax {
		return d.b * math.Expm1(-math.Log1p(-p)/d.a)
	}
	return d.a + math.Sqrt(d.b)*z
}

// maxTerms is the maximum number of probabilities that are summed.
const maxTerms = 64

// countCDF is the CDF of a count whose mean is Gamma(shape, rate).
func countCDF(shape, rate, x float64) float64 {
	switch {
	case x < 0:
		return 0
	case math.IsInf(x, 1):
		return 1
	}
	k := math.Floor(x)
	if minusLogP0 := shape * math.Log1p(1/rate); k < maxTerms && minusLogP0 < 600 { // a short sum is exact, and faster
		term := math.Exp(-minusLogP0)
		sum := term
		for i := range int(k) {
			term *= (shape + float64(i)) / float64(i+1) / (1 + rate)
			sum += term
		}
		return math.Min(sum, 1)
	}
	return special.BetaCDF(shape, k+1, 1/(1+1/rate), 1/(1+rate))
}

// shareCDF returns the CDF of a share of trials, from a Beta distribution with the mean and the variance of the
// share: the probability of k successes is the probability within half a success of k. If trials is 0, the
// share is continuous.
func shareCDF(alpha, beta, trials, x float64) float64 {
	y := 1 - x
	if trials > 0 {
		const rounding = 0x1p-51 // relative, of k/n and of the product
		k := math.Floor(x*trials*(1+rounding)) + .5
		x, y = k/trials, (trials-k)/trials
	}
	return special.BetaCDF(alpha, beta, x, y)
}
