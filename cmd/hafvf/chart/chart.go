// Package chart draws figures as SVG or PNG. A figure has rows of stacks, and a stack has panels on one x axis. The
// output depends on the figure only: equal figures give equal files.
package chart

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"hafvf/internal/atomicfile"
)

// A Figure is rows of stacks. Lengths are in points.
type Figure struct {
	Title string
	Width float64
	// OneLegend draws one legend above all rows, with each name once, instead of a legend above each panel.
	OneLegend bool
	Rows      []Row
	Notes     []string // paragraphs under the rows
}

// A Row is stacks side by side, of equal width. A stack without panels leaves its place empty.
type Row struct {
	Height float64
	Stacks []Stack
}

// A Stack is panels above each other, on one x axis.
type Stack struct {
	Title  string
	Note   string // text next to the title, in gray
	X      Axis
	Panels []Panel
}

// An Axis is the x axis of a stack. It extends slightly beyond Min and Max, unless it is logarithmic. Its ticks are
// at round times or, without Time, at whole numbers.
type Axis struct {
	Label    string
	Time     bool // Unix seconds, shown in UTC
	Log      bool // logarithmic, with ticks at powers of ten: Min must be above 0
	Min, Max float64
}

// A Panel is one set of axes. Its legend lists the names of its layers.
type Panel struct {
	Title    string      // printed before the legend
	Label    string      // label of the y axis
	Share    float64     // share of the stack's height, relative to the other panels
	Min, Max float64     // limits of the y axis
	Log      bool        // logarithmic y axis: Min must be above 0
	Ticks    int         // maximum number of parts between the ticks of the y axis; 0 means 4
	Marker   plot.Ticker // ticks of the y axis; nil means round numbers
	Layers   []Layer     // layers; of layers with equal depth, the first is on top
}

const (
	tickSize = 7.5                // points
	Pixel    = 0.5 * vg.Length(1) // one pixel of a PNG at 144 dots per inch
	dpi      = 144
	margin   = 10 * vg.Length(1)
	panelGap = 6 * vg.Length(1) // gap between the panels of a stack
	strip    = 15 * vg.Length(1)
	noteLine = 11 * vg.Length(1)
)

// TextStyle returns a sans-serif style. part is the part of a text (top, centre or bottom) that is drawn at its
// position.
func TextStyle(size float64, c color.Color, part draw.YAlignment) draw.TextStyle {
	sans := font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, vg.Length(size))
	return draw.TextStyle{Color: c, Font: sans, YAlign: part, Handler: plot.DefaultTextHandler}
}

func bold(size float64, part draw.YAlignment) draw.TextStyle {
	st := TextStyle(size, Black, part)
	st.Font.Weight = 3 // weight on the scale of golang.org/x/image/font
	return st
}

// Write draws the figure to path, an .svg or .png file. An existing file is replaced only by a complete one.
func (f *Figure) Write(path string) error {
	picture, err := f.Render(filepath.Ext(path))
	if err != nil {
		return fmt.Errorf("%s cannot be drawn: %w", path, err)
	}
	return atomicfile.Write(path, picture)
}

// Render returns the figure in the format of the extension ext, .svg or .png. It fails for other extensions.
func (f *Figure) Render(ext string) ([]byte, error) {
	w := vg.Length(f.Width)
	inner := w - 2*margin
	legend := f.legend()
	head := vg.Length(0)
	if f.Title != "" {
		head += strip + panelGap
	}
	if lines := len(wrapLegend(legend, 0, inner)); lines > 0 {
		head += vg.Length(lines)*strip + panelGap
	}
	var notes []string
	note := TextStyle(8, Gray, draw.YTop)
	for _, n := range f.Notes {
		notes = append(notes, wrap(note, n, inner)...)
	}
	h, foot := margin+head, vg.Length(0)
	if len(notes) > 0 {
		foot = vg.Length(len(notes))*noteLine + panelGap
	}
	h += foot
	stacks := 0
	for _, row := range f.Rows {
		h += vg.Length(row.Height)
		stacks += len(row.Stacks)
	}

	c, encode, err := newCanvas(ext, w, h)
	if err != nil {
		return nil, err
	}
	c.FillPolygon(color.White, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})

	top := c.Max.Y
	if f.Title != "" {
		st := bold(12, draw.YTop)
		c.FillText(st, vg.Point{X: c.Min.X + margin, Y: top - margin}, fit(st, printable(f.Title), inner))
		top -= strip + panelGap
	}
	drawLegend(c, vg.Point{X: c.Min.X + margin, Y: top - margin/2}, "", wrapLegend(legend, 0, inner))
	titleSize := 9.5
	if stacks == 1 && f.Title == "" {
		titleSize = 12
	}
	y := head
	for _, row := range f.Rows {
		width := (w - margin) / vg.Length(len(row.Stacks))
		for i, s := range row.Stacks {
			box := draw.Crop(c, vg.Length(i)*width+margin, 0, 0, -y-margin)
			box.Max.X = box.Min.X + width - margin
			box.Min.Y = box.Max.Y - vg.Length(row.Height) + margin
			s.draw(box, bold(titleSize, draw.YTop), !f.OneLegend)
		}
		y += vg.Length(row.Height)
	}
	for i, n := range notes {
		c.FillText(note, vg.Point{X: c.Min.X + margin, Y: c.Min.Y + foot - vg.Length(i)*noteLine}, n)
	}
	return encode()
}

