// Package account tracks a run in one process: the records in flight, the states that can be committed, and counts.
// A runner in the process neither waits until outputs are stored nor keeps state over a restart, so the program
// does both.
//
// The source, the nodes and the runner find the Run in the context of the pipeline. Records come in flight and
// leave it by three calls only:
//
//	HandOver  by the source: there are new records
//	SetBusy   by the runner: bundles begin that are not the source's
//	SetIdle   by the runner: no bundle runs, and no element waits except in the source
//
// A bundle that has ended has stored its outputs. So when the runner is idle and no step buffers anything, every
// record that was handed over is in a state, and all its outputs are stored, however many elements a step makes of
// one and whoever reads them. The states reported until then are consistent and may be committed. The runner is
// idle once before the first record is handed over: by then nodes have set their timers.
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

// A StateKeeper commits the states of a run and returns the states of the previous run. Fields may be nil. Several
// goroutines call the functions.
type StateKeeper struct {
	// Idle is called whenever nothing is in flight, even if a step buffers something. It must not call the Run.
	Idle func()
	// Committed is called whenever nothing is in flight and no step buffers anything. states has the states that
	// were reported since the last call, by key. since is when the busy period began; it is zero if there was none.
	// Committed must not call the Run.
	Committed func(states map[string]EncodedState, since time.Time)
	// Commits reports whether Commit can commit now; nil means always. It is called just before Committed, if
	// Run.SetRuntimeSetting has values to store. If it returns false, the values wait for a later call. It must not call the
	// Run.
	Commits func() bool
	// Commit commits the states of the last call of Committed, while no element is processed. Its error ends the
	// run. Without Commit, the values of Run.SetRuntimeSetting apply at once.
	Commit func() error
	// InMemory means that Committed needs no states of filters: they are in this process.
	InMemory bool
	// Restore returns the state of a key in the previous run. It returns nil if there is none, or if states are
	// stored elsewhere. The error says why the state cannot be read.
	Restore func(key string) ([]byte, error)
	// LogTime returns the time up to which the records of a log had been read when nothing was last in flight; zero
	// if none were. It reports false for an unknown log. It must not call the Run.
	LogTime func(log string) (time.Time, bool)
	// Suspends makes Run.Stop suspend the source instead of ending it, so that waiting observations stay in the
	// states.
	Suspends bool
}

// A Report describes what a bundle of a node did.
type Report struct {
	Taken int // observations that the bundle accepted
	// States has the states of the keys in the bundle.
	States []EncodedState
	Counts Counts
}

// An EncodedState is the state of a key, encoded.
type EncodedState struct {
	Key   string
	State []byte
	// Waiting has the positions of the observations that wait in the state.
	Waiting []Offset
}

// An Offset is the position of an observation in its log.
type Offset struct {
	Log string
	Seq int64
}

// A Run tracks one run. If the runner tracks records in flight, each node has a Run of its own.
type Run struct {
	keeper   StateKeeper
	tracking bool // whether this Run tracks records in flight; otherwise the runner does
	values   sync.Map

	mu              sync.Mutex
	running         bool          // whether bundles may run, see SetBusy
	bundle          *Bundle       // the source's bundle that has handed over records and has not ended
	busySince       time.Time     // when the busy period began; zero if nothing is in flight
	idle            chan struct{} // closed while nothing is in flight
	lastBusy        time.Time     // when something was last put in flight
	handedOver      int           // records handed over since the last commit
	uncommitted     time.Time     // when the first of these records was handed over
	buffering       string        // see SetIdle
	untilSourceEnds bool          // see SetIdle
	next            time.Time     // see SetIdle
	staged          map[string]EncodedState
	pending         map[string]runtimeSetting        // values to store, by key, see SetRuntimeSetting
	extras          map[string]func() ([]byte, bool) // states to commit with the others, by key, see CommitAlong
	stalled         bool                             // a commit that stores values of SetRuntimeSetting is not done
	observations    int64
	counts          Counts
	matched         map[string]bool  // patterns of rules that some key matches
	deleted         map[string]int64 // deleted records by topic, see Deleted
	watermark       time.Time        // the last argument of Advance
	pastStep        bool             // whether records were handed over after that watermark
	latest          time.Time        // see SetLatest
	ahead           time.Time        // the latest of the times ahead of the clock
	waitingOutputs  atomic.Int32     // number of contexts of WithStopTimeout that have not ended
	awaitsEnd       atomic.Bool      // see AwaitEnd
	gaps            [2]time.Duration // minimum and maximum, see SetGap

	stop, closeRun  func()
	stopped, closed <-chan struct{}
}

