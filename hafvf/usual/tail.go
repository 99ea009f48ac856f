package usual

import "math"

// Fixed settings. The scores in testdata/traces depend on them.
const (
	tailWarmUp   = 50   // observations that set mean, deviation and level
	tailShare    = .02  // share of the surprises above the level
	tailPrior    = 10.  // excesses in the prior
	tailShape    = .2   // shape in the prior
	minShape     = -.1  // of the tail
	maxShape     = .45  // of the tail
	tailRate     = .002 // minimum learning rate of the level, per observation
	spreadRate   = 1 - profileForgetting
	tailPrecise  = 1 / spreadRate // observations after which rates no longer fall
	minSpread    = 1e-3
	excessBound  = 10. // largest excess that is learned, in spreads
	levelSpreads = 2.5 // spreads of the initial level above the mean
)

// A tail learns the distribution of a stream's surprises, and scores the last surprise. Its entries are the running
// mean m and mean absolute deviation d, a level u that about two percent of the surprises exceed, and the number, sum
// and sum of squares of the excesses, forgotten by v = .9998.
//
// The excesses have a generalised Pareto distribution, fitted by moments with a prior of ten excesses of mean d and
// shape .2. With the first two moments m₁ and m₂,
//
//	shape ξ = ½(1 − m₁²/(m₂ − m₁²)) within −.1, …, .45,  scale σ = m₁(1 − ξ)
//	score q = −log₁₀ of P(over u)·(1 + ξx/σ)^(−1/ξ) for an excess x > 0, else 0
//
// The shape is learned for users: with a fixed one, F1 is .02 higher on services_1min, but a deviation of 18 standard
// deviations at steps of ten minutes is missed in a stream that pauses by night. An excess is learned as at most 10d. A
// normal distribution would not fit: surprises of single observations have heavier tails.
type tail []float64

const (
	tailMean = iota
	tailSpread
	tailLevel
	tailCount
	tailSum
	tailSquares
	tailLen
)

// update scores the surprise c and learns it, with an excess of at most excessBound spreads. total is the weight of the
// observations before it. The score is 0 in the warm-up.
func (s tail) update(c, total float64) (q float64) {
	t := ageOf(total)
	if t < tailWarmUp {
		s[tailMean] += (c - s[tailMean]) / (t + 1)
		s[tailSpread] += (math.Abs(c-s[tailMean]) - s[tailSpread]) / (t + 1)
		s[tailLevel] = s[tailMean] + levelSpreads*s[tailSpread]
		return 0
	}
	d := max(s[tailSpread], minSpread)
	x := c - s[tailLevel]
	over := 0.
	if x > 0 {
		over = 1
		share := (s[tailCount] + tailShare*tailWarmUp) / (afterWarmUp(total) + tailWarmUp)
		n := s[tailCount] + tailPrior
		m1 := (s[tailSum] + tailPrior*d) / n
		m2 := (s[tailSquares] + tailPrior*2*d*d*(1-tailShape)/(1-2*tailShape)) / n
		shape := .5 * (1 - m1*m1/max(m2-m1*m1, 1e-12))
		shape = max(minShape, min(shape, maxShape))
		x := x / (m1 * (1 - shape))
		if math.Abs(shape) >= 1e-3 {
			x = math.Log1p(max(shape*x, -.999)) / shape
		}
		q = (x - math.Log(share)) / math.Ln10
	}
	for i := tailCount; i <= tailSquares; i++ {
		s[i] *= profileForgetting
	}
	s[tailCount] += over
	x = min(x, excessBound*d)
	s[tailSum] += over * x
	s[tailSquares] += over * x * x
	s[tailLevel] += max(tailRate, 1/(t+1)) * 5 * d * (over - tailShare)
	rate := max(spreadRate, 1/(t+1))
	s[tailSpread] = d + rate*(min(math.Abs(c-s[tailMean]), 20*d)-d)
	s[tailMean] += rate * (c - s[tailMean])
	return q
}

var (
	warmUpWeight  = weightOf(tailWarmUp, profileForgetting)
	preciseWeight = weightOf(tailPrecise, profileForgetting)
)

// ageOf returns the number of observations with the given total weight, at most tailPrecise.
func ageOf(total float64) float64 {
	if total >= preciseWeight {
		return tailPrecise
	}
	return math.Round(math.Log1p(-total*(1-profileForgetting)) / math.Log(profileForgetting))
}

// afterWarmUp returns the weight of all observations but the first tailWarmUp. total is the weight of all.
func afterWarmUp(total float64) float64 {
	return (total - warmUpWeight) / (1 - warmUpWeight*(1-profileForgetting))
}

// valid reports whether s can be a tail after observations with the given total weight.
func (s tail) valid(total float64) bool {
	const slack = 1 + 1e-9
	const bound = 6 * maxSurprise // of level and excesses
	n := s[tailCount]
	return s[tailMean] >= 0 && s[tailMean] <= maxSurprise && s[tailSpread] >= 0 && s[tailSpread] <= bound &&
		math.Abs(s[tailLevel]) <= bound && n >= 0 && n <= total*slack && s[tailSum] >= 0 &&
		s[tailSquares] >= 0 && s[tailSquares] <= n*bound*bound*slack && s[tailSum]*s[tailSum] <= n*s[tailSquares]*slack+1e-300
}
