// Package plot draws the records that a run has written.
package plot

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"hafvf/cmd/hafvf/chart"
)

// maxKeys is how many keys one picture shows.
const maxKeys = 20

// Check says why a picture of the keys cannot be drawn to out.
func Check(out string, keys []string) error {
	if ext := filepath.Ext(out); ext != ".svg" && ext != ".png" {
		return fmt.Errorf("%s: a picture is an .svg or a .png file", out)
	}
	if len(keys) > maxKeys {
		return fmt.Errorf("%d keys are too many for one picture, which shows at most %d", len(keys), maxKeys)
	}
	return nil
}

// Results draws the records of results, JSON Lines, to out, which Check has passed
// and which appears complete or not at all. It draws the keys in the given
// order; without keys, the first maxKeys that occur, by name, and says on standard
// error how many it left out. One key is drawn large, with all its panels; several
// are drawn small.
func Results(ctx context.Context, results, out string, keys []string, odds float64) error {
	all, left, err := readRecords(ctx, results, keys)
	if err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintf(os.Stderr, "hafvf: the picture shows %d of %d keys; --key KEY chooses others\n", len(all), len(all)+left)
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
