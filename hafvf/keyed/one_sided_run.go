package keyed

import (
	"time"

	"hafvf/internal/compact"
)

const (
	// stuck is the number of equal values from which an alert tells of them.
	stuck = 6
	// aftermath is the number of observations in which the end of an alarmed stretch can be
	// the cause of an alarm: about the length of the profile's running mean.
	aftermath = 12
	// far is the distance from usual, in standard deviations, that an alert gives as its cause.
	far = 2.
	// mostReach bounds reach.
	mostReach = 63
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
	since time.Time // of the first
	gap   bool      // the last observation was not on the side

	last   float64
	equal  int64     // observations in a row with that value
	repeat time.Time // of the first of them
	within int64     // of those after it, the ones within the lookback of the source

	alarmed bool // it has raised an alarm
	ended   int  // observations since the end of the alarmed one before, itself the first; 0 after aftermath
}

// add notes the value x of a source of that lookback. It returns how many of the equal values up to x, or
// up to the one before if x is another one, are within the lookback.
func (s *oneSidedRun) add(at time.Time, x float64, lookback time.Duration) (within int64) {
	within = s.within
	if s.ended > 0 {
		s.ended = (s.ended + 1) % aftermath
	}
	if s.equal == 0 || x != s.last {
		if s.isStuck() {
			s.end()
		}
		s.last, s.equal, s.repeat, s.within = x, 0, at, 0
	}
	s.equal++
	if at.Sub(s.repeat) < lookback && !at.IsZero() { // also those of a state that has not counted them
		s.within = s.equal - 1
	}
	return max(within, s.within)
}

// isStuck reports whether so many values are equal that an alert tells of them.
func (s *oneSidedRun) isStuck() bool { return s.equal-s.within >= stuck }

// addDeviation notes how the value that was added lies, where mean and sd are usual.
func (s *oneSidedRun) addDeviation(at time.Time, mean, sd float64) {
	reach, halves := 0, func(z float64) int { return int(min(max(2, 2*z), mostReach)) }
	switch x := s.last; {
	case x > mean+sd:
		reach = halves((x - mean) / sd)
	case x < mean-sd:
		reach = -halves((mean - x) / sd)
	}
	size, before := max(reach, -reach), max(s.reach, -s.reach)
	switch isFar, wasFar := size >= 2*far, before >= 2*far; {
	case reach*s.reach > 0 && (s.alarmed || !isFar || wasFar && size <= 2*before):
		s.n, s.gap = s.n+1, false
		switch {
		case size > before:
			s.reach = reach
		case !s.alarmed && wasFar && !isFar:
			s.reach -= s.reach / before
		}
	case s.reach != 0 && reach*s.reach <= 0 && !s.gap && s.n >= 3:
		s.n, s.gap = s.n+1, true
	default:
		if s.reach != 0 {
			s.end()
		}
		s.reach, s.n, s.since, s.gap = reach, 1, at, false
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
func (s *oneSidedRun) alerted(size float64) {
	if s.isStuck() || s.reach != 0 && !unremarkable(size) {
		s.alarmed = true
	}
}

// returns reports whether an alarm at the last observation, so many standard deviations from
// usual, is about the end of an alarmed stretch.
func (s *oneSidedRun) returns(size float64) bool {
	return unremarkable(size) && (s.alarmed && s.gap || s.ended > 0)
}

func unremarkable(size float64) bool { return size > -far && size < far }

func (s *oneSidedRun) form(c *coder) {
	within := s.within > 0
	c.Bits(&s.gap, &s.alarmed, &within)
	compact.Signed(&c.Codec, &s.reach)
	compact.Unsigned(&c.Codec, &s.n, &s.equal)
	compact.Unsigned(&c.Codec, &s.ended)
	if within {
		compact.Unsigned(&c.Codec, &s.within)
	}
	c.Packs(&s.last)
	c.near(&s.since, &s.repeat)
	c.Check(s.reach >= -mostReach && s.reach <= mostReach && s.n >= 0 && s.equal >= 0 && s.within >= 0 && (s.within == 0 || s.within < s.equal) && s.ended >= 0 && s.ended < aftermath && !notFinite(s.last))
}
