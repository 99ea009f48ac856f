package keyed

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// For any values, the text is short, and zero is not negative.
func TestFigureLength(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-1e7, 1e7), rapid.SampledFrom([]float64{0, 1e-300, -1e-9, math.NaN(), math.Inf(1)}))
		usual, sd, x := v.Draw(t, "usual"), math.Abs(v.Draw(t, "sd")), v.Draw(t, "x")
		u := unitNamed(rapid.SampledFrom([]string{"x", "a_ms", "a_bytes", "a_ratio", "a_celsius"}).Draw(t, "name"), "")
		u.hasRatios = rapid.Bool().Draw(t, "ratios")
		f := u.figure(usual, sd, x)
		for _, text := range []string{f.band(usual, sd), f.forDistance(x - usual).value(x), f.difference(x, usual, sd, "above usual", "below usual")} {
			if utf8.RuneCountInString(text) > 60 || strings.HasPrefix(text, "-0 ") || text == "-0" || text == "" {
				t.Fatalf("%q", text)
			}
		}
	})
}

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		name, configured string
		v                float64
		want             string
	}{
		{"mem_bytes", "", 941.6e6, "941.6 MB"}, {"x_bytes_total", "/s", 1.25e3, "1.25 kB/s"}, {"bytes_in", "", 12, "12 B"},
		{"p95_ms", "", 289.4, "289.4 ms"}, {"p95_ms", "", 72e5, "2 h"}, {"job:latency_seconds:p95", "", .0032, "3.2 ms"}, {"up_seconds", "", 90, "90 s"},
		{"hit_ratio", "", .987, "98.7 %"}, {"cpu_percent", "", 12.5, "12.5 %"}, {"requests_total", "/s", 12, "12/s"}, {"rate", "km/h", 50, "50 km/h"},
		{"Druck (bar)", "", 4.2, "4.2 bar"}, {"Temp, °C (LGR S/N: 1234567, LBL: t)", "", 4.2, "4.2 °C"}, {"level (S/N: 1234567)", "", 4.2, "4.2"}, {"Total, gross (kW h)", "", 4.2, "4.2 kW h"}, {"sum(x) by (job)", "", 4.2, "4.2"}, {"symptoms", "", 3, "3"}, {"x", "", 941.6e6, "941.6 million"}, {"x", "MB", 941.6e6, "941600000 MB"},
	} {
		if got := unitNamed(c.name, c.configured).figure(c.v, math.NaN(), c.v).value(c.v); got != c.want {
			t.Errorf("%s %s: %g is %q, want %q", c.name, c.configured, c.v, got, c.want)
		}
	}
}
