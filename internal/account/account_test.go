package account

import (
	"context"
	"errors"
	"hafvf/internal/testing/expect"
	"testing"
	"time"
)

// books opens a run, and returns what has settled, a map at a
// time.
func books(t *testing.T) (*Run, *[]map[string]string) {
	var settled []map[string]string
	r := Open(StateKeeper{Committed: func(states map[string]EncodedState, since time.Time) {
		m := map[string]string{}
		for key, s := range states {
			m[key] = string(s.State)
		}
		settled = append(settled, m)
	}})
	t.Cleanup(r.Close)
	return r, &settled
}

func state(key, text string) []EncodedState { return []EncodedState{{Key: key, State: []byte(text)}} }

// TestSettled: what was reported settles when the runner rests and keeps nothing back, and not before.
func TestSettled(t *testing.T) {
	r, settled := books(t)
	r.SetBusy()
	r.Report(Report{States: state("a", "0")})
	r.SetIdle("", time.Time{})
	ctx, source := r.Begins(t.Context())
	_, other := r.Begins(t.Context())
	expect.OK(t, r.HandOver(ctx, 3, nil))
	if r.Busy() <= 0 {
		t.Error("with three records in flight it is not busy")
	}
	r.SetIdle("", time.Time{}) // what the source has handed over is not there yet
	r.Ends(other)
	expect.OK(t, r.HandOver(t.Context(), 0, nil))
	r.Ends(source)
	expect.OK(t, r.HandOver(t.Context(), 0, nil))
	r.Report(Report{Taken: 3, States: state("a", "1")})
	if want := []map[string]string{{"a": "0"}}; len(*settled) != 1 {
		t.Errorf("in flight: settled %v, not %v", *settled, want)
	}
	r.SetIdle("a grouping", time.Unix(10, 0))
	if len(*settled) != 1 || r.Busy() != 0 || r.HasTimerBy(time.Unix(9, 0)) || !r.HasTimerBy(time.Unix(10, 0)) {
		t.Errorf("while a step keeps something back: settled %v, busy for %v", *settled, r.Busy())
	}
	r.SetBusy()
	r.Report(Report{States: state("b", "1")})
	r.SetIdle("", time.Time{})
	expect.OK(t, r.HandOver(t.Context(), 0, nil))
	expect.Same(t, []map[string]string{{"a": "0"}, {"a": "1", "b": "1"}, {}}, *settled)
	if _, taken := r.Counts(); taken != 3 || r.HasTimerBy(time.Unix(1e9, 0)) {
		t.Errorf("%d taken up", taken)
	}
}

// TestHandOver waits for what is in flight, and ends with its context and its run.
func TestHandOver(t *testing.T) {
	r, _ := books(t)
	refusal := errors.New("refused")
	if err := r.HandOver(t.Context(), 1, func() error { return refusal }); err != refusal || r.Busy() != 0 {
		t.Fatalf("refused: %v, then busy for %v", err, r.Busy())
	}
	expect.OK(t, r.HandOver(t.Context(), 3, nil))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := r.HandOver(ctx, 1, nil); err != context.DeadlineExceeded {
		t.Errorf("with 3 in flight: %v", err)
	}
	over := make(chan error)
	go func() { over <- r.HandOver(t.Context(), 1, nil) }()
	r.SetIdle("", time.Time{})
	if err := <-over; err != nil {
		t.Error(err)
	}
	go func() { over <- r.HandOver(t.Context(), 1, nil) }()
	r.Close()
	if err := <-over; err != errOver {
		t.Errorf("after Close: %v", err)
	}
}

// TestParts: a run carries one thing for each type and name.
func TestParts(t *testing.T) {
	r, _ := books(t)
	WithValue(r, "a", 1)
	WithValue(r, "b", 2)
	WithValue(r, "a", "text")
	if Value[int](r, "a") != 1 || Value[int](r, "b") != 2 || Value[string](From(r.In(t.Context())), "a") != "text" || Value[string](r, "b") != "" || Value[int](From(t.Context()), "a") != 0 {
		t.Error("parts are mixed up")
	}
}

// TestWatched: where the runner keeps the books, only the counts add up.
func TestWatched(t *testing.T) {
	r := Watch()
	defer r.Close()
	r.Report(Report{Taken: 1, Counts: Counts{Records: 1}})
	if c, taken := r.Counts(); c.Records != 1 || taken != 1 {
		t.Errorf("%+v, %d", c, taken)
	}
	for range 2 { // nobody would say that the first are done with
		expect.OK(t, r.HandOver(t.Context(), 1, nil))
	}
}
