package direct

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/teststream"

	"hafvf/internal/testing/expect"
)

func init() {
	register.DoFn2x0[context.Context, int](&waitFn{})
	register.DoFn4x1[context.Context, *sdf.LockRTracker, []byte, func(int), sdf.ProcessContinuation](&countFn{})
	register.DoFn2x0[beam.BundleFinalization, int](&finalizedFn{})
	register.DoFn3x1[state.Provider, string, int, error](&sumFn{})
	register.Function1x1(seen)
	register.Function1x2(oneKey)
	register.Function1x2(ownKey)
	register.DoFn3x1[timers.Provider, string, int, error](&alarmFn{})
	register.Function4x0(noteGroup)
	register.Function2x0(noteSides)
	register.Function2x1(measure)
	register.Function1x1(pick)
	register.Function1x1(name)
	register.Emitter1[int]()
	register.Iter1[int]()
}

// notes are the texts that the functions of a test have recorded, in order.
var notes struct {
	sync.Mutex
	texts []string
}

func note(format string, args ...any) {
	notes.Lock()
	defer notes.Unlock()
	notes.texts = append(notes.texts, fmt.Sprintf(format, args...))
}

func noted() []string {
	notes.Lock()
	defer notes.Unlock()
	texts := notes.texts
	notes.texts = nil
	return texts
}

// waitFn waits for the end of its context, or ignores it.
type waitFn struct{ How string }

// release ends the functions that ignore their context.
var release chan struct{}

func (fn *waitFn) ProcessElement(ctx context.Context, _ int) {
	note("waits")
	if fn.How == "obeys" {
		<-ctx.Done()
		return
	}
	<-release
}

func waiting(how string) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo0(s, &waitFn{how}, beam.Create(s, 7))
	return p
}

func TestCancelled(t *testing.T) {
	cause := errors.New("enough")
	release = make(chan struct{})
	defer close(release)
	for how, grace := range map[string]time.Duration{"obeys": time.Hour, "ignores its context": 50 * time.Millisecond} {
		t.Run(how, func(t *testing.T) {
			noted()
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				for len(noted()) == 0 {
					time.Sleep(time.Millisecond)
				}
				cancel(cause)
			}()
			if _, err := (Runner{Grace: grace}).Execute(ctx, waiting(how)); err != cause {
				t.Errorf("error %v, want the cause %v", err, cause)
			}
		})
	}
}

func TestRegistered(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	passert.Equals(s, beam.Create(s, 1, 2), 1, 2)
	if _, err := beam.Run(t.Context(), "direct", p); err != nil {
		t.Error(err)
	}
}

// TestNoSocket checks that the runner opens no port: the process has the same number of sockets while a pipeline
// runs.
func TestNoSocket(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/proc names the sockets of a process on Linux alone")
	}
	sockets := func() (n int) {
		fds := expect.Get(os.ReadDir("/proc/self/fd"))(t)
		for _, fd := range fds {
			if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(target, "socket:") {
				n++
			}
		}
		return n
	}
	before, during := sockets(), -1
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for len(noted()) == 0 {
			time.Sleep(time.Millisecond)
		}
		during = sockets()
		cancel()
	}()
	Execute(ctx, waiting("obeys"))
	expect.Same(t, before, during, "sockets while a pipeline runs")
}

// stream runs a pipeline over a TestStream of whole numbers, and returns the notes of its functions.
func stream(t *testing.T, events func(c *teststream.Config), build func(s beam.Scope, numbers beam.PCollection)) []string {
	t.Helper()
	noted()
	c := teststream.NewConfig()
	events(&c)
	p, s := beam.NewPipelineWithRoot()
	build(s, teststream.Create(s, c))
	execute(t, Runner{}, p)
	return noted()
}

// add adds a number to a TestStream, at a time in seconds.
func add(t *testing.T, c *teststream.Config, seconds int, number int) {
	t.Helper()
	expect.OK(t, c.AddElements(int64(seconds)*1000, number))
}

func seen(i int) int {
	note("seen %d", i)
	return i
}

// execute runs a pipeline that must not fail.
func execute(t *testing.T, r Runner, p *beam.Pipeline) {
	t.Helper()
	expect.Get(r.Execute(t.Context(), p))(t)
}

func oneKey(i int) (string, int) { return "k", i }

