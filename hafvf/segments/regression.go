package segments

import (
	"math"

	"hafvf/internal/special"
)

// An explanation is a model of the values in a segment: a normal whose mean is m₀ + m₁·u, with the regressor u.
type explanation int

const (
	constant       explanation = iota // u = 0
	slowWalk                          // m₀ walks by .1 sd of the noise per observation
	walk                              // m₀ walks by .3 sd
	fastWalk                          // m₀ walks by 1 sd
	line                              // u is the index of the observation in the segment
	autoregression                    // u is the previous value
	explanationCount
)

// walked is the variance by which m₀ walks per observation, in units of the noise variance.
var walked = [explanationCount]float64{slowWalk: .01, walk: .1, fastWalk: 1}

const (
	correlationSD = .05 // prior sd of the correlation in a segment, about the correlation of the session
	slopeSD       = .1  // prior sd of a line's slope, in scales of the prior per observation
	fittedWorth   = 4.  // factor of α in a fitted prior
)

// A regression is the posterior of an explanation, computed by recursive least squares: the coefficients m0 and
// m1, their covariance in units of the noise variance, and the InvGamma(a, b) of that variance. Values are
// centred and scaled by the prior.
type regression struct {
	m0, m1, p00, p01, p11, a, b float64
	last                        float64 // the previous value; the predicted value if it was an accident
	likelihood                  float64 // log L
}

// A normalPrior is the prior of a session. In its units, mu is 0 and β/α is 1.
type normalPrior struct {
	mu, kappa, alpha, scale float64
	correlation             float64 // of the noise of the session
}

// regression returns an explanation before its first observation.
func (p *normalPrior) regression(e explanation) regression {
	r := regression{p00: 1 / p.kappa, a: p.alpha, b: p.alpha}
	switch e {
	case line:
		r.p11 = slopeSD * slopeSD
	case autoregression:
		r.m1, r.p11 = p.correlation, correlationSD*correlationSD
		r.p00 *= math.Max(.1, 1-p.correlation) // m₀ is smaller than the level
	}
	return r
}

// regressor returns u for the observation after n others.
func (r *regression) regressor(e explanation, n int) float64 {
	switch {
	case e == line:
		return float64(n)
	case e == autoregression && n > 0:
		return r.last
	}
	return 0
}

// predict returns the log density of y, up to a constant.
func (r *regression) predict(y, u float64) float64 {
	e := y - r.m0 - r.m1*u
	q := 1 + r.p00 + 2*r.p01*u + r.p11*u*u
	return special.LgammaDelta(r.a, .5) - .5*special.Log(r.b*q) - (r.a+.5)*special.Log1p(e*e/(2*r.b*q))
}

// learn learns y with the given weight.
func (r *regression) learn(y, u, weight float64) {
	e := y - r.m0 - r.m1*u
	r.last = weight*y + (1-weight)*(y-e)
	if weight < minLearnedWeight {
		return
	}
	g0, g1 := r.p00+r.p01*u, r.p01+r.p11*u
	q := 1/weight + g0 + g1*u
	r.m0 += g0 / q * e
	r.m1 += g1 / q * e
	r.p00 -= g0 * g0 / q
	r.p01 -= g0 * g1 / q
	r.p11 -= g1 * g1 / q
	r.a += .5 * weight
	r.b += .5 * e * e / q
}

// white reports whether neighbouring values, minus the means of their segments, are nearly uncorrelated.
func white(y [][]float64, edges []int) bool {
	const deviations, maxDeviation = 1.5, 8.
	product, square := 0., 0.
	for k := range len(edges) + 1 {
		segment := y[startOf(edges, k):endOf(edges, k, len(y))]
		mean := 0.
		for _, v := range segment {
			mean += v[0] / float64(len(segment))
		}
		last := 0.
		for _, v := range segment {
			e := math.Max(-maxDeviation, math.Min(maxDeviation, v[0]-mean))
			product += last * e
			square += e * e
			last = e
		}
	}
	return product < deviations/math.Sqrt(float64(len(y)))*square
}
