package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

func plotCommand() *cobra.Command {
	var out string
	var keys []string
	cmd := &cobra.Command{
		Use:   "plot RESULTS -o FILE",
		Short: "Draw the estimates of a run",
		Long: `Plot draws the estimate records in RESULTS, JSON Lines as run writes them: per
key the data with the prediction and its band of two standard deviations, the
expected weights E[w] and E[b], the effective memory, and the surprise. With
many keys, the data and the weights.`,
		Example: "  hafvf plot out.jsonl -o out.svg\n  hafvf plot out.jsonl -o pump.png --key pump-1 --key pump-2",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usageError{errors.New("plot needs -o FILE.svg or -o FILE.png")}
			}
			if ext := filepath.Ext(out); ext != ".svg" && ext != ".png" {
				return usageError{fmt.Errorf("%s: the picture is either .svg or .png", out)}
			}
			return plotResults(cmd.Context(), args[0], out, keys)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the picture to write, `FILE`.svg or .png")
	cmd.Flags().StringArrayVar(&keys, "key", nil, "draw only this key; may be repeated")
	return cmd
}

// maxKeys is how many keys one picture holds.
const maxKeys = 20

// plotResults draws the records in results to out, only those of keys if there
// are any.
func plotResults(ctx context.Context, results, out string, keys []string) error {
	series, err := readSeries(ctx, results)
	if err != nil {
		return err
	}
	if len(keys) > 0 {
		var chosen []*track
		for _, key := range keys {
			i := slices.IndexFunc(series, func(s *track) bool { return s.key == key })
			if i < 0 {
				return fmt.Errorf("%s has no key %q", results, key)
			}
			chosen = append(chosen, series[i])
		}
		series = chosen
	} else if len(series) > maxKeys {
		fmt.Fprintf(os.Stderr, "hafvf: %d keys, of which the first %d are drawn; choose with --key\n", len(series), maxKeys)
		series = series[:maxKeys]
	}
	return drawFile(series, out)
}

// track is what is drawn of one key. Times are Unix seconds, or the position
// where there is none; NaN stands for what is null.
type track struct {
	key                          string
	timed                        bool
	t, x, mean, sd, memory, nats []float64
	weights                      [][]float64 // per level E[·]
}

func readSeries(ctx context.Context, path string) ([]*track, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var order []*track
	byKey := map[string]*track{}
	r := bufio.NewReaderSize(f, 1<<20)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var rec record
			if bad := json.Unmarshal(line, &rec); bad != nil || rec.Key == nil || rec.Predicted == nil {
				return nil, fmt.Errorf("%s:%d is not an estimate record; plot reads JSON Lines as run writes them", path, n)
			}
			s := byKey[*rec.Key]
			if s == nil {
				s = &track{key: *rec.Key}
				byKey[s.key] = s
				order = append(order, s)
			}
			s.add(&rec)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if len(order) == 0 {
		return nil, fmt.Errorf("%s has no records", path)
	}
	slices.SortFunc(order, func(a, b *track) int { return strings.Compare(a.key, b.key) })
	return order, nil
}

// record is the part of an estimate record that is drawn.
type record struct {
	Key       *string
	Time      *time.Time
	N         float64
	X         any
	Predicted *struct{ Mean, SD any }
	LogPred   *float64 `json:"log_predictive"`
	Weight    *float64
	Memory    *float64
	Levels    []struct{ Alpha, Beta float64 }
}

func (s *track) add(r *record) {
	t := r.N
	if r.Time != nil {
		s.timed = true
		t = float64(r.Time.UnixMilli()) / 1000
	}
	s.t = append(s.t, t)
	s.x = append(s.x, first(r.X))
	s.mean = append(s.mean, first(r.Predicted.Mean))
	s.sd = append(s.sd, first(r.Predicted.SD))
	s.memory = append(s.memory, orNaN(r.Memory))
	nats := orNaN(r.LogPred)
	s.nats = append(s.nats, -nats)
	if len(s.weights) == 0 {
		s.weights = make([][]float64, max(len(r.Levels), 1))
	}
	if len(r.Levels) == 0 {
		s.weights[0] = append(s.weights[0], orNaN(r.Weight))
	}
	for i, l := range r.Levels {
		if i < len(s.weights) {
			s.weights[i] = append(s.weights[i], l.Alpha/(l.Alpha+l.Beta))
		}
	}
}

