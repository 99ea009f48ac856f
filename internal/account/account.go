// Package account keeps the books of a run in one process: what is in flight, which
// states hold, and what was done. A runner in the process neither waits until
// outputs are stored nor keeps state over a restart, so the program does both.
//
// Source, nodes and runner find the Run in the context of the pipeline. Three calls say what is in
// flight, and no others:
//
//	HandOver  of the source: there are new records
//	SetBusy   of the runner: bundles begin that are not the source's
//	SetIdle   of the runner: no bundle runs, and no element waits, but at the source
//
// A bundle that has ended has stored what it puts out. So when the runner rests, and no step of it
// keeps anything back, every record that was handed over is in a state, and all its outputs are stored,
// however many a step makes of an element and whoever reads them. The states that were reported until
// then hold and may be committed. Before the first record is handed over the runner rests once: nodes
// have their timers then.
package account

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hafvf/internal/clock"
)

// A StateKeeper stores what holds, and hands out what was stored. Fields may be nil. The
// functions are called by several goroutines.
type StateKeeper struct {
	// Idle is called whenever nothing is in flight, also if a step keeps something back. It must not
	// call the Run.
	Idle func()
	// Committed is called whenever nothing is in flight and no step keeps anything back, with the
	// states that were reported since the last time, by key, and since when something had been in
	// flight; zero where nothing was. It must not call the Run.
	Committed func(states map[string]EncodedState, since time.Time)
	// Commits reports whether Commit can commit now. It is called as Committed is, if the states are to have an
	// instruction, see Run.SetRuntimeSetting; otherwise that waits for another time.
	Commits func() bool
	// Commit commits at once what Committed was called with last, while nothing is worked on. Its error ends the run.
	// Without Commit an instruction takes hold at once.
	Commit func() error
	// InMemory says that Settled wants no states of filters: the process has them.
	InMemory bool
	// Restore returns the state that a key had in the previous run, nil where it
	// had none or states are kept elsewhere. The error says why the state cannot be read.
	Restore func(key string) ([]byte, error)
	// LogTime is the time that a log had passed, by its records, when nothing was in flight last; zero
	// if it has passed none. It reports false if it does not know the log. It must not call the Run.
	LogTime func(log string) (time.Time, bool)
	// Suspends says that Run.Stop suspends the source, rather than ends it: what waits in the
	// states goes on waiting.
	Suspends bool
}

// A Report is what a bundle of a node did.
type Report struct {
	Taken int // observations that the bundle took up
	// States are those of the keys in the bundle.
	States []EncodedState
	Counts Counts
}

// An EncodedState is the state of a key, encoded.
type EncodedState struct {
	Key   string
	State []byte
	// Waiting are the places of observations that wait in the state.
	Waiting []Offset
}

// An Offset is the position of an observation in the log that it came from.
type Offset struct {
	Log string
	Seq int64
}

// A Run is the account of one run. If the runner keeps the books, each node has one of its own.
type Run struct {
	keeper  StateKeeper
	counted bool // whether it keeps the books
	values  sync.Map

	mu          sync.Mutex
	works       bool          // see SetBusy
	bundle      *Bundle       // that has handed over, and has not ended
	since       time.Time     // when something came in flight
	idle        chan struct{} // closed while nothing is in flight
	moved       time.Time     // when something came in flight last
	handed      int           // records that were handed over since the last commit
	uncommitted time.Time     // when the first of them was handed over
	buffering   string        // see SetIdle
	endless     bool          // see SetIdle
	next        time.Time     // see SetIdle
	staged      map[string]EncodedState
	instructs   map[string]runtimeSetting        // see SetRuntimeSetting
	along       map[string]func() ([]byte, bool) // see CommitAlong
	stalls      bool                             // until a commit has instructions
	taken       int64
	counts      Counts
	matched     map[string]bool  // patterns of rules that some key matches
	deleted     map[string]int64 // see Deleted
	advanced    time.Time        // see Advance
	beyond      bool             // records were handed over after that
	latest      time.Time        // see SetLatest
	ahead       time.Time        // likewise, of times ahead of the clock
	patient     atomic.Int32     // see WithStopTimeout
	awaitsEnd   atomic.Bool      // see AwaitEnd
	gaps        [2]time.Duration // see SetGap

	stop, over    func()
	stopped, gone <-chan struct{}
}

