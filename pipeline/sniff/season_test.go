package sniff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestSeasonSuggested checks that a season is suggested where it improves predictions, and not for noise or for
// series shorter than two periods.
func TestSeasonSuggested(t *testing.T) {
	day := func(i int) float64 { return math.Sin(float64(i) * math.Pi / 12) }
	for _, c := range []struct {
		name  string
		hours int
		value func(i int) float64
		want  string
	}{
		{"a day", 24 * 12, day, "[24h]"},
		{"a week", 24 * 7 * 6, func(i int) float64 { return math.Sin(float64(i) * math.Pi / 84) }, "[24h, 168h]"},
		{"noise", 24 * 7 * 6, func(int) float64 { return 0 }, ""},
		{"short", 40, day, ""},
		{"walk", 24 * 7 * 6, func() func(int) float64 {
			rng, level := rand.New(rand.NewPCG(1, 2)), 0.
			return func(int) float64 { level += rng.NormFloat64() / 4; return level }
		}(), ""},
	} {
		rng := rand.New(rand.NewPCG(55, 6))
		lines := []string{"time,x\n"}
		for i := range c.hours {
			stamp := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Hour)
			lines = append(lines, fmt.Sprintf("%s,%.3f\n", stamp.Format(time.RFC3339), 4*c.value(i)+rng.NormFloat64()/2))
		}
		got := ""
		for _, s := range inspect(t, "{family: normal, prior: auto}, detect: true", write(t, "x.csv", lines...)+", key: none").Suggestions {
			if s.Key == "model.season" {
				got = s.Value
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