// first is the number that stands for a value: itself, or its first coordinate.
func first(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case []any:
		if len(v) > 0 {
			return first(v[0])
		}
	}
	return math.NaN()
}

func orNaN(p *float64) float64 {
	if p == nil {
		return math.NaN()
	}
	return *p
}

// Colours from Okabe and Ito (2008), which colour-blind readers tell apart.
var (
	ink    = color.RGBA{60, 60, 60, 255}
	blue   = color.RGBA{0, 114, 178, 255}
	pale   = color.NRGBA{0, 114, 178, 45}
	orange = color.RGBA{230, 159, 0, 255}
	green  = color.RGBA{0, 158, 115, 255}
	purple = color.RGBA{204, 121, 167, 255}
)

// drawFile draws the series, as a column of panels each, and puts the picture in
// place when it is complete.
func drawFile(series []*track, out string) error {
	panels := []func(*track) *plot.Plot{dataPanel, weightPanel, memoryPanel, surprisePanel}
	columns, width, heights := 1, 11*vg.Inch, []vg.Length{3.4 * vg.Inch, 1.7 * vg.Inch, 1.7 * vg.Inch, 1.7 * vg.Inch}
	if len(series) > 2 {
		panels = panels[:3]
		columns = int(math.Ceil(math.Sqrt(float64(len(series)) / 1.5)))
		width, heights = 5*vg.Inch, []vg.Length{2.1 * vg.Inch, 1.1 * vg.Inch, 1.1 * vg.Inch}
	}
	blockHeight := 0.25 * vg.Inch
	for _, h := range heights[:len(panels)] {
		blockHeight += h
	}
	rows := (len(series) + columns - 1) / columns
	w, h := width*vg.Length(columns), blockHeight*vg.Length(rows)

	var canvas vg.CanvasWriterTo
	if filepath.Ext(out) == ".svg" {
		canvas = vgsvg.New(w, h)
	} else {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(100), vgimg.UseBackgroundColor(color.White))}
	}
	all := draw.New(canvas)
	all.SetColor(color.White)
	all.Fill(rectangle(all.Rectangle))
	for i, s := range series {
		x := width * vg.Length(i%columns)
		y := h - blockHeight*vg.Length(i/columns)
		column := make([][]*plot.Plot, len(panels))
		tiles := draw.Tiles{Rows: len(panels), Cols: 1}
		for k, panel := range panels {
			p := panel(s)
			if len(series) > 2 && i > 0 {
				p.Legend = plot.NewLegend() // the first key's serves all
			}
			column[k] = []*plot.Plot{p}
			if k < len(panels)-1 {
				column[k][0].HideX()
			}
		}
		column[0][0].Title.Text = s.key
		column[0][0].Title.TextStyle.Font.Size = vg.Points(12)
		block := draw.Crop(all, x+0.1*vg.Inch, x+width-0.15*vg.Inch-w, y-blockHeight+0.1*vg.Inch, y-0.1*vg.Inch-h)
		canvases := plot.Align(column, tiles, block)
		// Align cuts tiles of one height; the data deserve more.
		top := block.Max.Y
		for k := range panels {
			c := canvases[k][0]
			c.Min.Y = top - heights[k]
			c.Max.Y = top - 0.06*vg.Inch
			top = c.Min.Y
			if k == len(panels)-1 {
				c.Min.Y = block.Min.Y
			}
			column[k][0].Draw(c)
		}
	}
	return writePicture(canvas, out)
}

func rectangle(r vg.Rectangle) vg.Path {
	var p vg.Path
	p.Move(r.Min)
	p.Line(vg.Point{X: r.Max.X, Y: r.Min.Y})
	p.Line(r.Max)
	p.Line(vg.Point{X: r.Min.X, Y: r.Max.Y})
	p.Close()
	return p
}

