package chart

import (
	"fmt"
	"image/color"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"hafvf/internal/testing/expect"
)

func TestEnvelopeKeepsExtremes(t *testing.T) {
	v := make([]float64, 100_000)
	v[54_321], v[77_777] = 100, -100
	indices := envelope(v, 0, len(v), func(i int) int { return i / 100 })
	if len(indices) > 4000 || !slices.Contains(indices, 54_321) || !slices.Contains(indices, 77_777) || !slices.IsSorted(indices) {
		t.Errorf("%d points kept, or an extreme lost", len(indices))
	}
}

func TestSparseKeepsOnePointPerCell(t *testing.T) {
	points := sparse([]Point{{0, 0}, {0.1, 0.2}, {0, 7}, {1, 0}, {0.9, 0}}, func(p Point) [2]int { return [2]int{int(p.X), int(p.Y)} })
	if want := []Point{{0, 0}, {0, 7}, {1, 0}}; !slices.Equal(points, want) {
		t.Errorf("%v, want %v", points, want)
	}
}

func TestExtentIgnoresAGlitch(t *testing.T) {
	var v []float64
	for i := range 1000 {
		v = append(v, float64(i%10))
	}
	for _, c := range []struct {
		name             string
		v                []float64
		loRange, hiRange [2]float64
	}{
		{"plain", v, [2]float64{0, 0}, [2]float64{9, 9}},
		{"glitch", append(slices.Clone(v), 1e6, math.NaN(), math.Inf(1)), [2]float64{0, 0}, [2]float64{9, 30}},
		{"few", []float64{1, 2, 1, 2, 1e6}, [2]float64{1, 1}, [2]float64{2, 6}},
		{"constant", []float64{7, 7}, [2]float64{6, 6.9}, [2]float64{7.1, 8}},
		{"none", []float64{math.NaN()}, [2]float64{0, 0}, [2]float64{1, 1}},
	} {
		lo, hi := Extent(c.v, 3)
		if lo < c.loRange[0] || lo > c.loRange[1] || hi < c.hiRange[0] || hi > c.hiRange[1] {
			t.Errorf("%s: %g … %g", c.name, lo, hi)
		}
	}
}

// labelsOf returns the labels of ticks in one line.
func labelsOf(ticks []plot.Tick, separator string) string {
	var labels []string
	for _, tick := range ticks {
		labels = append(labels, strings.ReplaceAll(tick.Label, "\n", "/"))
	}
	return strings.Join(labels, separator)
}

func TestTimeTicks(t *testing.T) {
	seconds := func(s string) float64 {
		v := expect.Get(time.Parse(time.RFC3339, s))(t)
		return float64(v.Unix())
	}
	for _, c := range []struct {
		start, end string
		width      vg.Length
		want       string
	}{
		{"2026-01-31T22:00:00Z", "2026-02-01T03:00:00Z", 130, "22:00/31 Jan 2026 | 00:00/1 Feb 2026 | 02:00/ "},
		{"2025-12-30T12:00:00Z", "2026-01-02T12:00:00Z", 150, "31 Dec/2025 | 1 Jan/2026 | 2 Jan/ "},
		{"2025-11-15T00:00:00Z", "2026-03-15T00:00:00Z", 200, "Dec/2025 | Jan/2026 | Feb/  | Mar/ "},
		{"1990-06-01T00:00:00Z", "2014-06-01T00:00:00Z", 150, "1995 | 2000 | 2005 | 2010"},
	} {
		expect.Same(t, c.want, labelsOf(Axis{Time: true}.ticks(seconds(c.start), seconds(c.end), c.width), " | "), c.start, " to ", c.end)
	}
}

func TestNumberTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   string
	}{
		{-0.04, 1.04, "0.0 0.5 1.0"},
		{-60, 120, "0 100"},
		{0, 3e6, "0 1M 2M 3M"},
		{1e17, 1e17 + 32, "100000.000000T 100000.000000T 100000.000000T"},
		{0, 3e-6, "0 1e-06 2e-06 3e-06"},
		{0.500005, 0.500034, "0.50001 0.50002 0.50003"},
		{0.0011, 0.0039, "0.002 0.003"},
	} {
		expect.Same(t, c.want, labelsOf(numberTicks(3).Ticks(c.lo, c.hi), " "), c.lo, " to ", c.hi)
	}
}

func TestLogTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   string
	}{
		{0.8, 60, "1 2 5 10 20 50"},
		{3, 8, "5"},
		{0.5, 150, "1 10 100"},
		{0.02, 0.3, "0.02 0.05 0.1 0.2"},
		{0.9, 2e8, "1 100 10k 1M 100M"},
	} {
		expect.Same(t, c.want, labelsOf(logTicks{}.Ticks(c.lo, c.hi), " "), c.lo, " to ", c.hi)
	}
}

func TestWriteNeedsAKnownExtension(t *testing.T) {
	f := Figure{Width: 100}
	expect.Error(t, f.Write("o.pdf"), `o.pdf cannot be drawn: no picture has the extension ".pdf"`)
}

// Points outside an axis are left out and cause no panic. The legend lists each name once, in order.
func TestRenderOmitsPointsOutsideAxes(t *testing.T) {
	x := []float64{0, 1, 2, 3}
	y := []float64{-1, 0, math.NaN(), math.Inf(1)}
	panel := func(log bool) Panel {
		return Panel{Title: "P", Label: "unit", Share: 1, Min: 0.5, Max: 2, Log: log, Layers: []Layer{
			Line{Name: "first", X: x, Y: y, Color: Blue, Width: 1, Dashed: true},
			Dots{Name: "second", Points: Points(x, y), Color: Black},
			Band{Name: "third", X: x, Low: y, High: y, Color: Blue},
			Arrows{Points: Points(x, y), Color: Black},
			Rules{Name: "fourth", X: []float64{-5, 1, math.NaN()}, Color: Purple},
			Rings{Name: "sixth", Points: Points(x, y), Color: Orange},
			Spans{Name: "seventh", X: [][2]float64{{math.Inf(-1), 1}, {math.NaN(), 2}, {2, math.Inf(1)}, {7, 8}}, Color: Gray},
			Flags{Name: "ninth", X: []float64{-5, 1, math.NaN()}, Color: Vermilion},
			Stripes{Name: "eighth", Edges: []float64{-5, 1, math.NaN()}, Color: Gray},
		}}
	}
	f := Figure{
		Title: "T", Width: 300, OneLegend: true, Notes: []string{strings.Repeat("word ", 60)},
		Rows: []Row{{Height: 200, Stacks: []Stack{{X: Axis{Min: 0, Max: 3}, Panels: []Panel{panel(false), panel(true)}}, {}}}},
	}
	for _, ext := range []string{".svg", ".png"} {
		text := expect.Get(f.Render(ext))(t)
		if ext == ".png" {
			continue
		}
		offset := 0
		for _, name := range []string{"first", "second", "third", "fourth", "sixth", "seventh", "ninth", "eighth"} {
			i := strings.Index(string(text), ">"+name+"<")
			if n := strings.Count(string(text), ">"+name+"<"); n != 1 || i < offset {
				t.Errorf("%q occurs %d times in the legend, at offset %d after %d", name, n, i, offset)
			}
			offset = i
		}
		if strings.Contains(string(text), "NaN") || strings.Contains(string(text), "Inf") {
			t.Error("a coordinate that is not finite")
		}
	}
}

func TestLegendWraps(t *testing.T) {
	var entries []Entry
	for _, name := range []string{"one", "two", "three", "four"} {
		entries = append(entries, Entry{Name: name})
	}
	for _, c := range []struct {
		indent, width vg.Length
		want          string
	}{
		{0, 1000, "4"}, {0, 90, "2 2"}, {60, 90, "0 2 2"}, {0, 1, "1 1 1 1"}, {500, 90, "0 2 2"},
	} {
		var got []string
		for _, line := range wrapLegend(entries, c.indent, c.width) {
			got = append(got, strconv.Itoa(len(line)))
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%g after %g: %s, want %s", float64(c.width), float64(c.indent), g, c.want)
		}
	}
}

// A label that would reach the next rule or the end of the panel is left out.
func TestRulesLabelWhereThereIsRoom(t *testing.T) {
	f := Figure{Width: 300, Rows: []Row{{Height: 100, Stacks: []Stack{{X: Axis{Max: 100}, Panels: []Panel{{Share: 1, Max: 1, Layers: []Layer{
		Rules{X: []float64{-7, 10, 50, 51, 99}, Color: Purple, Labels: []string{"outside", "roomy", "tight", "wide", "late"}},
	}}}}}}}}
	text := expect.Get(f.Render(".svg"))(t)
	var got []string
	for _, label := range []string{"outside", "roomy", "tight", "wide", "late"} {
		if strings.Contains(string(text), ">"+label+"<") {
			got = append(got, label)
		}
	}
	if want := []string{"roomy", "wide"}; !slices.Equal(got, want) {
		t.Errorf("labels %v, want %v", got, want)
	}
}

