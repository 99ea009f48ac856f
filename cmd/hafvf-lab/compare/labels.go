package compare

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"hafvf/cmd/hafvf/chart"
)

// labels are texts beside points, each where there is room for it. They have no place in
// the legend.
type labels struct {
	points []chart.Point
	texts  []string      // one per point
	colors []color.NRGBA // as many
}

// Entry implements chart.Layer.
func (labels) Entry() chart.Entry { return chart.Entry{Depth: 5} }

// labelGap is between a point and its text.
const labelGap = 4 * vg.Length(1)

// Plot implements plot.Plotter. A text stands to the right of its point, or where another
// one or a point is in the way to the left, above or below.
func (l labels) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	st := chart.TextStyle(7.5, chart.Black, draw.YCenter)
	height := st.FontExtents().Height
	taken := make([]vg.Rectangle, len(l.points))
	for i, q := range l.points {
		at, r := vg.Point{X: x(q.X), Y: y(q.Y)}, vg.Point{X: labelGap / 2, Y: labelGap / 2}
		taken[i] = vg.Rectangle{Min: at.Sub(r), Max: at.Add(r)}
	}
	free := func(r vg.Rectangle) bool {
		return r.Min.X >= c.Min.X && r.Max.X <= c.Max.X && !slices.ContainsFunc(taken, func(o vg.Rectangle) bool {
			return r.Min.X < o.Max.X && o.Min.X < r.Max.X && r.Min.Y < o.Max.Y && o.Min.Y < r.Max.Y
		})
	}
	for i, q := range l.points {
		text := l.texts[i]
		w, gap := st.Width(text), labelGap
		at := vg.Point{X: x(q.X), Y: y(q.Y)}
		places := []vg.Point{ // of the left end
			{X: at.X + gap, Y: at.Y}, {X: at.X - gap - w, Y: at.Y},
			{X: at.X - w/2, Y: at.Y + gap + height/2}, {X: at.X - w/2, Y: at.Y - gap - height/2},
			{X: at.X + gap, Y: at.Y + height}, {X: at.X + gap, Y: at.Y - height},
			{X: at.X - gap - w, Y: at.Y + height}, {X: at.X - gap - w, Y: at.Y - height},
		}
		box := func(at vg.Point) vg.Rectangle {
			return vg.Rectangle{Min: vg.Point{X: at.X, Y: at.Y - height/2}, Max: vg.Point{X: at.X + w, Y: at.Y + height/2}}
		}
		k := max(0, slices.IndexFunc(places, func(at vg.Point) bool { return free(box(at)) }))
		taken = append(taken, box(places[k]))
		st.Color = l.colors[i]
		c.FillText(st, places[k], text)
	}
}