// Open returns a Run that tracks records in flight. Nodes find it if the runner has a context of Run.In.
func Open(k StateKeeper) *Run {
	r := Watch()
	r.keeper, r.tracking, r.idle, r.staged = k, true, make(chan struct{}), map[string]EncodedState{}
	close(r.idle)
	return r
}

// Watch returns a Run that only adds up counts, for a process whose runner tracks records in flight, such as a
// worker of a cluster.
func Watch() *Run {
	r := &Run{
		matched: map[string]bool{}, deleted: map[string]int64{},
		pending: map[string]runtimeSetting{}, extras: map[string]func() ([]byte, bool){},
	}
	r.stop, r.stopped = latch()
	r.closeRun, r.closed = latch()
	return r
}

// latch returns a channel and a function that closes it. The function may be called more than once.
func latch() (closeChannel func(), channel <-chan struct{}) {
	c := make(chan struct{})
	return sync.OnceFunc(func() { close(c) }), c
}

// inContext is the key of the Run in a context.
type inContext struct{}

// In returns a context for a runner whose nodes belong to r.
func (r *Run) In(ctx context.Context) context.Context { return context.WithValue(ctx, inContext{}, r) }

// From returns the run that a node's context belongs to. Without one it returns a new run that nobody else sees.
func From(ctx context.Context) *Run {
	if r, _ := ctx.Value(inContext{}).(*Run); r != nil {
		return r
	}
	return Watch()
}

// Close closes the run. A waiting HandOver fails.
func (r *Run) Close() { r.closeRun() }

// valueKey is the key of a value of type T in Run.values.
type valueKey[T any] struct{ name string }

// WithValue stores v in r under its type and name. It replaces the previous value of that type and name.
func WithValue[T any](r *Run, name string, v T) { r.values.Store(valueKey[T]{name}, v) }

// Value returns the value of type T that WithValue stored under name, or the zero T.
func Value[T any](r *Run, name string) (v T) {
	if p, ok := r.values.Load(valueKey[T]{name}); ok {
		v = p.(T)
	}
	return v
}

var errClosed = errors.New("the run is over")

// A Runner runs the pipeline of a Run. The Run has it as a value, see WithValue.
type Runner interface {
	// Stalled returns the step at which an element has waited for the longest time, and since when, as far as the
	// runner knows from earlier calls. step is empty if nothing waits. A source that reads does not count.
	Stalled() (step string, since time.Time)
	// Resume continues after SetBusy has returned false. It starts functions that are Seeding once more, since the
	// inputs of their timers may have changed. If err is not nil, the run fails.
	Resume(err error)
}

// A Bundle identifies a bundle of a source.
type Bundle struct{ _ byte } // each has an address of its own

// inBundle is the key of the Bundle in a context.
type inBundle struct{}

// Begins returns a context for a bundle of a source. HandOver recognises the bundle by it.
func (r *Run) Begins(ctx context.Context) (context.Context, *Bundle) {
	b := &Bundle{}
	return context.WithValue(ctx, inBundle{}, b), b
}

// Ends reports to r that the runner has received the output of b.
func (r *Run) Ends(b *Bundle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bundle == b {
		r.bundle, r.running = nil, true
	}
}

