// Package likelihood finds the parameters that maximise the log evidence of data, with intervals
// of the profile likelihood. It knows the evidence as a function of numbers alone.
package likelihood

import "math"

// A Parameter is a number that is searched.
type Parameter struct {
	Start        float64 // of the first search
	Lower, Upper float64 // bounds
	Scale        Scale   // on which steps are taken
}

// A Scale is one of a parameter.
type Scale int

// The scales.
const (
	Real     Scale = iota // asinh: straight near zero, logarithmic beyond
	Positive              // log
	Share                 // logit, within bounds above 0 and below 1; at a bound the share is 0 or 1
)

// Bounds of α and β of a Beta distribution that are searched together.
const (
	leastMean, mostMean = .001, .999 // of α/(α+β)
	leastSum, mostSum   = .1, 1000   // of α+β
)

// A Real parameter is within ±wide, a Positive one within 1/wide and wide; a start near or beyond a
// bound moves that a thousand times farther.
const wide = 1e6

// NewParameter is a parameter on a scale, within the bounds of that.
func NewParameter(start float64, on Scale) Parameter {
	switch on {
	case Real:
		most := math.Max(wide, 1e3*math.Abs(start))
		return Parameter{start, -most, most, Real}
	case Share:
		return Parameter{start, 1e-4, 1 - 1e-6, Share}
	}
	return Parameter{start, math.Min(1/wide, start/1e3), math.Max(wide, 1e3*start), Positive}
}

// NewShape is a parameter of a Beta distribution, α or β.
func NewShape(start float64) Parameter {
	return Parameter{start, leastMean * leastSum, mostMean * mostSum, Positive}
}

// to takes a value to the scale of the steps.
func (p Parameter) to(v float64) float64 {
	switch v = clamp(v, p.Lower, p.Upper); p.Scale {
	case Real:
		return math.Asinh(v)
	case Share:
		return logit(v)
	}
	return math.Log(v)
}

// from takes a number on the scale of the steps back.
func (p Parameter) from(u float64) float64 {
	switch {
	case p.Scale == Real:
		return clamp(math.Sinh(u), p.Lower, p.Upper)
	case p.Scale == Positive:
		return clamp(math.Exp(u), p.Lower, p.Upper)
	case u <= p.to(0):
		return 0
	case u >= p.to(1):
		return 1
	}
	return expit(u)
}

// A Problem is to be maximised.
type Problem struct {
	Parameters []Parameter
	// Pairs are places of α and β of one Beta distribution, both among the parameters. They are
	// searched as the logit of their mean and the log of their sum.
	Pairs [][2]int
	// Evidence is the log evidence at values of the parameters; −Inf where there is none.
	Evidence func(at []float64) float64
}

// A Maximum is what Maximise finds.
type Maximum struct {
	At       []float64
	Evidence float64
	// Lower and Upper bound the interval of each parameter, in which the profile likelihood is at
	// most Fall nats below the maximum. They are NaN where it does not fall as far up to the bound,
	// and if the search has failed.
	Lower, Upper []float64
	Outcome      Outcome
}

// Fall is how far the log evidence falls at the ends of an interval of 95 %: half the quantile of
// χ² with one degree of freedom.
const Fall = 1.92

// An Outcome is that of a search.
type Outcome string

// The outcomes.
const (
	Converged Outcome = "true"
	AtBound   Outcome = "bound" // of a parameter, or on a ridge that leads to one: some side of an interval is open
	Failed    Outcome = "false" // the search went on for too long, or there is no evidence
)

// Maximise searches from the starts and from two places beside them, and climbs on where the profile
// of a parameter rises above the maximum: the evidence jumps where a posterior changes its mode. The
// same problem has the same maximum.
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

// Peak is where Maximise would climb to before it looks at the profiles: the greatest evidence without
// intervals.
func (p Problem) Peak() []float64 { return p.search().at }

func (p Problem) maximum(best peak, lower, upper []float64, ended bool) Maximum {
	m := Maximum{best.at, best.evidence, lower, upper, Converged}
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
