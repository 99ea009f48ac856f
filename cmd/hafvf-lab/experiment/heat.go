package experiment

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"hafvf/cmd/hafvf/chart"
)

// heat is a map of colours. It draws values[i][k] at x[k], between i and i + 1 on the y axis, on a logarithmic scale
// of colours. If several columns fall on one pixel, it draws their smallest value.
type heat struct {
	name        string
	x           []float64 // increasing, in equal steps
	values      [][]float64
	dark, light float64 // values with the colours at the ends of the scale
}

// Entry implements chart.Layer.
func (h heat) Entry() chart.Entry {
	return chart.Entry{Name: h.name, Depth: -1, Mark: func(c draw.Canvas, pos vg.Point) {
		const n = 7
		for i := vg.Length(0); i < n; i++ {
			c.FillPolygon(shade(float64(i)/(n-1)), chart.Box(pos.X+chart.Swatch*i/n, pos.Y-5, pos.X+chart.Swatch*(i+1)/n, pos.Y+5))
		}
	}}
}

// Plot implements plot.Plotter.
func (h heat) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	half := 0.5
	if len(h.x) > 1 {
		half = (h.x[1] - h.x[0]) / 2
	}
	for i, row := range h.values {
		low, high := y(float64(i)), y(float64(i+1))
		// Neighbouring rectangles of one colour are drawn as one, each up to the right end of the row, so that no
		// seams show.
		drawn := -1
		end := min(x(h.x[len(h.x)-1]+half), c.Max.X)
		for k := 0; k < len(row); {
			left := x(h.x[k] - half)
			lowest := row[k]
			for k++; k < len(row) && x(h.x[k]-half) < left+chart.Pixel; k++ {
				lowest = min(lowest, row[k])
			}
			level := int(math.Round(shades * math.Log(lowest/h.dark) / math.Log(h.light/h.dark)))
			level = max(0, min(shades, level))
			if level == drawn || left >= end || x(h.x[k-1]+half) <= c.Min.X {
				continue
			}
			drawn = level
			c.FillPolygon(shade(float64(level)/shades), chart.Box(max(left, c.Min.X), low, end, high))
		}
	}
}

// shades is the number of colour steps from dark to light.
const shades = 48

// shade returns a colour of the map cividis, from dark at 0 to light at 1. Readers with a colour vision deficiency
// see the same order.
func shade(position float64) color.NRGBA {
	position = max(0, min(1, position)) * float64(len(cividis)-1)
	i := min(int(position), len(cividis)-2)
	f := position - float64(i)
	a, b := cividis[i], cividis[i+1]
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + f*(float64(b)-float64(a)))) }
	return color.NRGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 0xff}
}

var cividis = [...]color.NRGBA{
	{0x00, 0x22, 0x4e, 0xff}, {0x0c, 0x33, 0x70, 0xff}, {0x35, 0x45, 0x6c, 0xff}, {0x52, 0x57, 0x6d, 0xff}, {0x6b, 0x6a, 0x71, 0xff},
	{0x82, 0x7d, 0x77, 0xff}, {0x9b, 0x91, 0x76, 0xff}, {0xb6, 0xa6, 0x6e, 0xff}, {0xd1, 0xbb, 0x60, 0xff}, {0xee, 0xd1, 0x48, 0xff},
}