// HandOver is called by the source before the runner sees a bundle of n records. It waits until the previous bundle
// is processed: a bundle becomes visible downstream only when it ends, so at most two are in memory, one that is
// read and one that is processed. mark, if not nil, stores the position of the source; the records come in flight
// in the same step. HandOver fails with the error of ctx or mark, or if the run is closed. With n = 0 it does not
// wait.
func (r *Run) HandOver(ctx context.Context, n int, mark func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n > 0 && r.inFlight() {
		idle := r.idle
		r.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
		case <-r.closed:
		}
		r.mu.Lock()
		if err := context.Cause(ctx); err != nil {
			return err
		}
		select {
		case <-r.closed:
			return errClosed
		default:
		}
	}
	if mark != nil {
		if err := mark(); err != nil {
			return err
		}
	}
	if n == 0 || !r.tracking {
		r.commitIfIdle()
		return nil
	}
	r.pastStep = true
	if r.handedOver == 0 {
		r.uncommitted = time.Now()
	}
	r.handedOver += n
	if r.bundle, _ = ctx.Value(inBundle{}).(*Bundle); r.bundle == nil {
		r.running = true
	}
	r.begin()
	return nil
}

// SetBusy is called by the runner before a bundle begins that is not a source's. Such a bundle may report states
// and emit elements. If SetBusy returns false, the bundle must not begin before Runner.Resume: the run waits for a
// commit that stores a value of SetRuntimeSetting.
func (r *Run) SetBusy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stalled {
		return false
	}
	r.running = true
	r.begin()
	return true
}

// begin records that something is in flight.
func (r *Run) begin() {
	if r.lastBusy = time.Now(); r.busySince.IsZero() {
		r.idle, r.busySince = make(chan struct{}), r.lastBusy
	}
}

func (r *Run) inFlight() bool { return r.running || r.bundle != nil || r.stalled }

// SetIdle is called by the runner when no bundle runs, and no element waits except in a source. buffering is the
// step that buffers something for later, in a grouping whose window is open or in states that nobody reports; it is
// empty if there is none. A restart would lose the buffer, so nothing is committed. untilSourceEnds means that the
// step buffers until the source ends, as a grouping in the global window does. next is the earliest time of a timer
// that waits for the watermark; zero means none.
func (r *Run) SetIdle(buffering string, untilSourceEnds bool, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running, r.buffering, r.untilSourceEnds, r.next = false, buffering, untilSourceEnds, next
	r.commitIfIdle()
}

// commitIfIdle calls the keeper if nothing is in flight.
func (r *Run) commitIfIdle() {
	if !r.tracking || r.inFlight() {
		return
	}
	if r.keeper.Idle != nil {
		r.keeper.Idle()
	}
	if r.buffering == "" {
		for key, state := range r.extras {
			if value, changed := state(); changed {
				r.staged[key] = EncodedState{Key: key, State: value}
			}
		}
		withPending := len(r.pending) > 0 && (r.keeper.Commits == nil || r.keeper.Commits())
		if withPending {
			for key, setting := range r.pending {
				r.staged[key] = EncodedState{Key: key, State: setting.value}
			}
		}
		if r.keeper.Committed != nil {
			r.keeper.Committed(r.staged, r.busySince)
		}
		clear(r.staged)
		r.handedOver = 0
		if withPending {
			r.stall()
			return
		}
	}
	r.setIdle()
}

// setIdle ends the busy period.
func (r *Run) setIdle() {
	if !r.busySince.IsZero() {
		close(r.idle)
		r.busySince = time.Time{}
	}
}

// A runtimeSetting is a value that applies from a commit on, see SetRuntimeSetting.
type runtimeSetting struct {
	value []byte
	apply func()
}

// SetRuntimeSetting stores value under key with the next commit, then calls apply. key is a reserved key of states. A nil
// value deletes the stored value. apply is called after that commit and before anything else is processed. So a run
// that repeats the records after a commit uses the same value as the previous run. A later call for the key
// replaces one that is not yet committed.
func (r *Run) SetRuntimeSetting(key string, value []byte, apply func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[key] = runtimeSetting{value, apply}
	if !r.lastBusy.IsZero() { // otherwise the runner has not begun, and will be idle once
		r.commitIfIdle()
	}
}

// CommitAlong adds a state under key, a reserved key, to each commit if it has changed since the last one. state
// returns it; it must not call the Run. CommitAlong is called before the run begins.
func (r *Run) CommitAlong(key string, state func() (value []byte, changed bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.extras[key] = state
}

// stall commits the last states in the background and then applies the pending values. Meanwhile SetBusy returns
// false.
func (r *Run) stall() {
	applied := r.pending
	r.pending, r.stalled = map[string]runtimeSetting{}, true
	r.setIdle() // everything before this commit is processed
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
		r.stalled, r.running = err != nil, true // until the runner is idle again
		r.mu.Unlock()
		if runner := Value[Runner](r, ""); runner != nil {
			runner.Resume(err)
		}
	}()
}

