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
	"hafvf/cmd/hafvf/outfile"
	"hafvf/cmd/hafvf/output"
	"hafvf/internal/message"
)

// maxKeys is the maximum number of keys in a picture.
const maxKeys = 20

// A Choice selects the keys and records of a picture: the keys in Keys, in their order; or the keys that match
// Pattern; or, without both, all keys. If more than maxKeys match, Results draws the first by rank: keys with alarms
// or changes by decreasing size, then the others by name.
type Choice struct {
	Keys    []string
	Pattern string // pattern in the syntax of match under keys of a config
	Window
	Band  Band    // band of filtered records; empty means Usual
	Odds  float64 // odds in favour of a change, for the threshold of smoothed records
	Title string  // title of the picture; empty means the name of the file
}

// A Window selects records by time or by alarm. Its zero value selects all.
type Window struct {
	From, To time.Time     // inclusive; zero means no limit
	Last     time.Duration // time before the last record of the chosen keys; 0 means no limit
	// Alarm is the rank of an alarm by size, from 1 for the largest. Results draws its key, with contextRecords
	// records before and after the alarm. 0 means no alarm.
	Alarm int
}

// contextRecords is the number of records before and after the alarm of a Window.
const contextRecords = 150

// check returns an error if the window cannot be drawn from file.
func (w Window) check(file string) error {
	switch {
	case !w.From.IsZero() && !w.To.IsZero() && w.To.Before(w.From):
		return errors.New("--to is before --from")
	case w.Last < 0:
		return errors.New("--last must be above 0, such as 7d")
	case w.Last > 0 && (!w.From.IsZero() || !w.To.IsZero()):
		return errors.New("use either --last or --from and --to")
	case w.Last > 0 && file == "-":
		return errors.New("--last needs a file: standard input is read only once")
	case w.Alarm < 0 || w.Alarm > maxKeys:
		return fmt.Errorf("--alarm must be 1 (the largest alarm) to %d", maxKeys)
	}
	return nil
}

