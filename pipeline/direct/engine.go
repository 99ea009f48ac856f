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

// maxQueued is the size in bytes of waiting elements from which sources wait.
const maxQueued = 64 << 20

// maxKeyed is the number of elements that a function with states takes in one bundle. Such a
// function may hold every state that a bundle touches until it ends.
const maxKeyed = 256

// An engine is a run. Its stages run in bundles, each on a goroutine. All else happens
// under one lock, whenever a bundle ends or a time has come.
type engine struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	stages []*stage // each after those that it depends on
	totals *totals
	grace  time.Duration
	books  *account.Run // that the context has; nil for none

	mu       sync.Mutex
	busy     int           // bundles that run
	begun    int           // bundles so far
	queued   int           // bytes that wait between stages
	ahead    time.Duration // of the clock, by a TestStream
	alarm    *time.Timer   // when something is ready by the clock, or the grace is over
	err      error         // first
	over     bool
	stalled  bool // something is ready that waits for Resume
	impulses []*collection
	done     chan struct{} // closed when the run is over
}

// A shard holds a share of the keys of a stage. It runs one bundle at a time.
type shard struct {
	stage      *stage
	queue      []element  // ready to be processed
	blocked    []element  // whose side inputs are not ready
	least      mtime.Time // hold of both
	busy       bool
	bundleHold mtime.Time // hold of the bundle that runs
	at         mtime.Time // watermark

	plan   *exec.Plan                  // nil before the first bundle
	blame  atomic.Pointer[stepTracker] // of the plan
	timers *timerSet
	states *states
	groups *groups

	begun int64     // bundles
	moves int64     // these and the calls of steps, when Stands was called last
	since time.Time // when they first were the same
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
				stage: s, least: mtime.MaxTimestamp, bundleHold: mtime.MaxTimestamp, at: mtime.MinTimestamp,
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
	const noBytes = "\x00" // a length
	impulse, err := headed(c, mtime.MinTimestamp, []byte(noBytes))
	if err == nil {
		err = e.deliver(c, impulse)
	}
	if err != nil {
		e.fail(err)
	}
}

// run runs the pipeline to its end.
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
			if err := sh.down(context.WithoutCancel(e.ctx)); err != nil && e.err == nil {
				e.err = stepError(err, e.totals.names, sh.blame.Load())
			}
		}
	}
	return e.totals, e.err
}

// locked calls f under the lock, and then starts what is ready.
func (e *engine) locked(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return
	}
	f()
	e.schedule()
}

// fail ends the run by an error: no bundle begins any more.
func (e *engine) fail(err error) {
	if e.err == nil {
		e.err = err
		e.cancel(err)
	}
}

func (e *engine) end() {
	if !e.over {
		if e.err == nil && e.books != nil {
			e.books.SetIdle("", false, time.Time{}) // what is kept back now, nobody will ask for
		}
		e.over = true
		if e.alarm != nil {
			e.alarm.Stop()
		}
		close(e.done)
	}
}

// schedule starts the bundles that are ready, the last stages first. It ends the run when
// nothing is left.
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

// startReady starts the shards that are ready. It returns when the next one is ready by the
// clock, zero if none is.
func (e *engine) startReady(now time.Time) (next time.Time) {
	e.stalled = false
	for _, s := range slices.Backward(e.stages) {
		for _, sh := range s.shards {
			ready, at := e.ready(sh, now)
			if ready {
				e.start(sh, now)
			} else {
				next = clock.Earlier(next, at)
			}
		}
	}
	return next
}

// after has f called under the lock when some time has passed, in place of what was to be
// called before.
func (e *engine) after(d time.Duration, f func()) {
	if e.alarm != nil {
		e.alarm.Stop()
	}
	e.alarm = time.AfterFunc(d, func() { e.locked(f) })
}

func (e *engine) checkDone() {
	for _, s := range e.stages {
		if s.out < mtime.MaxTimestamp {
			e.fail(fmt.Errorf("%s has nothing to do and is not at its end: this is a defect of the direct runner", s.name))
		}
	}
}

