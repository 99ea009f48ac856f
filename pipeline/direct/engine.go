package direct

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"

	"hafvf/internal/account"
	"hafvf/internal/clock"
)

// maxQueued is the size of waiting elements in bytes above which sources pause.
const maxQueued = 64 << 20

// maxKeyed is the maximum number of elements in a bundle of a function with states. Such a function may hold every
// state that the bundle uses until the bundle ends.
const maxKeyed = 256

// An engine is a run. Its stages run in bundles, each in its own goroutine. Everything else happens under one lock,
// when a bundle ends or a timer fires.
type engine struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	stages []*stage // in the order of their dependencies
	totals *totals
	grace  time.Duration
	books  *account.Run // account of the run; nil if there is none

	mu       sync.Mutex
	busy     int           // number of running bundles
	begun    int           // number of bundles started so far
	queued   int           // bytes of elements that wait between stages
	ahead    time.Duration // how far a TestStream has advanced the clock
	alarm    *time.Timer   // fires when something is ready by the clock, or at the end of the grace
	err      error         // first error
	over     bool
	stalled  bool // something is ready but waits for Resume
	impulses []*collection
	done     chan struct{} // closed when the run is over
}

// A shard processes a share of the keys of a stage. It runs one bundle at a time.
type shard struct {
	stage      *stage
	queue      []element  // ready to be processed
	blocked    []element  // side inputs are not ready
	minHold    mtime.Time // earliest hold of queue and blocked
	busy       bool
	bundleHold mtime.Time // hold of the running bundle
	watermark  mtime.Time // input watermark

	plan   *exec.Plan                  // nil before the first bundle
	blame  atomic.Pointer[stepTracker] // of plan
	timers *timerSet
	states *states
	groups *groups

	begun   int64     // number of bundles started
	moves   int64     // begun plus the calls of steps, at the last call of Stalled
	movedAt time.Time // time at which moves last changed
}

func newEngine(ctx context.Context, t *translation, r Runner) *engine {
	t.findKeys(r.Shards)
	e := &engine{stages: t.stages, totals: newTotals(t.names), grace: r.Grace, done: make(chan struct{})}
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	if r := account.From(ctx); r.Counted() {
		e.books = r
		account.WithValue[account.Runner](r, "", e)
		r.SetBusy()
	}
	for _, s := range e.stages {
		n := 1
		switch {
		case s.script != nil:
			n = 0
		case s.keyed || s.splits:
			n = r.Shards
		}
		for range n {
			s.shards = append(s.shards, &shard{
				stage: s, minHold: mtime.MaxTimestamp, bundleHold: mtime.MaxTimestamp, watermark: mtime.MinTimestamp,
				timers: newTimerSet(), states: newStates(), groups: newGroups(),
			})
		}
	}
	e.impulses = t.impulses
	for _, c := range e.impulses {
		e.impulse(c)
	}
	return e
}

// impulse delivers the element of an impulse.
func (e *engine) impulse(c *collection) {
	const noBytes = "\x00" // the encoded length 0
	impulse, err := withHeader(c, mtime.MinTimestamp, []byte(noBytes))
	if err == nil {
		err = e.deliver(c, impulse)
	}
	if err != nil {
		e.fail(err)
	}
}

// run runs the pipeline until it ends.
func (e *engine) run() (beam.PipelineResult, error) {
	defer e.cancel(nil)
	stop := context.AfterFunc(e.ctx, func() {
		e.locked(func() {
			e.fail(context.Cause(e.ctx))
			e.after(e.grace, e.end)
		})
	})
	defer stop()
	e.locked(func() {})
	<-e.done
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.stages {
		for _, sh := range s.shards {
			if sh.plan == nil || sh.busy {
				continue
			}
			if err := sh.tearDown(context.WithoutCancel(e.ctx)); err != nil && e.err == nil {
				e.err = stepError(err, e.totals.names, sh.blame.Load())
			}
		}
	}
	return e.totals, e.err
}

// locked calls f under the lock, and then starts the bundles that are ready.
func (e *engine) locked(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return
	}
	f()
	e.schedule()
}

// fail ends the run with an error. No further bundle starts.
func (e *engine) fail(err error) {
	if e.err == nil {
		e.err = err
		e.cancel(err)
	}
}

func (e *engine) end() {
	if !e.over {
		if e.err == nil && e.books != nil {
			e.books.SetIdle("", false, time.Time{}) // nothing will ask for buffered data any more
		}
		e.over = true
		if e.alarm != nil {
			e.alarm.Stop()
		}
		close(e.done)
	}
}

// schedule starts the bundles that are ready, the last stages first. It ends the run when nothing is left to do.
func (e *engine) schedule() {
	for e.err == nil {
		e.advance()
		next := e.startReady(time.Now().Add(e.ahead))
		e.setIdle()
		if e.stalled {
			return
		}
		if e.busy == 0 && e.nextEvent() {
			continue
		}
		if !next.IsZero() {
			e.after(time.Until(next.Add(-e.ahead)), func() {})
			return
		}
		if e.busy == 0 {
			e.checkDone()
		}
		break
	}
	if e.busy == 0 {
		e.end()
	}
}

