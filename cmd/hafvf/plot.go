package main

import (
	"cmp"
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
	"hafvf/cmd/hafvf/chart"
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
	if err := ctx.Err(); err != nil {
		return err
	}
	return figure(all).Write(out)
}

// A series is what a picture shows of one key. All slices but the data have one
// entry per record; NaN is what a record doesn't have.
type series struct {
	key  string
	note string // on what is drawn of a value with several coordinates

	timed bool          // at is Unix seconds; otherwise n
	at    []float64     // not decreasing
	data  []chart.Point // the observations, any number per record

	mean, sd []float64   // one step ahead
	weights  [][]float64 // E[w], E[b], …: one slice per level
	memory   []float64
	surprise []float64 // −log p(x|past), nats
}

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
				s.data = append(s.data, chart.Point{X: at(r), Y: v})
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

// levelColor is the colour of the weight of level i, bottom up.
func levelColor(i int) color.NRGBA {
	return []color.NRGBA{chart.Vermilion, chart.Green, chart.Purple, chart.Orange}[min(i, 3)]
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

// figure draws one key large, with its weights, memory and surprise; several
// small, with data and weights.
func figure(all []*series) *chart.Figure {
	cols, width, height := 1, 760.0, 600.0
	switch n := len(all); {
	case n == 1:
	case n == 2:
		width, height = 720, 270
	case n <= 6:
		cols, width, height = 2, 880, 230
	case n <= 12:
		cols, width, height = 3, 1050, 205
	default:
		cols, width, height = 4, 1160, 180
	}
	const margin = 10
	f := &chart.Figure{Width: width + margin, OneLegend: len(all) > 1}
	for some := range slices.Chunk(all, cols) {
		row := chart.Row{Height: height, Stacks: make([]chart.Stack, cols)}
		for i, s := range some {
			row.Stacks[i] = s.stack(len(all) == 1)
		}
		f.Rows = append(f.Rows, row)
	}
	return f
}

// stack is the panels of a key: all of them, or where the picture is small, only
// data and weights.
func (s *series) stack(large bool) chart.Stack {
	x := chart.Axis{Time: s.timed, Min: s.at[0], Max: s.at[len(s.at)-1]}
	if !s.timed {
		x.Label = "observation"
	}
	panels := []chart.Panel{s.dataPanel(), s.weightPanel()}
	if large {
		panels = append(panels, s.memoryPanel(), s.surprisePanel())
	} else {
		panels[1].Share, panels[1].Ticks = 0.6, 2
	}
	return chart.Stack{Title: s.key, Note: s.note, X: x, Panels: panels}
}

func (s *series) dataPanel() chart.Panel {
	y := make([]float64, 0, len(s.data))
	for _, d := range s.data {
		y = append(y, d.Y)
	}
	if len(y) == 0 {
		y = s.mean
	}
	lo, hi := chart.Extent(y, 3)
	pad := 0.06 * (hi - lo)
	low, high := make([]float64, len(s.at)), make([]float64, len(s.at))
	for i, m := range s.mean {
		low[i], high[i] = m-2*s.sd[i], m+2*s.sd[i]
	}
	return chart.Panel{Share: 2.2, Min: lo - pad, Max: hi + pad, Layers: []chart.Layer{
		chart.Dots{Name: "observed", Points: s.data, Color: chart.Black},
		chart.Line{Name: "predicted", X: s.at, Y: s.mean, Color: chart.Blue, Width: 0.8},
		chart.Band{Name: "± 2 sd", X: s.at, Low: low, High: high, Color: chart.Blue},
		chart.Arrows{Name: "beyond the axis", Points: s.data, Color: chart.Black},
	}}
}

func (s *series) weightPanel() chart.Panel {
	p := chart.Panel{Share: 1, Min: -0.04, Max: 1.04, Ticks: 3}
	for i, w := range s.weights {
		p.Layers = append(p.Layers, chart.Line{Name: levelName(i), X: s.at, Y: w, Color: levelColor(i), Width: 0.9})
	}
	return p
}

func (s *series) memoryPanel() chart.Panel {
	lo, hi := math.Inf(1), 0.0
	for _, m := range s.memory {
		if m > 0 && m < math.Inf(1) {
			lo, hi = min(lo, m), max(hi, m)
		}
	}
	p := chart.Panel{Share: 1, Max: max(1.05*hi, 1e-9), Layers: []chart.Layer{
		chart.Line{Name: "memory (observations)", X: s.at, Y: s.memory, Color: chart.Blue, Width: 0.9},
	}}
	if hi > 100*lo {
		p.Min, p.Max, p.Log = lo/1.2, hi*1.2, true
	}
	return p
}

func (s *series) surprisePanel() chart.Panel {
	lo, hi := chart.Extent(s.surprise, 10)
	pad := 0.06 * (hi - lo)
	peaks := make([]chart.Point, len(s.at))
	for i, y := range s.surprise {
		peaks[i] = chart.Point{X: s.at[i], Y: y}
	}
	return chart.Panel{Share: 1, Min: lo - pad, Max: hi + pad, Layers: []chart.Layer{
		chart.Line{Name: "surprise (nats)", X: s.at, Y: s.surprise, Color: chart.Gray, Width: 0.6},
		chart.Arrows{Points: peaks, Color: chart.Black},
	}}
}
