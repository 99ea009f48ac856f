// Package output reads the records that a run has written.
package output

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hafvf/connectors"
	"hafvf/hafvf/keyed"
	"hafvf/internal/message"
)

// A Record is an estimate or a smoothed record, as far as it is read.
type Record struct {
	Key  *string
	Time *time.Time
	N    int64
	X    Vectors

	// Of an estimate.
	Predicted *Moments
	Lower     *Values // nil without
	Upper     *Values
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
		Start, End *Point
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
		Start *Point
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

// Moments are a mean and a standard deviation.
type Moments struct{ Mean, SD Values }

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

// Session is the name of the session of a smoothed record without times, within its key.
func (r *Record) SessionName() string {
	name, _ := strings.CutPrefix(r.ID, *r.Key+"/")
	return name[:max(0, strings.LastIndexByte(name, '/'))]
}

// Untimed reports whether a smoothed record has no times.
func (r *Record) Untimed() bool { return r.Session.Start.Time.IsZero() }

// CompareNames orders names of sessions by their parts, of which numbers are by size.
func CompareNames(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "/"), strings.Split(b, "/"), func(a, b string) int {
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		if errX == nil && errY == nil && x != y {
			return cmp.Compare(x, y)
		}
		return cmp.Compare(a, b)
	})
}

// A Point is a time or, of sessions without times, the number of a trial.
type Point struct{ keyed.Point }

// UnmarshalJSON takes a text for a time, and a number for a trial.
func (p *Point) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return json.Unmarshal(b, &p.Time)
	}
	return json.Unmarshal(b, &p.Trial)
}

// Each calls f with every record of a file, which has records of one kind.
func Each(ctx context.Context, path string, f func(Record) error) error {
	kind := ""
	return Lines(ctx, path, parseRecord, func(raw connectors.Record, r *Record) error {
		is := "an estimate"
		switch {
		case r.Smoothed() && r.Untimed():
			is = "a smoothed record without times"
		case r.Smoothed():
			is = "a smoothed record"
		}
		if kind == "" {
			kind = is
		}
		if is != kind {
			return fmt.Errorf("%s, line %d is %s and line 1 %s: a file has records of one kind", raw.Path, raw.Position, is, kind)
		}
		return f(*r)
	})
}

func parseRecord(raw connectors.Record, r *Record) error {
	reason := raw.Reason
	if reason == "" {
		if err := json.Unmarshal(raw.Raw, r); err != nil {
			reason = Reason(raw.Raw, err)
		}
	}
	switch {
	case reason != "":
	case r.Key == nil:
		reason = "it has no key"
	case r.Smoothed() && (r.Session.Start == nil || r.Time == nil && !r.Untimed()):
		reason = "it has no time"
	case r.Smoothed() && r.Estimate == nil:
		reason = "it has no estimate"
	case !r.Smoothed() && r.Predicted == nil:
		reason = "it has neither prediction nor session"
	case !r.Smoothed() && r.N == 0 && r.Estimate == nil:
		reason = "it has neither n nor estimate, as an alert; hafvf report makes a page of those"
	default:
		return nil
	}
	return fmt.Errorf("%s, line %d is neither an estimate nor a smoothed record: %s; the records of a run are read as it writes them, in JSON Lines, CSV or Parquet", raw.Path, raw.Position, reason)
}

// Reason is an error of encoding/json at a record, without the types of Go.
func Reason(raw []byte, err error) string {
	if bytes.Contains(raw, []byte(`"learning_rate":`)) && bytes.Contains(raw, []byte(`"trial":`)) {
		return "it is a row of the table that hafvf trials writes, which has no picture and no page: give the records of hafvf run"
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%s is a %s", strings.ToLower(cmp.Or(wrong.Field, "it")), wrong.Value)
	}
	if wrong, ok := errors.AsType[*time.ParseError](err); ok {
		return fmt.Sprintf("the time %s is not RFC 3339", message.Quote(wrong.Value))
	}
	return "it is no JSON object: " + err.Error()
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