func TestStripesShadeEverySecondRange(t *testing.T) {
	for _, c := range []struct {
		edges []float64
		want  int
	}{{nil, 0}, {[]float64{10}, 1}, {[]float64{10, 20}, 1}, {[]float64{10, 20, 30}, 2}} {
		f := Figure{Width: 300, Rows: []Row{{Height: 100, Stacks: []Stack{{X: Axis{Max: 100}, Panels: []Panel{{Share: 1, Max: 1, Layers: []Layer{
			Stripes{Edges: c.edges, Color: color.NRGBA{1, 2, 3, 255}},
		}}}}}}}}
		text := expect.Get(f.Render(".svg"))(t)
		if got := strings.Count(string(text), "fill:#010203"); got != c.want {
			t.Errorf("edges %v: %d stripes, want %d", c.edges, got, c.want)
		}
	}
}

// Every text of an SVG declares the width that it was measured with, so that other fonts have room.
func TestTextsHaveTheirLength(t *testing.T) {
	f := Figure{Width: 500, Rows: []Row{{Height: 200, Stacks: []Stack{{Title: "pump <text 1>", Note: "10 changes", Panels: []Panel{{
		Share: 1, Max: 1, Layers: []Layer{Line{Name: "estimate", X: []float64{0, 1}, Y: []float64{0, 1}, Color: Blue, Width: 1}},
	}}, X: Axis{Max: 1}}}}}}
	picture := expect.Get(f.Render(".svg"))(t)
	texts := regexp.MustCompile(`(?s)<text (.*?)>([^<]*)</text>`).FindAllStringSubmatch(string(picture), -1)
	found := 0
	for _, m := range texts {
		length := regexp.MustCompile(`textLength="([0-9.]+)" lengthAdjust="spacingAndGlyphs"`).FindStringSubmatch(m[1])
		if m[2] != "" && length == nil {
			t.Errorf("the text %q has no length", m[2])
		}
		if m[2] == "10 changes" {
			found++
			if want := fmt.Sprintf("%.5g", TextStyle(8, Gray, draw.YTop).Width("10 changes").Points()); length[1] != want {
				t.Errorf("the text %q has the length %s, want %s", m[2], length[1], want)
			}
		}
	}
	if found != 1 || len(texts) < 5 {
		t.Errorf("%d of %d texts are the note", found, len(texts))
	}
}

// The truncated text is the longest that fits. fit measures only the beginning of a long text.
func TestFit(t *testing.T) {
	st := TextStyle(8, Black, draw.YTop)
	for _, width := range []vg.Length{-5, 0, 3, 20, 50.5, 200} {
		for _, text := range []string{"", "a", "pump-1", strings.Repeat("W", 40), strings.Repeat("i.é", 100_000)} {
			got := fit(st, text, width)
			if got == text {
				if st.Width(text) > width && len([]rune(text)) > 1 {
					t.Errorf("%.20q is wider than %g", text, width)
				}
				continue
			}
			prefix := strings.TrimSuffix(got, "…")
			n := len([]rune(prefix))
			if prefix == got || !strings.HasPrefix(text, prefix) || n > 1 && st.Width(got) > width {
				t.Errorf("%.20q in %g: %.20q", text, width, got)
			}
			if r := []rune(text); n < len(r) && st.Width(string(r[:n+1])+"…") <= width {
				t.Errorf("%.20q in %g: %.20q, and one more rune fits", text, width, got)
			}
		}
	}
}

func TestDecadesAreEquallyLong(t *testing.T) {
	f := Figure{Width: 300, Rows: []Row{{Height: 100, Stacks: []Stack{{X: Axis{Log: true, Min: .1, Max: 1000}, Panels: []Panel{{Share: 1, Min: 2, Max: 3}}}}}}}
	svg := expect.Get(f.Render(".svg"))(t)
	place := func(text string) float64 {
		m := regexp.MustCompile(`<text[^>]* x="([-0-9.]+)"[^>]*>` + text + `</text>`).FindSubmatch(svg)
		if m == nil {
			t.Fatalf("no %s in %s", text, svg)
		}
		return expect.Get(strconv.ParseFloat(string(m[1]), 64))(t)
	}
	low, mid, high := place("1"), place("10"), place("100")
	if math.Abs(2*mid-low-high) > 6 {
		t.Errorf("1, 10 and 100 are at %g, %g and %g", low, mid, high)
	}
}
