package account

import (
	"context"
	"errors"
	"hafvf/internal/testing/expect"
	"maps"
	"testing"
	"time"
)

// openRun opens a run. It returns the run and the committed states, one map per call of Committed.
func openRun(t *testing.T) (*Run, *[]map[string]string) {
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

// TestSettled checks that reported states are committed when the runner is idle and no step buffers, and not
// before.
func TestSettled(t *testing.T) {
	r, settled := openRun(t)
	r.SetBusy()
	r.Report(Report{States: state("a", "0")})
	r.SetIdle("", false, time.Time{})
	ctx, source := r.Begins(t.Context())
	_, other := r.Begins(t.Context())
	expect.OK(t, r.HandOver(ctx, 3, nil))
	if r.Busy() <= 0 {
		t.Error("not busy with three records in flight")
	}
	r.SetIdle("", false, time.Time{}) // the records of the source have not arrived yet
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
		t.Errorf("while a step buffers: settled %v, busy for %v", *settled, r.Busy())
	}
	r.SetBusy()
	r.Report(Report{States: state("b", "1")})
	r.SetIdle("", false, time.Time{})
	expect.OK(t, r.HandOver(t.Context(), 0, nil))
	expect.Same(t, []map[string]string{{"a": "0"}, {"a": "1", "b": "1"}, {}}, *settled)
	if _, observations := r.Counts(); observations != 3 || r.HasTimerBy(time.Unix(1e9, 0)) {
		t.Errorf("%d observations accepted", observations)
	}
}

// TestHandOver checks that HandOver waits for records in flight, and that it ends with its context and its run.
func TestHandOver(t *testing.T) {
	r, _ := openRun(t)
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
	returned := make(chan error)
	go func() { returned <- r.HandOver(t.Context(), 1, nil) }()
	r.SetIdle("", false, time.Time{})
	if err := <-returned; err != nil {
		t.Error(err)
	}
	go func() { returned <- r.HandOver(t.Context(), 1, nil) }()
	r.Close()
	if err := <-returned; err != errClosed {
		t.Errorf("after Close: %v", err)
	}
}

// TestParts checks that a run has one value per type and name.
func TestParts(t *testing.T) {
	r, _ := openRun(t)
	WithValue(r, "a", 1)
	WithValue(r, "b", 2)
	WithValue(r, "a", "text")
	if Value[int](r, "a") != 1 || Value[int](r, "b") != 2 || Value[string](From(r.In(t.Context())), "a") != "text" || Value[string](r, "b") != "" || Value[int](From(t.Context()), "a") != 0 {
		t.Error("values are mixed up")
	}
}

// TestWatched checks that a Watch run adds up counts, and does not track records in flight.
func TestWatched(t *testing.T) {
	r := Watch()
	defer r.Close()
	r.Report(Report{Taken: 1, Counts: Counts{Records: 1}})
	if c, observations := r.Counts(); c.Records != 1 || observations != 1 {
		t.Errorf("%+v, %d", c, observations)
	}
	for range 2 { // nobody would report that the first record is processed
		expect.OK(t, r.HandOver(t.Context(), 1, nil))
	}
}

// A resumeRunner is a Runner that sends the argument of Resume.
type resumeRunner chan error

func (r resumeRunner) Stalled() (string, time.Time) { return "", time.Time{} }
func (r resumeRunner) Resume(err error)             { r <- err }

// TestSetRuntimeSetting checks that a runtime setting applies after the commit that stores it, and that no element is
// processed before.
func TestSetRuntimeSetting(t *testing.T) {
	var settled []map[string]EncodedState
	commits, canCommit := make(chan error), false
	r := Open(StateKeeper{
		Committed: func(states map[string]EncodedState, _ time.Time) { settled = append(settled, maps.Clone(states)) },
		Commits:   func() bool { return canCommit },
		Commit:    func() error { return <-commits },
	})
	t.Cleanup(r.Close)
	runner, applied := make(resumeRunner), make(chan string, 9)
	WithValue[Runner](r, "", runner)
	set := func(key, value string) {
		r.SetRuntimeSetting(key, []byte(value), func() { applied <- key + value })
	}
	set("k", "0")
	r.SetBusy()
	r.SetIdle("", false, time.Time{}) // Commits returns false
	expect.OK(t, r.HandOver(t.Context(), 1, nil))
	set("k", "1")
	set("l", "1")
	canCommit = true
	r.SetIdle("a grouping", false, time.Time{})
	r.SetBusy()
	r.SetIdle("", false, time.Time{})
	want := map[string]EncodedState{"k": {Key: "k", State: []byte("1")}, "l": {Key: "l", State: []byte("1")}}
	expect.Same(t, []map[string]EncodedState{{}, want}, settled)
	set("k", "2") // during the commit
	returned := make(chan error)
	go func() { returned <- r.HandOver(t.Context(), 1, nil) }()
	if r.SetBusy() || len(applied) > 0 || r.Busy() == 0 || !r.WaitIdle(t.Context()) {
		t.Fatalf("a bundle may begin before the commit, or %d settings are applied", len(applied))
	}
	for range 2 {
		commits <- nil
		expect.OK(t, <-runner)
		if !r.SetBusy() {
			t.Fatal("no bundle may begin after the commit")
		}
		r.SetIdle("", false, time.Time{})
	}
	expect.OK(t, <-returned)
	for _, want := range []string{"k1", "l1", "k2"} {
		expect.Same(t, want, <-applied)
	}
	r.SetIdle("", false, time.Time{})
	set("k", "3") // while idle
	failure := errors.New("no broker")
	commits <- failure
	if err := <-runner; err != failure || r.SetBusy() || len(applied) > 0 {
		t.Errorf("after a failed commit: %v, %d settings applied", err, len(applied))
	}
	go func() { returned <- r.HandOver(t.Context(), 1, nil) }()
	r.Close()
	if err := <-returned; err != errClosed {
		t.Errorf("after Close: %v", err)
	}
}