// legend returns the entries of the legend above all rows, or nil without OneLegend.
func (f *Figure) legend() (legend []Entry) {
	if !f.OneLegend {
		return nil
	}
	for _, row := range f.Rows {
		for _, s := range row.Stacks {
			for _, p := range s.Panels {
				for _, e := range p.entries() {
					if !slices.ContainsFunc(legend, func(known Entry) bool { return known.Name == e.Name }) {
						legend = append(legend, e)
					}
				}
			}
		}
	}
	return legend
}

// newCanvas returns an empty canvas of the format ext, and a function that encodes it after drawing.
func newCanvas(ext string, w, h vg.Length) (c draw.Canvas, encode func() ([]byte, error), err error) {
	var buf bytes.Buffer
	switch ext {
	case ".svg":
		svg := &measured{Canvas: vgsvg.New(w, h)}
		return draw.New(svg), func() ([]byte, error) {
			if _, err := svg.WriteTo(&buf); err != nil {
				return nil, err
			}
			// Most viewers do not have Liberation Sans. Arial has the same metrics; the others look similar.
			text := bytes.ReplaceAll(buf.Bytes(), []byte("font-family:Liberation Sans;"),
				[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
			return svg.lengthen(text), nil
		}, nil
	case ".png":
		png := vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(dpi))
		return draw.New(png), func() ([]byte, error) {
			_, err := vgimg.PngCanvas{Canvas: png}.WriteTo(&buf)
			return buf.Bytes(), err
		}, nil
	}
	return c, nil, fmt.Errorf("no picture has the extension %q", ext)
}

// measured is an SVG canvas that records the width of each text.
type measured struct {
	*vgsvg.Canvas
	lengths []vg.Length
}

// FillString implements vg.Canvas.
func (m *measured) FillString(f font.Face, position vg.Point, text string) {
	m.lengths = append(m.lengths, f.Width(text))
	m.Canvas.FillString(f, position, text)
}

// lengthen adds the measured width to every text of the picture, so that a wider font does not overlap its
// neighbours.
func (m *measured) lengthen(picture []byte) []byte {
	const element = "<text "
	parts := bytes.Split(picture, []byte(element))
	var b bytes.Buffer
	b.Write(parts[0])
	for i, part := range parts[1:] {
		b.WriteString(element)
		if l := m.lengths[i]; l > 0 {
			fmt.Fprintf(&b, `textLength="%.5g" lengthAdjust="spacingAndGlyphs" `, l.Points())
		}
		b.Write(part)
	}
	return b.Bytes()
}

// draw draws the title and, below it, the panels.
func (s *Stack) draw(c draw.Canvas, title draw.TextStyle, legends bool) {
	if len(s.Panels) == 0 {
		return
	}
	if s.Title != "" {
		note := TextStyle(8, Gray, draw.YTop)
		gap := note.Width("  ")
		name := fit(title, printable(s.Title), c.Max.X-c.Min.X-gap-note.Width(s.Note))
		c.FillText(title, vg.Point{X: c.Min.X, Y: c.Max.Y}, name)
		lower := title.FontExtents().Ascent - note.FontExtents().Ascent
		c.FillText(note, vg.Point{X: c.Min.X + title.Width(name) + gap, Y: c.Max.Y - lower}, s.Note)
		c.Max.Y -= strip
	}

	pad := 0.01 * (s.X.Max - s.X.Min)
	switch {
	case pad == 0 && s.X.Time:
		pad = time.Hour.Seconds()
	case pad == 0:
		pad = 1
	}
	lo, hi := s.X.Min-pad, s.X.Max+pad
	if s.X.Log {
		lo, hi = s.X.Min, s.X.Max
	}

	plots := make([]*plot.Plot, len(s.Panels))
	lines := new(grid)
	var left, shares vg.Length
	for i := range s.Panels {
		p := &s.Panels[i]
		plots[i] = p.plot(lines)
		plots[i].X.Min, plots[i].X.Max = lo, hi
		if s.X.Log {
			plots[i].X.Scale = plot.LogScale{}
		}
		plots[i].X.Tick.Marker = plot.ConstantTicks(nil)
		left = max(left, plots[i].DataCanvas(c).Min.X-c.Min.X)
		shares += vg.Length(p.Share)
	}
	ticks := s.X.ticks(lo, hi, c.Max.X-c.Min.X-left)
	lines.x = ticks // the ticks depend on the width of the plots
	last := plots[len(plots)-1]
	last.X.Tick.Marker = plot.ConstantTicks(ticks)
	last.X.Label.Text = s.X.Label

	free := c.Max.Y - c.Min.Y - panelGap*vg.Length(len(plots)-1) - (last.DataCanvas(c).Min.Y - c.Min.Y)
	heads := make([][][]Entry, len(plots))
	above := make([]vg.Length, len(plots))
	for i := range s.Panels {
		p := &s.Panels[i]
		if legends {
			heads[i] = wrapLegend(p.entries(), panelTitleWidth(p.Title), c.Max.X-c.Min.X-left)
		}
		if len(heads[i]) == 0 && p.Title != "" {
			heads[i] = [][]Entry{nil}
		}
		above[i] = vg.Length(len(heads[i])) * strip
		free -= above[i]
	}

	top := c.Max.Y
	for i, p := range plots {
		drawLegend(c, vg.Point{X: c.Min.X + left, Y: top}, s.Panels[i].Title, heads[i])
		box := c
		box.Max.Y = top - above[i]
		box.Min.Y = box.Max.Y - free*vg.Length(s.Panels[i].Share)/shares
		top = box.Min.Y - panelGap
		if p == last {
			box.Min.Y = c.Min.Y
		}
		box.Min.X += left - (p.DataCanvas(box).Min.X - box.Min.X)
		p.Draw(box)
	}
}

// plot returns the panel's axes, grid and layers.
func (p *Panel) plot(g *grid) *plot.Plot {
	pl := plot.New()
	pl.BackgroundColor = nil
	pl.X.Padding, pl.Y.Padding = 0, 0
	restyle := func(text *draw.TextStyle) {
		previous := *text
		*text = TextStyle(tickSize, Black, previous.YAlign)
		text.XAlign, text.Rotation = previous.XAlign, previous.Rotation
	}
	restyle(&pl.X.Label.TextStyle)
	if p.Label != "" {
		// An axis without a label still pads the tick labels by the label's size. The small size would be too little.
		restyle(&pl.Y.Label.TextStyle)
		pl.Y.Label.Padding = 3
	}
	for _, a := range []*plot.Axis{&pl.X, &pl.Y} {
		restyle(&a.Tick.Label)
		a.LineStyle.Color, a.Tick.LineStyle.Color = Gray, Gray
		a.Tick.Length = 3
	}
	pl.Y.Label.Text = p.Label
	pl.Y.Min, pl.Y.Max = p.Min, p.Max
	pl.Y.Tick.Marker = numberTicks(cmp.Or(p.Ticks, 4))
	if p.Log {
		pl.Y.Scale, pl.Y.Tick.Marker = plot.LogScale{}, logTicks{}
	}
	if p.Marker != nil {
		pl.Y.Tick.Marker = p.Marker
	}
	pl.Add(g)
	layers := slices.Clone(p.Layers)
	slices.Reverse(layers)
	slices.SortStableFunc(layers, func(a, b Layer) int { return cmp.Compare(a.Entry().Depth, b.Entry().Depth) })
	for _, l := range layers {
		pl.Add(l)
	}
	return pl
}

// entries returns the legend entries of the layers that have a name.
func (p *Panel) entries() (entries []Entry) {
	for _, layer := range p.Layers {
		if e := layer.Entry(); e.Name != "" {
			entries = append(entries, e)
		}
	}
	return entries
}

// An Entry is a layer's name and symbol in the legend, and its depth.
type Entry struct {
	Name  string
	Depth int                                    // layers of larger depth are drawn above
	Mark  func(c draw.Canvas, position vg.Point) // draws the symbol, of width Swatch; position is its left centre
}

// Swatch is the width of the symbol before a name in the legend.
const Swatch = 14 * vg.Length(1)

func legendStyle() draw.TextStyle     { return TextStyle(8, Black, draw.YCenter) }
func panelTitleStyle() draw.TextStyle { return bold(8, draw.YCenter) }

func panelTitleWidth(title string) vg.Length {
	if title == "" {
		return 0
	}
	return panelTitleStyle().Width(title) + 14
}

// wrapLegend splits entries into lines of at most width. The first line begins at indent.
func wrapLegend(entries []Entry, indent, width vg.Length) [][]Entry {
	if len(entries) == 0 {
		return nil
	}
	st := legendStyle()
	lines := [][]Entry{nil}
	x := indent
	for _, e := range entries {
		w := Swatch + 4 + st.Width(e.Name)
		if x > 0 && x+w > width {
			lines = append(lines, nil)
			x = 0
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], e)
		x += w + 14
	}
	return lines
}

