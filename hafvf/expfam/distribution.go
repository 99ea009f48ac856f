package expfam

import (
	"math"

	"hafvf/internal/special"
)

// A Distribution is one of real numbers, with the parameters a, b and c of its law, and of a share its variance.
type Distribution struct {
	law
	a, b, c, variance float64
}

type law int

const (
	studentsT        law = iota + 1 // location, squared scale, degrees of freedom
	lomax                           // shape, rate: an exponential time whose rate is Gamma
	negativeBinomial                // shape, rate: a count whose mean is Gamma
	betaShare                       // alpha, beta, trials: see shareCDF
	indicator                       // the probabilities of 1 and of 0
)

// Student is Student's t with the given location, squared scale and degrees of freedom.
func Student(location, scale2, nu float64) Distribution {
	return Distribution{law: studentsT, a: location, b: scale2, c: nu}
}

// studentMoments returns mean and standard deviation of Student's t with the
// given location, squared scale and degrees of freedom ν: the mean is undefined
// for ν ≤ 1, and the variance infinite for ν ≤ 2.
func studentMoments(location, scale2, nu float64) (mean, sd float64) {
	if nu <= 1 {
		return math.NaN(), math.NaN()
	}
	return location, math.Sqrt(scale2 * ratioAbove(nu, nu-2))
}

// Moments are mean and standard deviation.
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

// lomaxMoments are those of an exponential time whose rate is Gamma(shape, rate).
func lomaxMoments(shape, rate float64) (mean, sd float64) {
	mean = ratioAbove(rate, shape-1)
	return mean, mean * math.Sqrt(shape*ratioAbove(1, shape-2))
}

// Lattice reports whether it is of whole multiples of one number, and how many of them there are to 1, 0
// where that is not known.
func (d Distribution) Lattice() (perUnit float64, ok bool) {
	switch d.law {
	case negativeBinomial, indicator:
		return 1, true
	case betaShare: // of an unknown number of trials a share has no steps but 0 and 1
		return d.c, true
	}
	return 0, false
}

// Most is the largest value that it has.
func (d Distribution) Most() float64 {
	switch d.law {
	case betaShare, indicator:
		return 1
	}
	return math.Inf(1)
}