// Buffering returns the step that buffers results, and the number of records that are not committed for that
// reason. since is when something was last put in flight. If the step buffers until the source ends, since is when
// the first uncommitted record was handed over, and step is returned even while records are in flight. Otherwise
// step is empty while something is in flight, or if no step buffers.
func (r *Run) Buffering() (step string, since time.Time, records int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.untilSourceEnds && r.handedOver > 0:
		return r.buffering, r.uncommitted, r.handedOver
	case r.inFlight():
		return "", time.Time{}, 0
	}
	return r.buffering, r.lastBusy, r.handedOver
}

// WantsStates reports whether filters should report the states of keys.
func (r *Run) WantsStates() bool {
	return r.tracking && r.keeper.Committed != nil && !r.keeper.InMemory
}

// reporters are the types of functions for which Reporting was called.
var reporters sync.Map

// Reporting declares that functions of type T Report their states, so that these states do not count as buffers,
// see SetIdle.
func Reporting[T any]() { reporters.Store(reflect.TypeFor[T](), true) }

// Reports reports whether Reporting was called for the type of a function.
func Reports(fn any) bool {
	_, ok := reporters.Load(reflect.TypeOf(fn))
	return ok
}

// seeders are the types of functions for which Seeding was called.
var seeders sync.Map

// Seeding declares that functions of type T receive an impulse for which other functions set timers, see
// Runner.Resume.
func Seeding[T any]() { seeders.Store(reflect.TypeFor[T](), true) }

// Seeds reports whether Seeding was called for the type of a function.
func Seeds(fn any) bool {
	_, ok := seeders.Load(reflect.TypeOf(fn))
	return ok
}

// Report is called by a node at the end of a bundle. It adds up the counts and keeps the states for the next
// commit.
func (r *Run) Report(b Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observations += int64(b.Taken)
	r.counts.Add(b.Counts)
	if r.tracking && r.keeper.Committed != nil {
		for _, s := range b.States {
			r.staged[s.Key] = s
		}
	}
}

// Idle returns a channel that is closed while nothing is in flight. Call Idle again after each busy period.
func (r *Run) Idle() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.idle
}

// Busy returns for how long something has been in flight; 0 if nothing is.
func (r *Run) Busy() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busySince.IsZero() {
		return 0
	}
	return time.Since(r.busySince)
}

// Counts returns the sum of all reported counts and the number of accepted observations.
func (r *Run) Counts() (c Counts, observations int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts, r.observations
}

// Matched records that a key matches the rule with that pattern.
func (r *Run) Matched(pattern string) {
	if !r.tracking {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.matched[pattern] = true
}

// HasMatched reports whether some key matches the rule with that pattern.
func (r *Run) HasMatched(pattern string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.matched[pattern]
}

// Deleted adds n records of a topic that were deleted before the source read them.
func (r *Run) Deleted(topic string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deleted[topic] += n
}

// DeletedByTopic returns the number of records of each topic that were deleted before the source read them.
func (r *Run) DeletedByTopic() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.deleted)
}

// Counted reports whether r, not the runner, tracks records in flight.
func (r *Run) Counted() bool { return r.tracking }

// HasTimerBy reports whether a timer fires when the watermark passes t, according to the last SetIdle.
func (r *Run) HasTimerBy(t time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.next.IsZero() && !r.next.After(t)
}

// WaitIdle waits until nothing is in flight. It does not wait for a commit that stores a value of SetRuntimeSetting. It
// returns false if ctx ends first.
func (r *Run) WaitIdle(ctx context.Context) bool {
	r.mu.Lock()
	idle, stalled := r.idle, r.stalled
	r.mu.Unlock()
	if stalled {
		return true
	}
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}

