package transforms_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/teststream"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hafvf/hafvf"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/account"
	"hafvf/internal/dofn"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/direct"
	"hafvf/transforms"
)

func init() {
	register.Function2x0((&emitFn{}).ProcessElement)
	dofn.Register(func(f *emitFn) any { return f.ProcessElement })
	beam.RegisterDoFn(&collectFn{})
	beam.RegisterDoFn(&collectOneFn{})
	register.Emitter3[beam.EventTime, string, keyed.Observation]()
	register.Emitter1[[]byte]()
}

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	os.Exit(m.Run())
}

// input is an observation with its key.
type input struct {
	key string
	obs keyed.Observation
}

// cases passes data to the DoFns of a test, which run in this process.
var cases sync.Map

type testCase struct {
	in []input

	mu       sync.Mutex
	out      map[string][]keyed.Estimate
	smoothed map[string][]keyed.Smoothed
	rejected []keyed.Rejected
	texts    []string            // silences and events, as text
	lines    map[string][]string // lines of chunks, by kind
}

func caseOf(name string) *testCase {
	c, _ := cases.Load(name)
	return c.(*testCase)
}

// emitFn emits the case's observations in one bundle.
type emitFn struct{ Case string }

func (fn *emitFn) ProcessElement(_ []byte, emit func(beam.EventTime, string, keyed.Observation)) {
	for _, k := range caseOf(fn.Case).in {
		ts := mtime.ZeroTimestamp
		if !k.obs.Time.IsZero() {
			ts = mtime.FromTime(k.obs.Time)
		}
		emit(ts, k.key, k.obs)
	}
}

// execute runs the pipelines of the tests.
var execute = direct.Execute

// collectFn stores the outputs with a key, and collectOneFn those without a key, of any type that a node emits.
type (
	collectFn    struct{ Case string }
	collectOneFn struct{ Case, Kind string }
)

func (fn *collectFn) ProcessElement(k beam.X, v beam.Y, _ func([]byte)) {
	c, key := caseOf(fn.Case), k.(string)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch v := v.(type) {
	case keyed.Estimate:
		c.out[key] = append(c.out[key], v)
	case keyed.Smoothed:
		c.smoothed[key] = append(c.smoothed[key], v)
	}
}

func (fn *collectOneFn) ProcessElement(v beam.X, _ func([]byte)) {
	c := caseOf(fn.Case)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch v := v.(type) {
	case keyed.Rejected:
		c.rejected = append(c.rejected, v)
	case keyed.AlertEvent:
		if v.Kind == keyed.SilentAlarm {
			c.texts = append(c.texts, fmt.Sprintf("%s since %d, %v, n %d, %d outputs", v.Key, int(v.Start.Sub(begin).Seconds()), v.Time.Sub(v.Start), v.N, len(v.Predicted.Mean)))
		}
	case incidents.Event:
		c.texts = append(c.texts, eventText(v))
	case []byte: // a chunk of lines
		c.lines[fn.Kind] = append(c.lines[fn.Kind], strings.Split(strings.TrimSuffix(string(v), "\n"), "\n")...)
	}
}

// runFilter runs the node over the observations with execute. They reach the node in the order of in.
func runFilter(ctx context.Context, t *testing.T, cfg keyed.Config, in []input, cells ...string) *testCase {
	t.Helper()
	c := &testCase{in: in, out: map[string][]keyed.Estimate{}}
	cases.Store(t.Name(), c)
	p, s := beam.NewPipelineWithRoot()
	out := transforms.FilterIn(s, cfg, transforms.Host{InProcess: true, Cells: cells}, beam.ParDo(s, &emitFn{Case: t.Name()}, beam.Impulse(s)))
	beam.ParDo(s, &collectFn{Case: t.Name()}, out.Estimates)
	beam.ParDo(s, &collectOneFn{Case: t.Name()}, out.Rejected)
	expect.Get(execute(ctx, p))(t)
	return c
}

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func timeAt(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }

var twoLevels = hafvf.Config{Family: "normal", Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: .9, Beta: .1}, {Alpha: 1, Beta: 1}}, Top: 1}}

// loop does the work of the node in a plain loop over each key's observations.
func loop(t *testing.T, cfg keyed.Config, in []input) map[string][]keyed.Estimate {
	t.Helper()
	est := expect.Get(keyed.NewEstimator(cfg))(t)
	out := map[string][]keyed.Estimate{}
	tracks := map[string]*keyed.Track{}
	for _, k := range in {
		if tracks[k.key] == nil {
			tracks[k.key] = est.NewTrack(k.key)
		}
		out[k.key] = append(out[k.key], est.Estimate(tracks[k.key], k.obs))
	}
	return out
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got)\n%.2000s", diff)
	}
}

func randomStream(n, keys int) []input {
	rng := rand.New(rand.NewPCG(1, 2))
	in := make([]input, n)
	for i := range in {
		x := rng.NormFloat64() + float64(i/1000%2)*4
		if rng.IntN(50) == 0 {
			x = math.NaN()
		}
		in[i] = input{fmt.Sprintf("k%d", rng.IntN(keys)), keyed.Value(timeAt(i), fmt.Sprintf("r%d", i), x)}
	}
	return in
}

