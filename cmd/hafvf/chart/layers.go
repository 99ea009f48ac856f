package chart

import (
	"cmp"
	"image/color"
	"iter"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Colours from the palette of Okabe and Ito, which people with any colour vision
// can tell apart; the grid and the data are tones beside it.
var (
	Black     = color.NRGBA{0x22, 0x22, 0x22, 0xff}
	Gray      = color.NRGBA{0x77, 0x77, 0x77, 0xff}
	Blue      = color.NRGBA{0x00, 0x72, 0xb2, 0xff}
	Vermilion = color.NRGBA{0xd5, 0x5e, 0x00, 0xff}
	Green     = color.NRGBA{0x00, 0x9e, 0x73, 0xff}
	Purple    = color.NRGBA{0xcc, 0x79, 0xa7, 0xff}
	Orange    = color.NRGBA{0xe6, 0x9f, 0x00, 0xff}

	gridGray = color.NRGBA{0xe8, 0xe8, 0xe8, 0xff}
)

// A Layer is something drawn in a panel: Rings and Arrows above Lines above Dots
// above Rules above Bands above Spans and Stripes. A layer with a name stands in
// the legend.
type Layer interface {
	plot.Plotter
	Entry() Entry
}

// A Point is a place in a panel, in the units of its axes.
type Point struct{ X, Y float64 }

// Points pairs the coordinates of points.
func Points(x, y []float64) []Point {
	all := make([]Point, len(x))
	for i := range x {
		all[i] = Point{x[i], y[i]}
	}
	return all
}

// Dots are observations.
type Dots struct {
	Name   string
	Points []Point
	Color  color.NRGBA
}

// Rings are drawn around observations.
type Rings struct {
	Name   string
	Points []Point
	Color  color.NRGBA
}

// Arrows stand at the ends of the y axis for the points that it leaves out.
type Arrows struct {
	Name   string
	Points []Point
	Color  color.NRGBA
}

// Flags are filled triangles that stand on the x axis.
type Flags struct {
	Name  string
	X     []float64
	Color color.NRGBA
}

// A Line goes through Y, broken where Y is not finite, or not positive on a
// logarithmic axis.
type Line struct {
	Name   string
	X, Y   []float64
	Color  color.NRGBA
	Width  float64 // points
	Dashed bool
}

// A Band is the area between Low and High, broken as a Line is.
type Band struct {
	Name         string
	X, Low, High []float64
	Color        color.NRGBA // drawn light
}

// Rules are vertical lines over the height of the panel.
type Rules struct {
	Name   string
	X      []float64 // not decreasing, where there are labels
	Color  color.NRGBA
	Width  float64 // points; zero stands for 0.8
	Dashed bool
	// Labels, one per rule or none, stand beside the upper ends, each only if it
	// ends before the next rule.
	Labels []string
}

// Spans are stretches of the x axis, shaded over the height of the panel. They
// may be open to a side: an infinite end is that of the axis.
type Spans struct {
	Name  string
	X     [][2]float64
	Color color.NRGBA
}

// Stripes shade every second of the stretches that the edges cut the x axis into,
// not the first.
type Stripes struct {
	Name  string
	Edges []float64 // not decreasing
	Color color.NRGBA
}

func (d Dots) Entry() Entry {
	return Entry{d.Name, 2, func(c draw.Canvas, at vg.Point) {
		c.SetColor(d.Color)
		for i := vg.Length(0); i < 3; i++ {
			c.Fill(dot(vg.Point{X: at.X + Swatch*(i+0.5)/3, Y: at.Y + 1.5*(i-1)}, 1.1))
		}
	}}
}

func (r Rings) Entry() Entry {
	return Entry{r.Name, 4, func(c draw.Canvas, at vg.Point) {
		c.SetColor(r.Color)
		c.SetLineWidth(ringWidth)
		c.Stroke(dot(vg.Point{X: at.X + Swatch/2, Y: at.Y}, 2.8))
	}}
}

func (b Arrows) Entry() Entry {
	return Entry{b.Name, 4, func(c draw.Canvas, at vg.Point) {
		c.SetColor(b.Color)
		c.Fill(triangle(vg.Point{X: at.X + Swatch/2, Y: at.Y + 2.5}, 2.4, 4.5))
	}}
}

func (f Flags) Entry() Entry {
	return Entry{f.Name, 5, func(c draw.Canvas, at vg.Point) {
		c.SetColor(f.Color)
		c.Fill(triangle(vg.Point{X: at.X + Swatch/2, Y: at.Y + flag/2}, flag/2, flag))
	}}
}

func (l Line) Entry() Entry {
	return Entry{l.Name, 3, func(c draw.Canvas, at vg.Point) {
		c.StrokeLine2(lineStyle(l.Color, 1.5, l.Dashed), at.X, at.Y, at.X+Swatch, at.Y)
	}}
}

func (b Band) Entry() Entry {
	return Entry{b.Name, 0, func(c draw.Canvas, at vg.Point) {
		c.FillPolygon(light(b.Color), Box(at.X, at.Y-3, at.X+Swatch, at.Y+3))
	}}
}

func (s Spans) Entry() Entry {
	return Entry{s.Name, -1, func(c draw.Canvas, at vg.Point) {
		c.FillPolygon(s.Color, Box(at.X, at.Y-5, at.X+Swatch, at.Y+5))
	}}
}

func (s Stripes) Entry() Entry {
	return Entry{s.Name, -1, func(c draw.Canvas, at vg.Point) {
		outline := Box(at.X, at.Y-5, at.X+Swatch, at.Y+5)
		c.FillPolygon(s.Color, Box(at.X+Swatch/2, at.Y-5, at.X+Swatch, at.Y+5))
		c.StrokeLines(draw.LineStyle{Color: Gray, Width: 0.3}, append(outline, outline[0]))
	}}
}

// Box is the rectangle between two corners.
func Box(left, lower, right, upper vg.Length) []vg.Point {
	return []vg.Point{{X: left, Y: lower}, {X: right, Y: lower}, {X: right, Y: upper}, {X: left, Y: upper}}
}

func (r Rules) Entry() Entry {
	return Entry{r.Name, 1, func(c draw.Canvas, at vg.Point) {
		c.StrokeLine2(r.style(), at.X+Swatch/2, at.Y-5, at.X+Swatch/2, at.Y+5)
	}}
}

const (
	ruleWidth = 0.8
	ringWidth = 0.9 * vg.Length(1)
)

func (r Rules) style() draw.LineStyle {
	return lineStyle(r.Color, cmp.Or(r.Width, ruleWidth), r.Dashed)
}

func lineStyle(col color.Color, width float64, dashed bool) draw.LineStyle {
	st := draw.LineStyle{Color: col, Width: vg.Length(width)}
	if dashed {
		st.Dashes = []vg.Length{3, 2}
	}
	return st
}

func light(c color.NRGBA) color.NRGBA {
	c.A = 0x33
	return c
}

// grid is the light lines at the ticks.
type grid struct{ x []plot.Tick }

func (g *grid) Plot(c draw.Canvas, p *plot.Plot) {
	st := draw.LineStyle{Color: gridGray, Width: 0.5}
	x, y := p.Transforms(&c)
	for _, t := range g.x {
		c.StrokeLine2(st, x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
	}
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		c.StrokeLine2(st, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
	}
}

// Plot implements plot.Plotter.
func (d Dots) Plot(c draw.Canvas, p *plot.Plot) {
	shown := within(d.Points, p, p.Y.Min, p.Y.Max)
	radius := vg.Length(0.7)
	if len(shown) < 500 {
		radius = 1.5
	}
	c.SetColor(d.Color)
	circles(c, p, shown, 2*Pixel, radius, c.Fill)
}

// circles draws circles about the points, one in a cell of so much width and height. In one path
// they would cost the time of their number squared, and each in its own much space.
func circles(c draw.Canvas, p *plot.Plot, points []Point, cell, radius vg.Length, paint func(vg.Path)) {
	x, y := p.Transforms(&c)
	points = sparse(points, func(q Point) [2]int {
		return [2]int{int((x(q.X) - c.Min.X) / cell), int((y(q.Y) - c.Min.Y) / cell)}
	})
	for some := range slices.Chunk(points, 500) {
		var path vg.Path
		for _, q := range some {
			path = append(path, dot(vg.Point{X: x(q.X), Y: y(q.Y)}, radius)...)
		}
		paint(path)
	}
}

// Plot implements plot.Plotter.
func (r Rings) Plot(c draw.Canvas, p *plot.Plot) {
	shown := within(r.Points, p, p.Y.Min, p.Y.Max)
	radius, width := vg.Length(3), ringWidth
	if len(shown) > 100 {
		radius, width = 1.6, 0.6
	}
	c.SetColor(r.Color)
	c.SetLineWidth(width)
	circles(c, p, shown, Pixel, radius, c.Stroke)
}

// Plot implements plot.Plotter.
func (b Arrows) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	var all vg.Path
	for _, end := range []struct {
		points    []Point
		y         vg.Length
		direction vg.Length
	}{
		{within(b.Points, p, p.Y.Max, math.Inf(1)), c.Max.Y, 1},
		{within(b.Points, p, math.Inf(-1), p.Y.Min), c.Min.Y, -1},
	} {
		for _, q := range sparse(end.points, func(q Point) [2]int { return [2]int{int((x(q.X) - c.Min.X) / Pixel)} }) {
			all = append(all, triangle(vg.Point{X: x(q.X), Y: end.y}, 2.4, 4.5*end.direction)...)
		}
	}
	c.SetColor(b.Color)
	c.Fill(all)
}

// Plot implements plot.Plotter.
func (f Flags) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	var all vg.Path
	for _, at := range f.X {
		if at >= p.X.Min && at <= p.X.Max {
			all = append(all, triangle(vg.Point{X: x(at), Y: c.Min.Y + flag}, flag/2, flag)...)
		}
	}
	c.SetColor(f.Color)
	c.Fill(all)
}

