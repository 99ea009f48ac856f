package transforms_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/internal/dofn"
	"hafvf/internal/testing/expect"
	"hafvf/transforms"
)

func init() {
	register.Function3x0((&observeFn{}).ProcessElement)
	dofn.Register(func(f *observeFn) any { return f.ProcessElement })
}

// observeFn makes observations of the single key of a test stream.
type observeFn struct{}

func (*observeFn) ProcessElement(ts beam.EventTime, x float64, emit func(beam.EventTime, string, keyed.Observation)) {
	emit(ts, "k", keyed.Value(mtime.Time(ts).ToTime().UTC(), "", x))
}

// runSmooth runs the node over a collection with execute. If source is nil, the collection is in.
func runSmooth(t *testing.T, cfg transforms.SmoothConfig, in []input, source func(beam.Scope) beam.PCollection) *testCase {
	t.Helper()
	cfg.Origins = true
	c := &testCase{in: in, smoothed: map[string][]keyed.Smoothed{}}
	cases.Store(t.Name(), c)
	p, s := beam.NewPipelineWithRoot()
	if source == nil {
		source = func(s beam.Scope) beam.PCollection {
			return beam.ParDo(s, &emitFn{Case: t.Name()}, beam.Impulse(s))
		}
	}
	smoothed, rejected := transforms.SmoothPairs(s, cfg, source(s))
	beam.ParDo(s, &collectFn{Case: t.Name()}, smoothed)
	beam.ParDo(s, &collectOneFn{Case: t.Name()}, rejected)
	expect.Get(execute(context.Background(), p))(t)
	for _, list := range c.smoothed {
		slices.SortStableFunc(list, func(a, b keyed.Smoothed) int {
			return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Revision, b.Revision))
		})
	}
	return c
}

var sessions = transforms.SmoothConfig{SmoothConfig: keyed.SmoothConfig{
	Filter: hafvf.Config{Family: "normal", Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 1, Beta: 1}}, Top: 1}},
	Gap:    10 * time.Second,
}}

// segments has no levels: sessions are smoothed in segments.
var segments = transforms.SmoothConfig{SmoothConfig: keyed.SmoothConfig{Filter: hafvf.Config{Family: "normal"}, Gap: 10 * time.Second}}

// smoothLoop does the work of the node in a plain loop: it splits each key's observations at the gaps and smooths
// the parts.
func smoothLoop(t *testing.T, cfg transforms.SmoothConfig, in []input) map[string][]keyed.Smoothed {
	t.Helper()
	sm := expect.Get(keyed.NewSmoother(cfg.SmoothConfig))(t)
	byKey := map[string][]keyed.Observation{}
	for _, k := range in {
		byKey[k.key] = append(byKey[k.key], k.obs)
	}
	out := map[string][]keyed.Smoothed{}
	for key, observations := range byKey {
		slices.SortStableFunc(observations, func(a, b keyed.Observation) int { return a.Time.Compare(b.Time) })
		start := 0
		for i := range observations {
			if i+1 == len(observations) || observations[i+1].Time.Sub(observations[i].Time) >= cfg.Gap {
				sm.Smooth(key, observations[start:i+1], 0, func(s keyed.Smoothed) { out[key] = append(out[key], s) })
				start = i + 1
			}
		}
	}
	return out
}

// sessionStream returns n observations out of order, with equal times, gaps of exactly the session gap, and
// sessions of one observation.
func sessionStream(n, keys int) []input {
	rng := rand.New(rand.NewPCG(3, 4))
	clock := make([]int, keys)
	in := make([]input, n)
	for i := range in {
		k := rng.IntN(keys)
		clock[k] += []int{0, 1, 2, 9, 10, 30}[rng.IntN(6)]
		o := keyed.Value(timeAt(clock[k]), fmt.Sprint(i), rng.NormFloat64()+float64(clock[k]/40%2)*5)
		o.Seq = int64(i)
		in[i] = input{fmt.Sprintf("k%d", k), o}
	}
	return in
}

func TestSmoothEqualsLoop(t *testing.T) {
	for name, cfg := range map[string]transforms.SmoothConfig{"levels": sessions, "segments": segments} {
		t.Run(name, func(t *testing.T) {
			in := sessionStream(1500, 90)
			want := smoothLoop(t, cfg, in)
			rng := rand.New(rand.NewPCG(5, 6))
			rng.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
			c := runSmooth(t, cfg, in, nil)
			same(t, c.smoothed, want)
			same(t, len(c.rejected), 0)

			single, records := 0, 0
			for _, list := range want {
				for _, s := range list {
					records++
					if s.Session.N == 1 {
						single++
					}
				}
			}
			if records != len(in) || single == 0 {
				t.Errorf("%d records of %d observations, %d in sessions of one", records, len(in), single)
			}
		})
	}
}

