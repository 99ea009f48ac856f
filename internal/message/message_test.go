package message

import (
	"hafvf/internal/testing/expect"
	"math"
	"testing"
	"time"
)

func TestEdits(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"famly", "family", 1}, {"top", "tpo", 1}, {"Top", "top", 0}, {"kitten", "sitting", 3}} {
		expect.Same(t, test.want, Edits(test.a, test.b), test.a, ", ", test.b)
	}
}

func TestRoundUp(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		0: 0, 1: time.Second, time.Minute + 1: 2 * time.Minute, 6*time.Hour + 1: 7 * time.Hour, math.MaxInt64: math.MaxInt64,
	} {
		expect.Same(t, want, RoundUp(d), d)
	}
}
