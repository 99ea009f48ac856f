package direct

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/teststream"
	"pgregory.net/rapid"

	"hafvf/internal/pipelineproto"
	"hafvf/internal/testing/expect"
)

func init() {
	register.DoFn4x1[state.Provider, timers.Provider, string, int, error](&windowedFn{})
	register.Function1x2(pair)
	register.Function2x0(take)
	register.Function2x0(withSide)
	register.Function1x0(gated)
	register.Function1x1(flood)
}

// engineOf returns an engine of the pipeline that build builds.
func engineOf(t *testing.T, build func(s beam.Scope)) *engine {
	t.Helper()
	p, s := beam.NewPipelineWithRoot()
	build(s)
	pb := expect.Get(pipelineproto.Marshal(p, "", nil))(t)
	translated := expect.Get(translate(pb))(t)
	return newEngine(t.Context(), translated, Runner{Shards: 2, Grace: time.Minute})
}

// windowedFn has a state and a timer in each window.
type windowedFn struct {
	Sum  state.Value[int]
	Soon timers.EventTime
}

func (fn *windowedFn) ProcessElement(sp state.Provider, tp timers.Provider, _ string, v int) error {
	fn.Soon.Set(tp, mtime.Time(v).ToTime())
	return fn.Sum.Write(sp, v)
}

func (fn *windowedFn) OnTimer(sp state.Provider, _ timers.Provider, _ string, _ timers.Context) error {
	return fn.Sum.Clear(sp)
}

func pair(i int) (string, int)          { return fmt.Sprint("k", i%7), i }
func take(string, func(*int) bool)      {}
func withSide(_ int, _ func(*int) bool) {}

// TestMemoryOfWindows checks that memory does not grow with time: of 2,000 windows, only those that the watermark has
// not passed are stored.
func TestMemoryOfWindows(t *testing.T) {
	const windows = 2000
	e := engineOf(t, func(s beam.Scope) {
		c := teststream.NewConfig()
		for i := range windows {
			expect.OK(t, c.AddElements(int64(i)*1000, i*1000))
			expect.OK(t, c.AdvanceWatermark(int64(i)*1000))
		}
		in := beam.WindowInto(s, window.NewFixedWindows(time.Second), teststream.Create(s, c), beam.AllowedLateness(5*time.Second))
		pairs := beam.ParDo(s, pair, in)
		beam.ParDo0(s, &windowedFn{state.MakeValueState[int]("sum"), timers.InEventTime("soon")}, pairs)
		beam.ParDo0(s, take, beam.GroupByKey(s, pairs))
		beam.ParDo0(s, withSide, in, beam.SideInput{Input: in})
	})
	peak := map[string]int{}
	count := func() {
		for _, s := range e.stages {
			for _, sh := range s.shards {
				if sh.busy {
					continue
				}
				peak["windows with states"] = max(peak["windows with states"], len(sh.states.windows))
				peak["timers"] = max(peak["timers"], len(sh.timers.byName))
				peak["entries of queues"] = max(peak["entries of queues"], len(sh.timers.event.entries), len(sh.timers.holds.entries), len(sh.groups.over.entries))
				groups := 0
				for _, ws := range sh.groups.byKey {
					groups += len(ws)
				}
				peak["windows of groups"] = max(peak["windows of groups"], groups)
			}
			for _, side := range s.sides {
				peak["windows of side inputs"] = max(peak["windows of side inputs"], len(side.windows))
			}
		}
	}
	stop := make(chan struct{})
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				e.mu.Lock()
				count()
				e.mu.Unlock()
			}
		}
	}()
	expect.Get(e.run())(t)
	close(stop)
	<-counted
	for _, name := range []string{"windows with states", "timers", "entries of queues", "windows of groups", "windows of side inputs"} {
		if n := peak[name]; n == 0 || n > 130 {
			t.Errorf("%d %s at most, of a stream of %d windows with 6 that are open", n, name, windows)
		}
	}
}

// flooded is the number of calls of flood. gated waits until gate is closed.
var (
	flooded atomic.Int64
	gate    chan struct{}
)

// flood returns a megabyte for a number.
func flood(int) []byte {
	flooded.Add(1)
	return make([]byte, 1<<20)
}

func gated([]byte) { <-gate }

// TestBackPressure checks that a source is not called while too many bytes wait.
func TestBackPressure(t *testing.T) {
	const calls = 300
	flooded.Store(0)
	gate = make(chan struct{})
	e := engineOf(t, func(s beam.Scope) {
		numbers := beam.ParDo(s, &countFn{N: calls}, beam.Impulse(s))
		beam.ParDo0(s, gated, beam.Reshuffle(s, beam.ParDo(s, flood, numbers)))
	})
	queued := func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.queued
	}
	go func() {
		defer close(gate)
		for queued() <= maxQueued {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond)
		// One more call may have been in progress.
		if n, maxCalls := flooded.Load(), int64(maxQueued>>20+4); n > maxCalls {
			t.Errorf("%d calls of a megabyte each while nothing could go on, want at most %d", n, maxCalls)
		}
	}()
	expect.Get(e.run())(t)
	expect.Same(t, int64(calls), flooded.Load(), "calls")
}

// TestTimeQueue checks that a timeQueue returns values by time, and values with equal times in the order of push.
func TestTimeQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type item struct {
			time, n int
			dropped bool
		}
		q := timeQueue[*item]{dropped: func(i *item) bool { return i.dropped }}
		var items []*item
		for n := range rapid.IntRange(0, 500).Draw(t, "n") {
			i := &item{time: rapid.IntRange(0, 9).Draw(t, "at"), n: n}
			items = append(items, i)
			q.push(i, mtime.Time(i.time))
			if rapid.Bool().Draw(t, "goes") {
				items[rapid.IntRange(0, n).Draw(t, "which")].dropped = true
			}
		}
		left := 0
		for _, i := range items {
			if !i.dropped {
				left++
			}
		}
		last := &item{time: -1}
		for ; left > 0; left-- {
			i, got, ok := q.top()
			if !ok || i.dropped || int(got) != i.time || i.time < last.time || i.time == last.time && i.n < last.n {
				t.Fatalf("%+v at %v, %t, after %+v", i, got, ok, last)
			}
			q.pop()
			last = i
		}
		if i, _, ok := q.top(); ok {
			t.Fatalf("%+v is left over", i)
		}
	})
}

// TestKeyedBundles checks that a function with states takes a part of the queue, and that the rest holds the
// watermark.
func TestKeyedBundles(t *testing.T) {
	sh := &shard{stage: &stage{keyed: true}}
	for i := range mtime.Time(maxKeyed + 2) {
		sh.queue = append(sh.queue, element{windows: window.SingleGlobalWindow, hold: i, bytes: []byte{0}})
	}
	e := &engine{queued: len(sh.queue)}
	b := &bundle{shard: sh}
	e.take(b, time.Time{})
	if len(b.elements) != maxKeyed || len(sh.queue) != 2 || sh.minHold != maxKeyed || e.queued != 2 {
		t.Errorf("%d are taken, %d wait and hold at %d, %d bytes", len(b.elements), len(sh.queue), sh.minHold, e.queued)
	}
	sh.queue = append(sh.queue, element{windows: window.SingleGlobalWindow})
	if e.take(b, time.Time{}); len(b.elements) != 3 || len(sh.queue) != 0 || sh.minHold != mtime.MaxTimestamp {
		t.Errorf("%d are taken, %d wait and hold at %d", len(b.elements), len(sh.queue), sh.minHold)
	}
}