// within returns the points on p's x axis with Y from lo to hi.
func within(d []Point, p *plot.Plot, lo, hi float64) []Point {
	return slices.DeleteFunc(slices.Clone(d), func(q Point) bool {
		return !(q.Y >= lo && q.Y <= hi && q.X >= p.X.Min && q.X <= p.X.Max)
	})
}

// sparse drops the points that fall on the cell of one before.
func sparse(d []Point, cell func(Point) [2]int) []Point {
	taken := map[[2]int]bool{}
	var kept []Point
	for _, q := range d {
		if at := cell(q); !taken[at] {
			taken[at] = true
			kept = append(kept, q)
		}
	}
	return kept
}

func dot(center vg.Point, radius vg.Length) vg.Path {
	var p vg.Path
	p.Move(vg.Point{X: center.X + radius, Y: center.Y})
	p.Arc(center, radius, 0, 2*math.Pi)
	p.Close()
	return p
}

// flag is the height of a flag.
const flag = vg.Length(8)

// triangle has its tip at tip, and points up, or with a negative height down.
func triangle(tip vg.Point, half, height vg.Length) vg.Path {
	var p vg.Path
	p.Move(tip)
	p.Line(vg.Point{X: tip.X - half, Y: tip.Y - height})
	p.Line(vg.Point{X: tip.X + half, Y: tip.Y - height})
	p.Close()
	return p
}

