package keyed

import (
	"slices"
	"time"
)

// SplitSessions sorts the observations of a key, and splits them into sessions at each gap. Like Beam, it counts in
// whole milliseconds. With a gap of 0, all observations are one session.
func SplitSessions(observations []Observation, gap time.Duration) (sessions [][]Observation) {
	slices.SortStableFunc(observations, Observation.Compare)
	start := 0
	for i := 1; i <= len(observations); i++ {
		if i == len(observations) || !InOneSession(observations[i-1].Time, observations[i].Time, gap) {
			sessions = append(sessions, observations[start:i])
			start = i
		}
	}
	return sessions
}

// InOneSession reports whether b is less than a gap after a. It returns true if gap is 0.
func InOneSession(a, b time.Time, gap time.Duration) bool {
	return gap == 0 || b.UnixMilli() < a.UnixMilli()+gap.Milliseconds()
}
