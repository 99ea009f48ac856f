package pipeline

import (
	"time"

	"hafvf/internal/clock"
	"hafvf/internal/median"
)

// keySessions counts the sessions of a key. first and last are the times of the first records of its first and last
// session.
type keySessions struct {
	n, single   int // single have one record
	first, last time.Time
}

func (s keySessions) merge(o keySessions) keySessions {
	return keySessions{s.n + o.n, s.single + o.single, clock.Earlier(s.first, o.first), clock.Later(s.last, o.last)}
}

// singleSessions counts the sessions of all keys, except keys with a single session of one record.
type singleSessions struct {
	sessions, single int
	step             time.Duration // median over keys of the mean time between sessions
}

// countSingleSessions counts the sessions of all keys.
func countSingleSessions(keys map[string]keyCounts) (total singleSessions) {
	var steps []time.Duration
	for _, sessions := range keys {
		if sessions.n == sessions.single && sessions.n <= 1 {
			continue
		}
		total.sessions += sessions.n
		if total.single += sessions.single; sessions.n > 1 {
			steps = append(steps, sessions.last.Sub(sessions.first)/time.Duration(sessions.n-1))
		}
	}
	total.step = median.Of(steps)
	return total
}
