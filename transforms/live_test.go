package transforms_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/direct"
	"hafvf/transforms"
)

func init() {
	register.Function2x2(observeKey)
}

// observeKey returns an observation of the key with a number.
func observeKey(ts beam.EventTime, key float64) (string, keyed.Observation) {
	return fmt.Sprint("k", key), keyed.Value(ts.ToTime(), "", 1)
}

// A silent key is reported once, when the watermark passes its bound, and again after a further observation. If an
// observation arrives before the watermark gets so far, the silence is in its estimate.
func TestFilterLive(t *testing.T) {
	eachCells(t, func(t *testing.T, cells []string) {
		for _, lateness := range []int{0, 5} {
			testLive(t, cells, lateness)
		}
	})
}

func testLive(t *testing.T, cells []string, lateness int) {
	name := fmt.Sprint(t.Name(), lateness)
	c := &testCase{out: map[string][]keyed.Estimate{}}
	cases.Store(name, c)
	events := []any{event{0, 1}, event{0, 2}, mark(1), event{1, 1}, event{4, 3}, mark(12 + lateness), event{20, 1}, event{18, 3}, mark(40)}
	p, s := beam.NewPipelineWithRoot()
	cfg := keyed.Config{Filter: twoLevels, Lateness: time.Duration(lateness) * time.Second, Silence: &keyed.SilenceConfig{After: 10 * time.Second}}
	out := transforms.FilterIn(s, cfg, transforms.Host{InProcess: true, Live: true, Cells: cells}, beam.ParDo(s, observeKey, streamOf(t, s, events...)))
	beam.ParDo(s, &collectFn{Case: name}, out.Estimates)
	beam.ParDo(s, &collectOneFn{Case: name}, out.Alarms)
	beam.ParDo(s, &collectOneFn{Case: name}, out.Rejected)
	expect.Get(direct.Execute(context.Background(), p))(t)
	slices.Sort(c.texts)
	same(t, c.texts, []string{
		"k1 since 1, 10s, n 2, 1 outputs", "k1 since 20, 10s, n 3, 1 outputs", "k2 since 0, 10s, n 1, 1 outputs", "k3 since 18, 10s, n 2, 1 outputs", "k3 since 4, 10s, n 2, 1 outputs",
	})
	same(t, len(c.rejected), 0)
	for key, want := range map[string][]*keyed.Silence{
		"k1": {nil, nil, {Since: timeAt(1), Bound: 10 * time.Second, Zone: "UTC", Reported: true}},
		"k2": {nil},
		"k3": {nil, {Since: timeAt(4), Bound: 10 * time.Second, Zone: "UTC"}},
	} {
		var got []*keyed.Silence
		for _, e := range c.out[key] {
			got = append(got, e.Silence)
		}
		same(t, got, want)
	}
}

// A cell with many keys has only the earliest deadlines. All silences are reported, each once.
func TestFilterLiveManyKeys(t *testing.T) {
	expect.Long(t, "many keys")
	eachCells(t, func(t *testing.T, cells []string) {
		const keys, steps, bound = 200, 40, 11
		c := &testCase{out: map[string][]keyed.Estimate{}}
		cases.Store(t.Name(), c)
		var events []any
		rng := rand.New(rand.NewPCG(36, 7))
		last, n := map[int]int{}, map[int]int{}
		var want []string
		expectSilence := func(k int) {
			want = append(want, fmt.Sprintf("k%d since %d, %ds, n %d, 1 outputs", k, last[k], bound, n[k]))
		}
		for step := range steps {
			second := 2 * step // never the end of a bound, which is odd
			events = append(events, mark(second))
			for k := range keys {
				// A third of the keys report at the same time; most others report at any time, and some rarely.
				if k%3 == 0 && second%10 != 0 || k%3 != 0 && rng.IntN(2+k%20) > 0 {
					continue
				}
				if events = append(events, event{second, float64(k)}); n[k] > 0 && second-last[k] > bound {
					expectSilence(k)
				}
				last[k] = second
				n[k]++
			}
		}
		for k := range n {
			expectSilence(k)
		}
		p, s := beam.NewPipelineWithRoot()
		cfg := keyed.Config{Filter: twoLevels, Silence: &keyed.SilenceConfig{After: bound * time.Second}}
		out := transforms.FilterIn(s, cfg, transforms.Host{InProcess: true, Live: true, Cells: cells}, beam.ParDo(s, observeKey, streamOf(t, s, append(events, mark(2*steps+bound))...)))
		beam.ParDo(s, &collectFn{Case: t.Name()}, out.Estimates)
		beam.ParDo(s, &collectOneFn{Case: t.Name()}, out.Alarms)
		expect.Get(direct.Execute(context.Background(), p))(t)
		slices.Sort(want)
		slices.Sort(c.texts)
		same(t, c.texts, want)
		for key, estimates := range c.out {
			for _, e := range estimates {
				if e.Silence != nil && !e.Silence.Reported {
					t.Errorf("%s: %+v was not reported while it lasted", key, *e.Silence)
				}
			}
		}
	})
}