// Without a gap, a session ends after 30 median steps of its key, and after half an hour at least, in any order of
// the records.
func TestSmoothAtStepsOfKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var in []input
	want := map[string][]int64{"fast": {100, 50}, "hourly": {100, 50}, "both": {150}}
	for key, step := range map[string]int{"fast": 10, "hourly": 3600, "both": 3600} {
		for i := range 150 {
			second := i * step
			if pause := 30*step + 7200; i >= 100 && key != "both" {
				second += pause
			} else if i >= 100 {
				second += 28 * step
			}
			in = append(in, input{key, keyed.Value(timeAt(second), "", rng.NormFloat64())})
		}
	}
	rng.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
	cfg := segments
	cfg.Gap = 0
	c := runSmooth(t, cfg, in, nil)
	for key, sizes := range want {
		var got []int64
		for _, s := range c.smoothed[key] {
			if s.N == 1 {
				got = append(got, s.Session.N)
			}
		}
		slices.SortFunc(got, func(a, b int64) int { return int(b - a) })
		same(t, got, sizes)
	}
	cfg.AllowedLateness = time.Hour
	_, err := keyed.NewSmoother(cfg.SmoothConfig)
	expect.Error(t, err, "allowed lateness: only sessions with a configured gap are revised")
}

// A session without times has the observations of a key and a session name, in the order of arrival or of trials.
// The times of observations have no effect.
func TestSmoothWithoutTimes(t *testing.T) {
	var in []input
	for i, trial := range []int64{4, 2, 9, 2, 3, 1} {
		o := keyed.Value(time.Time{}, fmt.Sprint("f:", i), float64(i))
		o.Seq, o.Trial, o.Session = int64(i), trial, fmt.Sprint(i%2)
		in = append(in, input{"k", o}, input{"l", keyed.Value(timeAt(100*i), "", float64(i))})
		in[len(in)-1].obs.Seq, in[len(in)-1].obs.Trial = int64(i), int64(i)
	}
	for order, want := range map[keyed.Order][]string{
		keyed.Arrival: {"k/0/1 0 1", "k/0/2 2 1", "k/0/3 4 1", "k/1/1 1 1", "k/1/2 3 1", "k/1/3 5 1"},
		keyed.Trials:  {"k/0/1 4 3", "k/0/2 0 3", "k/0/3 2 3", "k/1/1 5 1", "k/1/2 1 1"},
	} {
		cfg := transforms.SmoothConfig{SmoothConfig: keyed.SmoothConfig{Filter: segments.Filter, Order: order}}
		c := runSmooth(t, cfg, in, nil)
		var got []string
		for _, s := range c.smoothed["k"] {
			got = append(got, fmt.Sprint(s.ID, " ", s.X[0][0], " ", s.Session.Start.Trial))
		}
		slices.Sort(got)
		same(t, got, want)
		same(t, len(c.smoothed["l"]), 6)
		if l := c.smoothed["l"][5]; !l.Time.IsZero() || l.ID != "l/6" || l.Session.N != 6 {
			t.Errorf("%+v", l)
		}
		if order == keyed.Trials && (len(c.rejected) != 1 || c.rejected[0].Reason != "trial 2 of the session k/1 occurs twice: the first is f:1" || c.rejected[0].ID != "f:3") {
			t.Errorf("%+v", c.rejected)
		}
		cfg.Gap = time.Second
		_, err := keyed.NewSmoother(cfg.SmoothConfig)
		expect.Error(t, err, fmt.Sprintf("gap needs times, and the order %q has none", order))
	}
}

// The records equal the results of hafvf.Filter.Smooth for the session.
func TestSmoothedRecord(t *testing.T) {
	var in []input
	var steps [][][]float64
	for i, x := range []float64{0, .3, -.2, .1, math.NaN(), .2, 9, 9.2, 8.9, 9.1, 9} {
		in = append(in, input{"k", keyed.Value(timeAt(i/2*2), fmt.Sprint(i), x)})
		in[i].obs.Seq = int64(i)
		steps = append(steps, [][]float64{{x}})
	}
	f := expect.Get(sessions.Filter.Filter())(t)
	want := f.Smooth(steps)
	changes := hafvf.Changes(want.Evidence, 10)
	same(t, changes, []int{6})
	got := runSmooth(t, sessions, in, nil).smoothed["k"]
	for i, s := range got {
		same(t, s.ID, fmt.Sprintf("k/%s/%d", timeAt(i/2*2).Format(time.RFC3339), i%2))
		same(t, s.N, int64(i+1))
		same(t, s.Session, keyed.Session{Start: keyed.Point{Time: timeAt(0)}, End: keyed.Point{Time: timeAt(10)}, N: 11})
		same(t, s.Memory, want.Memory(i))
		same(t, s.Forward.Memory, want.Forward(i).Memory)
		same(t, s.Backward.Weight, want.Backward(i).Weight)
		same(t, s.Backward.Levels, []float64(want.Backward(i).State[3:]))
		same(t, s.ChangeEvidence, want.Evidence[i])
		same(t, s.Change, i == 6)
		same(t, s.Missing, i == 4)
		same(t, s.Split, "")
		var mean, sd [1]float64
		want.Estimate(mean[:], sd[:], i)
		same(t, s.Estimate, keyed.Moments{Mean: mean[:], SD: sd[:]})
	}
	same(t, len(got), 11)
}