func noteGroup(pane beam.PaneInfo, w beam.Window, _ string, values func(*int) bool) {
	in := w.(window.IntervalWindow)
	var numbers []int
	for v := 0; values(&v); {
		numbers = append(numbers, v)
	}
	note("%d-%d: %v, pane %d, late %t", in.Start/1000, in.End/1000, numbers, pane.Index, pane.Timing == typex.PaneLate)
}

func noteSides(i int, side func(*int) bool) {
	sum := 0
	for v := 0; side(&v); {
		sum += v
	}
	note("%d beside %d", i, sum)
}

// TestSideInputPerWindow checks that a side input in windows is ready when its window has ended, while the stream
// continues.
func TestSideInputPerWindow(t *testing.T) {
	got := stream(t, func(c *teststream.Config) {
		add(t, c, 1, 1)
		add(t, c, 8, 10)
		c.AdvanceWatermark(15_000)
		add(t, c, 16, 100)
		c.AdvanceWatermarkToInfinity()
	}, func(s beam.Scope, numbers beam.PCollection) {
		in := beam.WindowInto(s, window.NewFixedWindows(10*time.Second), beam.ParDo(s, seen, numbers))
		beam.ParDo0(s, noteSides, in, beam.SideInput{Input: in})
	})
	want := []string{"seen 1", "seen 10", "1 beside 11", "10 beside 11", "seen 100", "100 beside 100"}
	expect.Same(t, want, got)
}

func TestPanes(t *testing.T) {
	events := func(c *teststream.Config) {
		add(t, c, 1, 1)
		add(t, c, 2, 2)
		c.AdvanceWatermark(11_000)
		add(t, c, 3, 3)
		add(t, c, 13, 4)
		c.AdvanceWatermark(16_000)
		add(t, c, 4, 5) // later than allowed
		c.AdvanceWatermarkToInfinity()
	}
	for name, c := range map[string]struct {
		panes beam.WindowIntoOption
		fn    *window.Fn
		want  []string
	}{
		"discarding": {beam.PanesDiscard(), window.NewFixedWindows(10 * time.Second), []string{
			"0-10: [1 2], pane 0, late false", "0-10: [3], pane 1, late true", "10-20: [4], pane 0, late false",
		}},
		"accumulating": {beam.PanesAccumulate(), window.NewFixedWindows(10 * time.Second), []string{
			"0-10: [1 2], pane 0, late false", "0-10: [1 2 3], pane 1, late true", "10-20: [4], pane 0, late false",
		}},
		"sessions, discarding": {beam.PanesDiscard(), window.NewSessions(5 * time.Second), []string{
			"1-7: [1 2], pane 0, late false", "1-8: [3], pane 1, late true", "13-18: [4], pane 0, late false",
		}},
		"sessions, accumulating": {beam.PanesAccumulate(), window.NewSessions(5 * time.Second), []string{
			"1-7: [1 2], pane 0, late false", "1-8: [1 2 3], pane 1, late true", "13-18: [4], pane 0, late false",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := stream(t, events, func(s beam.Scope, numbers beam.PCollection) {
				in := beam.WindowInto(s, c.fn, beam.ParDo(s, oneKey, numbers), c.panes, beam.AllowedLateness(5*time.Second))
				beam.ParDo0(s, noteGroup, beam.GroupByKey(s, in))
			})
			expect.Same(t, c.want, got)
		})
	}
}

// TestSessionsMerge checks that an element between two sessions merges them. The merged session has no pane before
// its end.
func TestSessionsMerge(t *testing.T) {
	got := stream(t, func(c *teststream.Config) {
		for _, seconds := range []int{1, 9, 20, 5} {
			add(t, c, seconds, seconds)
		}
		c.AdvanceWatermark(15_000)
		add(t, c, 24, 24)
		c.AdvanceWatermarkToInfinity()
	}, func(s beam.Scope, numbers beam.PCollection) {
		in := beam.WindowInto(s, window.NewSessions(5*time.Second), beam.ParDo(s, oneKey, beam.ParDo(s, seen, numbers)))
		beam.ParDo0(s, noteGroup, beam.GroupByKey(s, in))
	})
	want := []string{"seen 1", "seen 9", "seen 20", "seen 5", "1-14: [1 9 5], pane 0, late false", "seen 24", "20-29: [20 24], pane 0, late false"}
	expect.Same(t, want, got)
}

