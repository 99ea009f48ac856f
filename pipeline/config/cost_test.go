package config

import "testing"

// Only filters whose records take long are given fewer at once.
func TestAtOnce(t *testing.T) {
	const most = 1 << 15
	for _, c := range []struct {
		text     string
		from, to int
	}{
		{"model: {family: normal, prior: auto, season: [24h, 168h]}\ndetect: true\n", most, most},
		{"model: {family: mvnormal, dim: 10}\ndetect: true\n", most, most},
		{"model: {family: categorical, dim: 100}\ndetect: true\n", most, most},
		{"model: {family: categorical, dim: 1000}\ndetect: true\n", 500, 5000},
		{"model: {family: categorical, dim: 10000}\n", 100, 1000},
		{"model: {family: mvnormal, dim: 1000}\n", 1, 10},
		{"model: {family: normal}\ndetect: {season: {24h: 48, 168h: 48, 720h: 48, 8760h: 48}}\n", 500, 2000},
	} {
		got := parse(t, c.text+"source: {jsonl: {path: a}}\n").AtOnce(most)
		if got < c.from || got > c.to {
			t.Errorf("%s: %d at once", c.text, got)
		}
	}
}