// Open opens the books of a run. Nodes find it if the runner has a context of Run.In.
func Open(k StateKeeper) *Run {
	r := Watch()
	r.keeper, r.counted, r.idle, r.staged = k, true, make(chan struct{}), map[string]EncodedState{}
	close(r.idle)
	return r
}

// Watch is Open for a process whose runner keeps the books, as the workers of a
// cluster: the run adds up counts.
func Watch() *Run {
	r := &Run{
		matched: map[string]bool{}, deleted: map[string]int64{},
		instructs: map[string]runtimeSetting{}, along: map[string]func() ([]byte, bool){},
	}
	r.stop, r.stopped = latch()
	r.over, r.gone = latch()
	return r
}

// latch returns a channel and a function that closes it, once.
func latch() (send func(), received <-chan struct{}) {
	c := make(chan struct{})
	return sync.OnceFunc(func() { close(c) }), c
}

// inContext is the key of the Run in a context.
type inContext struct{}

// In returns a context for a runner whose nodes belong to the run.
func (r *Run) In(ctx context.Context) context.Context { return context.WithValue(ctx, inContext{}, r) }

// From returns the run that a node's context belongs to, and if there is none one that nobody else sees.
func From(ctx context.Context) *Run {
	if r, _ := ctx.Value(inContext{}).(*Run); r != nil {
		return r
	}
	return Watch()
}

// Close closes the run. A source that waits in HandOver fails.
func (r *Run) Close() { r.over() }

// valueKey is the key of what a run carries.
type valueKey[T any] struct{ name string }

// WithValue has the run carry v for those who look for a T of that name.
func WithValue[T any](r *Run, name string, v T) { r.values.Store(valueKey[T]{name}, v) }

// Value is the T of that name that the run carries. The zero T is returned where
// there is none.
func Value[T any](r *Run, name string) (v T) {
	if p, ok := r.values.Load(valueKey[T]{name}); ok {
		v = p.(T)
	}
	return v
}

var errOver = errors.New("the run is over")

// A Runner says what it does. A Run carries the one that its pipeline has, see WithValue.
type Runner interface {
	// Stalled names the step at which an element has waited for the longest time, and since when, as far
	// as that is known from the calls before; none if nothing waits. A source that reads is none.
	Stalled() (step string, since time.Time)
	// Resume goes on after SetBusy has reported false, and has functions that are Seeding begin once more: what they set
	// timers by may have changed. With an error the run fails.
	Resume(err error)
}

// A Bundle is one of a source.
type Bundle struct{ _ byte } // each has an address of its own

// inBundle is the key of the Bundle in a context.
type inBundle struct{}

// Begins returns a context for a bundle of a source, whose HandOver is known by it.
func (r *Run) Begins(ctx context.Context) (context.Context, *Bundle) {
	b := &Bundle{}
	return context.WithValue(ctx, inBundle{}, b), b
}

// Ends says that the runner has what a bundle of a source has put out.
func (r *Run) Ends(b *Bundle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bundle == b {
		r.bundle, r.works = nil, true
	}
}

// HandOver is called by the source before the runner sees a bundle of n records. It
// waits until the bundle before is done with: a bundle shows
// downstream only when it ends, so that at most two are in memory, one being read and
// one being worked on. mark, if not nil, notes how far the source has come, in the
// same step as the records come in flight. HandOver fails with the error of ctx or mark, or
// where the run is closed. With n = 0 it does not wait.
func (r *Run) HandOver(ctx context.Context, n int, mark func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n > 0 && r.inFlight() {
		idle := r.idle
		r.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
		case <-r.gone:
		}
		r.mu.Lock()
		if err := context.Cause(ctx); err != nil {
			return err
		}
		select {
		case <-r.gone:
			return errOver
		default:
		}
	}
	if mark != nil {
		if err := mark(); err != nil {
			return err
		}
	}
	if n == 0 || !r.counted {
		r.commitIfIdle()
		return nil
	}
	r.beyond = true
	if r.handed == 0 {
		r.uncommitted = time.Now()
	}
	r.handed += n
	if r.bundle, _ = ctx.Value(inBundle{}).(*Bundle); r.bundle == nil {
		r.works = true
	}
	r.begin()
	return nil
}

