package direct

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/teststream"

	"hafvf/internal/account"
	"hafvf/internal/testing/expect"
)

func init() {
	register.Function1x1(came)
	register.Function2x1(asks)
	register.Function2x1(sets)
	register.Function2x0(fired)
	register.Function2x0(joined)
	register.DoFn3x1[state.Provider, string, int, error](&oddFn{})
	register.DoFn2x1[*sdf.LockRTracker, int, sdf.ProcessContinuation](&partsFn{})
}

// events are the actions of a run's steps and its account, in order.
var events struct {
	sync.Mutex
	names []string
}

func happens(event string) {
	events.Lock()
	defer events.Unlock()
	if n := len(events.names); n == 0 || events.names[n-1] != event {
		events.names = append(events.names, event)
	}
}

func came(n int) int {
	happens(fmt.Sprint("came ", n))
	return n
}

// asks records whether the account of the run waits for the watermark to pass the end of the first second.
func asks(ctx context.Context, n int) int {
	run, end := account.From(ctx), time.Unix(1, 0)
	happens(fmt.Sprint(n, " ", run.HasTimerBy(end.Add(-time.Millisecond)), " ", run.HasTimerBy(end)))
	return n
}

// sets changes a runtime setting with the first element.
func sets(ctx context.Context, n int) int {
	if n == 1 {
		account.From(ctx).SetRuntimeSetting("k", nil, func() { happens("applied") })
	}
	return came(n)
}

func fired(string, func(*int) bool) { happens("fired") }

func joined(_ int, _ func(*int) bool) { happens("joined") }

// An oddFn stores an odd number until the next even number.
type oddFn struct {
	Map  state.Map[string, int]
	Last state.Value[int]
}

func (fn *oddFn) ProcessElement(sp state.Provider, key string, n int) error {
	if n%2 == 1 {
		if err := fn.Last.Write(sp, n); err != nil {
			return err
		}
		return fn.Map.Put(sp, key, n)
	}
	if err := fn.Map.Remove(sp, key); err != nil {
		return err
	}
	return fn.Last.Clear(sp)
}

// A partsFn processes an element in three calls.
type partsFn struct{}

func (*partsFn) CreateInitialRestriction(int) offsetrange.Restriction {
	return offsetrange.Restriction{End: 3}
}
func (*partsFn) SplitRestriction(_ int, r offsetrange.Restriction) []offsetrange.Restriction {
	return []offsetrange.Restriction{r}
}
func (*partsFn) RestrictionSize(int, offsetrange.Restriction) float64 { return 1 }
func (*partsFn) CreateTracker(r offsetrange.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(offsetrange.NewTracker(r))
}

func (*partsFn) ProcessElement(rt *sdf.LockRTracker, _ int) sdf.ProcessContinuation {
	start := rt.GetRestriction().(offsetrange.Restriction).Start
	rt.TryClaim(start)
	happens(fmt.Sprint("part ", start))
	if start == 2 {
		return sdf.StopProcessing()
	}
	return sdf.ResumeProcessingIn(0)
}

