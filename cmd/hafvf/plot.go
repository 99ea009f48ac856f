package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"hafvf/connectors"
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
			return plotResults(cmd.Context(), args[0], out, keys)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the picture to write, `FILE`.svg or .png")
	cmd.Flags().StringArrayVar(&keys, "key", nil, "draw only this key; may be repeated")
	return cmd
}

// maxKeys is how many keys one picture shows.
const maxKeys = 20

// plotResults draws the estimate records of results, JSON Lines, to out, an .svg or
// .png file, which appears complete or not at all. It draws the keys in the
// given order; without keys, the first maxKeys that occur, by name, and says on
// standard error how many it left out. One key is drawn large, with its weights,
// memory and surprise; several are drawn small.
func plotResults(ctx context.Context, results, out string, keys []string) error {
	ext := filepath.Ext(out)
	if ext != ".svg" && ext != ".png" {
		return usageError{fmt.Errorf("%s: a picture is an .svg or a .png file", out)}
	}
	if len(keys) > maxKeys {
		return usageError{fmt.Errorf("%d keys are too many for one picture, which shows at most %d", len(keys), maxKeys)}
	}
	all, left, err := readSeries(ctx, results, keys)
	if err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintf(os.Stderr, "hafvf: the picture shows %d of %d keys; --key KEY chooses others\n", len(all), len(all)+left)
	}
	picture, err := render(all, ext)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return replaceFile(out, picture)
}

// replaceFile writes a file under a temporary name and then gives it its own.
func replaceFile(path string, content []byte) error {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()[:8]+".tmp")
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		_, err = f.Write(content)
		err = cmp.Or(err, f.Close())
		if err == nil {
			err = os.Rename(temp, path)
		}
		if err != nil {
			os.Remove(temp)
		}
	}
	if err != nil {
		if e := errors.Unwrap(err); e != nil {
			err = e // without the temporary name
		}
		return fmt.Errorf("%s cannot be written: %w", path, err)
	}
	return nil
}

// A series is what a picture shows of one key. All slices but the data have one
// entry per record; NaN is what a record doesn't have.
type series struct {
	key  string
	note string // on what is drawn of a value with several coordinates

	timed bool      // at is Unix seconds; otherwise n
	at    []float64 // not decreasing
	data  []point   // the observations, any number per record

	mean, sd []float64   // one step ahead
	weights  [][]float64 // E[w], E[b], …: one slice per level
	memory   []float64
	surprise []float64 // −log p(x|past), nats
}

type point struct{ x, y float64 }

// A record is what the picture needs of an estimate record.
type record struct {
	Key       *string
	Time      *time.Time
	N         int64
	X         any
	Predicted *struct{ Mean, SD any }
	LogP      *float64 `json:"log_predictive"`
	Weight    *float64
	Memory    *float64
	Levels    []struct{ Alpha, Beta *float64 }
}

// readSeries reads the series of the keys, in their order, or without keys of
// the first maxKeys that occur, by name. Left is how many it left out then.
func readSeries(ctx context.Context, path string, keys []string) (all []*series, left int, err error) {
	for _, name := range []string{"csv", "parquet"} {
		base := strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".zst")
		if filepath.Ext(base) == "."+name {
			return nil, 0, fmt.Errorf("%s: plot reads JSON Lines, not %s: let run write them, with sink: {jsonl: {path: …}}", path, name)
		}
	}
	in, err := connectors.Open(connectors.Source{Format: connectors.JSONLines, Path: path})
	if err != nil {
		return nil, 0, err
	}
	defer in.Close()

	wanted := func(key string, position int) bool {
		if len(keys) == 0 {
			return position < maxKeys
		}
		return slices.Contains(keys, key)
	}
	var order []string
	records := map[string][]record{} // nil for a key that is left out
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		raw, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		r, reason := parseRecord(raw)
		if reason != "" {
			return nil, 0, fmt.Errorf("%s, line %d is not an estimate record: %s; plot reads JSON Lines as run writes them", raw.Path, raw.Position, reason)
		}
		seen, known := records[*r.Key]
		switch {
		case seen != nil:
			records[*r.Key] = append(seen, r)
		case !known:
			if wanted(*r.Key, len(order)) {
				seen = []record{r}
			}
			records[*r.Key] = seen
			order = append(order, *r.Key)
		}
	}
	if len(order) == 0 {
		return nil, 0, fmt.Errorf("%s holds no records", path)
	}
	if len(keys) == 0 {
		shown := min(len(order), maxKeys)
		left = len(order) - shown
		keys = slices.Sorted(slices.Values(order[:shown]))
	}
	for _, k := range keys {
		if records[k] == nil {
			return nil, 0, fmt.Errorf("%s has no key %q; the nearest is %q", path, k, nearestKey(k, order))
		}
		all = append(all, newSeries(k, records[k]))
	}
	return all, left, nil
}