func writePicture(canvas vg.CanvasWriterTo, out string) error {
	f, err := os.CreateTemp(filepath.Dir(out), "."+filepath.Base(out)+".*")
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", out, err)
	}
	defer os.Remove(f.Name())
	_, err = canvas.WriteTo(f)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), out)
	}
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", out, err)
	}
	return nil
}

// newPanel is a panel over the series' time, its y axis named.
func newPanel(s *track, y string) *plot.Plot {
	p := plot.New()
	p.Y.Label.Text = y
	p.Y.Label.TextStyle.Font.Size = vg.Points(9)
	p.X.Tick.Label.Font.Size, p.Y.Tick.Label.Font.Size = vg.Points(8), vg.Points(8)
	p.X.Min, p.X.Max = s.t[0], s.t[len(s.t)-1]
	if s.timed {
		p.X.Tick.Marker = timeTicks{}
	} else {
		p.X.Label.Text = "observation"
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.TextStyle.Font.Size = vg.Points(8)
	return p
}

// timeTicks are at most six round times.
type timeTicks struct{}

func (timeTicks) Ticks(lo, hi float64) []plot.Tick {
	steps := []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour,
		24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 91 * 24 * time.Hour, 365 * 24 * time.Hour, 10 * 365 * 24 * time.Hour}
	step := steps[len(steps)-1].Seconds()
	for _, s := range steps {
		if (hi-lo)/s.Seconds() <= 6 {
			step = s.Seconds()
			break
		}
	}
	format := "15:04:05"
	switch {
	case step >= 28*24*3600:
		format = "2006-01"
	case step >= 24*3600:
		format = "Jan 2"
	case step >= 60:
		format = "Jan 2 15:04"
	}
	var ticks []plot.Tick
	for t := math.Ceil(lo/step) * step; t <= hi; t += step {
		ticks = append(ticks, plot.Tick{Value: t, Label: time.Unix(int64(t), 0).UTC().Format(format)})
	}
	return ticks
}

func dataPanel(s *track) *plot.Plot {
	p := newPanel(s, "x")
	lo, hi := robustRange(s.x, s.mean)
	clip := func(v float64) float64 { return math.Max(lo, math.Min(hi, v)) }
	if band := bandOf(s, clip); band != nil {
		p.Add(band)
	}
	addLine(p, s.t, s.mean, blue, "predicted ± 2 sd", clip)
	points := plotter.XYs{}
	edge := plotter.XYs{}
	for _, i := range thin(s.t, s.x) {
		switch v := s.x[i]; {
		case v < lo || v > hi:
			edge = append(edge, plotter.XY{X: s.t[i], Y: clip(v)})
		default:
			points = append(points, plotter.XY{X: s.t[i], Y: v})
		}
	}
	addPoints(p, points, ink, draw.CircleGlyph{}, 0.9, "x")
	addPoints(p, edge, orange, draw.TriangleGlyph{}, 2.5, "beyond")
	p.Y.Min, p.Y.Max = lo, hi
	return p
}

func addPoints(p *plot.Plot, xys plotter.XYs, c color.Color, shape draw.GlyphDrawer, radius float64, name string) {
	if len(xys) == 0 {
		return
	}
	sc, err := plotter.NewScatter(xys)
	if err != nil {
		return
	}
	sc.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(radius), Shape: shape}
	p.Add(sc)
	p.Legend.Add(name, sc)
}

// addLine adds a line through v, broken where v is NaN.
func addLine(p *plot.Plot, t, v []float64, c color.Color, name string, shape func(float64) float64) {
	var run plotter.XYs
	named := false
	flush := func() {
		if len(run) > 1 {
			l, err := plotter.NewLine(run)
			if err == nil {
				l.Color, l.Width = c, vg.Points(0.9)
				p.Add(l)
				if !named {
					p.Legend.Add(name, l)
					named = true
				}
			}
		}
		run = nil
	}
	for _, i := range thin(t, v) {
		if math.IsNaN(v[i]) || math.IsInf(v[i], 0) {
			flush()
			continue
		}
		run = append(run, plotter.XY{X: t[i], Y: shape(v[i])})
	}
	flush()
}