// Plot implements plot.Plotter.
func (l Line) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	column := func(i int) int { return int((x(l.X[i]) - c.Min.X) / Pixel) }
	st := lineStyle(l.Color, l.Width, l.Dashed)
	for from, to := range runs(len(l.Y), func(i int) bool { return onScale(p, l.Y[i]) }) {
		var path []vg.Point
		for _, i := range envelope(l.Y, from, to, column) {
			path = append(path, vg.Point{X: x(l.X[i]), Y: y(l.Y[i])})
		}
		if len(path) == 1 {
			path = append(path, vg.Point{X: path[0].X + Pixel, Y: path[0].Y})
		}
		c.StrokeLines(st, c.ClipLinesXY(path)...)
	}
}

// Plot implements plot.Plotter.
func (b Band) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	column := func(i int) int { return int((x(b.X[i]) - c.Min.X) / Pixel) }
	for from, to := range runs(len(b.X), func(i int) bool { return onScale(p, b.Low[i]) && onScale(p, b.High[i]) }) {
		var area []vg.Point
		for _, i := range envelope(b.High, from, to, column) {
			area = append(area, vg.Point{X: x(b.X[i]), Y: y(b.High[i])})
		}
		for _, i := range slices.Backward(envelope(b.Low, from, to, column)) {
			area = append(area, vg.Point{X: x(b.X[i]), Y: y(b.Low[i])})
		}
		c.FillPolygon(light(b.Color), c.ClipPolygonXY(area))
	}
}

