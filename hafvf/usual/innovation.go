package usual

import "math"

// An innovation scores one step of a stream, without a mean over several. Its sizes are the move
// |y − previous value| and the residual of the last view. Each has an exponential tail whose
// mean is learned, so that its predictive is Lomax: with k values that did not repeat the one
// before and the sum S of their sizes, both forgotten by v = .9998,
//
//	P(size > c) = (1 + c/(1 + S))^−(k+1)
//
// The two tails are mixed by evidence. A repeated value is no surprise. A new one is rarer by
// the share of values that are new.
//
// The entries are k, the logarithm of the odds of move against residual, and the two sums.
type innovation []float64

const (
	innovationNew = iota
	innovationOdds
	innovationSums
	innovationLen = innovationSums + 2
)

// mostOdds is more than log odds can reach: an observation adds at most 3e5, and 5,000 are
// remembered.
const mostOdds = 1e10

// repeats is the share of repeated values in observations of that total weight.
func (s innovation) repeats(total float64) float64 { return 1 - min((s[innovationNew]+1)/(total+1), 1) }

// update scores a value of these sizes that is not repeated, where it is wanted, and learns it.
// share is that of repeated values.
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

// forget learns a repeated value: sizes and odds are those of new ones.
func (s innovation) forget() {
	s[innovationNew] *= profileForgetting
	s[innovationSums] *= profileForgetting
	s[innovationSums+1] *= profileForgetting
}

// logAdd is log(eᵃ + eᵇ).
func logAdd(a, b float64) float64 { return max(a, b) + math.Log1p(math.Exp(-math.Abs(a-b))) }

// valid reports whether s can be that of observations of that total weight.
func (s innovation) valid(total float64) bool {
	const slack = 1 + 1e-9
	most := total * 2 * maxStandardized * slack
	sum := func(v float64) bool { return v >= 0 && v <= most }
	return s[innovationNew] >= 0 && s[innovationNew] <= total*slack && math.Abs(s[innovationOdds]) <= mostOdds && sum(s[innovationSums]) && sum(s[innovationSums+1])
}
