// Package likelihood finds the parameters that maximise the log evidence of data, with intervals of the profile
// likelihood. It needs the evidence only as a function of numbers.
package likelihood

import "math"

// A Parameter is a number to search for.
type Parameter struct {
	Start        float64 // start of the first search
	Lower, Upper float64 // bounds
	Scale        Scale   // scale of the steps
}

// A Scale is the scale on which a parameter is searched.
type Scale int

// The scales.
const (
	Real     Scale = iota // asinh: linear near zero, logarithmic beyond
	Positive              // log
	Share                 // logit, within bounds above 0 and below 1; at a bound the share is 0 or 1
)

// Bounds for a pair of α and β of a Beta distribution.
const (
	minMean, maxMean = .001, .999 // of α/(α+β)
	minSum, maxSum   = .1, 1000   // of α+β
)

// wide bounds a Real parameter by ±wide, and a Positive one by 1/wide and wide. If the start is near or beyond
// a bound, the bound is 1000 times farther out than the start.
const wide = 1e6

// NewParameter returns a parameter with the default bounds of its scale.
func NewParameter(start float64, scale Scale) Parameter {
	switch scale {
	case Real:
		bound := math.Max(wide, 1e3*math.Abs(start))
		return Parameter{start, -bound, bound, Real}
	case Share:
		return Parameter{start, 1e-4, 1 - 1e-6, Share}
	}
	return Parameter{start, math.Min(1/wide, start/1e3), math.Max(wide, 1e3*start), Positive}
}

// NewShape returns a parameter of a Beta distribution, α or β.
func NewShape(start float64) Parameter {
	return Parameter{start, minMean * minSum, maxMean * maxSum, Positive}
}

// toScale converts a value to the scale of the steps.
func (p Parameter) toScale(v float64) float64 {
	switch v = clamp(v, p.Lower, p.Upper); p.Scale {
	case Real:
		return math.Asinh(v)
	case Share:
		return logit(v)
	}
	return math.Log(v)
}

// fromScale is the inverse of toScale.
func (p Parameter) fromScale(u float64) float64 {
	switch {
	case p.Scale == Real:
		return clamp(math.Sinh(u), p.Lower, p.Upper)
	case p.Scale == Positive:
		return clamp(math.Exp(u), p.Lower, p.Upper)
	case u <= p.toScale(0):
		return 0
	case u >= p.toScale(1):
		return 1
	}
	return expit(u)
}

// A Problem is an evidence to maximise over its parameters.
type Problem struct {
	Parameters []Parameter
	// Pairs lists the indices of α and β of one Beta distribution, both among the parameters. Such a pair is
	// searched as the logit of its mean and the log of its sum.
	Pairs [][2]int
	// Evidence returns the log evidence at values of the parameters, or −Inf where it is undefined.
	Evidence func(values []float64) float64
}

// A Maximum is the result of Maximise.
type Maximum struct {
	Values   []float64
	Evidence float64
	// Lower and Upper bound the interval of each parameter, in which the profile likelihood is at most Fall
	// nats below the maximum. A bound is NaN if the profile does not fall this far before the parameter's
	// bound. All are NaN if the search has failed.
	Lower, Upper []float64
	Outcome      Outcome
}

// Fall is the decrease of the log evidence at the ends of a 95 % interval: half the quantile of χ² with one
// degree of freedom.
const Fall = 1.92

// An Outcome is the outcome of a search.
type Outcome string

// The outcomes.
const (
	Converged Outcome = "true"
	AtBound   Outcome = "bound" // of a parameter, or on a ridge that leads to one: an end of an interval is NaN
	Failed    Outcome = "false" // the search took too many evaluations, or there is no evidence
)

// Maximise searches from the starts and from two points nearby. If the profile of a parameter rises above the
// maximum, which can happen because the evidence jumps where a posterior changes its mode, Maximise continues
// from there. The same problem always has the same result.
func (p Problem) Maximise() Maximum {
	const rounds = 4
	best := p.search()
	for round := 0; ; round++ {
		lower, upper, above := p.intervals(best)
		if above == nil || round == rounds {
			return p.maximum(best, lower, upper, above == nil)
		}
		best = p.polish(*above)
	}
}

// Peak returns the parameters with the greatest evidence, without intervals: the point that Maximise reaches
// before it computes profiles.
func (p Problem) Peak() []float64 { return p.search().point }

func (p Problem) maximum(best peak, lower, upper []float64, ended bool) Maximum {
	m := Maximum{best.point, best.evidence, lower, upper, Converged}
	failed := !ended || !best.ended || math.IsInf(best.evidence, 0)
	for j := range lower {
		if failed {
			lower[j], upper[j] = math.NaN(), math.NaN()
		}
		if math.IsNaN(lower[j]) || math.IsNaN(upper[j]) {
			m.Outcome = AtBound
		}
	}
	if failed {
		m.Outcome = Failed
	}
	return m
}

func clamp(v, lo, hi float64) float64 { return math.Max(lo, math.Min(hi, v)) }
func logit(p float64) float64         { return math.Log(p / (1 - p)) }
func expit(u float64) float64         { return 1 / (1 + math.Exp(-u)) }
