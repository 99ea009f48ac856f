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

// The palette of Okabe and Ito, which is distinguishable with any colour vision, and grays for the data and the grid.
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

// A Layer is drawn in a panel. From top to bottom: Flags, then Rings and Arrows, Lines, Dots, Rules, Bands, Spans and
// Stripes. A layer with a name is in the legend.
type Layer interface {
	plot.Plotter
	Entry() Entry
}

// A Point is a position in a panel, in the units of its axes.
type Point struct{ X, Y float64 }

// Points returns the points with the coordinates x and y, which have equal length.
func Points(x, y []float64) []Point {
	points := make([]Point, len(x))
	for i := range x {
		points[i] = Point{x[i], y[i]}
	}
	return points
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

// Arrows mark points outside the y axis, at the nearer end of the axis.
type Arrows struct {
	Name   string
	Points []Point
	Color  color.NRGBA
}

// Flags are filled triangles on the x axis.
type Flags struct {
	Name  string
	X     []float64
	Color color.NRGBA
}

// A Line connects the values Y. It has gaps where Y is not finite or, on a logarithmic axis, not positive.
type Line struct {
	Name   string
	X, Y   []float64
	Color  color.NRGBA
	Width  float64 // points
	Dashed bool
}

// A Band is the area between Low and High. It has the same gaps as a Line.
type Band struct {
	Name         string
	X, Low, High []float64
	Color        color.NRGBA // drawn with 20 % opacity
}

// Rules are vertical lines across the panel.
type Rules struct {
	Name   string
	X      []float64 // not decreasing if there are labels
	Color  color.NRGBA
	Width  float64 // points; 0 means 0.8
	Dashed bool
	// Labels has one label per rule, or is nil. A label is drawn next to the upper end of its rule, if it ends before
	// the next rule.
	Labels []string
}

// Spans are ranges of the x axis, shaded across the panel. An infinite end means the end of the axis.
type Spans struct {
	Name  string
	X     [][2]float64
	Color color.NRGBA
}

// Stripes shade every second range between the edges, from the first edge.
type Stripes struct {
	Name  string
	Edges []float64 // not decreasing
	Color color.NRGBA
}

func (d Dots) Entry() Entry {
	return Entry{d.Name, 2, func(c draw.Canvas, position vg.Point) {
		c.SetColor(d.Color)
		for i := vg.Length(0); i < 3; i++ {
			c.Fill(dot(vg.Point{X: position.X + Swatch*(i+0.5)/3, Y: position.Y + 1.5*(i-1)}, 1.1))
		}
	}}
}

func (r Rings) Entry() Entry {
	return Entry{r.Name, 4, func(c draw.Canvas, position vg.Point) {
		c.SetColor(r.Color)
		c.SetLineWidth(ringWidth)
		c.Stroke(dot(vg.Point{X: position.X + Swatch/2, Y: position.Y}, 2.8))
	}}
}

func (a Arrows) Entry() Entry {
	return Entry{a.Name, 4, func(c draw.Canvas, position vg.Point) {
		c.SetColor(a.Color)
		c.Fill(triangle(vg.Point{X: position.X + Swatch/2, Y: position.Y + 2.5}, 2.4, 4.5))
	}}
}

func (f Flags) Entry() Entry {
	return Entry{f.Name, 5, func(c draw.Canvas, position vg.Point) {
		c.SetColor(f.Color)
		c.Fill(triangle(vg.Point{X: position.X + Swatch/2, Y: position.Y + flagHeight/2}, flagHeight/2, flagHeight))
	}}
}

func (l Line) Entry() Entry {
	return Entry{l.Name, 3, func(c draw.Canvas, position vg.Point) {
		c.StrokeLine2(lineStyle(l.Color, 1.5, l.Dashed), position.X, position.Y, position.X+Swatch, position.Y)
	}}
}

func (b Band) Entry() Entry {
	return Entry{b.Name, 0, func(c draw.Canvas, position vg.Point) {
		c.FillPolygon(light(b.Color), Box(position.X, position.Y-3, position.X+Swatch, position.Y+3))
	}}
}

func (s Spans) Entry() Entry {
	return Entry{s.Name, -1, func(c draw.Canvas, position vg.Point) {
		c.FillPolygon(s.Color, Box(position.X, position.Y-5, position.X+Swatch, position.Y+5))
	}}
}

func (s Stripes) Entry() Entry {
	return Entry{s.Name, -1, func(c draw.Canvas, position vg.Point) {
		outline := Box(position.X, position.Y-5, position.X+Swatch, position.Y+5)
		c.FillPolygon(s.Color, Box(position.X+Swatch/2, position.Y-5, position.X+Swatch, position.Y+5))
		c.StrokeLines(draw.LineStyle{Color: Gray, Width: 0.3}, append(outline, outline[0]))
	}}
}

// Box returns the corners of a rectangle, counterclockwise from the lower left.
func Box(left, lower, right, upper vg.Length) []vg.Point {
	return []vg.Point{{X: left, Y: lower}, {X: right, Y: lower}, {X: right, Y: upper}, {X: left, Y: upper}}
}

func (r Rules) Entry() Entry {
	return Entry{r.Name, 1, func(c draw.Canvas, position vg.Point) {
		c.StrokeLine2(r.style(), position.X+Swatch/2, position.Y-5, position.X+Swatch/2, position.Y+5)
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

// grid draws light lines at the ticks.
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

// circles draws circles at the points, at most one per square cell of the given width. It paints 500 at a time: one
// path costs time quadratic in its points, and a path per circle makes the file large.
func circles(c draw.Canvas, p *plot.Plot, points []Point, cell, radius vg.Length, paint func(vg.Path)) {
	x, y := p.Transforms(&c)
	points = sparse(points, func(q Point) [2]int {
		return [2]int{int((x(q.X) - c.Min.X) / cell), int((y(q.Y) - c.Min.Y) / cell)}
	})
	for chunk := range slices.Chunk(points, 500) {
		var path vg.Path
		for _, q := range chunk {
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
func (a Arrows) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	var path vg.Path
	for _, end := range []struct {
		points    []Point
		y         vg.Length
		direction vg.Length
	}{
		{within(a.Points, p, p.Y.Max, math.Inf(1)), c.Max.Y, 1},
		{within(a.Points, p, math.Inf(-1), p.Y.Min), c.Min.Y, -1},
	} {
		for _, q := range sparse(end.points, func(q Point) [2]int { return [2]int{int((x(q.X) - c.Min.X) / Pixel)} }) {
			path = append(path, triangle(vg.Point{X: x(q.X), Y: end.y}, 2.4, 4.5*end.direction)...)
		}
	}
	c.SetColor(a.Color)
	c.Fill(path)
}

// Plot implements plot.Plotter.
func (f Flags) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	var path vg.Path
	for _, position := range f.X {
		if position >= p.X.Min && position <= p.X.Max {
			path = append(path, triangle(vg.Point{X: x(position), Y: c.Min.Y + flagHeight}, flagHeight/2, flagHeight)...)
		}
	}
	c.SetColor(f.Color)
	c.Fill(path)
}

// within returns the points on p's x axis with Y from lo to hi.
func within(d []Point, p *plot.Plot, lo, hi float64) []Point {
	return slices.DeleteFunc(slices.Clone(d), func(q Point) bool {
		return !(q.Y >= lo && q.Y <= hi && q.X >= p.X.Min && q.X <= p.X.Max)
	})
}

// sparse keeps the first point of each cell.
func sparse(d []Point, cell func(Point) [2]int) []Point {
	used := map[[2]int]bool{}
	var first []Point
	for _, q := range d {
		if position := cell(q); !used[position] {
			used[position] = true
			first = append(first, q)
		}
	}
	return first
}

func dot(center vg.Point, radius vg.Length) vg.Path {
	var p vg.Path
	p.Move(vg.Point{X: center.X + radius, Y: center.Y})
	p.Arc(center, radius, 0, 2*math.Pi)
	p.Close()
	return p
}

// flagHeight is the height of a flag in points.
const flagHeight = vg.Length(8)

// triangle returns a triangle with its tip at tip. It points up or, with a negative height, down. half is half the
// width of its base.
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
	for start, end := range runs(len(l.Y), func(i int) bool { return onScale(p, l.Y[i]) }) {
		var path []vg.Point
		for _, i := range envelope(l.Y, start, end, column) {
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
	for start, end := range runs(len(b.X), func(i int) bool { return onScale(p, b.Low[i]) && onScale(p, b.High[i]) }) {
		var area []vg.Point
		for _, i := range envelope(b.High, start, end, column) {
			area = append(area, vg.Point{X: x(b.X[i]), Y: y(b.High[i])})
		}
		for _, i := range slices.Backward(envelope(b.Low, start, end, column)) {
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

// labelDrop is the distance from the panel's upper end to the labels, which are below the arrows.
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

// onScale reports whether p's y axis can show v.
func onScale(p *plot.Plot, v float64) bool {
	_, log := p.Y.Scale.(plot.LogScale)
	return finite(v) && (v > 0 || !log)
}

// runs yields the maximal ranges [start, end) of [0, n) in which ok is true.
func runs(n int, ok func(int) bool) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for start := 0; start < n; start++ {
			end := start
			for end < n && ok(end) {
				end++
			}
			if end > start && !yield(start, end) {
				return
			}
			start = end
		}
	}
}

// envelope returns the indices in [start, end) that a line through v needs: for every pixel column the first, the
// minimum, the maximum and the last. The line looks the same and keeps every extreme.
func envelope(v []float64, start, end int, column func(int) int) []int {
	var indices []int
	for i := start; i < end; {
		minIndex, maxIndex, next := i, i, i
		for ; next < end && column(next) == column(i); next++ {
			if v[next] < v[minIndex] {
				minIndex = next
			}
			if v[next] > v[maxIndex] {
				maxIndex = next
			}
		}
		extremes := []int{i, minIndex, maxIndex, next - 1}
		slices.Sort(extremes)
		indices = append(indices, slices.Compact(extremes)...)
		i = next
	}
	return indices
}
