package keyed

import (
	"time"

	"hafvf/internal/compact"
)

const (
	// minStuck is the minimum number of equal values in a row that an alert reports.
	minStuck = 6
	// aftermathObs is the number of observations after an alarmed run in which its end can cause an alarm: about
	// the length of the profile's running mean.
	aftermathObs = 12
	// far is the minimum distance from usual, in standard deviations, that an alert gives as its cause.
	far = 2.
	// maxReach bounds oneSidedRun.reach.
	maxReach = 63
)

// A oneSidedRun describes the last values of an output for alerts: the run of values that deviate by more than one
// standard deviation to the same side of usual, and the run of equal values. A single value elsewhere does not end
// a one-sided run of three or more values. Before its alarm, a run restarts with a value that is far if the earlier
// values were not far, or were less than half as far: they count as noise.
type oneSidedRun struct {
	// reach is the largest distance in the run, in half standard deviations, negative below usual; 0 if the last
	// values are usual. Before the alarm, each value that is not far reduces it by one.
	reach int
	n     int64     // observations in the run
	start time.Time // time of its first observation
	gap   bool      // the last observation did not continue the run

	last            float64
	equal           int64     // number of equal values in a row, the last included
	equalStart      time.Time // time of the first of them
	equalInLookback int64     // number of the later ones within the lookback of the source

	negative, positive bool // the output has had such values

	alarmed bool // the run has raised an alarm
	ended   int  // observations since the alarmed run ended, from 1; 0 after aftermathObs
}

// add adds the value x at time t, from a source with that lookback. It returns the number of repeated values within
// the lookback: of the equal values up to x or, if x is a new value, the number before it if that is larger.
func (s *oneSidedRun) add(t time.Time, x float64, lookback time.Duration) (within int64) {
	within = s.equalInLookback
	s.negative, s.positive = s.negative || x < 0, s.positive || x > 0
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
	if t.Sub(s.equalStart) < lookback && !t.IsZero() { // also for a state that did not count them
		s.equalInLookback = s.equal - 1
	}
	return max(within, s.equalInLookback)
}

// isStuck reports whether an alert reports the equal values: at least minStuck, without those within the lookback.
func (s *oneSidedRun) isStuck() bool { return s.equal-s.equalInLookback >= minStuck }

// addDeviation updates the run with the value that was added last, for the usual mean and sd.
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

// end ends an alarmed run.
func (s *oneSidedRun) end() {
	if s.alarmed {
		s.alarmed, s.ended = false, 1
	}
}

// markAlarmed records an alarm at the last observation, size standard deviations from usual, if the run is its
// cause.
func (s *oneSidedRun) markAlarmed(size float64) {
	if s.isStuck() || s.reach != 0 && !unremarkable(size) {
		s.alarmed = true
	}
}

// isReturn reports whether an alarm at the last observation, size standard deviations from usual, reports the end
// of an alarmed run.
func (s *oneSidedRun) isReturn(size float64) bool {
	return unremarkable(size) && (s.alarmed && s.gap || s.ended > 0)
}

func unremarkable(size float64) bool { return size > -far && size < far }

func (s *oneSidedRun) form(c *coder) {
	hasLookback := s.equalInLookback > 0
	if c.Bits(&s.gap, &s.alarmed, &hasLookback, &s.negative, &s.positive); c.format == formatOfLasting {
		s.negative, s.positive = true, true // not known
	}
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
