package reminder

import (
	"hafvf/internal/testing/expect"
	"testing"
	"testing/synctest"
	"time"
)

// The log tells of what lasts at once, and then once in a while; of what has ended in between as
// seldom, unless nothing is known of it any more.
func TestReminder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Reminder
		var told []time.Duration
		begun := time.Now()
		for second := range 150 {
			if second == 100 {
				r.Since = time.Time{}
			}
			if r.Due(time.Minute) {
				told = append(told, r.Lasts())
			}
			time.Sleep(time.Second)
		}
		expect.Same(t, []time.Duration{0, time.Minute, 20 * time.Second}, told, "told after")
		if lasts := r.Lasts(); lasts != 50*time.Second || !r.Since.Equal(begun.Add(100*time.Second)) {
			t.Errorf("it lasts for %v, since %v", lasts, r.Since)
		}
		if r = (Reminder{}); !r.Due(time.Minute) || r.Lasts() != 0 {
			t.Error("of something new it is not told at once")
		}
	})
}
