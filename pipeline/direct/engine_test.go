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
	register.Function2x0(beside)
	register.Function1x0(gated)
	register.Function1x1(flood)
}

// engineOf returns an engine of the pipeline that build adds to.
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

func pair(i int) (string, int)        { return fmt.Sprint("k", i%7), i }
func take(string, func(*int) bool)    {}
func beside(_ int, _ func(*int) bool) {}

// Memory does not grow with time: of 2,000 windows that a stream goes through only those are
// kept that the watermark has not passed.
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
		beam.ParDo0(s, beside, in, beam.SideInput{Input: in})
	})
	most := map[string]int{}
	count := func() {
		for _, s := range e.stages {
			for _, sh := range s.shards {
				if sh.busy {
					continue
				}
				most["windows with states"] = max(most["windows with states"], len(sh.states.windows))
				most["timers"] = max(most["timers"], len(sh.timers.byName))
				most["entries of queues"] = max(most["entries of queues"], len(sh.timers.event.entries), len(sh.timers.holds.entries), len(sh.groups.over.entries))
				groups := 0
				for _, all := range sh.groups.byKey {
					groups += len(all)
				}
				most["windows of groups"] = max(most["windows of groups"], groups)
			}
			for _, side := range s.sides {
				most["windows of side inputs"] = max(most["windows of side inputs"], len(side.windows))
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
	for _, what := range []string{"windows with states", "timers", "entries of queues", "windows of groups", "windows of side inputs"} {
		if n := most[what]; n == 0 || n > 130 {
			t.Errorf("%d %s at most, of a stream of %d windows with 6 that are open", n, what, windows)
		}
	}
}

// flooded is how often flood was called; gate opens the way for gated.
var (
	flooded atomic.Int64
	gate    chan struct{}
)

// flood makes a megabyte of a number.
func flood(int) []byte {
	flooded.Add(1)
	return make([]byte, 1<<20)
}

func gated([]byte) { <-gate }

// A source is not called while too many bytes wait.
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
		// One more may have been on its way.
		if n, most := flooded.Load(), int64(maxQueued>>20+4); n > most {
			t.Errorf("%d calls of a megabyte each while nothing could go on, want at most %d", n, most)
		}
	}()
	expect.Get(e.run())(t)
	expect.Same(t, int64(calls), flooded.Load(), "calls")
}

// A timeQueue gives back what is in it by time, and of one time in the order in which it came.
func TestTimeQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type item struct {
			at, n int
			gone  bool
		}
		q := timeQueue[*item]{gone: func(i *item) bool { return i.gone }}
		var all []*item
		for n := range rapid.IntRange(0, 500).Draw(t, "n") {
			i := &item{at: rapid.IntRange(0, 9).Draw(t, "at"), n: n}
			all = append(all, i)
			q.push(i, mtime.Time(i.at))
			if rapid.Bool().Draw(t, "goes") {
				all[rapid.IntRange(0, n).Draw(t, "which")].gone = true
			}
		}
		left := 0
		for _, i := range all {
			if !i.gone {
				left++
			}
		}
		last := &item{at: -1}
		for ; left > 0; left-- {
			i, at, ok := q.top()
			if !ok || i.gone || int(at) != i.at || i.at < last.at || i.at == last.at && i.n < last.n {
				t.Fatalf("%+v at %v, %t, after %+v", i, at, ok, last)
			}
			q.pop()
			last = i
		}
		if i, _, ok := q.top(); ok {
			t.Fatalf("%+v is left over", i)
		}
	})
}

// TestKeyedBundles: a function with states takes a part of what waits, and the rest holds the
// watermark.
func TestKeyedBundles(t *testing.T) {
	sh := &shard{stage: &stage{keyed: true}}
	for i := range mtime.Time(maxKeyed + 2) {
		sh.queue = append(sh.queue, element{windows: window.SingleGlobalWindow, hold: i, bytes: []byte{0}})
	}
	e := &engine{queued: len(sh.queue)}
	b := &bundle{shard: sh}
	e.take(b, time.Time{})
	if len(b.elements) != maxKeyed || len(sh.queue) != 2 || sh.least != maxKeyed || e.queued != 2 {
		t.Errorf("%d are taken, %d wait and hold at %d, %d bytes", len(b.elements), len(sh.queue), sh.least, e.queued)
	}
	sh.queue = append(sh.queue, element{windows: window.SingleGlobalWindow})
	if e.take(b, time.Time{}); len(b.elements) != 3 || len(sh.queue) != 0 || sh.least != mtime.MaxTimestamp {
		t.Errorf("%d are taken, %d wait and hold at %d", len(b.elements), len(sh.queue), sh.least)
	}
}