func TestSmoothLateDataRevises(t *testing.T) {
	cfg := sessions
	cfg.AllowedLateness = time.Hour
	source := func(s beam.Scope) beam.PCollection {
		return beam.ParDo(s, &observeFn{}, streamOf(t, s, event{0, 1}, event{5, 2}, event{40, 3}, mark(100),
			event{8, 4},  // late, in the first session
			event{25, 5}, // late, in a session of its own
			mark(120),
			event{33, 6})) // joins the third session and that of the second late one
	}
	var got []string
	last := map[string]keyed.Smoothed{}
	for _, s := range runSmooth(t, cfg, nil, source).smoothed["k"] {
		got = append(got, fmt.Sprintf("%g@%d: %d/%d of %d", s.X[0][0], int(s.Time.Sub(begin).Seconds()), s.Revision, s.N, s.Session.N))
		if s.Revision >= last[s.ID].Revision {
			last[s.ID] = s
		}
	}
	same(t, got, []string{
		"1@0: 0/1 of 2", "1@0: 1/1 of 3",
		"2@5: 0/2 of 2", "2@5: 1/2 of 3",
		"4@8: 1/3 of 3",
		"5@25: 0/1 of 1", "5@25: 1/1 of 3",
		"6@33: 1/2 of 3",
		"3@40: 0/1 of 1", "3@40: 1/3 of 3",
	})
	// The records with the last revision of each ID equal those of a stream without late observations.
	want := smoothLoop(t, cfg, []input{
		{"k", keyed.Value(timeAt(0), "", 1)}, {"k", keyed.Value(timeAt(5), "", 2)}, {"k", keyed.Value(timeAt(8), "", 4)},
		{"k", keyed.Value(timeAt(25), "", 5)}, {"k", keyed.Value(timeAt(33), "", 6)}, {"k", keyed.Value(timeAt(40), "", 3)},
	})["k"]
	same(t, len(last), len(want))
	for _, w := range want {
		g := last[w.ID]
		g.Revision, g.Changed = 0, false
		same(t, g, w)
	}
}

func TestSmoothSplitsLongSessions(t *testing.T) {
	cfg := sessions
	cfg.Max = 4
	var in []input
	for i := range 10 {
		in = append(in, input{"k", keyed.Value(timeAt(i), "", float64(i))})
	}
	got := runSmooth(t, cfg, in, nil).smoothed["k"]
	same(t, len(got), 10)
	for i, s := range got {
		part := 1 + []int{0, 0, 0, 1, 1, 1, 2, 2, 2, 2}[i]
		same(t, s.Split, fmt.Sprintf("10 observations, at most 4 are smoothed as one: part %d of 3", part))
		same(t, s.N, int64(i+1))
		same(t, s.Session.N, int64(10))
		first := i == 0 || i == 3 || i == 6
		same(t, s.ChangeEvidence != s.ChangeEvidence, first)
	}
	if m := got[9].Memory; m > 4 {
		t.Errorf("memory %g of a part with four observations", m)
	}
}

func TestSmoothRejects(t *testing.T) {
	in := []input{
		{"bad", keyed.Observation{Time: begin, X: [][]float64{{1, 2}}}},
		{"bad", keyed.Value(time.Time{}, "", 1)},
		{"", keyed.Value(begin, "", 1)},
		{"good", keyed.Value(begin, "", 1)},
		{"good", keyed.Value(begin, "", 2)},
	}
	in[4].obs.LogTime = begin.Add(time.Minute)
	c := runSmooth(t, sessions, in, nil)
	same(t, len(c.smoothed), 1)
	same(t, len(c.smoothed["good"]), 1)
	var reasons []string
	for _, r := range c.rejected {
		reasons = append(reasons, r.Reason)
	}
	slices.Sort(reasons)
	same(t, reasons, []string{
		"empty key", "late by 1m0s, by the times of its log: session.gap, session.allowed_lateness and disorder of the source allow 10s",
		"no time; a session needs one", "x has 2 values, want 1",
	})
}