// advance brings the watermarks up to date.
func (e *engine) advance() {
	for _, s := range e.stages {
		if s.script != nil {
			s.out = s.script.at
			continue
		}
		s.in = mtime.MaxTimestamp
		for _, f := range s.from {
			s.in = min(s.in, f.out)
		}
		out := s.in
		for _, sh := range s.shards {
			hold := sh.least
			if sh.busy {
				hold = min(hold, sh.bundleHold)
			}
			sh.at = max(sh.at, min(s.in, hold))
			hold = min(hold, sh.timers.hold(sh.at))
			if s.group != nil && !sh.busy {
				_, end, _ := sh.groups.due.top()
				hold = min(hold, end)
			}
			out = min(out, hold)
		}
		// What is put out at the end of the global window comes before the timers that others have there.
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
	least := mtime.MaxTimestamp
	for _, side := range s.sides {
		least = min(least, side.watermark())
		side.forget(s.horizon())
	}
	if least == s.sideIn {
		return
	}
	s.sideIn = least
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

// horizon is before the end of the window of every element that may still come or be
// processed, and is not too late.
func (s *stage) horizon() mtime.Time {
	horizon := s.in
	for _, sh := range s.shards {
		horizon = min(horizon, sh.at)
	}
	return max(mtime.MinTimestamp, horizon-s.lateness)
}

// sidesReady reports whether the side inputs are ready for an element: the watermark has
// passed their windows.
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

// deliverAll hands over what a bundle has put out, in its order.
func (e *engine) deliverAll(outs []output) error {
	for _, o := range outs {
		if err := e.deliver(o.to, o.element); err != nil {
			return err
		}
	}
	return nil
}

// deliver hands an element of a collection to those who take it.
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
				passed, err = o.to.parse(b)
			}
			if err != nil {
				return err
			}
		}
		if err := e.deliver(o.to, passed); err != nil {
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
	sh.least = min(sh.least, el.hold)
	if !sh.stage.splits {
		e.queued += len(el.bytes)
	}
}

// ready reports whether a shard has something to do, and otherwise when it has by the clock.
func (e *engine) ready(sh *shard, now time.Time) (ready bool, at time.Time) {
	if sh.busy {
		return false, at
	}
	if sh.stage.splits {
		// If nothing runs, nothing would make room. With an account a source runs that waits for the others.
		if e.queued > maxQueued && e.busy > 0 && (e.books == nil || sh.stage.source) {
			return false, at
		}
		for _, el := range sh.queue {
			if !el.ready.After(now) {
				return true, at
			}
			at = clock.Earlier(at, el.ready)
		}
		return false, at
	}
	if len(sh.queue) > 0 {
		return true, at
	}
	if _, fire, ok := sh.timers.event.top(); ok && fire <= sh.at {
		return true, at
	}
	if _, end, ok := sh.groups.due.top(); ok && end < sh.at {
		return true, at
	}
	if _, fire, ok := sh.timers.clock.top(); ok {
		at = fire.ToTime()
		return !at.After(now), at
	}
	return false, at
}

// start starts the next bundle of a shard.
func (e *engine) start(sh *shard, now time.Time) {
	if e.books != nil && !sh.stage.source && !e.books.SetBusy() {
		e.stalled = true
		return
	}
	e.busy++
	e.begun++
	b := &bundle{id: "b" + strconv.Itoa(e.begun), shard: sh, at: sh.at}
	sh.busy = true
	sh.begun++
	e.take(b, now)
	window := func(t *timer) *windowStates { return sh.states.windows[t.window] }
	b.fired = append(sh.timers.due(&sh.timers.event, sh.at, window), sh.timers.due(&sh.timers.clock, mtime.FromTime(now), window)...)
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

// take moves elements of the queue to a bundle: one restriction, or all elements, up to
// maxKeyed where they have keys.
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
	sh.least = mtime.MaxTimestamp
	for _, waiting := range [][]element{sh.queue, sh.blocked} {
		for _, el := range waiting {
			sh.least = min(sh.least, el.hold)
		}
	}
}

// tooLate reports whether the watermark has passed the windows of an element and the allowed
// lateness, so that the states of the windows are forgotten. A grouping drops such elements
// itself, window by window.
func (sh *shard) tooLate(el element) bool {
	return sh.stage.keyed && sh.stage.group == nil && !slices.ContainsFunc(el.windows, func(w typex.Window) bool {
		return w.MaxTimestamp() == mtime.EndOfGlobalWindowTime || w.MaxTimestamp()+sh.stage.lateness >= sh.at
	})
}

// finish takes up what a bundle has done.
func (e *engine) finish(b *bundle, err error) {
	sh := b.shard
	sh.busy = false
	e.busy--
	clear(b.elements) // the queue may go on in the same array
	// The SDK hands them over in a random order. Those of one time fire in this one.
	slices.SortFunc(b.set, func(t, o *timer) int {
		return cmp.Or(cmp.Compare(t.family.step, o.family.step), cmp.Compare(t.family.name, o.family.name), cmp.Compare(t.of, o.of))
	})
	for _, t := range b.set {
		if err != nil {
			break
		}
		var in *windowStates
		if in, err = sh.states.of(sh.stage, []byte(t.window)); err == nil {
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
	sh.states.forget(sh.at)
}
