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

// An element is one element of a collection, or several with the same time and windows.
type element struct {
	bytes   []byte // encoded elements, each with its header
	time    mtime.Time
	windows []typex.Window
	key     string     // encoded key of a pair
	value   []byte     // encoded value of a pair
	hold    mtime.Time // the watermark stays at or before this time while the element waits
	ready   time.Time  // time at which the rest of a restriction may be processed; zero means now
}

// parse parses the header of an encoded element and, where keys are needed, the key of a pair.
func (c *collection) parse(b []byte) (e element, err error) {
	r := bytes.NewReader(b)
	e.bytes = b
	if e.windows, e.time, _, err = exec.DecodeWindowedValueHeader(c.winDec, r); err != nil {
		return e, err
	}
	e.hold = e.time
	if c.key == nil {
		return e, nil
	}
	from := len(b) - r.Len()
	if _, err := c.key.Decode(r); err != nil {
		return e, err
	}
	end := len(b) - r.Len()
	e.key, e.value = string(b[from:end]), b[end:]
	return e, nil
}

// converter returns a function that converts encoded elements of src to the coder of dst. It returns nil if both have
// the same coder.
func converter(src, dst *collection) func([]byte) ([]byte, error) {
	if src.coder.Equals(dst.coder) {
		return nil
	}
	decode, encode := exec.MakeElementDecoder(src.coder), exec.MakeElementEncoder(dst.coder)
	return func(b []byte) ([]byte, error) {
		r := bytes.NewReader(b)
		if _, _, _, err := exec.DecodeWindowedValueHeader(src.winDec, r); err != nil {
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

// A bundle is the work that a shard processes at once. For the SDK it takes the place of a worker's data and state
// channels.
type bundle struct {
	id        string
	shard     *shard
	elements  []element
	fired     []*timer
	watermark mtime.Time      // watermark of the shard at the start
	books     *account.Bundle // of a source in a run with an account; else nil

	mu      sync.Mutex
	outs    []output
	grouped []output // output that only GroupByKeys consume
	set     []*timer
	err     error // error of a timer that a function has set; the SDK ignores it

	residuals []element // unprocessed rest of restrictions
}

// An output is an element that a bundle has emitted.
type output struct {
	dst *collection
	element
}

// process processes the bundle.
func (b *bundle) process(ctx context.Context, e *engine) error {
	s := b.shard.stage
	if s.group != nil {
		panes, err := s.group.run(b.shard.groups, b.elements, b.watermark)
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
		return err // the SDK ends a cancelled bundle as if there were no more elements
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

// currentPlan returns the plan of the shard's bundles, which it makes if necessary.
func (sh *shard) currentPlan() (_ *exec.Plan, err error) {
	if sh.plan == nil {
		if sh.plan, err = exec.UnmarshalPlan(sh.stage.descriptor, nil); err == nil {
			sh.blame.Store(watch(sh.plan, sh.stage))
		}
	}
	return sh.plan, err
}

// tearDown tears the plan down. It does so in a new goroutine, because a function may end its goroutine.
func (sh *shard) tearDown(ctx context.Context) error {
	err := errExited
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = sh.plan.Down(ctx)
	}()
	<-done
	return err
}

// keepResiduals stores the unprocessed rest of the bundle's restrictions.
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

// finalize calls the functions that are registered for the end of the bundle. Each is called once. Plan.Finalize only
// calls the functions of a plan's first bundle (Beam 2.77.0: it gives the plan a different list than its units have),
// so the next bundle gets a new plan.
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

// finalized finalizes a plan. It recovers a panic of a callback, which Beam does not.
func finalized(plan *exec.Plan) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return plan.Finalize()
}

// channels implements exec.DataManager.
type channels struct {
	*bundle
	engine *engine
}

// OpenElementChan implements exec.DataManager. Elements come before timers.
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

// OpenWrite implements exec.DataManager. An exec.DataSink writes each element in one call, from its own buffer.
func (b channels) OpenWrite(_ context.Context, id exec.StreamID) (io.WriteCloser, error) {
	dst := b.shard.stage.sinks[id.PtransformID]
	return writer(func(p []byte) error { return b.put(b.engine, dst, p) }), nil
}

// maxJoined is the maximum size in bytes of joined elements. A run that is cancelled still processes all elements
// that are joined with the current one.
const maxJoined = 1 << 10

// join adds other to the element. It returns false if they must stay separate.
func (e *element) join(other element) bool {
	same := func(a, b typex.Window) bool { return a.Equals(b) }
	if e.hold != other.hold || len(e.bytes)+len(other.bytes) > maxJoined || !slices.EqualFunc(e.windows, other.windows, same) {
		return false
	}
	e.bytes = append(e.bytes, other.bytes...)
	return true
}

// maxPending is the number of elements at which a bundle delivers output for GroupByKeys before it ends.
const maxPending = 1 << 12

// put adds an encoded element to the output. Output that only GroupByKeys consume may be delivered while the bundle
// runs: the bundle holds the watermark, so no group is complete before the bundle ends, and a group takes less memory
// than its elements.
func (b *bundle) put(e *engine, dst *collection, p []byte) error {
	el, err := dst.parse(p)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !dst.grouped() {
		if n := len(b.outs); n == 0 || b.outs[n-1].dst != dst || !dst.joins() || !b.outs[n-1].join(el) {
			b.outs = append(b.outs, output{dst, el})
		}
		return nil
	}
	// In a run with an account, the output of a source is not delivered before the account knows of it.
	if b.grouped = append(b.grouped, output{dst, el}); len(b.grouped) < maxPending || b.books != nil {
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
		return nil, fmt.Errorf("%s: unknown timer family %s", b.shard.stage.name, name)
	}
	return writer(func(p []byte) error {
		t, err := c.parse(family, p)
		b.mu.Lock()
		defer b.mu.Unlock()
		if err != nil {
			b.err = fmt.Errorf("%s: invalid timer of the family %s: %w", b.shard.stage.name, name, err)
			return err
		}
		b.set = append(b.set, t)
		return nil
	}), nil
}