// drawLegend draws a panel's title and legend. corner is the top left corner.
func drawLegend(c draw.Canvas, corner vg.Point, title string, lines [][]Entry) {
	st := legendStyle()
	left := corner.X
	for i, entries := range lines {
		corner.X = left
		corner.Y -= strip / 2
		if i == 0 && title != "" {
			c.FillText(panelTitleStyle(), corner, title)
			corner.X += panelTitleWidth(title)
		}
		for _, e := range entries {
			e.Mark(c, corner)
			corner.X += Swatch + 4
			c.FillText(st, corner, e.Name)
			corner.X += st.Width(e.Name) + 14
		}
		corner.Y -= strip / 2
	}
}

// printable replaces characters that are not printable, which SVG does not allow.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// fit truncates text to width, with an ellipsis. It measures little more of the text than it returns.
func fit(st draw.TextStyle, text string, width vg.Length) string {
	r := []rune(text)
	if len(r) == 0 {
		return text
	}
	wide := func(n int) bool { return st.Width(string(r[:n])+"…") > width }
	n := 1
	for n < len(r) && !wide(n) {
		n = min(2*n, len(r))
	}
	if n >= len(r) && st.Width(text) <= width {
		return text
	}
	n = sort.Search(n, wide)
	return string(r[:max(1, n-1)]) + "…"
}

