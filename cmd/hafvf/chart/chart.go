// Package chart draws figures: stacks of panels on one time axis each, in rows,
// as SVG or PNG. What is drawn depends on the figure alone, so that equal figures
// are equal files.
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
	// OneLegend puts one legend over all rows, every name in it once, in place of
	// one over each panel.
	OneLegend bool
	Rows      []Row
	Notes     []string // paragraphs under the rows
}

// A Row is stacks side by side, equally wide. A stack without panels leaves its
// place free.
type Row struct {
	Height float64
	Stacks []Stack
}

// A Stack is panels above each other, on one x axis.
type Stack struct {
	Title  string
	Note   string // beside the title, in gray
	X      Axis
	Panels []Panel
}

// An Axis is the x axis of a stack. It is a little longer than from Min to Max,
// and has ticks at round times or else at whole numbers.
type Axis struct {
	Label    string
	Time     bool // Unix seconds, shown in UTC
	Log      bool // logarithmic, with ticks at powers of ten: Min must be above zero
	Min, Max float64
}

// A Panel is one set of axes. Its legend is the names of its layers.
type Panel struct {
	Title    string      // before the legend
	Label    string      // of the y axis
	Share    float64     // of the stack's height, against the other panels
	Min, Max float64     // of the y axis
	Log      bool        // logarithmic y axis: Min must be above zero
	Ticks    int         // into how many parts the y axis is cut, at most; zero stands for 4
	Marker   plot.Ticker // of the y axis, in place of round numbers
	Layers   []Layer     // what is listed first lies on top of others of its kind
}

const (
	tickSize = 7.5                // points
	Pixel    = 0.5 * vg.Length(1) // of a PNG at 144 dots per inch
	dpi      = 144
	margin   = 10 * vg.Length(1)
	between  = 6 * vg.Length(1) // panels of a stack
	strip    = 15 * vg.Length(1)
	noteLine = 11 * vg.Length(1)
)

// TextStyle is that of a text of which the given part is at its place.
func TextStyle(size float64, c color.Color, part draw.YAlignment) draw.TextStyle {
	sans := font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, vg.Length(size))
	return draw.TextStyle{Color: c, Font: sans, YAlign: part, Handler: plot.DefaultTextHandler}
}

func bold(size float64, part draw.YAlignment) draw.TextStyle {
	st := TextStyle(size, Black, part)
	st.Font.Weight = 3 // in the scale of golang.org/x/image/font
	return st
}

// Write draws the figure to path, an .svg or .png file, which appears complete or
// not at all.
func (f *Figure) Write(path string) error {
	picture, err := f.Render(filepath.Ext(path))
	if err != nil {
		return fmt.Errorf("%s cannot be drawn: %w", path, err)
	}
	return atomicfile.Write(path, picture)
}