// Estimates equal those of a plain loop: for observations in order, out of order within the lateness, or in the
// order of arrival.
func TestFilterEqualsLoop(t *testing.T) {
	in := randomStream(900, 45)
	shuffled := slices.Clone(in)
	rng := rand.New(rand.NewPCG(5, 6))
	rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for name, c := range map[string]struct {
		cfg      keyed.Config
		in, loop []input
	}{
		"in order":     {keyed.Config{}, in, in},
		"out of order": {keyed.Config{Lateness: time.Hour}, shuffled, in},
		"as it comes":  {keyed.Config{Order: keyed.Arrival}, shuffled, shuffled},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Filter = twoLevels
			cfg := c.cfg
			want := loop(t, cfg, c.loop)
			eachCells(t, func(t *testing.T, cells []string) {
				got := runFilter(t.Context(), t, cfg, c.in, cells...)
				same(t, got.out, want)
				same(t, len(got.rejected), 0)
			})
		})
	}
}

// eachCells runs a test with a state for each key, one state for all keys, and three states.
func eachCells(t *testing.T, test func(t *testing.T, cells []string)) {
	t.Helper()
	for name, cells := range map[string][]string{"own": nil, "one": {"c"}, "three": {"c1", "c2", "c3"}} {
		t.Run(name, func(t *testing.T) { test(t, cells) })
	}
}

// The state that the node writes for a key is an encoded track: the node and a plain loop can exchange states.
func TestFilterStateIsATrack(t *testing.T) {
	in := randomStream(300, 3)
	for _, order := range []keyed.Order{keyed.Arrival, keyed.EventTime} {
		t.Run(string(order), func(t *testing.T) {
			states := map[string][]byte{}
			books := account.Open(account.StateKeeper{Committed: func(settled map[string]account.EncodedState, _ time.Time) {
				for key, s := range settled {
					states[key] = s.State
				}
			}})
			defer books.Close()
			expect.OK(t, books.HandOver(t.Context(), len(in), nil))
			cfg := keyed.Config{Filter: hafvf.Config{Family: "normal"}, Order: order}
			runFilter(books.In(t.Context()), t, cfg, in)
			est := expect.Get(keyed.NewEstimator(cfg))(t)
			same(t, len(states), 3)
			for key, state := range states {
				track := est.NewTrack(key)
				for _, k := range in {
					if k.key == key {
						est.Estimate(track, k.obs)
					}
				}
				want := expect.Get(track.AppendBinary(nil))(t)
				if order == keyed.Arrival {
					same(t, state, want)
				}
				restored := expect.Get(est.RestoreTrack(key, state))(t)
				got := expect.Get(restored.AppendBinary(nil))(t)
				same(t, got, want)
			}
		})
	}
}

func TestPanicsAtConstruction(t *testing.T) {
	filter := func(cfg keyed.Config) func(beam.Scope, beam.PCollection) {
		return func(s beam.Scope, c beam.PCollection) { transforms.FilterPairs(s, cfg, c) }
	}
	smooth := func(change func(*transforms.SmoothConfig)) func(beam.Scope, beam.PCollection) {
		cfg := sessions
		change(&cfg)
		return func(s beam.Scope, c beam.PCollection) { transforms.SmoothPairs(s, cfg, c) }
	}
	for name, build := range map[string]func(beam.Scope, beam.PCollection){
		"Filter/top":    filter(keyed.Config{Filter: hafvf.Config{Family: "normal", Member: &hafvf.Member{Top: 2}}}),
		"Filter/family": filter(keyed.Config{Filter: hafvf.Config{Family: "no"}}),
		"Filter/order":  filter(keyed.Config{Filter: twoLevels, Order: "x"}),
		"Filter/window": func(s beam.Scope, c beam.PCollection) {
			filter(keyed.Config{Filter: twoLevels})(s, beam.WindowInto(s, window.NewFixedWindows(time.Hour), c))
		},
		"Smooth/gap":      smooth(func(c *transforms.SmoothConfig) { c.Gap = -1 }),
		"Smooth/fraction": smooth(func(c *transforms.SmoothConfig) { c.Gap = 1500 * time.Microsecond }),
		"Smooth/lateness": smooth(func(c *transforms.SmoothConfig) { c.AllowedLateness = -1 }),
		"Smooth/max":      smooth(func(c *transforms.SmoothConfig) { c.Max = -1 }),
		"Smooth/odds":     smooth(func(c *transforms.SmoothConfig) { c.Odds = -1 }),
		"Smooth/filter":   smooth(func(c *transforms.SmoothConfig) { c.Filter.Family = "no" }),
	} {
		t.Run(name, func(t *testing.T) {
			cases.Store(t.Name(), &testCase{})
			_, s := beam.NewPipelineWithRoot()
			col := beam.ParDo(s, &emitFn{Case: t.Name()}, beam.Impulse(s))
			defer func() {
				node, _, _ := strings.Cut(name, "/")
				if r := recover(); r == nil || !strings.HasPrefix(fmt.Sprint(r), "transforms."+node+": ") {
					t.Errorf("recovered %v", r)
				}
			}()
			build(s, col)
		})
	}
}

// A mark advances the watermark of a stream to a second; an event is an element of it.
type (
	mark  int
	event struct {
		second int
		x      float64
	}
)

// streamOf returns a stream of marks and events, which ends.
func streamOf(t *testing.T, s beam.Scope, steps ...any) beam.PCollection {
	t.Helper()
	ts := teststream.NewConfig()
	for _, e := range steps {
		switch e := e.(type) {
		case mark:
			ts.AdvanceWatermark(timeAt(int(e)).UnixMilli())
		case event:
			expect.OK(t, ts.AddElements(timeAt(e.second).UnixMilli(), e.x))
		}
	}
	ts.AdvanceWatermarkToInfinity()
	return teststream.Create(s, ts)
}
