// Package reminder limits how often the log repeats a condition that lasts: it is logged at once, and then at
// intervals.
package reminder

import (
	"cmp"
	"time"
)

// A Reminder tracks one condition. The zero value means that the condition does not hold.
type Reminder struct {
	Since      time.Time // when the condition began; zero while it does not hold
	lastLogged time.Time
}

// Due records that the condition holds, and reports whether to log it: if every has passed since the last line.
func (r *Reminder) Due(every time.Duration) bool {
	now := time.Now()
	r.Since = cmp.Or(r.Since, now)
	if now.Sub(r.lastLogged) < every {
		return false
	}
	r.lastLogged = now
	return true
}

// Lasts returns for how long the condition has held. Since must not be zero.
func (r *Reminder) Lasts() time.Duration { return time.Since(r.Since) }
