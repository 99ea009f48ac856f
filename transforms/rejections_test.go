package transforms_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
)

// The log reports the first rejected observation, and that most observations are rejected.
func TestRejectionsAreLogged(t *testing.T) {
	var log strings.Builder
	defer func(former *slog.Logger) { slog.SetDefault(former) }(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	count := func(text string) int { return strings.Count(log.String(), text) }
	const one, most = "observation rejected: ", "most observations are rejected"
	for _, c := range []struct {
		name        string
		family      string
		time, x     func(i int) float64
		first, most int
		reason      string
	}{
		{"all are fine", "normal", func(i int) float64 { return float64(i) }, func(int) float64 { return 1 }, 0, 0, ""},
		{"one of many", "bernoulli", func(i int) float64 { return float64(i) }, func(i int) float64 { return float64(i / 299 * 7) }, 1, 0, "neither 0 nor 1"},
		{"all of them", "bernoulli", func(i int) float64 { return float64(i) }, func(int) float64 { return 7 }, 1, 1, "neither 0 nor 1"},
		{"many are late", "normal", func(i int) float64 { return float64(1000 * (i / 10 % 2)) }, func(int) float64 { return 1 }, 0, 0, ""},
		{"late", "normal", func(i int) float64 { return float64(300 - i) }, func(int) float64 { return 1 }, 0, 1, "late"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log.Reset()
			var in []input
			for i := range 300 {
				in = append(in, input{"k", keyed.Value(timeAt(int(c.time(i))), fmt.Sprint(i), c.x(i))})
			}
			runFilter(t.Context(), t, keyed.Config{Filter: hafvf.Config{Family: c.family}}, in)
			if count(one) != c.first || count(most) != c.most || !strings.Contains(log.String(), c.reason) {
				t.Errorf("%s", &log)
			}
		})
	}
}