// wrap splits text at spaces into lines of at most width. A longer word is a line of its own.
func wrap(st draw.TextStyle, text string, width vg.Length) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		longer := strings.TrimSpace(line + " " + word)
		if line != "" && st.Width(longer) > width {
			lines = append(lines, line)
			longer = word
		}
		line = longer
	}
	return append(lines, line)
}

// Extent returns the range of the finite values of v, without outliers that would flatten the rest: values beyond the
// inner 96 % by more than reach times their range. It returns 0 and 1 without finite values, and widens a range of
// width 0.
func Extent(v []float64, reach float64) (lo, hi float64) {
	s := slices.DeleteFunc(slices.Clone(v), func(x float64) bool { return !finite(x) })
	if len(s) == 0 {
		return 0, 1
	}
	slices.Sort(s)
	lo, hi = s[0], s[len(s)-1]
	if k := max(len(s)/50, 1); len(s) > 2*k {
		inner, outer := s[k], s[len(s)-1-k]
		if w := outer - inner; w > 0 {
			if inner-lo > reach*w {
				lo = inner - reach/3*w
			}
			if hi-outer > reach*w {
				hi = outer + reach/3*w
			}
		}
	}
	if hi == lo {
		d := max(math.Abs(lo)/10, 0.5)
		return lo - d, hi + d
	}
	return lo, hi
}

// Pad widens a range by 6 % at each end, so that no value is on the edge of an axis.
func Pad(lo, hi float64) (float64, float64) {
	pad := 0.06 * (hi - lo)
	return lo - pad, hi + pad
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
