package compare

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"hafvf/cmd/hafvf/chart"
)

// labels is a chart layer that writes a text next to each point. It has no entry in the legend.
type labels struct {
	points []chart.Point
	texts  []string      // one per point
	colors []color.NRGBA // one per point
}

// Entry implements chart.Layer.
func (labels) Entry() chart.Entry { return chart.Entry{Depth: 5} }

// labelGap is the distance between a point and its text.
const labelGap = 4 * vg.Length(1)

// Plot implements plot.Plotter. It writes a text to the right of its point. If another text or point is in the way,
// it uses the first free place to the left, above, below or at a corner; without a free place, the right.
func (l labels) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	st := chart.TextStyle(7.5, chart.Black, draw.YCenter)
	height := st.FontExtents().Height
	boxes := make([]vg.Rectangle, len(l.points))
	for i, q := range l.points {
		center, halfSize := vg.Point{X: x(q.X), Y: y(q.Y)}, vg.Point{X: labelGap / 2, Y: labelGap / 2}
		boxes[i] = vg.Rectangle{Min: center.Sub(halfSize), Max: center.Add(halfSize)}
	}
	free := func(r vg.Rectangle) bool {
		return r.Min.X >= c.Min.X && r.Max.X <= c.Max.X && !slices.ContainsFunc(boxes, func(o vg.Rectangle) bool {
			return r.Min.X < o.Max.X && o.Min.X < r.Max.X && r.Min.Y < o.Max.Y && o.Min.Y < r.Max.Y
		})
	}
	for i, q := range l.points {
		text := l.texts[i]
		w, gap := st.Width(text), labelGap
		point := vg.Point{X: x(q.X), Y: y(q.Y)}
		anchors := []vg.Point{ // left ends of the text
			{X: point.X + gap, Y: point.Y}, {X: point.X - gap - w, Y: point.Y},
			{X: point.X - w/2, Y: point.Y + gap + height/2}, {X: point.X - w/2, Y: point.Y - gap - height/2},
			{X: point.X + gap, Y: point.Y + height}, {X: point.X + gap, Y: point.Y - height},
			{X: point.X - gap - w, Y: point.Y + height}, {X: point.X - gap - w, Y: point.Y - height},
		}
		box := func(left vg.Point) vg.Rectangle {
			return vg.Rectangle{Min: vg.Point{X: left.X, Y: left.Y - height/2}, Max: vg.Point{X: left.X + w, Y: left.Y + height/2}}
		}
		k := max(0, slices.IndexFunc(anchors, func(left vg.Point) bool { return free(box(left)) }))
		boxes = append(boxes, box(anchors[k]))
		st.Color = l.colors[i]
		c.FillText(st, anchors[k], text)
	}
}
