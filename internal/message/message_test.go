package message

import (
	"hafvf/internal/testing/expect"
	"math"
	"strings"
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

func TestPercent(t *testing.T) {
	for want, counts := range map[string][2]int{"0 %": {0, 5}, "100 %": {5, 5}, "< 0.1 %": {1, 5000}, "> 99.9 %": {4999, 5000}, "33.3 %": {1, 3}, "50 %": {1, 2}} {
		expect.Same(t, want, Percent(counts[0], counts[1]))
	}
}

func TestBound(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	expect.Same(t, strings.Repeat("é", maxLine/2)+"…\nshort", Bound(long+"\nshort"))
	expect.Same(t, `"`+strings.Repeat("é", maxText/2)+`…"`, Quote(long))
}