// TestSettled checks that the account of a run is settled when all elements are processed and no step buffers
// anything: a grouping, elements that wait for a side input, unreported states, or the rest of an element.
func TestSettled(t *testing.T) {
	for name, c := range map[string]struct {
		build func(s beam.Scope, numbers beam.PCollection)
		want  []string
	}{
		"nothing": {func(beam.Scope, beam.PCollection) {},
			[]string{"settled", "came 1", "settled", "came 2", "settled", "came 3", "settled"}},
		"grouping": {func(s beam.Scope, numbers beam.PCollection) {
			beam.ParDo0(s, fired, beam.GroupByKey(s, beam.ParDo(s, pair, numbers)))
		}, []string{"settled", "came 1", "fired", "settled", "came 2", "fired", "settled", "came 3", "fired", "settled"}},
		"side input": {func(s beam.Scope, numbers beam.PCollection) {
			beam.ParDo0(s, joined, numbers, beam.SideInput{Input: numbers})
		}, []string{"settled", "came 1", "joined", "settled", "came 2", "joined", "settled", "came 3", "joined", "settled"}},
		"states": {func(s beam.Scope, numbers beam.PCollection) {
			global := beam.WindowInto(s, window.NewGlobalWindows(), numbers)
			beam.ParDo0(s, &oddFn{state.MakeMapState[string, int]("map"), state.MakeValueState[int]("last")}, beam.ParDo(s, oneKey, global))
		}, []string{"settled", "came 1", "came 2", "settled", "came 3", "settled"}},
		"states of windows": {func(s beam.Scope, numbers beam.PCollection) {
			beam.ParDo0(s, &oddFn{state.MakeMapState[string, int]("map"), state.MakeValueState[int]("last")}, beam.ParDo(s, oneKey, numbers))
		}, []string{"settled", "came 1", "settled", "came 2", "settled", "came 3", "settled"}},
		"parts": {func(s beam.Scope, numbers beam.PCollection) { beam.ParDo0(s, &partsFn{}, numbers) },
			[]string{"settled", "came 1", "part 0", "part 1", "part 2", "settled", "came 2", "part 0", "part 1", "part 2", "settled", "came 3", "part 0", "part 1", "part 2", "settled"}},
	} {
		t.Run(name, func(t *testing.T) {
			events.names = nil
			run := account.Open(account.StateKeeper{Committed: func(map[string]account.EncodedState, time.Time) { happens("settled") }})
			defer run.Close()
			stream := teststream.NewConfig()
			for i := range 3 {
				expect.OK(t, stream.AddElements(int64(i)*2000, i+1))
				expect.OK(t, stream.AdvanceWatermark(int64(i+1)*2000))
			}
			stream.AdvanceWatermarkToInfinity()
			p, s := beam.NewPipelineWithRoot()
			c.build(s, beam.WindowInto(s, window.NewFixedWindows(time.Second), beam.ParDo(s, came, teststream.Create(s, stream))))
			expect.Get(Execute(run.In(t.Context()), p))(t)
			if !slices.Equal(events.names, c.want) {
				t.Errorf("%q\nwant %q", events.names, c.want)
			}
		})
	}
}

// TestAwaited checks that the account knows the next watermark at which there is something to do, here the end of a
// window for a grouping. A source that moves its watermark in steps uses this.
func TestAwaited(t *testing.T) {
	events.names = nil
	run := account.Open(account.StateKeeper{})
	defer run.Close()
	stream := teststream.NewConfig()
	for i := range 2 {
		expect.OK(t, stream.AddElements(int64(i), i+1))
	}
	expect.OK(t, stream.AdvanceWatermark(2000))
	expect.OK(t, stream.AddElements(2000, 3))
	stream.AdvanceWatermarkToInfinity()
	p, s := beam.NewPipelineWithRoot()
	numbers := beam.WindowInto(s, window.NewFixedWindows(time.Second), beam.ParDo(s, asks, teststream.Create(s, stream)))
	beam.ParDo0(s, fired, beam.GroupByKey(s, beam.ParDo(s, pair, numbers)))
	expect.Get(Execute(run.In(t.Context()), p))(t)
	if want := []string{"1 false false", "2 false true", "fired", "3 false false", "fired"}; !slices.Equal(events.names, want) {
		t.Errorf("%q\nwant %q", events.names, want)
	}
}

// TestRuntimeSettings checks that no element is processed while a runtime setting is committed.
func TestRuntimeSettings(t *testing.T) {
	events.names = nil
	run := account.Open(account.StateKeeper{Commit: func() error {
		time.Sleep(20 * time.Millisecond)
		happens("committed")
		return nil
	}})
	defer run.Close()
	stream := teststream.NewConfig()
	for i := range 2 {
		expect.OK(t, stream.AddElements(int64(i), i+1))
		expect.OK(t, stream.AdvanceWatermark(int64(i+1)*2000))
	}
	stream.AdvanceWatermarkToInfinity()
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo(s, sets, teststream.Create(s, stream))
	expect.Get(Execute(run.In(t.Context()), p))(t)
	if want := []string{"came 1", "committed", "applied", "came 2"}; !slices.Equal(events.names, want) {
		t.Errorf("%q\nwant %q", events.names, want)
	}
}