// startReady starts the shards that are ready. It returns the time at which the next shard is ready by the clock, or
// zero.
func (e *engine) startReady(now time.Time) (next time.Time) {
	e.stalled = false
	for _, s := range slices.Backward(e.stages) {
		for _, sh := range s.shards {
			ready, wake := e.ready(sh, now)
			if ready {
				e.start(sh, now)
			} else {
				next = clock.Earlier(next, wake)
			}
		}
	}
	return next
}

// after calls f under the lock after d. It replaces the pending call.
func (e *engine) after(d time.Duration, f func()) {
	if e.alarm != nil {
		e.alarm.Stop()
	}
	e.alarm = time.AfterFunc(d, func() { e.locked(f) })
}

func (e *engine) checkDone() {
	for _, s := range e.stages {
		if s.out < mtime.MaxTimestamp {
			e.fail(fmt.Errorf("%s has nothing to do but has not ended: this is a bug of the direct runner", s.name))
		}
	}
}

// advance updates the watermarks.
func (e *engine) advance() {
	for _, s := range e.stages {
		if s.script != nil {
			s.out = s.script.watermark
			continue
		}
		s.in = mtime.MaxTimestamp
		for _, f := range s.from {
			s.in = min(s.in, f.out)
		}
		out := s.in
		for _, sh := range s.shards {
			hold := sh.minHold
			if sh.busy {
				hold = min(hold, sh.bundleHold)
			}
			sh.watermark = max(sh.watermark, min(s.in, hold))
			hold = min(hold, sh.timers.hold(sh.watermark))
			if s.group != nil && !sh.busy {
				_, end, _ := sh.groups.due.top()
				hold = min(hold, end)
			}
			out = min(out, hold)
		}
		// Output at the end of the global window comes before timers of other stages at that time.
		if out == mtime.EndOfGlobalWindowTime {
			out--
		}
		s.out = max(s.out, out)
		e.unblock(s)
	}
}

// unblock releases the elements whose side inputs have become ready.
func (e *engine) unblock(s *stage) {
	if len(s.sides) == 0 {
		return
	}
	earliest := mtime.MaxTimestamp
	for _, side := range s.sides {
		earliest = min(earliest, side.watermark())
		side.forget(s.horizon())
	}
	if earliest == s.sideIn {
		return
	}
	s.sideIn = earliest
	for _, sh := range s.shards {
		sh.blocked = slices.DeleteFunc(sh.blocked, func(el element) bool {
			ready := s.sidesReady(el)
			if ready {
				sh.queue = append(sh.queue, el)
			}
			return ready
		})
	}
}

// horizon returns a time at or before the end of every window that an element may still need. Elements that are too
// late do not count.
func (s *stage) horizon() mtime.Time {
	horizon := s.in
	for _, sh := range s.shards {
		horizon = min(horizon, sh.watermark)
	}
	return max(mtime.MinTimestamp, horizon-s.lateness)
}

// sidesReady reports whether the side inputs are ready for an element: their watermarks have passed the windows that
// it needs.
func (s *stage) sidesReady(el element) bool {
	for _, side := range s.sides {
		watermark := side.watermark()
		for _, w := range el.windows {
			if side.end(w) >= watermark {
				return false
			}
		}
	}
	return true
}

// deliverAll delivers the output of a bundle in order.
func (e *engine) deliverAll(outs []output) error {
	for _, o := range outs {
		if err := e.deliver(o.dst, o.element); err != nil {
			return err
		}
	}
	return nil
}

// deliver delivers an element to the consumers of its collection.
func (e *engine) deliver(c *collection, el element) error {
	for _, s := range c.stages {
		sh := s.shards[0]
		switch {
		case s.keyed && len(s.shards) > 1:
			h := fnv.New32a()
			h.Write([]byte(el.key))
			sh = s.shards[h.Sum32()%uint32(len(s.shards))]
		case s.splits:
			sh = s.shards[s.dealt%len(s.shards)]
			s.dealt++
		}
		e.enqueue(sh, el)
	}
	for _, side := range c.sides {
		if err := side.add(el); err != nil {
			return err
		}
	}
	for _, o := range c.onward {
		passed := el
		if o.convert != nil {
			b, err := o.convert(el.bytes)
			if err == nil {
				passed, err = o.dst.parse(b)
			}
			if err != nil {
				return err
			}
		}
		if err := e.deliver(o.dst, passed); err != nil {
			return err
		}
	}
	return nil
}

func (e *engine) enqueue(sh *shard, el element) {
	if sh.stage.sidesReady(el) {
		sh.queue = append(sh.queue, el)
	} else {
		sh.blocked = append(sh.blocked, el)
	}
	sh.minHold = min(sh.minHold, el.hold)
	if !sh.stage.splits {
		e.queued += len(el.bytes)
	}
}