// parseRecord returns the reason why raw is not an estimate record, or "".
func parseRecord(raw connectors.Record) (r record, reason string) {
	if raw.Reason != "" {
		return r, raw.Reason
	}
	if err := json.Unmarshal(raw.Raw, &r); err != nil {
		return r, err.Error()
	}
	switch {
	case r.Key == nil:
		return r, "it has no key"
	case r.Predicted == nil:
		return r, "it has no prediction"
	}
	return r, ""
}

func newSeries(key string, records []record) *series {
	s := &series{key: key, timed: true}
	outputs, levels := 1, 1
	for _, r := range records {
		s.timed = s.timed && r.Time != nil
		levels = max(levels, len(r.Levels))
		if m, ok := r.Predicted.Mean.([]any); ok {
			outputs = max(outputs, len(m))
		}
	}
	at := func(r record) float64 {
		if s.timed {
			return float64(r.Time.UnixMicro()) / 1e6
		}
		return float64(r.N)
	}
	slices.SortStableFunc(records, func(a, b record) int {
		return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a.N, b.N))
	})
	s.weights = make([][]float64, levels)
	for _, r := range records {
		s.at = append(s.at, at(r))
		for _, v := range values(r.X, r.Predicted.Mean) {
			if !math.IsNaN(v) {
				s.data = append(s.data, point{at(r), v})
			}
		}
		s.mean = append(s.mean, first(r.Predicted.Mean))
		s.sd = append(s.sd, first(r.Predicted.SD))
		s.memory = append(s.memory, orNaN(r.Memory))
		s.surprise = append(s.surprise, -orNaN(r.LogP))
		for i := range s.weights {
			w := math.NaN()
			switch {
			case i == 0:
				w = orNaN(r.Weight)
			case i < len(r.Levels):
				a, b := orNaN(r.Levels[i].Alpha), orNaN(r.Levels[i].Beta)
				w = a / (a + b)
			}
			s.weights[i] = append(s.weights[i], w)
		}
	}
	if outputs > 1 {
		s.note = fmt.Sprintf("first of %d values", outputs)
	}
	return s
}

// values returns the coordinate of x that the first coordinate of mean predicts,
// for every vector of the step.
func values(x, mean any) []float64 {
	list, _ := x.([]any)
	if len(list) > 0 {
		if _, ok := list[0].([]any); ok {
			var v []float64
			for _, vector := range list {
				v = append(v, values(vector, mean)...)
			}
			return v
		}
	}
	means, vector := mean.([]any)
	switch {
	case len(means) > 1 && len(list) <= 1:
		// A category; its probability is the mean of an indicator.
		switch c := first(x); {
		case math.IsNaN(c):
			return nil
		case c == 0:
			return []float64{1}
		}
		return []float64{0}
	case len(list) > 1 && !vector:
		// Regressors, and the target behind them.
		return []float64{first(list[len(list)-1])}
	}
	return []float64{first(x)}
}

// first is v, or its first coordinate; NaN where there is no number.
func first(v any) float64 {
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}
	if f, ok := v.(float64); ok {
		return f
	}
	return math.NaN()
}

func orNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// nearestKey returns the key with the fewest single-byte edits from want.
func nearestKey(want string, keys []string) string {
	edits := func(key string) int {
		row := make([]int, len(key)+1)
		for j := range row {
			row[j] = j
		}
		for i := range len(want) {
			diagonal := row[0]
			row[0] = i + 1
			for j := range len(key) {
				change := diagonal
				if want[i] != key[j] {
					change++
				}
				diagonal = row[j+1]
				row[j+1] = min(change, diagonal+1, row[j]+1)
			}
		}
		return row[len(key)]
	}
	return slices.MinFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(edits(a), edits(b)), cmp.Compare(a, b))
	})
}

