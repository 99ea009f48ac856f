package reminder

import (
	"hafvf/internal/testing/expect"
	"testing"
	"testing/synctest"
	"time"
)

// A condition is due at once, and then once per interval, also if it ended in between. A new Reminder is due at
// once.
func TestReminder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Reminder
		var logged []time.Duration
		begun := time.Now()
		for second := range 150 {
			if second == 100 {
				r.Since = time.Time{}
			}
			if r.Due(time.Minute) {
				logged = append(logged, r.Lasts())
			}
			time.Sleep(time.Second)
		}
		expect.Same(t, []time.Duration{0, time.Minute, 20 * time.Second}, logged, "logged after")
		if lasts := r.Lasts(); lasts != 50*time.Second || !r.Since.Equal(begun.Add(100*time.Second)) {
			t.Errorf("lasts for %v, since %v", lasts, r.Since)
		}
		if r = (Reminder{}); !r.Due(time.Minute) || r.Lasts() != 0 {
			t.Error("a new Reminder is not due at once")
		}
	})
}
