package usual

import "math"

// A value that is far from usual teaches a profile little. Of its distance z from usual, in standard
// deviations, a profile learns
//
//	z           up to k
//	k           up to 12
//	k(2 − z/12) up to 24, and nothing beyond
//
// with the sign of the distance, in place of the value. The bound k is 4, and 6 where the stream is
// slow. It falls to 2 while values far from usual, more than k − 2, go on: one outlier may be the
// habit of a stream, and a long event is not. So an event of any size leaves the scatter about as it
// was. That is so after the first four days, or 5,000 observations: before, much that comes is new.
//
// A level that stays is learned at once. When such values have gone on for as long as a rest, of 6 to
// 60 observations, and up to five times as long in a slow stream, and lie on one side, then the
// profile takes what it has learned to be of the new level. Values are learned less that level. What
// lies on both sides is learned as it comes after 600 observations, more than a tenth of the memory.
const (
	farBound    = 4.   // k, standard deviations
	slowBound   = 2.   // more of a slow stream
	leastBound  = 2.   // of k in the end
	fadeOfBound = 20.  // observations far from usual in which it falls to that
	slowFade    = 2.   // times that, more, of a slow stream
	rejected    = 12.  // standard deviations from which on less is learned
	slowStay    = 4.   // rests, more, in which a level is accepted of a slow stream
	lasting     = 600. // observations far from usual after which all are learned as they come
)

// A streak is what is kept of a coordinate's values that are far from usual.
type streak []float64

const (
	streakSeen  = iota // the last value, less the level, as it came
	streakCount        // values far from usual, less those after them that were not
	streakSum          // of the distances from usual of those that count
	streakSize         // of their magnitudes
	streakLevel        // that was accepted
	streakLen
)

// learn returns what is learned of a value, less the level, of a stream that has gone on for long
// enough, and whether the level is another one from now on. mean and sd are what is usual. A value
// that follows from those before it, as in a random walk, is not far.
func (s streak) learn(y, mean, sd float64, pace *Pace, followed bool) (learned float64, accepted bool) {
	far := y - mean
	z := math.Abs(far) / sd
	if followed {
		z = 0
	}
	bound := farBound + slowBound*pace.slow
	unusual := bound - leastBound
	n := &s[streakCount]
	switch {
	case z > unusual:
		*n++
		far := within(far, 2*maxStandardized)
		s[streakSum] += far
		s[streakSize] += math.Abs(far)
	case *n > 1:
		s[streakSum] *= (*n - 1) / *n
		s[streakSize] *= (*n - 1) / *n
		*n--
	default:
		clear(s[streakCount:streakLevel])
	}
	bound = leastBound + unusual*max(0, 1-*n/(fadeOfBound*(1+slowFade*pace.slow)))
	learned = y
	if z > bound {
		if z > rejected {
			bound *= max(0, 2-z/rejected)
		}
		learned = within(mean+math.Copysign(bound*sd, far), maxStandardized)
	}
	rest := max(leastRest, min(pace.rest, mostRest)) * (1 + slowStay*pace.slow)
	if *n >= rest && math.Abs(s[streakSum]) >= s[streakSize]/2 {
		level := s[streakSum] / *n
		s[streakLevel] = within(s[streakLevel]+level, 2*maxStandardized)
		s[streakSeen] -= level
		clear(s[streakCount:streakLevel])
		return learned, true
	}
	if *n >= lasting {
		return y, false
	}
	return learned, false
}

// empty reports whether the streak is that of a stream whose last values are usual, and whose last
// one was learned as it came.
func (s streak) empty(learned float64) bool {
	return s[streakSeen] == learned && s[streakCount] == 0 && s[streakLevel] == 0
}

// valid reports whether s can be a streak.
func (s streak) valid() bool {
	n := s[streakCount]
	return math.Abs(s[streakSeen]) <= 5*maxStandardized && n >= 0 && n <= 1<<53 && n == math.Trunc(n) &&
		math.Abs(s[streakSum]) <= 2*maxStandardized*n && s[streakSize] >= 0 && s[streakSize] <= 2*maxStandardized*n && math.Abs(s[streakLevel]) <= 2*maxStandardized
}

// within is v, or the number nearest to it of which the magnitude is at most most.
func within(v, most float64) float64 { return max(-most, min(v, most)) }