// Colours from the palette of Okabe and Ito, which people with any colour vision
// can tell apart; the grid, the data and the band are tones beside it.
var (
	black     = color.NRGBA{0x22, 0x22, 0x22, 0xff}
	gray      = color.NRGBA{0x77, 0x77, 0x77, 0xff}
	gridGray  = color.NRGBA{0xe8, 0xe8, 0xe8, 0xff}
	bandBlue  = color.NRGBA{0x00, 0x72, 0xb2, 0x33}
	blue      = color.NRGBA{0x00, 0x72, 0xb2, 0xff}
	vermilion = color.NRGBA{0xd5, 0x5e, 0x00, 0xff}
	green     = color.NRGBA{0x00, 0x9e, 0x73, 0xff}
	purple    = color.NRGBA{0xcc, 0x79, 0xa7, 0xff}
	orange    = color.NRGBA{0xe6, 0x9f, 0x00, 0xff}
)

// levelColor is the colour of the weight of level i, bottom up.
func levelColor(i int) color.Color {
	return []color.Color{vermilion, green, purple, orange}[min(i, 3)]
}

// levelName names the weight of level i as the paper does, from w and b on.
func levelName(i int) string {
	switch i {
	case 0:
		return "E[w]"
	case 1:
		return "E[b]"
	}
	return fmt.Sprintf("E[b%d]", i)
}

const (
	tickSize = 7.5                // points
	pixel    = 0.5 * vg.Length(1) // of a PNG at 144 dots per inch
	dpi      = 144
	margin   = 10 * vg.Length(1)
	between  = 6 * vg.Length(1) // panels of a key
	strip    = 15 * vg.Length(1)
)

func textStyle(size float64, c color.Color) draw.TextStyle {
	sans := font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, vg.Length(size))
	return draw.TextStyle{Color: c, Font: sans, Handler: plot.DefaultTextHandler}
}

// render draws the series as a picture of the format that ext names.
func render(all []*series, ext string) ([]byte, error) {
	cols, cell := 1, vg.Point{X: 760, Y: 600}
	switch n := len(all); {
	case n == 1:
	case n == 2:
		cell = vg.Point{X: 720, Y: 270}
	case n <= 6:
		cols, cell = 2, vg.Point{X: 440, Y: 230}
	case n <= 12:
		cols, cell = 3, vg.Point{X: 350, Y: 205}
	default:
		cols, cell = 4, vg.Point{X: 290, Y: 180}
	}
	rows := (len(all) + cols - 1) / cols
	head := vg.Length(0)
	if len(all) > 1 {
		head = strip + between
	}
	w, h := vg.Length(cols)*cell.X+margin, vg.Length(rows)*cell.Y+margin+head

	var svg *vgsvg.Canvas
	var png *vgimg.Canvas
	var c draw.Canvas
	if ext == ".svg" {
		svg = vgsvg.New(w, h)
		c = draw.New(svg)
	} else {
		png = vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(dpi))
		c = draw.New(png)
	}
	c.FillPolygon(color.White, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
	if len(all) > 1 {
		levels := 0
		for _, s := range all {
			levels = max(levels, len(s.weights))
		}
		drawLegend(c, vg.Point{X: c.Min.X + margin, Y: c.Max.Y - margin/2}, slices.Concat(dataLegend, levelLegend(levels)))
	}
	for i, s := range all {
		x, y := vg.Length(i%cols)*cell.X, vg.Length(i/cols)*cell.Y
		box := draw.Crop(c, x+margin, 0, 0, -y-head-margin)
		box.Max.X = box.Min.X + cell.X - margin
		box.Min.Y = box.Max.Y - cell.Y + margin
		s.draw(box, len(all) == 1)
	}

	var buf bytes.Buffer
	if svg == nil {
		_, err := vgimg.PngCanvas{Canvas: png}.WriteTo(&buf)
		return buf.Bytes(), err
	}
	if _, err := svg.WriteTo(&buf); err != nil {
		return nil, err
	}
	// Few readers of the picture have the font; these have its metrics, or at
	// least its looks.
	return bytes.ReplaceAll(buf.Bytes(), []byte("font-family:Liberation Sans;"),
		[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")), nil
}

// draw draws the panels of a key, one below the other: all of them, or where the
// picture is small, only data and weights.
func (s *series) draw(c draw.Canvas, large bool) {
	title := textStyle(9.5, black)
	if large {
		title = textStyle(12, black)
	}
	title.Font.Weight = 3 // bold, in the scale of golang.org/x/image/font
	title.YAlign = draw.YTop
	note := textStyle(8, gray)
	note.YAlign = draw.YTop
	gap := note.Width("  ")
	name := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar // SVG allows few others
	}, s.key)
	name = fit(title, name, c.Max.X-c.Min.X-gap-note.Width(s.note))
	c.FillText(title, vg.Point{X: c.Min.X, Y: c.Max.Y}, name)
	lower := title.FontExtents().Ascent - note.FontExtents().Ascent
	c.FillText(note, vg.Point{X: c.Min.X + title.Width(name) + gap, Y: c.Max.Y - lower}, s.note)
	c.Max.Y -= strip

	panels := []panel{s.dataPanel(), s.weightPanel()}
	if large {
		c.Max.Y -= strip
		panels = append(panels, s.memoryPanel(), s.surprisePanel())
	} else {
		for i := range panels {
			panels[i].legend = nil
		}
		panels[1].share, panels[1].Y.Tick.Marker = 0.6, numberTicks(2)
	}
	drawStack(c, panels, s)
}

