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
