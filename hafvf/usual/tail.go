package usual

import "math"

// Settings that aren't the user's: those of the reference, see testdata/real.
const (
	tailWarmUp   = 50   // observations that set mean, deviation and level
	tailShare    = .02  // of the values, above the level
	tailPrior    = 10.  // excesses
	tailShape    = .2   // of the prior
	leastShape   = -.1  // of the tail
	mostShape    = .45  // of the tail
	tailRate     = .002 // of the level, per observation
	spreadRate   = 1 - profileForgetting
	tailPrecise  = 1 / spreadRate // observations after which rates no longer fall
	leastSpread  = 1e-3
	excessBound  = 10. // of an excess that is learned, spreads
	levelSpreads = 2.5 // of the first level over the mean
)

// A tail learns how often surprises of a stream are how large, and scores the last one. Its
// entries are running mean m and mean absolute deviation d, a level u that about two percent of
// the surprises exceed, and number, sum and sum of squares of the excesses, which v = .9998
// forgets.
//
// The excesses have a generalised Pareto distribution, fitted by moments with a prior of ten
// excesses of mean d and shape .2: m₁ and m₂ being the first moments,
//
//	shape ξ = ½(1 − m₁²/(m₂ − m₁²)) within −.1, …, .45,  scale σ = m₁(1 − ξ)
//	score q = −log₁₀ of P(over u)·(1 + ξx/σ)^(−1/ξ) of an excess x > 0, else 0
//
// What is learned of an excess is at most 10d. A normal distribution would not do: surprises of single
// observations have heavier tails.
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

// update scores the surprise c and learns it, of an excess no more than most spreads. total is the
// weight of the observations before it.
func (s tail) update(c, total, most float64) (q float64) {
	t := ageOf(total)
	if t < tailWarmUp {
		s[tailMean] += (c - s[tailMean]) / (t + 1)
		s[tailSpread] += (math.Abs(c-s[tailMean]) - s[tailSpread]) / (t + 1)
		s[tailLevel] = s[tailMean] + levelSpreads*s[tailSpread]
		return 0
	}
	d := max(s[tailSpread], leastSpread)
	x := c - s[tailLevel]
	over := 0.
	if x > 0 {
		over = 1
		share := (s[tailCount] + tailShare*tailWarmUp) / (afterWarmUp(total) + tailWarmUp)
		n := s[tailCount] + tailPrior
		m1 := (s[tailSum] + tailPrior*d) / n
		m2 := (s[tailSquares] + tailPrior*2*d*d*(1-tailShape)/(1-2*tailShape)) / n
		shape := .5 * (1 - m1*m1/max(m2-m1*m1, 1e-12))
		shape = max(leastShape, min(shape, mostShape))
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
	x = min(x, most*d)
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

// ageOf is the number of observations of that total weight, at most tailPrecise.
func ageOf(total float64) float64 {
	if total >= preciseWeight {
		return tailPrecise
	}
	return math.Round(math.Log1p(-total*(1-profileForgetting)) / math.Log(profileForgetting))
}

// afterWarmUp is the weight of the observations after the first tailWarmUp of all, which have
// the weight total.
func afterWarmUp(total float64) float64 {
	return (total - warmUpWeight) / (1 - warmUpWeight*(1-profileForgetting))
}

// valid reports whether a tail of observations of that total weight can be s.
func (s tail) valid(total float64) bool {
	const slack = 1 + 1e-9
	const most = 6 * maxSurprise // of level and excesses
	n := s[tailCount]
	return s[tailMean] >= 0 && s[tailMean] <= maxSurprise && s[tailSpread] >= 0 && s[tailSpread] <= most &&
		math.Abs(s[tailLevel]) <= most && n >= 0 && n <= total*slack && s[tailSum] >= 0 &&
		s[tailSquares] >= 0 && s[tailSquares] <= n*most*most*slack && s[tailSum]*s[tailSum] <= n*s[tailSquares]*slack+1e-300
}