// A panel is one set of axes.
type panel struct {
	*plot.Plot
	grid   *grid
	share  vg.Length // of the height
	legend []entry
}

func newPanel(share vg.Length, lo, hi float64, legend ...entry) panel {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Padding, p.Y.Padding = 0, 0
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		align := a.Tick.Label
		a.Tick.Label = textStyle(tickSize, black)
		a.Tick.Label.XAlign, a.Tick.Label.YAlign = align.XAlign, align.YAlign
		a.LineStyle.Color, a.Tick.LineStyle.Color = gray, gray
		a.Tick.Length = 3
	}
	align := p.X.Label.TextStyle
	p.X.Label.TextStyle = textStyle(tickSize, black)
	p.X.Label.TextStyle.XAlign, p.X.Label.TextStyle.YAlign = align.XAlign, align.YAlign
	p.Y.Min, p.Y.Max = lo, hi
	p.Y.Tick.Marker = numberTicks(4)
	g := new(grid)
	p.Add(g)
	return panel{Plot: p, grid: g, share: share, legend: legend}
}

func (s *series) dataPanel() panel {
	y := make([]float64, 0, len(s.data))
	for _, d := range s.data {
		y = append(y, d.y)
	}
	if len(y) == 0 {
		y = s.mean
	}
	lo, hi := extent(y, 3)
	pad := 0.06 * (hi - lo)
	p := newPanel(2.2, lo-pad, hi+pad, dataLegend...)
	low, high := make([]float64, len(s.at)), make([]float64, len(s.at))
	for i, m := range s.mean {
		low[i], high[i] = m-2*s.sd[i], m+2*s.sd[i]
	}
	p.Add(band{s.at, low, high}, dots(s.data), line{s.at, s.mean, blue, 0.8}, beyond(s.data))
	return p
}

func (s *series) weightPanel() panel {
	p := newPanel(1, -0.04, 1.04, levelLegend(len(s.weights))...)
	p.Y.Tick.Marker = numberTicks(3)
	// From the top down, so that w, the one that matters most, isn't covered.
	for i, w := range slices.Backward(s.weights) {
		p.Add(line{s.at, w, levelColor(i), 0.9})
	}
	return p
}

