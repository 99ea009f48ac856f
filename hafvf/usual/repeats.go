package usual

import (
	"math"

	"hafvf/internal/special"
)

// repeats scores equal values in a row in a stream that hardly ever repeats a value, for example from a stuck gauge. A
// run of L equal values has q = L − 1 repeats. With n values before, k of them new, the share of repeats is
// Beta(b, k + 1), b = n − k + 2 − q, without the repeats of this run. Hence
//
//	P(q repeats in a row) = B(b + q, k + 1)/B(b, k + 1)
//
// A stream that has had runs of three or more will have others. With m runs of two or more, and the sum S of
// log(L/2), the lengths have a Pareto tail with a learned exponent:
//
//	P(a run of L) = (m + 1)/(n + 1) · (1 + log(L/2)/(½ + S))^−(m+1)
//
// The score is −log₁₀ of the larger probability. All sums are forgotten by w = .9998 per value. Nothing is scored if at
// least a tenth of the values before the run were repeats (a habit), or if there were fewer than ten.
//
// A source may give a value again because it has no newer one. Such repeats do not count in q and L: they count in b
// only, and S uses an L of at least 2.
type repeats []float64

const (
	repeatsNow   = iota // q of the current run
	repeatsHabit        // 1 if values repeat by habit, else 0
	repeatsRuns         // m
	repeatsSum          // S
	repeatsLong         // runs of at least shortRun values
	repeatsLen
)

const (
	habit       = .1  // minimum share of repeats of a habit
	minValues   = 10. // values before which the habit is unknown
	shortRun    = 3   // values; shorter runs are not scored
	noLong      = .05 // smaller values of repeatsLong count as 0
	stuckBehind = 1.  // subtracted from the score of repeats
)

// update scores a value and learns it. n, k and share (of repeats) are those before it. uncounted repeats of the run
// that continues or ends with the value do not count.
func (s repeats) update(repeated bool, uncounted, n, k, share float64) (score float64) {
	if repeated {
		s[repeatsNow]++
	}
	length := 1 + max(s[repeatsNow]-uncounted, 0)
	if repeated {
		if length >= shortRun && s[repeatsHabit] == 0 {
			score = s.score(length, n, k)
		}
	} else {
		if s[repeatsNow] > 0 {
			s[repeatsRuns]++
			s[repeatsSum] += math.Log(max(length, 2) / 2)
		}
		if length >= shortRun {
			s[repeatsLong]++
		}
		s[repeatsNow], s[repeatsHabit] = 0, 0
		if share >= habit || n < minValues {
			s[repeatsHabit] = 1
			clear(s[repeatsRuns:]) // such runs carry no information about rare ones
		}
	}
	for i := range s[repeatsRuns:] {
		s[repeatsRuns+i] *= profileForgetting
	}
	if s[repeatsLong] < noLong {
		s[repeatsLong] = 0
	}
	return score
}

// score returns the score of a run with the given counted length.
func (s repeats) score(length, n, k float64) float64 {
	q := length - 1
	b := max(n-k+2-s[repeatsNow], 1)
	log := special.LogBeta(b+q, k+1) - special.LogBeta(b, k+1)
	if m := s[repeatsRuns]; s[repeatsLong] > 0 {
		log = max(log, math.Log((m+1)/(n+1))-(m+1)*math.Log1p(math.Log(length/2)/(.5+s[repeatsSum])))
	}
	return -log / math.Ln10
}

// valid reports whether s can be a state after observations with the given total weight.
func (s repeats) valid(total float64) bool {
	const slack, maxRun = 1 + 1e-9, 1 << 53
	now, habitual, m, sum := s[repeatsNow], s[repeatsHabit], s[repeatsRuns], s[repeatsSum]
	return now >= 0 && now <= maxRun && now == math.Trunc(now) && habitual*(1-habitual) == 0 && m >= 0 && m <= total*slack &&
		sum >= 0 && sum <= m*math.Log(maxRun) && s[repeatsLong] >= 0 && s[repeatsLong] <= m*slack
}