// contains reports whether the record is in the window. A record without a time is in every window.
func (w Window) contains(r *output.Record) bool {
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

// largest returns the key with the n-th largest alarm, with the records around the alarm. It fails if there are fewer
// alarms.
func largest(histories []history, n int) ([]history, error) {
	type alarm struct {
		key, record int
		size        float64
	}
	var alarms []alarm
	for i, h := range histories {
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
	h := histories[a.key]
	h.records = h.records[max(0, a.record-contextRecords):min(len(h.records), a.record+contextRecords+1)]
	return []history{h}, nil
}

// CheckFile returns an error unless out is an .svg or a .png file.
func CheckFile(out string) error {
	if ext := filepath.Ext(out); ext != ".svg" && ext != ".png" {
		return fmt.Errorf("%s: a picture must be an .svg or a .png file", out)
	}
	return nil
}

// Check returns an error if a picture of results cannot be drawn to out.
func Check(results, out string, c Choice) error {
	if err := CheckFile(out); err != nil {
		return err
	}
	if len(c.Keys) > maxKeys {
		return fmt.Errorf("%d keys are too many for one picture: give at most %d", len(c.Keys), maxKeys)
	}
	if len(c.Keys) > 0 && c.Pattern != "" {
		return errors.New("use either --key or --keys, not both")
	}
	if _, err := path.Match(c.Pattern, ""); err != nil {
		return fmt.Errorf("--keys %s is not a pattern: * matches any text, ? one character, [ab] one of several", message.Quote(c.Pattern))
	}
	if c.Band != "" && c.Band != Usual && c.Band != Predicted {
		return fmt.Errorf("--band %s: use %s or %s", message.Quote(string(c.Band)), Usual, Predicted)
	}
	if !(c.Odds > 0 && c.Odds < math.Inf(1)) {
		return fmt.Errorf("--odds %g: give a finite number above 0", c.Odds)
	}
	return c.check(results)
}

// A Band is the kind of band in the data panel of filtered records.
type Band string

const (
	Usual     Band = "usual"     // usual ± 2 sd, if the records have it
	Predicted Band = "predicted" // predicted interval, or predicted ± 2 sd
)

// Results draws the records in results to out, which must have passed Check. An existing file is replaced only by a
// complete one. One key is drawn with all its panels; several keys are drawn small. Results writes to standard error
// how many keys it left out.
func Results(ctx context.Context, results, out string, c Choice) error {
	if c.Last > 0 {
		latest, err := outfile.Last(ctx, results, c.selects)
		if err != nil {
			return err
		}
		c.From = latest.Add(-c.Last)
	}
	histories, omitted, err := readRecords(ctx, results, c)
	if err != nil {
		return err
	}
	if c.Alarm > 0 {
		if histories, err = largest(histories, c.Alarm); err != nil {
			return err
		}
		omitted = 0
	}
	if omitted > 0 {
		fmt.Fprintf(os.Stderr, "hafvf: the picture shows %d of %d keys, those with the largest changes first; select others with --keys PATTERN or --key KEY\n", len(histories), len(histories)+omitted)
	}
	large := len(histories) == 1
	var stacks []chart.Stack
	for _, h := range histories {
		var s chart.Stack
		if h.records[0].Smoothed() {
			s = newSmoothed(h, c.Odds).stack(large)
		} else {
			s = newEstimates(h, c.Band).stack(large)
		}
		s.Panels[0].Label = "x" // the name of the value in records
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

// figure arranges the stacks of the keys in rows.
func figure(stacks []chart.Stack) *chart.Figure {
	cols, width, height := 1, 760.0, 600.0
	switch n := len(stacks); {
	case n == 1 && len(stacks[0].Panels) > 5:
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
	f := &chart.Figure{Width: width + margin, OneLegend: len(stacks) > 1}
	for chunk := range slices.Chunk(stacks, cols) {
		row := chart.Row{Height: height, Stacks: make([]chart.Stack, cols)}
		copy(row.Stacks, chunk)
		f.Rows = append(f.Rows, row)
	}
	return f
}

// dataRange returns the range of a y axis for data or, without data, for line.
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

// areRates reports whether the data are zeros and ones, and the means are within [0, 1].
func areRates(data []chart.Point, mean []float64) bool {
	contains := func(v float64) bool {
		return slices.ContainsFunc(data, func(p chart.Point) bool { return p.Y == v })
	}
	return contains(0) && contains(1) &&
		!slices.ContainsFunc(data, func(p chart.Point) bool { return p.Y != 0 && p.Y != 1 }) &&
		!slices.ContainsFunc(mean, func(m float64) bool { return m < 0 || m > 1 })
}

// withData returns layers of the data with others between them: dots above and, below, arrows for points beyond the
// axis. Rates have only the arrows of rarer.
func withData(data []chart.Point, rates bool, others ...chart.Layer) []chart.Layer {
	if rates {
		return append(others, rarer(data))
	}
	dots := chart.Dots{Name: "observed", Points: data, Color: chart.Black}
	return append(append([]chart.Layer{dots}, others...), chart.Arrows{Name: "beyond the axis", Points: data, Color: chart.Black})
}

// positive returns the range of the finite numbers above 0; hi is 0 if there are none.
func positive(v []float64) (lo, hi float64) {
	lo = math.Inf(1)
	for _, x := range v {
		if x > 0 && x < math.Inf(1) {
			lo, hi = min(lo, x), max(hi, x)
		}
	}
	return lo, hi
}

// rateBand returns mean ± halfWidth within [0, 1].
func rateBand(mean, halfWidth float64) (low, high float64) {
	return max(0, mean-halfWidth), min(1, mean+halfWidth)
}

// rateRange returns the range of a y axis for the band of a rate, without the peaks of single observations.
func rateRange(low, high []float64) (lo, hi float64) {
	lo, hi = chart.Extent(slices.Concat(low, high), 0.5)
	return chart.Pad(max(0, lo), min(1, hi))
}

// rarer returns arrows at the observations of the rarer value of data that are 0 or 1: at the upper end of the axis
// for 1, at the lower end for 0.
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