func (s *series) memoryPanel() panel {
	y := make([]float64, len(s.memory))
	lo, hi := math.Inf(1), 0.0
	for i, m := range s.memory {
		if y[i] = m; !(m > 0 && m < math.Inf(1)) {
			y[i] = math.NaN()
			continue
		}
		lo, hi = min(lo, m), max(hi, m)
	}
	p := newPanel(1, 0, max(1.05*hi, 1e-9), lineEntry("memory (observations)", blue))
	if hi > 100*lo {
		p.Y.Min, p.Y.Max = lo/1.2, hi*1.2
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{}
	}
	p.Add(line{s.at, y, blue, 0.9})
	return p
}

func (s *series) surprisePanel() panel {
	lo, hi := extent(s.surprise, 10)
	pad := 0.06 * (hi - lo)
	p := newPanel(1, lo-pad, hi+pad, lineEntry("surprise (nats)", gray))
	peaks := make(beyond, len(s.at))
	for i, y := range s.surprise {
		peaks[i] = point{s.at[i], y}
	}
	p.Add(line{s.at, s.surprise, gray, 0.6}, peaks)
	return p
}

// extent is the range of the finite values of v, without what lies so far out
// that showing it would flatten the rest: further beyond the inner 96 % than
// reach times their width. Where nothing varies it is widened.
func extent(v []float64, reach float64) (lo, hi float64) {
	s := slices.DeleteFunc(slices.Clone(v), func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
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

// drawStack draws panels above each other on one time axis, their data areas
// equally wide.
func drawStack(c draw.Canvas, panels []panel, s *series) {
	lo, hi := s.at[0], s.at[len(s.at)-1]
	pad := 0.01 * (hi - lo)
	switch {
	case pad == 0 && s.timed:
		pad = time.Hour.Seconds()
	case pad == 0:
		pad = 1
	}
	last := panels[len(panels)-1]
	var left, shares vg.Length
	free := c.Max.Y - c.Min.Y - between*vg.Length(len(panels)-1)
	for i, p := range panels {
		p.X.Min, p.X.Max = lo-pad, hi+pad
		p.X.Tick.Marker = plot.ConstantTicks(nil)
		left = max(left, p.DataCanvas(c).Min.X-c.Min.X)
		shares += p.share
		if i > 0 && p.legend != nil {
			free -= strip
		}
	}
	ticks := s.ticks(lo-pad, hi+pad, c.Max.X-c.Min.X-left)
	for _, p := range panels {
		// Below the lines, but only now the places are known.
		p.grid.x = ticks
	}
	last.X.Tick.Marker = plot.ConstantTicks(ticks)
	if !s.timed {
		last.X.Label.Text = "observation"
	}
	free -= last.DataCanvas(c).Min.Y - c.Min.Y

	top := c.Max.Y
	for i, p := range panels {
		if i > 0 && p.legend != nil {
			top -= strip
		}
		drawLegend(c, vg.Point{X: c.Min.X + left, Y: top + strip}, p.legend)
		box := c
		box.Max.Y = top
		box.Min.Y = top - free*p.share/shares
		top = box.Min.Y - between
		if p.Plot == last.Plot {
			box.Min.Y = c.Min.Y
		}
		box.Min.X += left - (p.DataCanvas(box).Min.X - box.Min.X)
		p.Draw(box)
	}
}

// An entry is one line of a legend.
type entry struct {
	name string
	mark func(c draw.Canvas, at vg.Point) // draws a swatch of width swatch
}

const swatch = 14 * vg.Length(1)

func lineEntry(name string, col color.Color) entry {
	return entry{name, func(c draw.Canvas, at vg.Point) {
		c.StrokeLine2(draw.LineStyle{Color: col, Width: 1.5}, at.X, at.Y, at.X+swatch, at.Y)
	}}
}

var dataLegend = []entry{
	{"observed", func(c draw.Canvas, at vg.Point) {
		c.SetColor(black)
		for i := vg.Length(0); i < 3; i++ {
			c.Fill(dot(vg.Point{X: at.X + swatch*(i+0.5)/3, Y: at.Y + 1.5*(i-1)}, 1.1))
		}
	}},
	lineEntry("predicted", blue),
	{"± 2 sd", func(c draw.Canvas, at vg.Point) {
		c.FillPolygon(bandBlue, []vg.Point{{X: at.X, Y: at.Y - 3}, {X: at.X + swatch, Y: at.Y - 3}, {X: at.X + swatch, Y: at.Y + 3}, {X: at.X, Y: at.Y + 3}})
	}},
	{"beyond the axis", func(c draw.Canvas, at vg.Point) {
		c.SetColor(black)
		c.Fill(arrow(vg.Point{X: at.X + swatch/2, Y: at.Y + 2.5}, 1))
	}},
}

func levelLegend(levels int) []entry {
	var all []entry
	for i := range levels {
		all = append(all, lineEntry(levelName(i), levelColor(i)))
	}
	return all
}

// drawLegend draws entries side by side; at is the top left corner.
func drawLegend(c draw.Canvas, at vg.Point, entries []entry) {
	st := textStyle(8, black)
	st.YAlign = draw.YCenter
	at.Y -= strip / 2
	for _, e := range entries {
		e.mark(c, at)
		at.X += swatch + 4
		c.FillText(st, at, e.name)
		at.X += st.Width(e.name) + 14
	}
}

// fit cuts text so that it isn't wider than width.
func fit(st draw.TextStyle, text string, width vg.Length) string {
	if st.Width(text) <= width {
		return text
	}
	r := []rune(text)
	for len(r) > 1 && st.Width(string(r)+"…") > width {
		r = r[:len(r)-1]
	}
	return string(r) + "…"
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

// dots are observations.
type dots []point

func (d dots) Plot(c draw.Canvas, p *plot.Plot) {
	radius := vg.Length(0.7)
	if len(d) < 500 {
		radius = 1.5
	}
	x, y := p.Transforms(&c)
	cell := func(q point) [2]int {
		return [2]int{int((x(q.x) - c.Min.X) / (2 * pixel)), int((y(q.y) - c.Min.Y) / (2 * pixel))}
	}
	c.SetColor(black)
	// In one path the dots would cost the time of their number squared, and each
	// in its own much space.
	for some := range slices.Chunk(sparse(within(d, p.Y.Min, p.Y.Max), cell), 500) {
		var path vg.Path
		for _, q := range some {
			path = append(path, dot(vg.Point{X: x(q.x), Y: y(q.y)}, radius)...)
		}
		c.Fill(path)
	}
}

// beyond is arrows at the ends of the y axis, for the points that it leaves out.
type beyond []point

func (b beyond) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	var all vg.Path
	for _, end := range []struct {
		points    []point
		y         vg.Length
		direction vg.Length
	}{
		{within(b, p.Y.Max, math.Inf(1)), c.Max.Y, 1},
		{within(b, math.Inf(-1), p.Y.Min), c.Min.Y, -1},
	} {
		for _, q := range sparse(end.points, func(q point) [2]int { return [2]int{int((x(q.x) - c.Min.X) / pixel)} }) {
			all = append(all, arrow(vg.Point{X: x(q.x), Y: end.y}, end.direction)...)
		}
	}
	c.SetColor(black)
	c.Fill(all)
}

// within returns the points with y from lo to hi.
func within(d []point, lo, hi float64) []point {
	return slices.DeleteFunc(slices.Clone(d), func(q point) bool { return !(q.y >= lo && q.y <= hi) })
}

// sparse drops the points that fall on the cell of one before.
func sparse(d []point, cell func(point) [2]int) []point {
	taken := map[[2]int]bool{}
	var kept []point
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

// arrow is a triangle with its tip at tip, pointing up (1) or down (−1).
func arrow(tip vg.Point, direction vg.Length) vg.Path {
	var p vg.Path
	p.Move(tip)
	p.Line(vg.Point{X: tip.X - 2.4, Y: tip.Y - 4.5*direction})
	p.Line(vg.Point{X: tip.X + 2.4, Y: tip.Y - 4.5*direction})
	p.Close()
	return p
}

// line is a line through y, broken where y is not finite.
type line struct {
	x, y  []float64
	color color.Color
	width vg.Length
}

func (l line) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	column := func(i int) int { return int((x(l.x[i]) - c.Min.X) / pixel) }
	st := draw.LineStyle{Color: l.color, Width: l.width}
	for from, to := range runs(len(l.y), func(i int) bool { return finite(l.y[i]) }) {
		var path []vg.Point
		for _, i := range envelope(l.y, from, to, column) {
			path = append(path, vg.Point{X: x(l.x[i]), Y: y(l.y[i])})
		}
		if len(path) == 1 {
			path = append(path, vg.Point{X: path[0].X + pixel, Y: path[0].Y})
		}
		c.StrokeLines(st, c.ClipLinesXY(path)...)
	}
}

// band is the area between low and high, broken where one of them isn't finite.
type band struct{ x, low, high []float64 }

func (b band) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	column := func(i int) int { return int((x(b.x[i]) - c.Min.X) / pixel) }
	for from, to := range runs(len(b.x), func(i int) bool { return finite(b.low[i]) && finite(b.high[i]) }) {
		var area []vg.Point
		for _, i := range envelope(b.high, from, to, column) {
			area = append(area, vg.Point{X: x(b.x[i]), Y: y(b.high[i])})
		}
		for _, i := range slices.Backward(envelope(b.low, from, to, column)) {
			area = append(area, vg.Point{X: x(b.x[i]), Y: y(b.low[i])})
		}
		c.FillPolygon(bandBlue, c.ClipPolygonXY(area))
	}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

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

// numberTicks cuts the axis into at most as many parts as it says, at round
// numbers.
type numberTicks int

func (n numberTicks) Ticks(lo, hi float64) []plot.Tick {
	step := roundStep((hi - lo) / float64(n))
	var ticks []plot.Tick
	first := math.Ceil(lo / step)
	for i := range int(n) + 1 {
		v := (first+float64(i))*step + 0 // + 0 makes 0 of -0
		if v <= hi {
			ticks = append(ticks, plot.Tick{Value: v, Label: numberLabel(v, step)})
		}
	}
	return ticks
}

// roundStep is the least of 1, 2 and 5 times a power of ten that is not below v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v {
			return m * power
		}
	}
	return 10 * power
}

