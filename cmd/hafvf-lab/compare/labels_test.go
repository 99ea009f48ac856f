package compare

import (
	"image/color"
	"regexp"
	"strconv"
	"testing"

	"hafvf/cmd/hafvf/chart"
	"hafvf/internal/testing/expect"
)

func TestLabelsDoNotOverlap(t *testing.T) {
	f := chart.Figure{Width: 300, Rows: []chart.Row{{Height: 100, Stacks: []chart.Stack{{
		X: chart.Axis{Log: true, Min: .1, Max: 1000},
		Panels: []chart.Panel{{Share: 1, Max: 1, Layers: []chart.Layer{labels{
			[]chart.Point{{X: 10, Y: .5}, {X: 10, Y: .5}, {X: 10, Y: .5}},
			[]string{"kalman", "particle", "bocpd"},
			[]color.NRGBA{chart.Blue, chart.Gray, chart.Blue},
		}}}},
	}}}}}
	svg := expect.Get(f.Render(".svg"))(t)
	place := func(text string) (x, y float64) {
		m := regexp.MustCompile(`<text[^>]* x="([-0-9.]+)" y="([-0-9.]+)"[^>]*>` + text + `</text>`).FindSubmatch(svg)
		if m == nil {
			t.Fatalf("no %s in %s", text, svg)
		}
		x, _ = strconv.ParseFloat(string(m[1]), 64)
		y, _ = strconv.ParseFloat(string(m[2]), 64)
		return x, y
	}
	x1, y1 := place("kalman")
	x2, y2 := place("particle")
	x3, y3 := place("bocpd")
	if !(x2 < x1 && y2 == y1) || y3 == y1 {
		t.Errorf("names at (%g, %g), (%g, %g), (%g, %g)", x1, y1, x2, y2, x3, y3)
	}
}
