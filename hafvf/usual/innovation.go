package usual

import "math"

// An innovation scores a single observation, without a mean over several. It has two sizes, the move
// |y − previous value| and the residual of the last view. Each has an exponential tail with a learned mean, so its
// predictive distribution is Lomax. With k values that did not repeat the previous value, and the sum S of their sizes,
// both forgotten by v = .9998,
//
//	P(size > c) = (1 + c/(1 + S))^−(k+1)
//
// The two tails are mixed by their evidence (F1 .01 on planted_1h). A repeated value is not a surprise. For a new
// value, the probability is multiplied by the share of new values.
//
// The entries are k, the log odds of move against residual, and the two sums.
type innovation []float64

const (
	innovationNew = iota
	innovationOdds
	innovationSums
	innovationLen = innovationSums + 2
)

// maxOdds is larger than any log odds: an observation adds at most 3e5, and the memory is 5,000 observations.
const maxOdds = 1e10

// repeats returns the share of repeated values in observations with the given total weight.
func (s innovation) repeats(total float64) float64 { return 1 - min((s[innovationNew]+1)/(total+1), 1) }

// update learns the sizes of a value that is not repeated. If wanted, it returns the score, and else 0. share is the
// share of repeated values.
func (s innovation) update(sizes [2]float64, share float64, wanted bool) (q float64) {
	a := s[innovationNew] + 1
	var tails, densities [2]float64 // logarithms
	for i, c := range sizes {
		l := math.Log1p(c / (1 + s[innovationSums+i]))
		tails[i] = -a * l
		densities[i] = tails[i] - l - math.Log((1+s[innovationSums+i])/a)
	}
	if odds := s[innovationOdds]; wanted {
		q = -(logAdd(tails[0]-logAdd(0, -odds), tails[1]-logAdd(0, odds)) + math.Log1p(-share)) / math.Ln10
	}
	s.forget()
	s[innovationOdds] = s[innovationOdds]*profileForgetting + densities[0] - densities[1]
	s[innovationNew]++
	for i, c := range sizes {
		s[innovationSums+i] += c
	}
	return q
}

// forget learns a repeated value: only k and the sums decay, as sizes and odds describe new values.
func (s innovation) forget() {
	s[innovationNew] *= profileForgetting
	s[innovationSums] *= profileForgetting
	s[innovationSums+1] *= profileForgetting
}

// logAdd returns log(eᵃ + eᵇ).
func logAdd(a, b float64) float64 { return max(a, b) + math.Log1p(math.Exp(-math.Abs(a-b))) }

// valid reports whether s can be a state after observations with the given total weight.
func (s innovation) valid(total float64) bool {
	const slack = 1 + 1e-9
	maxSum := total * 2 * maxStandardized * slack
	sum := func(v float64) bool { return v >= 0 && v <= maxSum }
	return s[innovationNew] >= 0 && s[innovationNew] <= total*slack && math.Abs(s[innovationOdds]) <= maxOdds && sum(s[innovationSums]) && sum(s[innovationSums+1])
}
