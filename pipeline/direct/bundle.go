package direct

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"

	"hafvf/internal/account"
)

// An element is one of a collection, or several of one time and the same windows.
type element struct {
	bytes   []byte // encoded, each with its header
	at      mtime.Time
	windows []typex.Window
	key     string     // encoded, of a pair
	value   []byte     // encoded, of a pair
	hold    mtime.Time // of the watermark, while the element waits
	ready   time.Time  // when the rest of a restriction may be processed; zero for at once
}

// parse reads the header of an encoded element, and the key of a pair.
func (c *collection) parse(b []byte) (e element, err error) {
	r := bytes.NewReader(b)
	e.bytes = b
	if e.windows, e.at, _, err = exec.DecodeWindowedValueHeader(c.winDec, r); err != nil {
		return e, err
	}
	e.hold = e.at
	if c.key == nil {
		return e, nil
	}
	from := len(b) - r.Len()
	if _, err := c.key.Decode(r); err != nil {
		return e, err
	}
	to := len(b) - r.Len()
	e.key, e.value = string(b[from:to]), b[to:]
	return e, nil
}

// converter returns what encodes the elements of a collection as those of another one. It is
// nil if they are encoded alike.
func converter(from, to *collection) func([]byte) ([]byte, error) {
	if from.coder.Equals(to.coder) {
		return nil
	}
	decode, encode := exec.MakeElementDecoder(from.coder), exec.MakeElementEncoder(to.coder)
	return func(b []byte) ([]byte, error) {
		r := bytes.NewReader(b)
		if _, _, _, err := exec.DecodeWindowedValueHeader(from.winDec, r); err != nil {
			return nil, err
		}
		header := len(b) - r.Len()
		v, err := decode.Decode(r)
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		out.Write(b[:header])
		err = encode.Encode(v, &out)
		return out.Bytes(), err
	}
}

// A bundle is what a shard processes at once. It is to the SDK what the channels of data and
// state are in a worker.
type bundle struct {
	id       string
	shard    *shard
	elements []element
	fired    []*timer
	at       mtime.Time      // watermark
	books    *account.Bundle // of a source; nil for none

	mu      sync.Mutex
	outs    []output
	grouped []output // for GroupByKeys alone
	set     []*timer
	err     error // of a timer that a function has set; the SDK passes over it

	residuals []element // of restrictions
}

// An output is an element that a bundle has put out.
type output struct {
	to *collection
	element
}

// process processes the bundle.
func (b *bundle) process(ctx context.Context, e *engine) error {
	s := b.shard.stage
	if s.group != nil {
		panes, err := s.group.run(b.shard.groups, b.elements, b.at)
		for _, p := range panes {
			if err == nil {
				err = b.put(e, s.group.out, p)
			}
		}
		return err
	}
	plan, err := b.shard.currentPlan()
	if err != nil {
		return err
	}
	ctx = metrics.SetBundleID(ctx, b.id)
	if err := plan.Execute(ctx, b.id, exec.DataContext{Data: channels{b, e}, State: b}); err != nil {
		return stepError(err, e.totals.names, b.shard.blame.Load())
	}
	if err := context.Cause(ctx); err != nil {
		return err // the SDK then ends a bundle as if there were no more elements
	}
	if b.err != nil {
		return b.err
	}
	if err := b.keepResiduals(plan.Checkpoint()); err != nil {
		return err
	}
	e.totals.add(metrics.GetStore(ctx))
	b.finalize(ctx, plan)
	return nil
}

// currentPlan is the plan by which a shard processes its bundles.
func (sh *shard) currentPlan() (_ *exec.Plan, err error) {
	if sh.plan == nil {
		if sh.plan, err = exec.UnmarshalPlan(sh.stage.descriptor, nil); err == nil {
			sh.blame.Store(watch(sh.plan, sh.stage))
		}
	}
	return sh.plan, err
}

// down tears the plan down, on a goroutine of its own, which a function may end.
func (sh *shard) down(ctx context.Context) error {
	err := errExited
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = sh.plan.Down(ctx)
	}()
	<-done
	return err
}

// keepResiduals keeps what is left of the restrictions of the bundle.
func (b *bundle) keepResiduals(checkpoints []*exec.Checkpoint) error {
	for _, c := range checkpoints {
		hold := mtime.MaxTimestamp
		for _, w := range c.SR.OW {
			hold = min(hold, mtime.FromTime(w.AsTime()))
		}
		for _, encoded := range c.SR.RS {
			e, err := b.shard.stage.input.parse(encoded)
			if err != nil {
				return err
			}
			if len(c.SR.OW) > 0 {
				e.hold = hold
			}
			if c.Reapply > 0 {
				e.ready = time.Now().Add(c.Reapply)
			}
			b.residuals = append(b.residuals, e)
		}
	}
	return nil
}