// bandOf is the predictive band of two standard deviations.
func bandOf(s *track, clip func(float64) float64) plot.Plotter {
	var up, down plotter.XYs
	upper := make([]float64, len(s.t))
	for i := range upper {
		upper[i] = s.mean[i] + 2*s.sd[i]
	}
	for _, i := range thin(s.t, upper) {
		if math.IsNaN(upper[i]) || math.IsInf(upper[i], 0) {
			continue
		}
		up = append(up, plotter.XY{X: s.t[i], Y: clip(upper[i])})
		down = append(down, plotter.XY{X: s.t[i], Y: clip(s.mean[i] - 2*s.sd[i])})
	}
	if len(up) < 2 {
		return nil
	}
	slices.Reverse(down)
	band, err := plotter.NewPolygon(append(up, down...))
	if err != nil {
		return nil
	}
	band.Color, band.LineStyle.Width = pale, 0
	return band
}

func weightPanel(s *track) *plot.Plot {
	p := newPanel(s, "E[w], E[b]")
	colours := []color.Color{orange, green, purple}
	for i, w := range s.weights {
		if len(w) != len(s.t) {
			continue
		}
		name := fmt.Sprintf("level %d", i+1)
		if i < 2 {
			name = []string{"E[w]", "E[b]"}[i]
		}
		addLine(p, s.t, w, colours[min(i, 2)], name, func(v float64) float64 { return v })
	}
	p.Legend.Top = false
	p.Y.Min, p.Y.Max = 0, 1.02
	return p
}

func memoryPanel(s *track) *plot.Plot {
	p := newPanel(s, "memory")
	addLine(p, s.t, s.memory, blue, "observations", func(v float64) float64 { return math.Max(v, 0.5) })
	p.Y.Scale = plot.LogScale{}
	p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
	p.Y.Min = 0.9
	p.Y.Max = math.Max(p.Y.Max, 10)
	return p
}

func surprisePanel(s *track) *plot.Plot {
	p := newPanel(s, "surprise, nats")
	addLine(p, s.t, s.nats, purple, "−log predictive", func(v float64) float64 { return v })
	return p
}

// robustRange is the range of the values, without what lies beyond ten times the
// spread between the 1st and the 99th percentile.
func robustRange(series ...[]float64) (lo, hi float64) {
	var all []float64
	for _, s := range series {
		for _, v := range s {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				all = append(all, v)
			}
		}
	}
	if len(all) == 0 {
		return 0, 1
	}
	slices.Sort(all)
	q1, q99 := all[len(all)/100], all[len(all)-1-len(all)/100]
	spread := math.Max(q99-q1, 1e-12*math.Abs(q99))
	lo, hi = math.Max(all[0], q1-1.5*spread), math.Min(all[len(all)-1], q99+1.5*spread)
	pad := 0.06 * (hi - lo)
	if pad == 0 {
		pad = math.Max(0.5, 0.1*math.Abs(hi))
	}
	return lo - pad, hi + pad
}

// thin returns the indexes to draw of a long series: of each of some thousand
// spans the first, the smallest, the largest and the last, so that no outlier
// disappears.
func thin(t, v []float64) []int {
	const spans = 1500
	if len(v) <= 4*spans {
		out := make([]int, len(v))
		for i := range out {
			out[i] = i
		}
		return out
	}
	var out []int
	for k := range spans {
		from, to := k*len(v)/spans, (k+1)*len(v)/spans
		lo, hi := from, from
		for i := from; i < to; i++ {
			if v[i] < v[lo] || math.IsNaN(v[lo]) {
				lo = i
			}
			if v[i] > v[hi] || math.IsNaN(v[hi]) {
				hi = i
			}
		}
		pick := []int{from, lo, hi, to - 1}
		slices.Sort(pick)
		out = append(out, slices.Compact(pick)...)
	}
	return out
}