// SetBusy is called by the runner before a bundle begins that is not a source's. It may report states, and
// put something out. It reports false if the bundle may not begin before Runner.Resume: the run waits for a commit that
// has an instruction.
func (r *Run) SetBusy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stalls {
		return false
	}
	r.works = true
	r.begin()
	return true
}

// begin notes that something is in flight.
func (r *Run) begin() {
	if r.moved = time.Now(); r.since.IsZero() {
		r.idle, r.since = make(chan struct{}), r.moved
	}
}

func (r *Run) inFlight() bool { return r.works || r.bundle != nil || r.stalls }

// SetIdle is called by the runner when no bundle runs, and no element waits, but at a source. buffering names the
// step that keeps something back for later, in a grouping whose window goes on or in states that nobody
// reports; empty: none does. A restart would lose that, and nothing is settled. endless says that the step keeps it until the
// source ends, as a grouping in the global window does. next is the first time that a watermark has to pass for something to
// happen; zero: there is none.
func (r *Run) SetIdle(buffering string, endless bool, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.works, r.buffering, r.endless, r.next = false, buffering, endless, next
	r.commitIfIdle()
}

// commitIfIdle tells the keeper what holds, if nothing is in flight.
func (r *Run) commitIfIdle() {
	if !r.counted || r.inFlight() {
		return
	}
	if r.keeper.Idle != nil {
		r.keeper.Idle()
	}
	if r.buffering == "" {
		for key, state := range r.along {
			if value, changed := state(); changed {
				r.staged[key] = EncodedState{Key: key, State: value}
			}
		}
		instructs := len(r.instructs) > 0 && (r.keeper.Commits == nil || r.keeper.Commits())
		if instructs {
			for key, of := range r.instructs {
				r.staged[key] = EncodedState{Key: key, State: of.value}
			}
		}
		if r.keeper.Committed != nil {
			r.keeper.Committed(r.staged, r.since)
		}
		clear(r.staged)
		r.handed = 0
		if instructs {
			r.stall()
			return
		}
	}
	r.setIdle()
}

// setIdle says that nothing is in flight.
func (r *Run) setIdle() {
	if !r.since.IsZero() {
		close(r.idle)
		r.since = time.Time{}
	}
}

// A runtimeSetting is what the run works by from a commit on.
type runtimeSetting struct {
	value []byte
	apply func()
}

// SetRuntimeSetting has the run work by another instruction once a commit has it. value is stored under key, a reserved
// key of states, with the states of a time at which nothing was in flight; nil takes what is stored away. apply is
// called when that commit holds, before anything else is worked on. So a run that repeats what came after a commit
// works by what the run before worked by. A later call for the key replaces one that has not been applied.
func (r *Run) SetRuntimeSetting(key string, value []byte, apply func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.instructs[key] = runtimeSetting{value, apply}
	if !r.moved.IsZero() { // else the runner has not begun, and rests once
		r.commitIfIdle()
	}
}

