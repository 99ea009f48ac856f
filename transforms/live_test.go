package transforms_test

import (
	"context"
	"fmt"
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