// sumFn adds up the elements of a key and window.
type sumFn struct{ Sum state.Value[int] }

func (fn *sumFn) ProcessElement(sp state.Provider, _ string, v int) error {
	sum, _, err := fn.Sum.Read(sp)
	if err != nil {
		return err
	}
	note("%d", sum+v)
	return fn.Sum.Write(sp, sum+v)
}

// TestStateOfLateElements checks that a window's state exists until the end of its allowed lateness. Later elements
// are dropped.
func TestStateOfLateElements(t *testing.T) {
	got := stream(t, func(c *teststream.Config) {
		add(t, c, 1, 1)
		c.AdvanceWatermark(12_000)
		add(t, c, 2, 10)
		c.AdvanceWatermark(13_000)
		add(t, c, 4, 20)
		c.AdvanceWatermark(16_000)
		add(t, c, 3, 100)
		add(t, c, 14, 1000)
		c.AdvanceWatermarkToInfinity()
	}, func(s beam.Scope, numbers beam.PCollection) {
		in := beam.WindowInto(s, window.NewFixedWindows(10*time.Second), beam.ParDo(s, oneKey, numbers), beam.AllowedLateness(5*time.Second))
		beam.ParDo0(s, &sumFn{state.MakeValueState[int]("sum")}, in)
	})
	expect.Same(t, []string{"1", "11", "31", "1000"}, got)
}

// alarmFn sets a timer for each key, all at the same time, and records when it fires.
type alarmFn struct{ At timers.EventTime }

func (fn *alarmFn) ProcessElement(tp timers.Provider, _ string, _ int) error {
	fn.At.Set(tp, time.Unix(100, 0))
	return nil
}

func (fn *alarmFn) OnTimer(_ timers.Provider, key string, _ timers.Context) { note("%s", key) }

func ownKey(i int) (string, int) { return fmt.Sprintf("k%02d", i), i }

// TestRepeats checks that every run has the same order, including timers.
func TestRepeats(t *testing.T) {
	var first []string
	var numbers []int
	for i := range 40 {
		numbers = append(numbers, i)
	}
	for range 3 {
		noted()
		p, s := beam.NewPipelineWithRoot()
		beam.ParDo0(s, &alarmFn{timers.InEventTime("at")}, beam.ParDo(s, ownKey, beam.CreateList(s, numbers)))
		execute(t, Runner{}, p)
		got := noted()
		if first == nil {
			first = got
		}
		if len(got) != 40 || !slices.Equal(got, first) {
			t.Errorf("timers %v, first %v", got, first)
		}
	}
}

// countFn emits one number per call, and defers the rest.
type countFn struct {
	N     int64
	Pause time.Duration
}

func (fn *countFn) CreateInitialRestriction([]byte) offsetrange.Restriction {
	return offsetrange.Restriction{Start: 0, End: fn.N}
}

func (fn *countFn) SplitRestriction(_ []byte, r offsetrange.Restriction) []offsetrange.Restriction {
	return []offsetrange.Restriction{r}
}

func (fn *countFn) RestrictionSize(_ []byte, r offsetrange.Restriction) float64 { return r.Size() }

func (fn *countFn) CreateTracker(r offsetrange.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(offsetrange.NewTracker(r))
}

func (fn *countFn) ProcessElement(_ context.Context, rt *sdf.LockRTracker, _ []byte, emit func(int)) sdf.ProcessContinuation {
	position := rt.GetRestriction().(offsetrange.Restriction).Start
	if !rt.TryClaim(position) {
		return sdf.StopProcessing()
	}
	emit(int(position))
	return sdf.ResumeProcessingIn(fn.Pause)
}

// finalizedFn records the finalization of its bundles.
type finalizedFn struct{}

func (*finalizedFn) ProcessElement(bf beam.BundleFinalization, i int) {
	bf.RegisterCallback(time.Minute, func() error {
		note("final %d", i)
		return nil
	})
}

