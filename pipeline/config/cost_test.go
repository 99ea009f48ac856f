package config

import "testing"

// Only filters with expensive records get fewer records at once.
func TestMaxBatchRecords(t *testing.T) {
	const limit = 1 << 15
	for _, c := range []struct {
		text     string
		min, max int
	}{
		{"model: {family: normal, prior: auto, season: [24h, 168h]}\ndetect: true\n", limit, limit},
		{"model: {family: mvnormal, dim: 10}\ndetect: true\n", limit, limit},
		{"model: {family: categorical, dim: 100}\ndetect: true\n", limit, limit},
		{"model: {family: categorical, dim: 1000}\ndetect: true\n", 500, 5000},
		{"model: {family: categorical, dim: 10000}\n", 100, 1000},
		{"model: {family: mvnormal, dim: 1000}\n", 1, 10},
		{"model: {family: normal}\ndetect: {season: {24h: 48, 168h: 48, 720h: 48, 8760h: 48}}\n", 500, 2000},
	} {
		got := parse(t, c.text+"source: {jsonl: {path: a}}\n").MaxBatchRecords(limit)
		if got < c.min || got > c.max {
			t.Errorf("%s: %d at once", c.text, got)
		}
	}
}
