// Package reminder decides when the log tells of what lasts: at once, and then once in a while.
package reminder

import (
	"cmp"
	"time"
)

// A Reminder is of one thing that may last or come again. The zero one is of what does not last.
type Reminder struct {
	Since      time.Time // from when it lasts; zero while it does not
	lastLogged time.Time
}

// Due notes that it lasts, and reports whether the log is to say so, which it does not within that
// time of the last line.
func (r *Reminder) Due(every time.Duration) bool {
	now := time.Now()
	r.Since = cmp.Or(r.Since, now)
	if now.Sub(r.lastLogged) < every {
		return false
	}
	r.lastLogged = now
	return true
}

// Lasts is for how long it lasts, if it does.
func (r *Reminder) Lasts() time.Duration { return time.Since(r.Since) }
