package usual

import "math"

// A value that is far from usual teaches a profile little. If its distance from usual is z standard deviations, the
// profile learns a value with the same sign at the distance
//
//	z           up to k
//	k           up to 12
//	k(2 − z/12) up to 24, and 0 beyond
//
// The bound (F1 .05 on asd) keeps very far values from being learned (F1 .01 on asd). k is 4, and 6 for a slow stream
// (F1 .007 on planted_1h). It falls to 2 while distances above k − 2 continue: one outlier may be a habit of the
// stream, a long event is not (F1 .04 on asd). Thus an event of any size leaves the standard deviation nearly
// unchanged. The bound applies after the first four days, or 5,000 observations if these are fewer: before, much is new
// (F1 .03 on services_5min).
//
// A new level is learned at once. The profile takes it over if distances above k − 2 continue on one side for a rest
// of 6 to 60 observations, or for up to five times as many in a slow stream. From then on the level is subtracted
// from the values (F1 .01 on planted_5min). If such distances lie on both sides, values are learned without a bound
// after 600 observations, more than a tenth of the memory: a spread that has increased for good becomes usual. No set
// has such a spread.
const (
	farBound     = 4.   // k, standard deviations
	slowBound    = 2.   // addition to k for a slow stream
	minBound     = 2.   // final k
	boundFadeObs = 20.  // observations far from usual after which k is minBound
	slowFade     = 2.   // a slow stream needs 1 + slowFade times as many
	rejected     = 12.  // standard deviations from which on less is learned
	slowStay     = 4.   // a slow stream accepts a level after 1 + slowStay rests
	lasting      = 600. // observations far from usual after which all values are learned without a bound
)

// A streak tracks the values of a coordinate that are far from usual.
type streak []float64

const (
	streakSeen  = iota // the last value less the level, without the bound
	streakCount        // values far from usual, minus the later values that were not
	streakSum          // sum of their distances from usual
	streakSize         // sum of the magnitudes of these distances
	streakLevel        // accepted level
	streakLen
)

// learn returns the value to learn in place of y, and whether a new level was accepted. y is a value less the level,
// after the initial observations (see Pace.news); mean and sd are its usual mean and standard deviation. followed
// means that y follows from the previous values, as in a random walk; it then counts as near (F1 .04 on asd).
func (s streak) learn(y, mean, sd float64, pace *Pace, followed bool) (learned float64, accepted bool) {
	far := y - mean
	z := math.Abs(far) / sd
	if followed {
		z = 0
	}
	bound := farBound + slowBound*pace.slow
	unusual := bound - minBound
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
	bound = minBound + unusual*max(0, 1-*n/(boundFadeObs*(1+slowFade*pace.slow)))
	learned = y
	if z > bound {
		if z > rejected {
			bound *= max(0, 2-z/rejected)
		}
		learned = within(mean+math.Copysign(bound*sd, far), maxStandardized)
	}
	rest := max(minRest, min(pace.rest, MaxRest)) * (1 + slowStay*pace.slow)
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

// empty reports whether no recent value is far from usual, no level was accepted, and the last value was learned
// without a bound, as learned.
func (s streak) empty(learned float64) bool {
	return s[streakSeen] == learned && s[streakCount] == 0 && s[streakLevel] == 0
}

// valid reports whether s can be a streak.
func (s streak) valid() bool {
	n := s[streakCount]
	return math.Abs(s[streakSeen]) <= 5*maxStandardized && n >= 0 && n <= 1<<53 && n == math.Trunc(n) &&
		math.Abs(s[streakSum]) <= 2*maxStandardized*n && s[streakSize] >= 0 && s[streakSize] <= 2*maxStandardized*n && math.Abs(s[streakLevel]) <= 2*maxStandardized
}

// within returns the number nearest to v with a magnitude of at most limit.
func within(v, limit float64) float64 { return max(-limit, min(v, limit)) }