// CommitAlong has the states of each time at which nothing is in flight include one under key, a reserved key, if it has
// changed since the last time. state must not call the Run. It is called before the run begins.
func (r *Run) CommitAlong(key string, state func() (value []byte, changed bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.along[key] = state
}

// stall has instructions applied when what Committed was called with is committed, while nothing is worked on.
func (r *Run) stall() {
	applied := r.instructs
	r.instructs, r.stalls = map[string]runtimeSetting{}, true
	r.setIdle() // what came before is settled
	r.begin()
	go func() {
		var err error
		if r.keeper.Commit != nil {
			err = r.keeper.Commit()
		}
		for _, key := range slices.Sorted(maps.Keys(applied)) {
			if err == nil {
				applied[key].apply()
			}
		}
		r.mu.Lock()
		r.stalls, r.works = err != nil, true // until the runner rests again
		r.mu.Unlock()
		if runner := Value[Runner](r, ""); runner != nil {
			runner.Resume(err)
		}
	}()
}

// Buffering returns the step that buffers results, and the number of records that are not committed for that reason. since is the
// time since which nothing has moved. If the step buffers until the source ends, since is the time since which nothing was
// committed, whether records move or not. step is empty if no step buffers, and otherwise while something is in flight.
func (r *Run) Buffering() (step string, since time.Time, records int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.endless && r.handed > 0:
		return r.buffering, r.uncommitted, r.handed
	case r.inFlight():
		return "", time.Time{}, 0
	}
	return r.buffering, r.moved, r.handed
}

// WantsStates reports whether filters are to report the states of keys.
func (r *Run) WantsStates() bool {
	return r.counted && r.keeper.Committed != nil && !r.keeper.InMemory
}

// reporters are the types of functions that Report their states.
var reporters sync.Map

// Reporting notes that functions of the type T Report their states: nothing in these is kept back, see SetIdle.
func Reporting[T any]() { reporters.Store(reflect.TypeFor[T](), true) }

// Reports reports whether Reporting was called for the type of a function.
func Reports(fn any) bool {
	_, ok := reporters.Load(reflect.TypeOf(fn))
	return ok
}

// seeders are the types of functions that are Seeding.
var seeders sync.Map

// Seeding notes that functions of the type T take an impulse, for which others set timers, see Runner.Resume.
func Seeding[T any]() { seeders.Store(reflect.TypeFor[T](), true) }

// Seeds reports whether Seeding was called for the type of a function.
func Seeds(fn any) bool {
	_, ok := seeders.Load(reflect.TypeOf(fn))
	return ok
}

// Report is called by a node at the end of a bundle.
func (r *Run) Report(b Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken += int64(b.Taken)
	r.counts.Add(b.Counts)
	if r.counted && r.keeper.Committed != nil {
		for _, s := range b.States {
			r.staged[s.Key] = s
		}
	}
}

// Idle is closed while nothing is in flight; ask anew after it was not.
func (r *Run) Idle() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.idle
}

// Busy is for how long something has been in flight; 0 where nothing is.
func (r *Run) Busy() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		return 0
	}
	return time.Since(r.since)
}

// Counts is what was done so far, and how many observations were taken up.
func (r *Run) Counts() (c Counts, taken int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts, r.taken
}

// Matched notes that a key has the rule of that pattern.
func (r *Run) Matched(pattern string) {
	if !r.counted {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.matched[pattern] = true
}

// HasMatched reports whether some key has the rule of that pattern.
func (r *Run) HasMatched(pattern string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.matched[pattern]
}

// Deleted notes that n records of a topic were deleted before the source read them.
func (r *Run) Deleted(topic string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deleted[topic] += n
}

// DeletedByTopic returns how many records were deleted before the source read them.
func (r *Run) DeletedByTopic() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.deleted)
}

// Counted reports whether the run keeps the books, and not the runner.
func (r *Run) Counted() bool { return r.counted }

// HasTimerBy reports whether something happens when the watermark passes a time, as far as the runner has said
// when it rested last.
func (r *Run) HasTimerBy(to time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.next.IsZero() && !r.next.After(to)
}

// WaitIdle waits until nothing is in flight, but for a commit that has an instruction: that ends with its keeper. It
// reports false if ctx ends before.
func (r *Run) WaitIdle(ctx context.Context) bool {
	r.mu.Lock()
	idle, stalls := r.idle, r.stalls
	r.mu.Unlock()
	if stalls {
		return true
	}
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}

// Advance notes the watermark of a source that moves it in steps, before it emits it. beyond reports
// that a run before has handed over records after that step.
func (r *Run) Advance(watermark time.Time, beyond bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advanced, r.beyond = watermark, beyond
}

