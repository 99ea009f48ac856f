package keyed

import (
	"time"

	"hafvf/internal/compact"
)

const (
	// stuck is the number of equal values from which an alert tells of them.
	minStuck = 6
	// aftermath is the number of observations in which the end of an alarmed stretch can be
	// the cause of an alarm: about the length of the profile's running mean.
	aftermathObs = 12
	// far is the distance from usual, in standard deviations, that an alert gives as its cause.
	far = 2.
	// mostReach bounds reach.
	maxReach = 63
)

// A oneSidedRun is how the last values of an output lie: further than one standard deviation from
// what is usual, on one side, and equal to each other. Alerts tell of it. A single value
// elsewhere does not end it, once it has three. Until it has raised an alarm it begins anew with a
// value that is far, if those before were not or were less than half as far: those are noise.
type oneSidedRun struct {
	// reach is how far the farthest is above usual, or below if negative, in half standard deviations; 0 if the last
	// values are usual. Until the alarm one that is not far takes one off.
	reach int
	n     int64     // observations
	start time.Time // of the first
	gap   bool      // the last observation was not on the side

	last            float64
	equal           int64     // observations in a row with that value
	equalStart      time.Time // of the first of them
	equalInLookback int64     // of those after it, the ones within the lookback of the source

	alarmed bool // it has raised an alarm
	ended   int  // observations since the end of the alarmed one before, itself the first; 0 after aftermath
}

// add notes the value x of a source of that lookback. It returns how many of the equal values up to x, or
// up to the one before if x is another one, are within the lookback.
func (s *oneSidedRun) add(t time.Time, x float64, lookback time.Duration) (within int64) {
	within = s.equalInLookback
	if s.ended > 0 {
		s.ended = (s.ended + 1) % aftermathObs
	}
	if s.equal == 0 || x != s.last {
		if s.isStuck() {
			s.end()
		}
		s.last, s.equal, s.equalStart, s.equalInLookback = x, 0, t, 0
	}
	s.equal++
	if t.Sub(s.equalStart) < lookback && !t.IsZero() { // also those of a state that has not counted them
		s.equalInLookback = s.equal - 1
	}
	return max(within, s.equalInLookback)
}

// isStuck reports whether so many values are equal that an alert tells of them.
func (s *oneSidedRun) isStuck() bool { return s.equal-s.equalInLookback >= minStuck }

// addDeviation notes how the value that was added lies, where mean and sd are usual.
func (s *oneSidedRun) addDeviation(t time.Time, mean, sd float64) {
	reach, halves := 0, func(z float64) int { return int(min(max(2, 2*z), maxReach)) }
	switch x := s.last; {
	case x > mean+sd:
		reach = halves((x - mean) / sd)
	case x < mean-sd:
		reach = -halves((mean - x) / sd)
	}
	size, oldSize := max(reach, -reach), max(s.reach, -s.reach)
	switch isFar, wasFar := size >= 2*far, oldSize >= 2*far; {
	case reach*s.reach > 0 && (s.alarmed || !isFar || wasFar && size <= 2*oldSize):
		s.n, s.gap = s.n+1, false
		switch {
		case size > oldSize:
			s.reach = reach
		case !s.alarmed && wasFar && !isFar:
			s.reach -= s.reach / oldSize
		}
	case s.reach != 0 && reach*s.reach <= 0 && !s.gap && s.n >= 3:
		s.n, s.gap = s.n+1, true
	default:
		if s.reach != 0 {
			s.end()
		}
		s.reach, s.n, s.start, s.gap = reach, 1, t, false
	}
}

// end ends what the stretch has raised an alarm of.
func (s *oneSidedRun) end() {
	if s.alarmed {
		s.alarmed, s.ended = false, 1
	}
}

// alerted notes an alarm at the last observation, so many standard deviations from usual, if its
// cause is the stretch.
func (s *oneSidedRun) markAlarmed(size float64) {
	if s.isStuck() || s.reach != 0 && !unremarkable(size) {
		s.alarmed = true
	}
}

// returns reports whether an alarm at the last observation, so many standard deviations from
// usual, is about the end of an alarmed stretch.
func (s *oneSidedRun) isReturn(size float64) bool {
	return unremarkable(size) && (s.alarmed && s.gap || s.ended > 0)
}

func unremarkable(size float64) bool { return size > -far && size < far }

func (s *oneSidedRun) form(c *coder) {
	hasLookback := s.equalInLookback > 0
	c.Bits(&s.gap, &s.alarmed, &hasLookback)
	compact.Signed(&c.Codec, &s.reach)
	compact.Unsigned(&c.Codec, &s.n, &s.equal)
	compact.Unsigned(&c.Codec, &s.ended)
	if hasLookback {
		compact.Unsigned(&c.Codec, &s.equalInLookback)
	}
	c.Packs(&s.last)
	c.near(&s.start, &s.equalStart)
	c.Check(s.reach >= -maxReach && s.reach <= maxReach && s.n >= 0 && s.equal >= 0 && s.equalInLookback >= 0 && (s.equalInLookback == 0 || s.equalInLookback < s.equal) && s.ended >= 0 && s.ended < aftermathObs && !notFinite(s.last))
}