// CDF is P(X ≤ x).
func (d Distribution) CDF(x float64) float64 {
	switch d.law {
	case studentsT:
		return d.studentCDF(x)
	case lomax:
		return -math.Expm1(-d.a * math.Log1p(math.Max(x, 0)/d.b))
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

func (d Distribution) studentCDF(x float64) float64 {
	if x == d.a {
		return .5
	}
	s := special.NewStudent(d.c)
	beyond, _ := s.At((x - d.a) / math.Sqrt(d.b))
	if x > d.a {
		return 1 - beyond
	}
	return beyond
}

// few is how many probabilities are summed at most.
const few = 64

// countCDF is that of a count whose mean is Gamma(shape, rate).
func countCDF(shape, rate, x float64) float64 {
	switch {
	case x < 0:
		return 0
	case math.IsInf(x, 1):
		return 1
	}
	k := math.Floor(x)
	if none := shape * math.Log1p(1/rate); k < few && none < 600 { // a sum of few is exact, and faster
		term := math.Exp(-none)
		sum := term
		for i := range int(k) {
			term *= (shape + float64(i)) / float64(i+1) / (1 + rate)
			sum += term
		}
		return math.Min(sum, 1)
	}
	return special.BetaCDF(shape, k+1, 1/(1+1/rate), 1/(1+rate))
}

// shareCDF has the probabilities of a Beta distribution, of the mean and the variance of a share:
// those within half a success of k successes are k's. Trials are 0 if there are very many.
func shareCDF(alpha, beta, trials, x float64) float64 {
	y := 1 - x
	if trials > 0 {
		const rounding = 0x1p-51 // of x, which is k/n, and of the product
		k := math.Floor(x*trials*(1+rounding)) + .5
		x, y = k/trials, (trials-k)/trials
	}
	return special.BetaCDF(alpha, beta, x, y)
}

// A Curve is a distribution with a smooth density, ready to be evaluated at several places. That of a share is
// without steps.
type Curve struct {
	law
	location, scale float64 // those of Student's t, the sd of a share, the rate of a lomax
	shape           float64 // of a lomax
	t               special.Student
	beta            special.Beta
	odds            special.Odds // of a share
}

// Curve makes c the curve of the distribution. It reports false if that has no smooth density. A c that was Student's t with
// as many degrees of freedom, or that share, takes less time.
func (d Distribution) Curve(c *Curve) bool {
	c.law = d.law
	switch d.law {
	case studentsT:
		c.location, c.scale = d.a, math.Sqrt(d.b)
		if c.t.Nu != d.c {
			c.t = special.NewStudent(d.c)
		}
	case lomax:
		c.scale, c.shape = d.b, d.a
	case betaShare:
		c.scale = math.Sqrt(d.variance)
		if c.odds.A != d.a || c.odds.B != d.b {
			c.odds = special.NewOdds(d.a, d.b)
		}
	default:
		return false
	}
	return true
}

// Width is about the distance in which the density changes.
func (c *Curve) Width() float64 {
	if c.law == lomax {
		return c.scale / math.Max(c.shape, 1)
	}
	return c.scale
}

// Free is the distance from x to the nearest place where the density may be infinite.
func (c *Curve) Free(x float64) float64 {
	if c.law == betaShare {
		return math.Min(x, 1-x)
	}
	return math.Inf(1)
}

// At returns P(X ≤ x), the density at x and its first two derivatives.
func (c *Curve) At(x float64) (cdf, density, slope, bend float64) {
	switch c.law {
	case lomax:
		if x < 0 {
			return 0, 0, 0, 0
		}
		far := 1 / (c.scale + x)
		beyond := special.Exp(-c.shape * special.Log1p(x/c.scale))
		density = c.shape * far * beyond
		slope = -(c.shape + 1) * far * density
		return 1 - beyond, density, slope, -(c.shape + 2) * far * slope
	case betaShare:
		if c.beta.A != c.odds.A || c.beta.B != c.odds.B {
			c.beta = special.NewBeta(c.odds.A, c.odds.B)
			c.beta.Rough = true // its steps are far from where it doubts
		}
		y := 1 - x
		cdf, density = c.beta.At(x, y)
		rx, ry := 1/x, 1/y
		density *= rx * ry
		a, b := (c.beta.A-1)*rx, (c.beta.B-1)*ry
		return cdf, density, (a - b) * density, ((a-b)*(a-b) - a*rx - b*ry) * density
	}
	t := (x - c.location) / c.scale
	cdf, density = c.t.At(t)
	if t > 0 {
		cdf = 1 - cdf
	}
	nu := c.t.Nu
	far := 1 / ((nu + t*t) * c.scale)
	density /= c.scale
	slope = -(nu + 1) * far * t * density
	bend = (nu + 1) * far * far * ((nu+2)*t*t - nu) * density
	return cdf, density, slope, bend
}

// Rough is about P(X ≤ x) and the density at x, in a fraction of the time of At; 0 of a lomax. logit is that of
// x, if x is a share.
func (c *Curve) Rough(x, logit float64) (cdf, density float64) {
	switch c.law {
	case studentsT: // Abramowitz and Stegun 26.7.8
		nu := math.Max(c.t.Nu, 1)
		t := (x - c.location) / c.scale
		shrunk := 1 - 1/(4*nu)
		wide := 1 / math.Sqrt(1+t*t/(2*nu))
		cdf, density = special.RoughNormal(t * shrunk * wide)
		return cdf, density * shrunk * wide * wide * wide / c.scale
	case betaShare:
		cdf, density = c.odds.At(logit)
		return cdf, density / (x * (1 - x))
	}
	return 0, 0
}

// Doubt bounds the error of Rough of a share; 1 if it has no bound.
func (c *Curve) Doubt() float64 {
	if c.law == betaShare {
		return c.odds.Doubt
	}
	return 1
}

// Near is about the quantile of p, of which z is that of a normal.
func (c *Curve) Near(p, z float64) float64 {
	switch c.law {
	case lomax:
		return c.scale * math.Expm1(-math.Log1p(-p)/c.shape)
	case betaShare:
		return c.odds.Near(z)
	}
	// The expansion of Cornish and Fisher (Abramowitz and Stegun 26.7.5).
	nu, z2 := math.Max(c.t.Nu, 1), z*z
	return c.location + c.scale*z*(1+((z2+1)/4+((5*z2+16)*z2+3)/(96*nu))/nu)
}
