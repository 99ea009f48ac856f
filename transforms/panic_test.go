package transforms_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	_ "hafvf/internal/testing/brittle"
)

// brittleStream returns observations of two keys in turn. At some values of "bad", the model panics.
func brittleStream(n int) (in []input, breaks int) {
	rng := rand.New(rand.NewPCG(9, 9))
	for i := range n {
		x := rng.NormFloat64()
		if i%10 == 7 || i > n/2 && i < n/2+5 {
			breaks++
			in = append(in, input{"bad", keyed.Value(timeAt(i), fmt.Sprint("broken", i), 5000)})
		} else {
			in = append(in, input{"bad", keyed.Value(timeAt(i), fmt.Sprint(i), x)})
		}
		in = append(in, input{"good", keyed.Value(timeAt(i), fmt.Sprint(i), x)})
	}
	return in, breaks
}

// A panic in the mathematics of one key does not affect other keys. Its observation is rejected with the stack, and
// all others are learned.
func TestFilterPanic(t *testing.T) {
	cfg := keyed.Config{Filter: hafvf.Config{Family: "brittle"}}
	in, breaks := brittleStream(100)
	c := runFilter(t.Context(), t, cfg, in)
	if len(c.out["good"]) != 100 || len(c.out["bad"]) != 100-breaks || len(c.rejected) != breaks {
		t.Errorf("%d and %d estimates, and %d rejected of %d", len(c.out["good"]), len(c.out["bad"]), len(c.rejected), breaks)
	}
	for i, e := range c.out["good"] {
		if e.N != int64(i+1) {
			t.Fatalf("estimate %d is number %d", i, e.N)
		}
	}
	for _, r := range c.rejected {
		if r.Key != "bad" || !strings.HasPrefix(r.ID, "broken") || r.Panic == nil || r.Panic.Value != "it breaks" || !strings.Contains(r.Panic.Stack, "brittle") || !strings.Contains(r.Reason, "it breaks") {
			t.Fatalf("rejected: %+v", r)
		}
	}
}

// If smoothing a session panics, its records are rejected, the first of them with the stack. Other sessions, also
// of the same key, are smoothed.
func TestSmoothPanic(t *testing.T) {
	for _, member := range []*hafvf.Member{nil, sessions.Filter.Member} {
		cfg := sessions
		cfg.Filter = hafvf.Config{Family: "brittle", Member: member}
		var in []input
		for i := range 40 {
			x := float64(i % 3)
			if i == 15 {
				x = 5000
			}
			in = append(in, input{"bad", keyed.Value(timeAt(i+100*(i/20)), "", x)}, input{"good", keyed.Value(timeAt(i), "", x-float64(i/15)*5000)})
		}
		c := runSmooth(t, cfg, in, nil)
		if len(c.smoothed["bad"]) != 20 || len(c.smoothed["good"]) != 40 || len(c.rejected) != 20 {
			t.Fatalf("%d and %d smoothed, %d rejected", len(c.smoothed["bad"]), len(c.smoothed["good"]), len(c.rejected))
		}
		stacks := 0
		for _, r := range c.rejected {
			if r.Key != "bad" || !strings.HasPrefix(r.ID, "bad/") || !strings.Contains(r.Reason, "it breaks") {
				t.Fatalf("rejected: %+v", r)
			}
			if r.Panic != nil {
				stacks++
				if !strings.Contains(r.Panic.Stack, "brittle") {
					t.Errorf("stack without the model: %s", r.Panic.Stack)
				}
			}
		}
		if stacks != 1 {
			t.Errorf("%d records have a stack", stacks)
		}
	}
}