// Advance stores the watermark of a source that moves it in steps, before the source emits it. pastStep means that
// a previous run handed over records after that step.
func (r *Run) Advance(watermark time.Time, pastStep bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watermark, r.pastStep = watermark, pastStep
}

// NextStep returns the earliest time at which a timer set for t fires. If the watermark has passed t and records
// were handed over after that step, the timer waits for the next step: otherwise the order of timers and records
// would depend on how records are divided into bundles.
func (r *Run) NextStep(t time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pastStep && !r.watermark.IsZero() && !t.After(r.watermark) {
		return r.watermark.Add(time.Millisecond) // timers and steps count milliseconds
	}
	return t
}

// Watermark returns the last argument of Advance; zero if the source does not move its watermark in steps.
func (r *Run) Watermark() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.watermark
}

// AwaitEnd makes everything that waits for the watermark wait for the end of the input. It is called when the
// watermark of the source was wrong, or the input has ended.
func (r *Run) AwaitEnd() { r.awaitsEnd.Store(true) }

// AwaitsEnd reports whether AwaitEnd was called.
func (r *Run) AwaitsEnd() bool { return r.awaitsEnd.Load() }

// SetLatest stores the latest time of the observations of a node, and the latest of their times that are ahead of
// the clock. Zero times have no effect.
func (r *Run) SetLatest(latest, ahead time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest, r.ahead = clock.Later(r.latest, latest), clock.Later(r.ahead, ahead)
}

// HasAhead reports whether an observation has had a time ahead of the clock.
func (r *Run) HasAhead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.ahead.IsZero()
}

// Latest returns the latest time of SetLatest, or zero. A time ahead of the clock may be wrong: it counts only if
// there is no other.
func (r *Run) Latest() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.latest.IsZero() {
		return r.ahead
	}
	return r.latest
}

// SetGap stores the gap that ends the sessions of a key.
func (r *Run) SetGap(gap time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gaps[0] == 0 || gap < r.gaps[0] {
		r.gaps[0] = gap
	}
	r.gaps[1] = max(r.gaps[1], gap)
}

// Gaps returns the minimum and maximum gap of SetGap; zero without one.
func (r *Run) Gaps() (minGap, maxGap time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gaps[0], r.gaps[1]
}

// Stop asks the source to end at its next record, as if its input ended there. Records that were handed over are
// still processed.
func (r *Run) Stop() { r.stop() }

// Stopped returns a channel that is closed when Stop is called.
func (r *Run) Stopped() <-chan struct{} { return r.stopped }

// StopTimeout is how long a stopped run waits for an output that accepts nothing.
const StopTimeout = 6 * time.Second

// ErrStopped is the cause for which contexts of WithStopTimeout end in a stopped run.
var ErrStopped = errors.New("the run was stopped")

// WithStopTimeout returns a context for one attempt of an output that logs itself what it waits for. The context
// ends with ctx, or by ErrStopped if the attempt lasts longer than StopTimeout after Stop. end must be called after
// the attempt.
func (r *Run) WithStopTimeout(ctx context.Context) (within context.Context, end func()) {
	within, cancel := context.WithCancelCause(ctx)
	r.waitingOutputs.Add(1)
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
		r.waitingOutputs.Add(-1)
	}
}

// Waits reports whether an attempt with WithStopTimeout is in progress.
func (r *Run) Waits() bool { return r.waitingOutputs.Load() > 0 }

// IsStopped reports whether Stop was called.
func (r *Run) IsStopped() bool {
	select {
	case <-r.Stopped():
		return true
	default:
		return false
	}
}

// Suspended reports whether the source was stopped and another run will resume it: then waiting timers stay in the
// states.
func (r *Run) Suspended() bool { return r.IsStopped() && r.keeper.Suspends }

// LogTime calls StateKeeper.LogTime. Without it, no log is known.
func (r *Run) LogTime(log string) (time.Time, bool) {
	if r.keeper.LogTime == nil {
		return time.Time{}, false
	}
	return r.keeper.LogTime(log)
}

// Restore returns the state of a key in the previous run, or nil. The error says why the state cannot be read.
func (r *Run) Restore(key string) ([]byte, error) {
	if r.keeper.Restore == nil {
		return nil, nil
	}
	return r.keeper.Restore(key)
}
