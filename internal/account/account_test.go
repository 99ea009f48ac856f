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
	r := Open(Keeper{Settled: func(states map[string]KeyState, since time.Time) {
		m := map[string]string{}
		for key, s := range states {
			m[key] = string(s.State)
		}
		settled = append(settled, m)
	}})
	t.Cleanup(r.Close)
	return r, &settled
}

func state(key, text string) []KeyState { return []KeyState{{Key: key, State: []byte(text)}} }

// TestSettled: what was reported settles when nothing is in flight, and not before.
func TestSettled(t *testing.T) {
	r, settled := books(t)
	expect.OK(t, r.HandOver(t.Context(), 3, nil))
	if r.Busy() <= 0 {
		t.Error("with three records in flight it is not busy")
	}
	r.Report(Report{Taken: 3, Emitted: 2, States: state("a", "1")})
	r.Stored(1)
	r.Report(Report{Emitted: 1, States: state("a", "2")}) // a record that had waited
	r.Stored(1)
	if len(*settled) > 0 || r.Balanced() == nil {
		t.Errorf("with one in flight: settled %v, balanced %v", *settled, r.Balanced())
	}
	r.Stored(1)
	r.Report(Report{States: state("b", "1")}) // nothing is in flight
	expect.Same(t, []map[string]string{{"a": "2"}, {"b": "1"}}, *settled)
	expect.OK(t, r.Balanced())
	expect.Same(t, time.Duration(0), r.Busy(), "busy")
	if _, taken := r.Counts(); taken != 3 {
		t.Errorf("%d taken up", taken)
	}
}

// TestMiscount: more outputs than records end all commits, and the run.
func TestMiscount(t *testing.T) {
	r, settled := books(t)
	expect.OK(t, r.HandOver(t.Context(), 1, nil))
	r.Stored(2)
	expect.OK(t, r.HandOver(t.Context(), 1, nil))
	r.Stored(1)
	if len(*settled) > 0 || r.Fault() == nil || r.Balanced() == nil {
		t.Errorf("settled %v, fault %v, balanced %v", *settled, r.Fault(), r.Balanced())
	}
}

// TestHandOver waits for what is in flight, and ends with its context and its run.
func TestHandOver(t *testing.T) {
	r, _ := books(t)
	refusal := errors.New("refused")
	if err := r.HandOver(t.Context(), 1, func() error { return refusal }); err != refusal || r.Balanced() != nil {
		t.Fatalf("refused: %v, then %v", err, r.Balanced())
	}
	expect.OK(t, r.HandOver(t.Context(), 3, nil))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := r.HandOver(ctx, 1, nil); err != context.DeadlineExceeded {
		t.Errorf("with 3 in flight: %v", err)
	}
	over := make(chan error)
	go func() { over <- r.HandOver(t.Context(), 1, nil) }()
	r.Stored(1)
	r.Stored(2)
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
	Attach(r, "a", 1)
	Attach(r, "b", 2)
	Attach(r, "a", "text")
	if Part[int](r, "a") != 1 || Part[int](r, "b") != 2 || Part[string](From(r.In(t.Context())), "a") != "text" || Part[string](r, "b") != "" || Part[int](From(t.Context()), "a") != 0 {
		t.Error("parts are mixed up")
	}
}

// TestWatched: where the runner keeps the books, only the counts add up.
func TestWatched(t *testing.T) {
	r := Watch()
	defer r.Close()
	r.Report(Report{Taken: 1, Counts: Counts{Records: 1}})
	r.Stored(5)
	if c, taken := r.Counts(); c.Records != 1 || taken != 1 || r.Fault() != nil {
		t.Errorf("%+v, %d, %v", c, taken, r.Fault())
	}
}
