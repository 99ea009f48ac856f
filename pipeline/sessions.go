package pipeline

import (
	"time"

	"hafvf/internal/median"
)

// sessionsOf are the sessions of a key, by the times of their first records.
type sessionsOf struct {
	n, single   int // single have one record
	first, last time.Time
}

func (s sessionsOf) and(o sessionsOf) sessionsOf {
	switch {
	case s.n == 0:
		return o
	case o.n == 0:
		return s
	}
	if o.first.Before(s.first) {
		s.first = o.first
	}
	if o.last.After(s.last) {
		s.last = o.last
	}
	s.n, s.single = s.n+o.n, s.single+o.single
	return s
}

// singleSessions are the sessions of keys with more than one record.
type singleSessions struct {
	sessions, single int
	step             time.Duration // median of keys, between their sessions
}

// singlesOf counts the sessions of all keys.
func singlesOf(keys map[string]seen) (all singleSessions) {
	var steps []time.Duration
	for _, of := range keys {
		if of.n == of.single && of.n <= 1 {
			continue
		}
		all.sessions += of.n
		if all.single += of.single; of.n > 1 {
			steps = append(steps, of.last.Sub(of.first)/time.Duration(of.n-1))
		}
	}
	all.step = median.Of(steps)
	return all
}