// ready reports whether a shard has something to do. If not, wake is the time at which it has by the clock, or zero.
func (e *engine) ready(sh *shard, now time.Time) (ready bool, wake time.Time) {
	if sh.busy {
		return false, wake
	}
	if sh.stage.splits {
		// If nothing runs, no room can become free. With an account, only sources pause: a running source may wait for
		// the other stages.
		if e.queued > maxQueued && e.busy > 0 && (e.books == nil || sh.stage.source) {
			return false, wake
		}
		for _, el := range sh.queue {
			if !el.ready.After(now) {
				return true, wake
			}
			wake = clock.Earlier(wake, el.ready)
		}
		return false, wake
	}
	if len(sh.queue) > 0 {
		return true, wake
	}
	if _, fire, ok := sh.timers.event.top(); ok && fire <= sh.watermark {
		return true, wake
	}
	if _, end, ok := sh.groups.due.top(); ok && end < sh.watermark {
		return true, wake
	}
	if _, fire, ok := sh.timers.clock.top(); ok {
		wake = fire.ToTime()
		return !wake.After(now), wake
	}
	return false, wake
}

// start starts the next bundle of a shard.
func (e *engine) start(sh *shard, now time.Time) {
	if e.books != nil && !sh.stage.source && !e.books.SetBusy() {
		e.stalled = true
		return
	}
	e.busy++
	e.begun++
	b := &bundle{id: "b" + strconv.Itoa(e.begun), shard: sh, watermark: sh.watermark}
	sh.busy = true
	sh.begun++
	e.take(b, now)
	window := func(t *timer) *windowStates { return sh.states.windows[t.window] }
	b.fired = append(sh.timers.due(&sh.timers.event, sh.watermark, window), sh.timers.due(&sh.timers.clock, mtime.FromTime(now), window)...)
	sh.bundleHold = mtime.MaxTimestamp
	for _, el := range b.elements {
		sh.bundleHold = min(sh.bundleHold, el.hold)
	}
	for _, t := range b.fired {
		sh.bundleHold = min(sh.bundleHold, t.hold, t.fire)
	}
	_, end, _ := sh.groups.due.top()
	sh.bundleHold = min(sh.bundleHold, end)
	ctx := e.ctx
	if e.books != nil && sh.stage.source {
		ctx, b.books = e.books.Begins(ctx)
	}
	go func() {
		err := errExited
		defer func() {
			if blame := sh.blame.Load(); err == errExited && blame != nil {
				err = stepError(err, e.totals.names, blame)
			}
			e.locked(func() { e.finish(b, err) })
		}()
		err = b.process(ctx, e)
	}()
}

// take moves elements from the queue to a bundle: one restriction, or all elements, at most maxKeyed for functions
// with states.
func (e *engine) take(b *bundle, now time.Time) {
	sh := b.shard
	if sh.stage.splits {
		if i := slices.IndexFunc(sh.queue, func(el element) bool { return !el.ready.After(now) }); i >= 0 {
			b.elements = []element{sh.queue[i]}
			sh.queue = slices.Delete(sh.queue, i, i+1)
		}
	} else {
		n := len(sh.queue)
		if sh.stage.keyed && sh.stage.group == nil {
			n = min(n, maxKeyed)
		}
		b.elements, sh.queue = sh.queue[:n:n], sh.queue[n:]
		for _, el := range b.elements {
			e.queued -= len(el.bytes)
		}
		b.elements = slices.DeleteFunc(b.elements, sh.tooLate)
	}
	sh.minHold = mtime.MaxTimestamp
	for _, waiting := range [][]element{sh.queue, sh.blocked} {
		for _, el := range waiting {
			sh.minHold = min(sh.minHold, el.hold)
		}
	}
}

// tooLate reports whether the watermark has passed all windows of an element and the allowed lateness, so that the
// states of the windows are deleted. A grouping drops such elements itself, window by window.
func (sh *shard) tooLate(el element) bool {
	return sh.stage.keyed && sh.stage.group == nil && !slices.ContainsFunc(el.windows, func(w typex.Window) bool {
		return w.MaxTimestamp() == mtime.EndOfGlobalWindowTime || w.MaxTimestamp()+sh.stage.lateness >= sh.watermark
	})
}

// finish applies the results of a bundle.
func (e *engine) finish(b *bundle, err error) {
	sh := b.shard
	sh.busy = false
	e.busy--
	clear(b.elements) // the queue may share the array
	// The SDK returns timers in a random order. Timers with the same time must fire in a fixed order.
	slices.SortFunc(b.set, func(t, o *timer) int {
		return cmp.Or(cmp.Compare(t.family.step, o.family.step), cmp.Compare(t.family.name, o.family.name), cmp.Compare(t.id, o.id))
	})
	for _, t := range b.set {
		if err != nil {
			break
		}
		var in *windowStates
		if in, err = sh.states.forWindow(sh.stage, []byte(t.window)); err == nil {
			sh.timers.set(t, in)
		}
	}
	if err == nil {
		err = cmp.Or(e.deliverAll(b.outs), e.deliverAll(b.grouped))
	}
	if err != nil {
		e.fail(err)
		return
	}
	for _, el := range b.residuals {
		e.enqueue(sh, el)
	}
	if b.books != nil {
		e.books.Ends(b.books)
	}
	sh.states.forget(sh.watermark)
}