// finalize calls the functions that wanted to know when the bundle is safe. They are called
// once. A plan calls those of its first bundle alone (Beam 2.77.0: Plan.Finalize gives the
// plan another list than its units have), so the next bundle gets a new plan.
func (b *bundle) finalize(ctx context.Context, plan *exec.Plan) {
	if !time.Now().Before(plan.GetExpirationTime()) {
		return
	}
	if err := finalized(plan); err != nil {
		log.Warnf(ctx, "direct: %s: a bundle could not be finalized: %v", b.shard.stage.name, err)
	}
	if err := plan.Down(ctx); err != nil {
		log.Warnf(ctx, "direct: %s: %v", b.shard.stage.name, err)
	}
	b.shard.plan = nil
}

// finalized finalizes a plan. Beam guards no callback against a panic.
func finalized(plan *exec.Plan) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return plan.Finalize()
}

// channels are an exec.DataManager.
type channels struct {
	*bundle
	engine *engine
}

// OpenElementChan implements exec.DataManager: elements come before timers.
func (b channels) OpenElementChan(_ context.Context, id exec.StreamID, _ []string) (<-chan exec.Elements, error) {
	c := make(chan exec.Elements, len(b.elements)+len(b.fired))
	for _, e := range b.elements {
		c <- exec.Elements{Data: e.bytes, PtransformID: id.PtransformID}
	}
	for _, t := range b.fired {
		c <- exec.Elements{Timers: t.bytes, TimerFamilyID: t.family.name, PtransformID: t.family.step}
	}
	close(c)
	return c, nil
}

// OpenWrite implements exec.DataManager. An exec.DataSink makes one write of each element,
// from a buffer of its own.
func (b channels) OpenWrite(_ context.Context, id exec.StreamID) (io.WriteCloser, error) {
	to := b.shard.stage.sinks[id.PtransformID]
	return writer(func(p []byte) error { return b.put(b.engine, to, p) }), nil
}

// maxJoined is the size in bytes up to which elements are joined. A run that is cancelled still
// processes those that are joined with the one at hand.
const maxJoined = 1 << 10

// join adds other to the element, if both may pass as one.
func (e *element) join(other element) bool {
	same := func(a, b typex.Window) bool { return a.Equals(b) }
	if e.hold != other.hold || len(e.bytes)+len(other.bytes) > maxJoined || !slices.EqualFunc(e.windows, other.windows, same) {
		return false
	}
	e.bytes = append(e.bytes, other.bytes...)
	return true
}

// maxPending is how many elements a bundle holds back for GroupByKeys until it ends.
const maxPending = 1 << 12

// put puts an encoded element out. What only GroupByKeys take goes there while the bundle runs: it
// holds the watermark, so that no group is complete before it ends, and a group takes less memory
// than its elements do.
func (b *bundle) put(e *engine, to *collection, p []byte) error {
	el, err := to.parse(p)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !to.grouped() {
		if n := len(b.outs); n == 0 || b.outs[n-1].to != to || !to.joins() || !b.outs[n-1].join(el) {
			b.outs = append(b.outs, output{to, el})
		}
		return nil
	}
	// What an account does not know of yet is not shown before it does.
	if b.grouped = append(b.grouped, output{to, el}); len(b.grouped) < maxPending || b.books != nil {
		return nil
	}
	e.locked(func() { err = e.deliverAll(b.grouped) })
	clear(b.grouped)
	b.grouped = b.grouped[:0]
	return err
}

// OpenTimerWrite implements exec.DataManager.
func (b channels) OpenTimerWrite(_ context.Context, id exec.StreamID, name string) (io.WriteCloser, error) {
	family := timerFamily{id.PtransformID, name}
	c, ok := b.shard.stage.timers[family]
	if !ok {
		return nil, fmt.Errorf("%s: there are no timers of the family %s", b.shard.stage.name, name)
	}
	return writer(func(p []byte) error {
		t, err := c.parse(family, p)
		b.mu.Lock()
		defer b.mu.Unlock()
		if err != nil {
			b.err = fmt.Errorf("%s: a timer of the family %s: %w", b.shard.stage.name, name, err)
			return err
		}
		b.set = append(b.set, t)
		return nil
	}), nil
}