// Plot implements plot.Plotter.
func (r Rules) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	label := TextStyle(tickSize, Black, draw.YTop)
	for i, v := range r.X {
		if !(v >= p.X.Min && v <= p.X.Max) {
			continue
		}
		c.StrokeLine2(r.style(), x(v), c.Min.Y, x(v), c.Max.Y)
		if i >= len(r.Labels) {
			continue
		}
		const off = 2
		end := c.Max.X
		if i+1 < len(r.X) {
			end = min(end, x(r.X[i+1]))
		}
		if left := x(v) + off; left+label.Width(r.Labels[i])+off <= end {
			c.FillText(label, vg.Point{X: left, Y: c.Max.Y - labelDrop}, r.Labels[i])
		}
	}
}

// labelDrop is how far below the panel's upper end labels begin: below the
// arrows.
const labelDrop = 5

// Plot implements plot.Plotter.
func (s Spans) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	for _, v := range s.X {
		if lo, hi := max(v[0], p.X.Min), min(v[1], p.X.Max); lo < hi {
			c.FillPolygon(s.Color, Box(x(lo), c.Min.Y, max(x(hi), x(lo)+Pixel), c.Max.Y))
		}
	}
}

// Plot implements plot.Plotter.
func (s Stripes) Plot(c draw.Canvas, p *plot.Plot) {
	spans := Spans{Color: s.Color}
	for pair := range slices.Chunk(s.Edges, 2) {
		spans.X = append(spans.X, [2]float64{pair[0], math.Inf(1)})
		if len(pair) == 2 {
			spans.X[len(spans.X)-1][1] = pair[1]
		}
	}
	spans.Plot(c, p)
}

// onScale reports whether p's y axis has a place for v.
func onScale(p *plot.Plot, v float64) bool {
	_, log := p.Y.Scale.(plot.LogScale)
	return finite(v) && (v > 0 || !log)
}

// runs yields the maximal ranges [from, to) of [0, n) in which ok holds.
func runs(n int, ok func(int) bool) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for from := 0; from < n; from++ {
			to := from
			for to < n && ok(to) {
				to++
			}
			if to > from && !yield(from, to) {
				return
			}
			from = to
		}
	}
}

// envelope returns the indices in [from, to) that a line through v needs: for
// every pixel column the first, the least, the greatest and the last, so that it
// looks the same and keeps every extreme.
func envelope(v []float64, from, to int, column func(int) int) []int {
	var kept []int
	for i := from; i < to; {
		least, most, end := i, i, i
		for ; end < to && column(end) == column(i); end++ {
			if v[end] < v[least] {
				least = end
			}
			if v[end] > v[most] {
				most = end
			}
		}
		here := []int{i, least, most, end - 1}
		slices.Sort(here)
		kept = append(kept, slices.Compact(here)...)
		i = end
	}
	return kept
}