// numberLabel writes a multiple of step with as many digits as it has.
func numberLabel(v, step float64) string {
	unit := ""
	for _, u := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= u.size && math.Abs(v) >= 1e4 {
			v, step, unit = v/u.size, step/u.size, u.name
			break
		}
	}
	digits := -int(math.Floor(math.Log10(step) + 1e-9))
	switch {
	case v == 0 && digits > 4:
		return "0"
	case unit == "" && digits > 4:
		before := 1 + int(math.Floor(math.Log10(math.Abs(v))+1e-9))
		return strconv.FormatFloat(v, 'g', max(1, min(15, before+digits)), 64)
	}
	return strconv.FormatFloat(v, 'f', max(0, min(6, digits)), 64) + unit
}

// logTicks are the powers of ten, labelled so that about six labels remain.
type logTicks struct{}

func (logTicks) Ticks(lo, hi float64) []plot.Tick {
	first, last := math.Ceil(math.Log10(lo)), math.Floor(math.Log10(hi))
	every := math.Ceil((last - first + 1) / 6)
	var ticks []plot.Tick
	for e := first; e <= last; e += every {
		v := math.Pow(10, e)
		ticks = append(ticks, plot.Tick{Value: v, Label: numberLabel(v, v)})
	}
	return ticks
}

