// Package plot draws the records that a run has written.
package plot

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"

	"hafvf/cmd/hafvf/chart"
	"hafvf/internal/message"
)

// maxKeys is how many keys one picture shows.
const maxKeys = 20

// A Choice says which keys are drawn: those of Keys, in that order, or those that match
// Pattern, or without both all. Of more than maxKeys the first by rank are drawn: keys with
// alarms or changes come first, from the largest, then the others by name.
type Choice struct {
	Keys    []string
	Pattern string // as match of a config's keys
}

// Check says why a picture of the keys cannot be drawn to out.
func Check(out string, keys Choice) error {
	if ext := filepath.Ext(out); ext != ".svg" && ext != ".png" {
		return fmt.Errorf("%s: a picture is an .svg or a .png file", out)
	}
	if len(keys.Keys) > maxKeys {
		return fmt.Errorf("%d keys are too many for one picture, which shows at most %d", len(keys.Keys), maxKeys)
	}
	if len(keys.Keys) > 0 && keys.Pattern != "" {
		return errors.New("--key and --keys exclude each other")
	}
	if _, err := path.Match(keys.Pattern, ""); err != nil {
		return fmt.Errorf("--keys %s is no pattern: * stands for any text, ? for a character, [ab] for one of several", message.Quote(keys.Pattern))
	}
	return nil
}

// Results draws the records of results, JSON Lines, to out, which Check has passed
// and which appears complete or not at all. It says on standard error how many keys it left
// out. One key is drawn large, with all its panels; several are drawn small.
func Results(ctx context.Context, results, out string, keys Choice, odds float64) error {
	all, left, err := readRecords(ctx, results, keys)
	if err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintf(os.Stderr, "hafvf: the picture shows %d of %d keys, those with the largest changes first; --keys PATTERN or --key KEY chooses others\n", len(all), len(all)+left)
	}
	large := len(all) == 1
	var stacks []chart.Stack
	for _, h := range all {
		if h.records[0].smoothed() {
			stacks = append(stacks, newSmoothed(h).stack(large, odds))
		} else {
			stacks = append(stacks, newEstimates(h).stack(large))
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return figure(stacks).Write(out)
}

// figure lays the stacks of the keys out.
func figure(all []chart.Stack) *chart.Figure {
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
		copy(row.Stacks, some)
		f.Rows = append(f.Rows, row)
	}
	return f
}

// dataRange is the range of a y axis for data, or where there is none for the
// line among it.
func dataRange(data []chart.Point, line []float64) (lo, hi float64) {
	y := make([]float64, 0, len(data))
	for _, d := range data {
		y = append(y, d.Y)
	}
	if len(y) == 0 {
		y = line
	}
	return chart.Pad(chart.Extent(y, 3))
}

// areRates reports whether the data are zeros and ones, and the means rates of them.
func areRates(data []chart.Point, mean []float64) bool {
	has := func(v float64) bool {
		return slices.ContainsFunc(data, func(p chart.Point) bool { return p.Y == v })
	}
	return has(0) && has(1) &&
		!slices.ContainsFunc(data, func(p chart.Point) bool { return p.Y != 0 && p.Y != 1 }) &&
		!slices.ContainsFunc(mean, func(m float64) bool { return m < 0 || m > 1 })
}

// rateBand is the part of a band about a rate that lies in [0, 1].
func rateBand(mean, off float64) (low, high float64) { return max(0, mean-off), min(1, mean+off) }

// rateRange is the range of a y axis for the band of a rate, without the peaks that single
// observations make.
func rateRange(low, high []float64) (lo, hi float64) {
	lo, hi = chart.Extent(slices.Concat(low, high), 0.5)
	return chart.Pad(max(0, lo), min(1, hi))
}

// rarer are arrows at the observations of the rarer value of data that are 0 or 1: at the
// upper end of the axis for 1, at the lower one for 0.
func rarer(data []chart.Point) chart.Arrows {
	ones := 0
	for _, p := range data {
		ones += int(p.Y)
	}
	value, y := 1., math.Inf(1)
	if 2*ones > len(data) {
		value, y = 0, math.Inf(-1)
	}
	a := chart.Arrows{Name: fmt.Sprintf("observed %g", value), Color: chart.Black}
	for _, p := range data {
		if p.Y == value {
			a.Points = append(a.Points, chart.Point{X: p.X, Y: y})
		}
	}
	return a
}