// Render draws the figure in the format of files with the extension ext, .svg or
// .png.
func (f *Figure) Render(ext string) ([]byte, error) {
	w := vg.Length(f.Width)
	inner := w - 2*margin
	legend := f.legend()
	head := vg.Length(0)
	if f.Title != "" {
		head += strip + between
	}
	if lines := len(wrapLegend(legend, 0, inner)); lines > 0 {
		head += vg.Length(lines)*strip + between
	}
	var notes []string
	note := TextStyle(8, Gray, draw.YTop)
	for _, n := range f.Notes {
		notes = append(notes, wrap(note, n, inner)...)
	}
	h, foot := margin+head, vg.Length(0)
	if len(notes) > 0 {
		foot = vg.Length(len(notes))*noteLine + between
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
		top -= strip + between
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

// legend is that of all rows, if the figure has one.
func (f *Figure) legend() (legend []Entry) {
	if !f.OneLegend {
		return nil
	}
	for _, row := range f.Rows {
		for _, s := range row.Stacks {
			for _, p := range s.Panels {
				for _, e := range p.entries() {
					if !slices.ContainsFunc(legend, func(had Entry) bool { return had.Name == e.Name }) {
						legend = append(legend, e)
					}
				}
			}
		}
	}
	return legend
}

// newCanvas returns an empty picture, and what encodes it when it is drawn.
func newCanvas(ext string, w, h vg.Length) (c draw.Canvas, encode func() ([]byte, error), err error) {
	var buf bytes.Buffer
	switch ext {
	case ".svg":
		svg := &measured{Canvas: vgsvg.New(w, h)}
		return draw.New(svg), func() ([]byte, error) {
			if _, err := svg.WriteTo(&buf); err != nil {
				return nil, err
			}
			// Few readers of the picture have the font; these have its metrics, or at
			// least its looks.
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

// measured is a canvas for SVG that notes how long the texts on it are.
type measured struct {
	*vgsvg.Canvas
	lengths []vg.Length
}

// FillString implements vg.Canvas.
func (m *measured) FillString(f font.Face, at vg.Point, text string) {
	m.lengths = append(m.lengths, f.Width(text))
	m.Canvas.FillString(f, at, text)
}

// lengthen gives every text of the picture the length that it was laid out with, so that a
// wider font does not run into what stands beside it.
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

// draw draws the title and below it the panels.
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
	lines.x = ticks // whose places are only known now
	last := plots[len(plots)-1]
	last.X.Tick.Marker = plot.ConstantTicks(ticks)
	last.X.Label.Text = s.X.Label

	free := c.Max.Y - c.Min.Y - between*vg.Length(len(plots)-1) - (last.DataCanvas(c).Min.Y - c.Min.Y)
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
		top = box.Min.Y - between
		if p == last {
			box.Min.Y = c.Min.Y
		}
		box.Min.X += left - (p.DataCanvas(box).Min.X - box.Min.X)
		p.Draw(box)
	}
}

// plot returns the panel's axes and layers, and the grid under them.
func (p *Panel) plot(g *grid) *plot.Plot {
	pl := plot.New()
	pl.BackgroundColor = nil
	pl.X.Padding, pl.Y.Padding = 0, 0
	restyle := func(text *draw.TextStyle) {
		was := *text
		*text = TextStyle(tickSize, Black, was.YAlign)
		text.XAlign, text.Rotation = was.XAlign, was.Rotation
	}
	restyle(&pl.X.Label.TextStyle)
	if p.Label != "" {
		// An axis without a label still keeps the tick labels off by a space of
		// the label's size, for which the small one would be too little.
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

// entries are the panel's legend.
func (p *Panel) entries() (all []Entry) {
	for _, l := range p.Layers {
		if e := l.Entry(); e.Name != "" {
			all = append(all, e)
		}
	}
	return all
}

// An Entry is how a layer stands among others: its name in the legend, and what stands before it.
type Entry struct {
	Name  string
	Depth int                              // what is deeper lies above
	Mark  func(c draw.Canvas, at vg.Point) // of width Swatch
}

// Swatch is the width of what stands before a name in the legend.
const Swatch = 14 * vg.Length(1)

func legendStyle() draw.TextStyle     { return TextStyle(8, Black, draw.YCenter) }
func panelTitleStyle() draw.TextStyle { return bold(8, draw.YCenter) }

func panelTitleWidth(title string) vg.Length {
	if title == "" {
		return 0
	}
	return panelTitleStyle().Width(title) + 14
}

// wrapLegend cuts entries into lines of the given width, the first of which
// begins after indent.
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

// drawLegend draws a panel's title and its legend; at is the top left corner.
func drawLegend(c draw.Canvas, at vg.Point, title string, lines [][]Entry) {
	st := legendStyle()
	left := at.X
	for i, entries := range lines {
		at.X = left
		at.Y -= strip / 2
		if i == 0 && title != "" {
			c.FillText(panelTitleStyle(), at, title)
			at.X += panelTitleWidth(title)
		}
		for _, e := range entries {
			e.Mark(c, at)
			at.X += Swatch + 4
			c.FillText(st, at, e.Name)
			at.X += st.Width(e.Name) + 14
		}
		at.Y -= strip / 2
	}
}

// printable replaces what SVG does not allow in a text.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// fit cuts text so that it isn't wider than width. It measures little more of the text than
// it keeps.
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

// wrap cuts text at spaces into lines of the given width.
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

// Extent is the range of the finite values of v, without what lies so far out
// that showing it would flatten the rest: further beyond the inner 96 % than
// reach times their width. Where nothing varies it is widened.
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

// Pad widens a range by what an axis needs for nothing to lie on its ends.
func Pad(lo, hi float64) (float64, float64) {
	pad := 0.06 * (hi - lo)
	return lo - pad, hi + pad
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
