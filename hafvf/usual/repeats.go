package usual

import (
	"math"

	"hafvf/internal/special"
)

// A repeats scores a value that comes again and again in a stream whose values hardly ever do: a
// gauge that is stuck. A run of L equal values has q = L − 1 repeats. Of n values before, k were new.
// The share of repeats is Beta(b, k + 1), b = n − k + 2 − q, without those of this run. So
//
//	P(q repeats in a row) = B(b + q, k + 1)/B(b, k + 1)
//
// A stream that has had runs of three or more has others. Of m runs of two and more, with the sum S
// of log(L/2), the lengths have a Pareto tail whose exponent is learned:
//
//	P(a run of L) = (m + 1)/(n + 1) · (1 + log(L/2)/(½ + S))^−(m+1)
//
// The score is −log₁₀ of the larger one. All sums are forgotten by w = .9998 a value. If a tenth of
// the values before the run were repeats, values repeat by habit, and nothing is scored. Of fewer than
// ten values before it nobody knows.
//
// Where the source may give a value again because it has no newer one, such repeats do not count in q and L:
// b alone has them, and S takes L to be at least 2.
type repeats []float64

const (
	repeatsNow   = iota // q of the running run
	repeatsHabit        // 1 if values repeat by habit, else 0
	repeatsRuns         // m
	repeatsSum          // S
	repeatsLong         // runs of shortRun and more
	repeatsLen
)

const (
	habit       = .1  // share of repeats that is one
	fewest      = 10. // values of which it is known
	shortRun    = 3   // values: what is shorter is not scored
	noLong      = .05 // runs of shortRun, below which there are none any more
	stuckBehind = 1.  // of the score by repeats
)

// update scores a value, and learns it. n and k are those before it, and share the share of repeats. So
// many repeats of the run that goes on or ends with it do not count.
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
		if share >= habit || n < fewest {
			s[repeatsHabit] = 1
			clear(s[repeatsRuns:]) // such runs tell nothing of rare ones
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

// score is that of a run of which that length counts.
func (s repeats) score(length, n, k float64) float64 {
	q := length - 1
	b := max(n-k+2-s[repeatsNow], 1)
	log := special.LogBeta(b+q, k+1) - special.LogBeta(b, k+1)
	if m := s[repeatsRuns]; s[repeatsLong] > 0 {
		log = max(log, math.Log((m+1)/(n+1))-(m+1)*math.Log1p(math.Log(length/2)/(.5+s[repeatsSum])))
	}
	return -log / math.Ln10
}

// valid reports whether s can be that of observations of that total weight.
func (s repeats) valid(total float64) bool {
	const slack, longest = 1 + 1e-9, 1 << 53
	now, is, m, sum := s[repeatsNow], s[repeatsHabit], s[repeatsRuns], s[repeatsSum]
	return now >= 0 && now <= longest && now == math.Trunc(now) && is*(1-is) == 0 && m >= 0 && m <= total*slack &&
		sum >= 0 && sum <= m*math.Log(longest) && s[repeatsLong] >= 0 && s[repeatsLong] <= m*slack
}