// ticks are the ticks of the time axis from lo to hi, as many as a width has
// room for.
func (s *series) ticks(lo, hi float64, width vg.Length) []plot.Tick {
	st := textStyle(tickSize, black)
	room := func(ticks []plot.Tick) bool {
		end := vg.Length(math.Inf(-1))
		for _, t := range ticks {
			x, half := width*vg.Length((t.Value-lo)/(hi-lo)), st.Width(strings.SplitN(t.Label, "\n", 2)[0])/2
			if x-half < end+8 {
				return false
			}
			end = x + half
		}
		return true
	}
	if !s.timed {
		for n := numberTicks(10); ; n-- {
			ticks := slices.DeleteFunc(n.Ticks(max(lo, s.at[0]), hi), func(t plot.Tick) bool { return t.Value != math.Round(t.Value) })
			if n == 1 || room(ticks) {
				return inside(ticks, lo, hi, width, st)
			}
		}
	}
	for _, step := range timeSteps {
		// Fewer than 20 ticks, and no label closer than the room it takes.
		if (hi-lo)/step.seconds() > 20 {
			continue
		}
		if ticks := step.ticks(lo, hi); room(ticks) {
			return inside(dates(ticks, step, lo, hi, width, st), lo, hi, width, st)
		}
	}
	return nil
}

