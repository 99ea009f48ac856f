package usual

import (
	"math"

	"hafvf/internal/special"
)

// repeats scores equal values in a row in a stream that hardly ever repeats a value, for example from a stuck gauge
// (F1 .09 on plans_5min). A run of L equal values has q = L − 1 repeats. With n values before, k of them new, the share
// of repeats is Beta(b, k + 1), b = n − k + 2 − q, without the repeats of this run. Hence
//
//	P(q repeats in a row) = B(b + q, k + 1)/B(b, k + 1)
//
// The score is −log₁₀ of this probability. Earlier long runs do not lower it: when they did, F1 was .02 lower on
// services at one minute, and on no set higher. n and k are forgotten by w = .9998 per value. Nothing is scored if at
// least a tenth of the values before the run were repeats (a habit), or if there were fewer than ten.
//
// A source may give a value again because it has no newer one. Such repeats count in b, but not in q and L.
type repeats []float64

const (
	repeatsNow   = iota // q of the current run
	repeatsHabit        // 1 if values repeat by habit, else 0
	repeatsLen
)

const (
	habit       = .1  // minimum share of repeats of a habit
	minValues   = 10. // values before which the habit is unknown
	shortRun    = 3   // values; shorter runs are not scored
	stuckBehind = 1.  // subtracted from the score of repeats
)

// update scores a value and learns it. n, k and share (of repeats) are those before it. uncounted repeats of the run
// that continues or ends with the value do not count.
func (s repeats) update(repeated bool, uncounted, n, k, share float64) (score float64) {
	if !repeated {
		s[repeatsNow], s[repeatsHabit] = 0, 0
		if share >= habit || n < minValues {
			s[repeatsHabit] = 1
		}
		return 0
	}
	s[repeatsNow]++
	if length := 1 + max(s[repeatsNow]-uncounted, 0); length >= shortRun && s[repeatsHabit] == 0 {
		score = s.score(length, n, k)
	}
	return score
}

// score returns the score of a run with the given counted length.
func (s repeats) score(length, n, k float64) float64 {
	q := length - 1
	b := max(n-k+2-s[repeatsNow], 1)
	return (special.LogBeta(b, k+1) - special.LogBeta(b+q, k+1)) / math.Ln10
}

// valid reports whether s can be a state.
func (s repeats) valid() bool {
	const maxRun = 1 << 53
	now, habitual := s[repeatsNow], s[repeatsHabit]
	return now >= 0 && now <= maxRun && now == math.Trunc(now) && habitual*(1-habitual) == 0
}
