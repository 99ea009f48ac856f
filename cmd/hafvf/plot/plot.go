// Package plot draws the records that a run has written.
package plot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"hafvf/cmd/hafvf/chart"
	"hafvf/cmd/hafvf/output"
	"hafvf/internal/message"
)

// maxKeys is how many keys one picture shows.
const maxKeys = 20

// A Choice says what is drawn. The keys are those of Keys, in that order, or those that match
// Pattern, or without both all. Of more than maxKeys the first by rank are drawn: keys with
// alarms or changes come first, from the largest, then the others by name.
type Choice struct {
	Keys    []string
	Pattern string // as match of a config's keys
	Window
	Band  Band    // of filtered records; default Usual
	Odds  float64 // of smoothed records: the threshold of the evidence of a change
	Title string  // of the picture; by default the name of the file
}

// A Window is the part of the records that is drawn. Its zero value is all of them.
type Window struct {
	From, To time.Time     // inclusive; zero for open
	Last     time.Duration // before the last record of the file; zero for none
	// Alarm is the rank of an alarm among those that are drawn, from 1 for the largest: its
	// key is drawn about it. Zero is none.
	Alarm int
}

// about is the number of records on each side of the alarm that a window is about.
const about = 150

// check says why the window of a file cannot be drawn.
func (w Window) check(file string) error {
	switch {
	case !w.From.IsZero() && !w.To.IsZero() && w.To.Before(w.From):
		return errors.New("--to is before --from")
	case w.Last < 0:
		return errors.New("--last is a time above 0, such as 7d")
	case w.Last > 0 && (!w.From.IsZero() || !w.To.IsZero()):
		return errors.New("--last excludes --from and --to")
	case w.Last > 0 && file == "-":
		return errors.New("--last needs a file: standard input is read only once")
	case w.Alarm < 0 || w.Alarm > maxKeys:
		return fmt.Errorf("--alarm is 1 for the largest alarm, and at most %d", maxKeys)
	}
	return nil
}

// holds reports whether the window has a record. One without a time is in every window.
func (w Window) holds(r *output.Record) bool {
	return r.Time == nil || !r.Time.Before(w.From) && (w.To.IsZero() || !r.Time.After(w.To))
}

func (w Window) name() (text string) {
	if !w.From.IsZero() {
		text += " from " + w.From.Format(time.RFC3339)
	}
	if !w.To.IsZero() {
		text += " until " + w.To.Format(time.RFC3339)
	}
	return text
}

// largest returns the key with the alarm of the n-th rank, with the records about it.
func largest(all []history, n int) ([]history, error) {
	type alarm struct {
		key, record int
		size        float64
	}
	var alarms []alarm
	for i, h := range all {
		s := newSize()
		for j := range h.records {
			if s.add(&h.records[j]); s.last >= 0 {
				alarms = append(alarms, alarm{i, j, s.last})
			}
		}
	}
	if n > len(alarms) {
		return nil, fmt.Errorf("--alarm %d: the records have %s", n, count(len(alarms), "alarm"))
	}
	slices.SortStableFunc(alarms, func(a, b alarm) int { return cmp.Compare(b.size, a.size) })
	a := alarms[n-1]
	h := all[a.key]
	h.records = h.records[max(0, a.record-about):min(len(h.records), a.record+about+1)]
	return []history{h}, nil
}

// CheckFile says why out is no file for a picture.
func CheckFile(out string) error {
	if ext := filepath.Ext(out); ext != ".svg" && ext != ".png" {
		return fmt.Errorf("%s: a picture is an .svg or a .png file", out)
	}
	return nil
}

// Check says why a picture of the results cannot be drawn to out.
func Check(results, out string, c Choice) error {
	if err := CheckFile(out); err != nil {
		return err
	}
	if len(c.Keys) > maxKeys {
		return fmt.Errorf("%d keys are too many for one picture, which shows at most %d", len(c.Keys), maxKeys)
	}
	if len(c.Keys) > 0 && c.Pattern != "" {
		return errors.New("--key and --keys exclude each other")
	}
	if _, err := path.Match(c.Pattern, ""); err != nil {
		return fmt.Errorf("--keys %s is no pattern: * stands for any text, ? for a character, [ab] for one of several", message.Quote(c.Pattern))
	}
	if c.Band != "" && c.Band != Usual && c.Band != Predicted {
		return fmt.Errorf("--band %s: it is %s or %s", message.Quote(string(c.Band)), Usual, Predicted)
	}
	if !(c.Odds > 0 && c.Odds < math.Inf(1)) {
		return fmt.Errorf("--odds %g: odds are finite and above zero", c.Odds)
	}
	return c.check(results)
}

// A Band is the one over the data of filtered records.
type Band string

const (
	Usual     Band = "usual"     // what is usual for the key, if the records have it
	Predicted Band = "predicted" // what the filter predicts
)

// Results draws the records of results, JSON Lines, to out, which Check has passed
// and which appears complete or not at all. It says on standard error how many keys it left
// out. One key is drawn large, with all its panels; several are drawn small.
func Results(ctx context.Context, results, out string, c Choice) error {
	if c.Last > 0 {
		latest, err := output.Last(ctx, results, c.takes)
		if err != nil {
			return err
		}
		c.From = latest.Add(-c.Last)
	}
	all, left, err := readRecords(ctx, results, c)
	if err != nil {
		return err
	}
	if c.Alarm > 0 {
		if all, err = largest(all, c.Alarm); err != nil {
			return err
		}
		left = 0
	}
	if left > 0 {
		fmt.Fprintf(os.Stderr, "hafvf: the picture shows %d of %d keys, those with the largest changes first; --keys PATTERN or --key KEY chooses others\n", len(all), len(all)+left)
	}
	large := len(all) == 1
	var stacks []chart.Stack
	for _, h := range all {
		var s chart.Stack
		if h.records[0].Smoothed() {
			s = newSmoothed(h, c.Odds).stack(large)
		} else {
			s = newEstimates(h, c.Band).stack(large)
		}
		s.Panels[0].Label = "x" // as records name the value
		stacks = append(stacks, s)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	f := figure(stacks)
	if f.Title = cmp.Or(c.Title, filepath.Base(results)); f.Title == "-" {
		f.Title = "standard input"
	}
	return f.Write(out)
}

// figure lays the stacks of the keys out.
func figure(all []chart.Stack) *chart.Figure {
	cols, width, height := 1, 760.0, 600.0
	switch n := len(all); {
	case n == 1 && len(all[0].Panels) > 5:
		height = 690
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

// among returns the layers of the data, with others between: dots above, and arrows below at what
// lies beyond the axis; of rates only rarer.
func among(data []chart.Point, rates bool, others ...chart.Layer) []chart.Layer {
	if rates {
		return append(others, rarer(data))
	}
	dots := chart.Dots{Name: "observed", Points: data, Color: chart.Black}
	return append(append([]chart.Layer{dots}, others...), chart.Arrows{Name: "beyond the axis", Points: data, Color: chart.Black})
}

// positive is the range of the numbers that are finite and above 0; hi is 0 without any.
func positive(v []float64) (lo, hi float64) {
	lo = math.Inf(1)
	for _, x := range v {
		if x > 0 && x < math.Inf(1) {
			lo, hi = min(lo, x), max(hi, x)
		}
	}
	return lo, hi
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
