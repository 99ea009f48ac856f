// Package output reads the records that a run has written.
package output

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"hafvf/connectors"
)

// A Record is an estimate or a smoothed record, as far as it is read.
type Record struct {
	Key  *string
	Time *time.Time
	N    int64
	X    any

	// Of an estimate.
	Predicted *Moments
	Lower     any
	Upper     any
	LogP      *float64 `json:"log_predictive"`
	Weight    *float64
	Levels    []struct{ Alpha, Beta *float64 }
	Bank      []struct{}
	Detect    *Detection
	WarmUp    bool `json:"warm_up"`

	Memory *float64

	// Of a smoothed record.
	ID                string
	Estimate          *Estimate                         // estimates have one too
	Forward, Backward struct{ Weight, Memory *float64 } // not in brief records
	Session           *struct {
		Start, End *time.Time
		N          int64
	}
	Revision int64
	Split    string
	Evidence *float64 `json:"change_evidence"`
	Change   bool
	// Of a change.
	Probability *float64  `json:"change_probability"`
	Interval    *Interval `json:"change_interval"`
	Outlier     *float64  // not with levels
	Segment     *struct {
		Start *time.Time
		N     int64
		Moments
	} // not with levels
}

// An Interval is where a change may be.
type Interval struct {
	From, To *time.Time
	FromN    int64 `json:"from_n"`
	ToN      int64 `json:"to_n"`
}

// Moments are numbers or lists of numbers.
type Moments struct{ Mean, SD any }

// An Estimate is what a filter or a smoother makes of the likelihood's mean.
type Estimate struct {
	Moments
	Regime *Moments
}

// A Detection is what a run with detect says of an observation. Brief records have no
// start.
type Detection struct {
	Kind    string
	Alarm   *string
	Outlier *float64 `json:"p_outlier"`
	Change  *float64 `json:"p_change"`
	Usual   *Moments
	Score   *float64
	// Not in brief records.
	Threshold *float64
	Start     *time.Time
	StartN    int64 `json:"start_n"`
	Delay     int64
}

// Starts reports whether a new regime is found here.
func (d *Detection) Starts() bool { return d != nil && (d.Kind == "change" || d.Kind == "revision") }

// Smoothed tells smoothed records from estimates.
func (r *Record) Smoothed() bool { return r.Session != nil }

// Each calls f with every record of a file in JSON Lines, which has records of one kind.
func Each(ctx context.Context, path string, f func(Record) error) error {
	switch ext := filepath.Ext(connectors.Unpacked(path)); ext {
	case ".csv", ".parquet":
		return fmt.Errorf("%s: records are read from JSON Lines, not %s: let run write them, with sink: {jsonl: {path: …}}", path, ext[1:])
	}
	in, err := connectors.Open(connectors.Source{Format: connectors.JSONLines, Path: path})
	if err != nil {
		return err
	}
	defer in.Close()
	kind := ""
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		raw, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		r, reason := parseRecord(raw)
		if reason != "" {
			return fmt.Errorf("%s, line %d is neither an estimate nor a smoothed record: %s; the records of a run are read as it writes them, in JSON Lines", raw.Path, raw.Position, reason)
		}
		is := "an estimate"
		if r.Smoothed() {
			is = "a smoothed record"
		}
		if kind == "" {
			kind = is
		}
		if is != kind {
			return fmt.Errorf("%s, line %d is %s and line 1 %s: a file has records of one kind", raw.Path, raw.Position, is, kind)
		}
		if err := f(r); err != nil {
			return err
		}
	}
}

// parseRecord returns the reason why raw is neither an estimate nor a smoothed record, or "".
func parseRecord(raw connectors.Record) (r Record, reason string) {
	if raw.Reason != "" {
		return r, raw.Reason
	}
	if err := json.Unmarshal(raw.Raw, &r); err != nil {
		return r, err.Error()
	}
	switch {
	case r.Key == nil:
		return r, "it has no key"
	case r.Smoothed():
		switch {
		case r.Time == nil || r.Session.Start == nil:
			return r, "it has no time"
		case r.Estimate == nil:
			return r, "it has no estimate"
		}
	case r.Predicted == nil:
		return r, "it has neither prediction nor session"
	}
	return r, ""
}

// Reads reports whether out is the file of an input, by whatever path.
func Reads(input, out string) bool {
	old, err := os.Stat(out)
	if err != nil {
		return false
	}
	if input == "-" {
		in, err := os.Stdin.Stat()
		return err == nil && os.SameFile(in, old)
	}
	paths, _ := filepath.Glob(input) // a source may be a pattern
	return slices.ContainsFunc(append(paths, input), func(path string) bool {
		in, err := os.Stat(path)
		return err == nil && os.SameFile(in, old)
	})
}

// Coordinates are those of a number or a list of numbers; NaN stands for what is none.
func Coordinates(v any) (all []float64) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, c := range list {
		all = append(all, First(c))
	}
	return all
}

// First is v, or its first coordinate; NaN where there is no number.
func First(v any) float64 {
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}
	if f, ok := v.(float64); ok {
		return f
	}
	return math.NaN()
}

// OrNaN is the number, or NaN where there is none.
func OrNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// shareOf returns k/n of a list of successes and trials. Records do not name the family: two whole
// numbers, of which the first is at most the second, with a mean between 0 and 1 are taken for such.
func shareOf(list []any, mean float64) (share float64, ok bool) {
	if len(list) != 2 || mean < 0 || mean > 1 {
		return 0, false
	}
	k, n := First(list[0]), First(list[1])
	if k != math.Trunc(k) || n != math.Trunc(n) || k < 0 || k > n {
		return 0, false
	}
	return k / n, true
}

// Observed returns the coordinate of x that the first coordinate of mean predicts,
// for every vector of the step.
func Observed(x, mean any) []float64 {
	list, _ := x.([]any)
	if len(list) > 0 {
		if _, ok := list[0].([]any); ok {
			var v []float64
			for _, vector := range list {
				v = append(v, Observed(vector, mean)...)
			}
			return v
		}
	}
	means, vector := mean.([]any)
	switch {
	case len(means) > 1 && len(list) <= 1:
		// A category; its probability is the mean of an indicator.
		switch c := First(x); {
		case math.IsNaN(c):
			return nil
		case c == 0:
			return []float64{1}
		}
		return []float64{0}
	case len(list) > 1 && !vector:
		if share, ok := shareOf(list, First(mean)); ok {
			return []float64{share}
		}
		// Regressors, and the target behind them.
		return []float64{First(list[len(list)-1])}
	}
	return []float64{First(x)}
}
