package sniff

import (
	"math"
	"slices"
	"testing"

	"hafvf/hafvf"
	"hafvf/internal/testing/expect"
)

// columnsOf returns a table. Each column is its name, then its texts.
func columnsOf(columns ...[]string) *table {
	t := &table{records: len(columns[0]) - 1}
	t.pieces = make([]int, t.records)
	for _, c := range columns {
		t.columns = append(t.columns, &column{name: c[0], texts: c[1:]})
	}
	return t
}

// TestFit checks the repeated times, the times that go back, and the steps near the median of their key.
func TestFit(t *testing.T) {
	tab := columnsOf(
		[]string{"time", "2026-01-05 00:00", "2026-01-05 00:00", "2026-01-05 00:01", "2026-01-05 00:01", "2026-01-05 00:02", "2026-01-05 00:03", "2026-01-05 00:02", "2026-01-05 00:09"},
		[]string{"key", "a", "b", "a", "b", "a", "b", "b", "b"},
		[]string{"line", "1", "2", "1", "2", "1", "2", "2", "2"})
	timeCol, key, line := tab.columns[0], tab.columns[1], tab.columns[2]
	got := tab.fit(timeCol, []*column{key})
	const minute = 60e9
	expect.Same(t, []int64{minute, minute, minute, minute, minute, 6 * minute}, got.steps)
	expect.Same(t, []any{2, 0., 1. / 8, 3. / 4}, []any{got.keys, got.repeats, got.early, got.steady})
	whole := tab.fit(timeCol, nil)
	expect.Same(t, []any{1, 3. / 8, 1. / 8}, []any{whole.keys, whole.repeats, whole.early}, "records of one key")

	// A column that another one implies is removed if the steps are about as steady without it.
	names := func(columns []*column) (names []string) {
		for _, c := range columns {
			names = append(names, c.name)
		}
		return names
	}
	current := fit{early: got.early, steady: got.steady + .01}
	expect.Same(t, []string{"line"}, names(tab.needed([]*column{key, line}, nil, current, timeCol)))
	current.steady = got.steady + .02
	expect.Same(t, []string{"key", "line"}, names(tab.needed([]*column{line, key}, nil, current, timeCol)), "steps are steadier with both")
}

// TestDispersion checks that the dispersion is computed about the mean of the same hour of the day.
func TestDispersion(t *testing.T) {
	mean, dispersion, sd := dispersion([][]float64{{2, 10, 2, 10, 2, 10, 6, 10}}, [][]uint8{{0, 1, 24, 1, 0, 25, 0, 1}})
	// In hour 0 the third value equals the mean, 2, and the fourth is 4 above it. In hour 1 all are 10.
	want := 16 / (1 + 1./3) / (2 + 2 + 10 + 10)
	if mean != 6.5 || math.Abs(dispersion-want) > 1e-12 || math.Abs(sd-math.Sqrt(13.75)) > 1e-12 {
		t.Errorf("mean %v, dispersion %v where %v is due, sd² %v", mean, dispersion, want, sd*sd)
	}
	expect.Same(t, hafvf.Linear, scaleOf([][]float64{{1, 2, 300}}, [][]uint8{{0, 0, 0}}, 0), "too few to tell")
}

// TestSentinel checks that a value far below or above all others is found.
func TestSentinel(t *testing.T) {
	for _, far := range []float64{-9999, 9999} {
		s := &sample{keys: map[string]*visits{"a": {numbers: []float64{20, far, 21, 22, 19, far, 23, 18}}, "b": {numbers: []float64{7, 8, far, far}}}}
		v, n := s.sentinel()
		expect.Same(t, []any{far, 2}, []any{v, n})
	}
}

// TestAdopt checks that a draft adopts a suggestion once, and only the keys it may.
func TestAdopt(t *testing.T) {
	d := &draft{suggestions: map[string]Suggestion{}}
	look := &Result{Suggestions: []Suggestion{{Key: "source.csv.key", Value: "site"}, {Key: "model.family", Value: "poisson"}, {Key: "lateness", Value: "5m"}}}
	expect.Same(t, true, d.adopt(look))
	expect.Same(t, false, d.adopt(look), "a second time")
	if d.family != "poisson" || len(d.suggestions) != 2 || slices.Contains([]string{d.suggestions["family"].Value, d.suggestions["lateness"].Value}, "") {
		t.Errorf("%+v, of family %q", d.suggestions, d.family)
	}
}
