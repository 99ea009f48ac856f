package incidents

import (
	"testing"

	"hafvf/internal/testing/expect"
)

// The step of an incident is the longest of its members'. The last member leaves its own step.
func TestIncidentStep(t *testing.T) {
	inc := &incident{members: map[string]Member{}}
	for i, step := range []moment{10, 20, 20, 5} {
		inc.enter(Member{Key: string(rune('a' + i)), step: step})
	}
	for _, left := range []struct {
		key  string
		step moment
	}{{"b", 20}, {"c", 10}, {"d", 10}, {"nobody", 10}, {"a", 10}} {
		inc.leave(left.key)
		expect.Same(t, left.step, inc.step, "without ", left.key)
	}
}

// A key is noisy by three alarms outside incidents, which are older than an hour and younger than a week.
func TestNoisy(t *testing.T) {
	const now = 30 * day
	for _, c := range []struct {
		alone []moment
		noisy bool
	}{
		{[]moment{now - 7*day + 1, now - day, now - hour}, true},
		{[]moment{now - 7*day, now - day, now - hour}, false},
		{[]moment{now - day, now - day, now - hour + 1}, false},
	} {
		f := &Fleet{keys: map[string]*key{"k": {alone: c.alone}}}
		expect.Same(t, c.noisy, f.noisy("k", now), c.alone)
	}
}