// inside takes the labels off ticks that would stand out on the right, where
// the axis would make room for them.
func inside(ticks []plot.Tick, lo, hi float64, width vg.Length, st draw.TextStyle) []plot.Tick {
	for i, t := range ticks {
		if x := width * vg.Length((t.Value-lo)/(hi-lo)); x+st.Width(t.Label)/2 > width {
			ticks[i].Label = ""
		}
	}
	return ticks
}

// A timeStep is the distance of ticks in time.
type timeStep struct {
	every  time.Duration // or, where it is 0,
	months int
}

var timeSteps = func() (all []timeStep) {
	for _, unit := range []struct {
		size  time.Duration
		steps []int
	}{
		{time.Millisecond, []int{1, 2, 5, 10, 20, 50, 100, 200, 500}},
		{time.Second, []int{1, 2, 5, 10, 20, 30}},
		{time.Minute, []int{1, 2, 5, 10, 20, 30}},
		{time.Hour, []int{1, 2, 3, 6, 12}},
		{24 * time.Hour, []int{1, 2, 7, 14}},
	} {
		for _, n := range unit.steps {
			all = append(all, timeStep{every: time.Duration(n) * unit.size})
		}
	}
	for _, months := range []int{1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 6000, 12000} {
		all = append(all, timeStep{months: months})
	}
	return all
}()

func (s timeStep) seconds() float64 {
	const month = 365.2425 * 24 * 3600 / 12
	return s.every.Seconds() + month*float64(s.months)
}

// ticks are the multiples of the step from lo to hi, in UTC: weeks begin on
// Monday, months and years on their first day.
func (s timeStep) ticks(lo, hi float64) []plot.Tick {
	var layout string
	var at func(i int64) time.Time
	switch start := time.UnixMicro(int64(lo * 1e6)).UTC(); {
	case s.months > 0:
		layout = "Jan"
		if s.months >= 12 {
			layout = "2006"
		}
		first := (start.Year()*12 + int(start.Month()) - 1) / s.months * s.months
		at = func(i int64) time.Time {
			m := first + int(i)*s.months
			return time.Date(m/12, time.Month(m%12+1), 1, 0, 0, 0, 0, time.UTC)
		}
	default:
		switch {
		case s.every >= 24*time.Hour:
			layout = "2 Jan"
		case s.every >= time.Minute:
			layout = "15:04"
		case s.every >= time.Second:
			layout = "15:04:05"
		default:
			layout = "15:04:05.000"
		}
		// Truncate counts from the year 1, which began on a Monday.
		first := start.Truncate(s.every)
		at = func(i int64) time.Time { return first.Add(time.Duration(i) * s.every) }
	}
	var ticks []plot.Tick
	for i := int64(0); ; i++ {
		t := at(i)
		v := float64(t.UnixMicro()) / 1e6
		if v > hi {
			return ticks
		}
		if v >= lo {
			ticks = append(ticks, plot.Tick{Value: v, Label: t.Format(layout)})
		}
	}
}

// dates adds a second line to the ticks at which the date, or beside dates and
// months the year, is another one than before, as far as there is room.
func dates(ticks []plot.Tick, step timeStep, lo, hi float64, width vg.Length, st draw.TextStyle) []plot.Tick {
	layout := "2 Jan 2006"
	switch {
	case step.months >= 12:
		return ticks
	case step.months > 0 || step.every >= 24*time.Hour:
		layout = "2006"
	}
	shown, end := "", vg.Length(math.Inf(-1))
	for i, t := range ticks {
		date := time.UnixMicro(int64(t.Value * 1e6)).UTC().Format(layout)
		x, half := width*vg.Length((t.Value-lo)/(hi-lo)), st.Width(date)/2
		if date != shown && x-half > end+8 && x+half <= width {
			ticks[i].Label += "\n" + date
			shown, end = date, x+half
		} else {
			ticks[i].Label += "\n " // the first line of all at one height
		}
	}
	return ticks
}
