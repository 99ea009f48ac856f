package transforms_test

import (
	"slices"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/transforms"
)

// Aggregate alone makes observations of events: what is open at the end of the input too, and
// intervals without events between others.
func TestAggregate(t *testing.T) {
	event := func(key string, seconds int, x float64) given {
		return given{key, keyed.Value(at(seconds), "", x)}
	}
	c := &testCase{in: []given{
		event("a", 0, 1), event("b", 2, 5), event("a", 30, 4), event("a", 200, 2), event("a", 195, 3), event("b", 70, 6), event("a", 20, 9),
	}}
	cases.Store(t.Name(), c)
	p, s := beam.NewPipelineWithRoot()
	events := beam.ParDo(s, &emitFn{Case: t.Name()}, beam.Impulse(s))
	cfg := keyed.AggregateConfig{Aggregation: keyed.Aggregation{Every: time.Minute, Value: keyed.Sum, Zero: true}, Wait: 30 * time.Second}
	observations, rejected := transforms.Aggregate(s, cfg, 1, events)
	beam.ParDo(s, &collectFn{Case: t.Name()}, observations)
	beam.ParDo(s, &collectOneFn{Case: t.Name()}, rejected)
	expect.Get(execute(t.Context(), p))(t)
	slices.Sort(c.texts)
	want := []string{
		"a a/2026-01-02T03:04:00Z 5 of 2", "a a/2026-01-02T03:05:00Z 0 of 0", "a a/2026-01-02T03:06:00Z 0 of 0", "a a/2026-01-02T03:07:00Z 5 of 2",
		"b b/2026-01-02T03:04:00Z 5 of 1", "b b/2026-01-02T03:05:00Z 6 of 1",
	}
	same(t, c.texts, want)
	if len(c.rejected) != 1 || c.rejected[0].X[0][0] != 9 {
		t.Errorf("rejected: %+v", c.rejected)
	}
}