// NextStep is when a timer that is set for a time fires at the earliest. If records were handed over
// after a step, what the step has passed waits for the next one: otherwise how records are divided into
// bundles would decide which of them comes before the timer.
func (r *Run) NextStep(at time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.beyond && !r.advanced.IsZero() && !at.After(r.advanced) {
		return r.advanced.Add(time.Millisecond) // timers and steps count milliseconds
	}
	return at
}

// Watermark is what Advance has noted; zero if the source does not move its watermark in steps.
func (r *Run) Watermark() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.advanced
}

// AwaitEnd makes what waits for the watermark wait for the end of the input: the watermark of the source was wrong, or the
// input has ended.
func (r *Run) AwaitEnd() { r.awaitsEnd.Store(true) }

// AwaitsEnd reports whether AwaitEnd was called.
func (r *Run) AwaitsEnd() bool { return r.awaitsEnd.Load() }

// SetLatest notes the latest time of some observations, as a node has taken them, and the latest of
// those that are ahead of the clock.
func (r *Run) SetLatest(latest, ahead time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest, r.ahead = clock.Later(r.latest, latest), clock.Later(r.ahead, ahead)
}

// HasAhead reports whether an observation had a time ahead of the clock.
func (r *Run) HasAhead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.ahead.IsZero()
}

// Latest is the latest time that SetLatest has noted; zero where there is none. A time ahead of the
// clock may be wrong: it counts if there is no other.
func (r *Run) Latest() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.latest.IsZero() {
		return r.ahead
	}
	return r.latest
}

// SetGap notes the gap that ends the sessions of a key.
func (r *Run) SetGap(gap time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gaps[0] == 0 || gap < r.gaps[0] {
		r.gaps[0] = gap
	}
	r.gaps[1] = max(r.gaps[1], gap)
}

// Gaps are the least and the largest gap that SetGap has noted; zero if there is none.
func (r *Run) Gaps() (least, largest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gaps[0], r.gaps[1]
}

// Stop asks the source to end at its next record, as if its input ended there. What
// it has handed over is worked on to the end.
func (r *Run) Stop() { r.stop() }

// Stopped is closed when Stop was called.
func (r *Run) Stopped() <-chan struct{} { return r.stopped }

// StopTimeout is how long an output that takes nothing is waited for, once its run was stopped.
const StopTimeout = 6 * time.Second

// ErrStopped ends what a run that was stopped waits for no longer.
var ErrStopped = errors.New("the run was stopped")

// WithStopTimeout returns a context for one attempt of an output, which says itself what it waits for. It ends
// with ctx, and by ErrStopped once the attempt has lasted for StopTimeout in a run that was stopped.
func (r *Run) WithStopTimeout(ctx context.Context) (within context.Context, end func()) {
	within, cancel := context.WithCancelCause(ctx)
	r.patient.Add(1)
	go func() {
		select {
		case <-r.Stopped():
		case <-within.Done():
			return
		}
		select {
		case <-time.After(StopTimeout):
			cancel(ErrStopped)
		case <-within.Done():
		}
	}()
	return within, func() {
		cancel(nil)
		r.patient.Add(-1)
	}
}

// Waits reports whether an output waits WithStopTimeout.
func (r *Run) Waits() bool { return r.patient.Load() > 0 }

// IsStopped reports whether Stop was called.
func (r *Run) IsStopped() bool {
	select {
	case <-r.Stopped():
		return true
	default:
		return false
	}
}

// Suspended reports whether the source was stopped and will go on in another run: what waits for a timer
// goes on waiting there.
func (r *Run) Suspended() bool { return r.IsStopped() && r.keeper.Suspends }

// LogTime is StateKeeper.LogTime; it knows no log without one.
func (r *Run) LogTime(log string) (time.Time, bool) {
	if r.keeper.LogTime == nil {
		return time.Time{}, false
	}
	return r.keeper.LogTime(log)
}

// Restore returns the state that a key had in the previous run, or nil. The error says why the
// state cannot be read.
func (r *Run) Restore(key string) ([]byte, error) {
	if r.keeper.Restore == nil {
		return nil, nil
	}
	return r.keeper.Restore(key)
}