// TestFinalization checks that every bundle is finalized, not only the first, and that a deferred rest waits long
// enough.
func TestFinalization(t *testing.T) {
	noted()
	const pause = 30 * time.Millisecond
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo0(s, &finalizedFn{}, beam.ParDo(s, &countFn{3, pause}, beam.Impulse(s)))
	start := time.Now()
	execute(t, Runner{}, p)
	expect.Same(t, []string{"final 0", "final 1", "final 2"}, noted())
	if took := time.Since(start); took < 2*pause {
		t.Errorf("%v for three calls with two pauses of %v", took, pause)
	}
}

var counter, distribution = beam.NewCounter("direct", "numbers"), beam.NewDistribution("direct", "sizes")

func measure(ctx context.Context, i int) int {
	counter.Inc(ctx, 1)
	distribution.Update(ctx, int64(i))
	return i
}

func TestMetrics(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo(s.Scope("Gauge"), measure, beam.ParDo(s, &countFn{N: 5}, beam.Impulse(s)))
	r := expect.Get(Execute(t.Context(), p))(t)
	found := r.Metrics().AllMetrics()
	counters, distributions := found.Counters(), found.Distributions()
	if len(counters) != 1 || counters[0].Committed != 5 || !strings.HasPrefix(counters[0].Key.Step, "Gauge/") {
		t.Errorf("counters %+v", counters)
	}
	if want := (metrics.DistributionValue{Count: 5, Sum: 10, Min: 0, Max: 4}); len(distributions) != 1 || distributions[0].Committed != want {
		t.Errorf("distributions %+v, want %+v", distributions, want)
	}
}

// A Fruit has a registered coder, and one that Beam makes.
type Fruit struct{ Name string }

var madeByBeam beam.Coder

func init() {
	t := reflect.TypeFor[Fruit]()
	madeByBeam = beam.NewCoder(typex.New(t))
	beam.RegisterCoder(t, func(f Fruit) []byte { return []byte("!" + f.Name) }, func(b []byte) Fruit { return Fruit{string(b[1:])} })
}

func pick(name string) Fruit { return Fruit{name} }

func name(f Fruit) string { return f.Name }

func TestFlattenOfUnlikeCoders(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	one, other := beam.ParDo(s, pick, beam.Create(s, "apple", "pear")), beam.ParDo(s, pick, beam.Create(s, "quince"))
	if err := one.SetCoder(madeByBeam); err != nil || one.Coder().String() == other.Coder().String() {
		t.Fatalf("the coders are %v and %v, error %v", one.Coder(), other.Coder(), err)
	}
	passert.Equals(s, beam.ParDo(s, name, beam.Flatten(s, one, other)), "apple", "pear", "quince")
	passert.Equals(s, beam.ParDo(s, name, beam.Flatten(s, other, one)), "apple", "pear", "quince")
	execute(t, Runner{}, p)
}

func TestRefused(t *testing.T) {
	for want, build := range map[string]func(s beam.Scope){
		"Abroad": func(s beam.Scope) {
			beam.External(s.Scope("Abroad"), "beam:transform:of_java:v1", nil, []beam.PCollection{beam.Impulse(s)}, []beam.FullType{typex.New(reflect.TypeFor[[]byte]())}, true)
		},
		"Merging/": func(s beam.Scope) {
			in := beam.WindowInto(s, window.NewSessions(time.Second), beam.ParDo(s, oneKey, beam.Create(s, 1)))
			beam.ParDo0(s.Scope("Merging"), &sumFn{state.MakeValueState[int]("sum")}, in)
		},
	} {
		t.Run(want, func(t *testing.T) {
			if _, err := Execute(t.Context(), scoped(build)()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "not supported") {
				t.Errorf("error %v, want one that names %s", err, want)
			}
		})
	}
}

// TestOrderOfKeys checks that elements of a key are processed in the order in which they were emitted, with any
// number of shards.
func TestOrderOfKeys(t *testing.T) {
	for _, shards := range []int{1, 4} {
		noted()
		p, s := beam.NewPipelineWithRoot()
		numbers := beam.ParDo(s, &countFn{N: 50}, beam.Impulse(s))
		beam.ParDo0(s, &sumFn{state.MakeValueState[int]("sum")}, beam.ParDo(s, oneKey, numbers))
		execute(t, Runner{Shards: shards}, p)
		var want []string
		for i, sum := 0, 0; i < 50; i++ {
			sum += i
			want = append(want, fmt.Sprint(sum))
		}
		expect.Same(t, want, noted(), shards, " shards: sums")
	}
}
