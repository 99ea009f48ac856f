package connectors

import (
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// The watermark of a pipe after records have arrived. Times are in seconds.
func TestPipeTimes(t *testing.T) {
	base := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	after := func(seconds float64) time.Time { return base.Add(time.Duration(seconds * float64(time.Second))) }
	type record struct {
		key           string
		time, arrival float64
	}
	const none = -1e9
	for _, c := range []struct {
		name     string
		disorder time.Duration
		records  []record
		after    float64 // when the watermark is requested; 0 at the arrival of the last record
		want     float64
		late     time.Duration
	}{
		{"nothing", 0, nil, 9, none, 0},
		{"one key", 0, []record{{"a", 0, 1}, {"a", 10, 11}}, 0, none, 0},
		{"two keys", 0, []record{{"a", 0, 1e6}, {"b", 10, 1e6}}, 0, 10 - .001, 0},
		{"equal times", 0, []record{{"a", 10, 1e6}, {"b", 10, 1e6}, {"c", 10, 1e6}}, 0, 10 - .001, 0},
		{"disorder", 20 * time.Second, []record{{"a", 30, 1e6}, {"b", 10, 1e6}}, 0, 10 - .001, 0},
		{"too little", 20 * time.Second, []record{{"a", 30, 1e6}, {"b", 9.5, 1e6}}, 0, 10 - .001, 20500 * time.Millisecond},
		{"a time ahead of the clock", 0, []record{{"a", 0, 5}, {"b", 1e6, 5}, {"b", 4, 5}}, 0, 0, 0},
		{"only such", 0, []record{{"a", 100, 5}, {"b", 1000, 5}}, 9, none, 0},
		{"at the usual distance from the clock", 0, []record{{"a", 0, 60}, {"b", 59, 60}}, 0, 0, 0},
		{"a short pause", 0, []record{{"a", 0, 1e6}}, 1e6 + .5, none, 0},
		{"a pause with times in the past", 0, []record{{"a", 0, 1e6}}, 1e6 + 60, 60, 0},
		{"a recent pause", 0, []record{{"a", 0, 2}, {"a", 10, 11}}, 71, 69, 0},
		{"a pause, with disorder", 30 * time.Second, []record{{"a", 0, 2}, {"a", 10, 11}}, 71, 41, 0},
	} {
		var p pipeTimes
		var late time.Duration
		now := after(0)
		for i, r := range c.records {
			clock := &PipeClock{Disorder: c.disorder, Disordered: func(delay time.Duration) { late = delay }, Observe: func(_ []Record, f func(string, time.Time)) {
				f(r.key, after(r.time))
			}}
			now = after(r.arrival)
			if ordered := p.observe(clock, nil, now); ordered != (late == 0) {
				t.Errorf("%s: record %d is in order: %v", c.name, i, ordered)
			}
		}
		clock := &PipeClock{Disorder: c.disorder}
		got := p.watermark(clock, len(c.records) > 0, now)
		if c.after != 0 {
			got = p.watermark(clock, false, after(c.after))
		}
		want := after(c.want)
		if c.want == none {
			want = time.Time{}
		}
		if d := got.Sub(want).Abs(); d > 100*time.Millisecond { // the usual lag is rounded
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
		expect.Same(t, c.late, late, c.name)
	}
}
