package account

import (
	"context"
	"errors"
	"hafvf/internal/testing/expect"
	"maps"
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
	r.SetIdle("", false, time.Time{})
	ctx, source := r.Begins(t.Context())
	_, other := r.Begins(t.Context())
	expect.OK(t, r.HandOver(ctx, 3, nil))
	if r.Busy() <= 0 {
		t.Error("with three records in flight it is not busy")
	}
	r.SetIdle("", false, time.Time{}) // what the source has handed over is not there yet
	r.Ends(other)
	expect.OK(t, r.HandOver(t.Context(), 0, nil))
	r.Ends(source)
	expect.OK(t, r.HandOver(t.Context(), 0, nil))
	r.Report(Report{Taken: 3, States: state("a", "1")})
	if want := []map[string]string{{"a": "0"}}; len(*settled) != 1 {
		t.Errorf("in flight: settled %v, not %v", *settled, want)
	}
	r.SetIdle("a grouping", false, time.Unix(10, 0))
	if len(*settled) != 1 || r.Busy() != 0 || r.HasTimerBy(time.Unix(9, 0)) || !r.HasTimerBy(time.Unix(10, 0)) {
		t.Errorf("while a step keeps something back: settled %v, busy for %v", *settled, r.Busy())
	}
	r.SetBusy()
	r.Report(Report{States: state("b", "1")})
	r.SetIdle("", false, time.Time{})
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
	r.SetIdle("", false, time.Time{})
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

// A resumed is a runner that is told to go on.
type resumed chan error

func (r resumed) Stalled() (string, time.Time) { return "", time.Time{} }
func (r resumed) Resume(err error)             { r <- err }

// TestSetRuntimeSetting: an instruction takes hold when the commit that has it holds, and nothing is worked on before.
func TestSetRuntimeSetting(t *testing.T) {
	var settled []map[string]EncodedState
	commits, can := make(chan error), false
	r := Open(StateKeeper{
		Committed: func(states map[string]EncodedState, _ time.Time) { settled = append(settled, maps.Clone(states)) },
		Commits:   func() bool { return can },
		Commit:    func() error { return <-commits },
	})
	t.Cleanup(r.Close)
	runner, applied := make(resumed), make(chan string, 9)
	WithValue[Runner](r, "", runner)
	instruct := func(key, value string) {
		r.SetRuntimeSetting(key, []byte(value), func() { applied <- key + value })
	}
	instruct("k", "0")
	r.SetBusy()
	r.SetIdle("", false, time.Time{}) // no commit can be made
	expect.OK(t, r.HandOver(t.Context(), 1, nil))
	instruct("k", "1")
	instruct("l", "1")
	can = true
	r.SetIdle("a grouping", false, time.Time{})
	r.SetBusy()
	r.SetIdle("", false, time.Time{})
	want := map[string]EncodedState{"k": {Key: "k", State: []byte("1")}, "l": {Key: "l", State: []byte("1")}}
	expect.Same(t, []map[string]EncodedState{{}, want}, settled)
	instruct("k", "2") // meanwhile
	handed := make(chan error)
	go func() { handed <- r.HandOver(t.Context(), 1, nil) }()
	if r.SetBusy() || len(applied) > 0 || r.Busy() == 0 || !r.WaitIdle(t.Context()) {
		t.Fatalf("it goes on before the commit holds, and %d are applied", len(applied))
	}
	for range 2 {
		commits <- nil
		expect.OK(t, <-runner)
		if !r.SetBusy() {
			t.Fatal("it does not go on")
		}
		r.SetIdle("", false, time.Time{})
	}
	expect.OK(t, <-handed)
	for _, want := range []string{"k1", "l1", "k2"} {
		expect.Same(t, want, <-applied)
	}
	r.SetIdle("", false, time.Time{})
	instruct("k", "3") // at rest
	failure := errors.New("no broker")
	commits <- failure
	if err := <-runner; err != failure || r.SetBusy() || len(applied) > 0 {
		t.Errorf("after a commit that failed: %v, and %d are applied", err, len(applied))
	}
	go func() { handed <- r.HandOver(t.Context(), 1, nil) }()
	r.Close()
	if err := <-handed; err != errOver {
		t.Errorf("after Close: %v", err)
	}
}
