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

	"hafvf/hafvf/keyed"
	"hafvf/internal/message"
)

// A Record is what a run writes of a key or of an incident, as far as it is read.
type Record struct {
	Key  *string
	Time *time.Time
	Kind *string // nil of estimates and smoothed records
	// Alert is an alert or an incident, of which the fields above are read and no others; nil without Kind.
	Alert *Alert `json:"-"`
	// Unread says that only the fields above have been read, and nothing of an alert.
	Unread bool   `json:"-"`
	Path   string `json:"-"` // of the file
	Line   int64  `json:"-"`

	N int64
	X Vectors

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
	Session           *Session
	Revision          int64
	Split             string
	Evidence          *float64 `json:"change_evidence"`
	Change            bool
	// Of a change.
	Probability *float64  `json:"change_probability"`
	Interval    *Interval `json:"change_interval"`
	Outlier     *float64  // not with levels
	Segment     *Segment  // not with levels
}

// A Session is what smoothed records say of theirs.
type Session struct {
	Start, End *Point
	N          int64
	Drift      *Drift
	Wanders    bool
}

// A Segment is the regime that a smoothed record is in.
type Segment struct {
	Start *Point
	N     int64
	Moments
}

// A Drift is what the level of a session gains a day or, without times, a trial, with its interval of 95 %.
type Drift struct{ Rate, Lower, Upper float64 }

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

// A NotRecord is the error of a line that is no record of a run.
type NotRecord struct {
	Path   string
	Line   int64
	Reason string
	// Cut says that it is the last line, behind others, and ends too early, as in a file that still grows.
	Cut bool
}

func (e NotRecord) Error() string {
	return fmt.Sprintf("%s, line %d is no record of a run: %s; records are read as run writes them, in JSON Lines, CSV or Parquet", e.Path, e.Line, e.Reason)
}

// Each calls f with every record of a file, in order. Those for which wants is false are not read in full
// if they begin as run writes them: f gets them with Unread. Several goroutines call wants.
func Each(ctx context.Context, path string, wants func(*Record) bool, f func(*Record) error) error {
	var ends *NotRecord
	n := 0
	err := lines(ctx, path, wants, func(l *line) error {
		if ends != nil {
			return *ends
		}
		if ends = l.cut; ends != nil {
			return nil
		}
		n++
		return f(&l.Record)
	})
	if ends != nil && (err == nil || n == 0) {
		ends.Cut = n > 0
		return *ends
	}
	return err
}

// Results calls f with the estimates or the smoothed records of a file, which has records of one kind.
func Results(ctx context.Context, path string, wants func(*Record) bool, f func(*Record) error) error {
	kind := ""
	return Each(ctx, path, wants, func(r *Record) error {
		if r.Kind != nil {
			return NotRecord{Path: r.Path, Line: r.Line, Reason: "it is an alert, or an incident; hafvf report makes a page of those"}
		}
		if r.Unread {
			return nil
		}
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
			return fmt.Errorf("%s, line %d is %s and line 1 %s: a file has records of one kind", r.Path, r.Line, is, kind)
		}
		return f(r)
	})
}

// Last is the latest time of the records of a file for whose keys takes is true; zero without any.
func Last(ctx context.Context, path string, takes func(key string) bool) (last time.Time, err error) {
	err = Each(ctx, path, func(*Record) bool { return false }, func(r *Record) error {
		if r.Time != nil && r.Time.After(last) && takes(*r.Key) {
			last = *r.Time
		}
		return nil
	})
	return last, err
}

// parse reads as much of the line as is wanted.
func (l *line) parse(wants func(*Record) bool) error {
	raw, not := l.raw.Raw, NotRecord{Path: l.raw.Path, Line: l.raw.Position, Reason: l.raw.Reason}
	l.Path, l.Line = not.Path, not.Line
	if not.Reason != "" {
		return not
	}
	looked := l.scan(raw)
	if looked && raw[len(raw)-1] != '}' && !json.Valid(raw) {
		not.Reason = "it is cut off"
		l.cut = &not
		return nil
	}
	if looked && wants != nil && !wants(&l.Record) {
		l.Unread = true
		return nil
	}
	if not.Reason = l.read(raw); not.Reason == "" {
		return nil
	}
	if !looked && raw[0] == '{' && !json.Valid(raw) {
		l.cut = &not
		return nil
	}
	return not
}

// read reads all of the record. It says why it is none.
func (r *Record) read(raw []byte) (reason string) {
	if r.Kind == nil {
		if err := json.Unmarshal(raw, r); err != nil {
			return reasonOf(raw, err)
		}
	}
	switch {
	case r.Key == nil:
		return "it has no key"
	case r.Kind != nil:
		r.Alert = NewAlert()
		if err := json.Unmarshal(raw, r.Alert); err != nil {
			return reasonOf(raw, err)
		}
	case r.Smoothed() && (r.Session.Start == nil || r.Time == nil && !r.Untimed()):
		return "it has no time"
	case r.Smoothed() && r.Estimate == nil:
		return "it has no estimate"
	case !r.Smoothed() && r.Predicted == nil:
		return "it has neither kind, prediction nor session"
	}
	return ""
}

var (
	keyFirst  = []byte(`{"key":"`)
	timeNext  = []byte(`","time":"`)
	kindNext  = []byte(`","kind":"`)
	idNext    = []byte(`","id":`)
	countNext = []byte(`","n":`)
)

// scan reads key, time and kind of a record that begins as run writes it. It reports false for
// any other one.
func (r *Record) scan(raw []byte) bool {
	rest, ok := bytes.CutPrefix(raw, keyFirst)
	if !ok {
		return false
	}
	name, rest, ok := bytes.Cut(rest, timeNext)
	if !ok || bytes.ContainsAny(name, `"\`) {
		return false
	}
	end := bytes.IndexByte(rest, '"')
	if end < 0 || end > 40 {
		return false
	}
	at, err := time.Parse(time.RFC3339, string(rest[:end]))
	if err != nil {
		return false
	}
	rest = rest[end:]
	kind, _, alert := bytes.Cut(bytes.TrimPrefix(rest, kindNext), []byte(`"`))
	switch alert = alert && bytes.HasPrefix(rest, kindNext); {
	case alert:
		text := string(kind)
		r.Kind = &text
	case !bytes.HasPrefix(rest, idNext) && !bytes.HasPrefix(rest, countNext):
		return false
	}
	key := string(name)
	r.Key, r.Time = &key, &at
	return true
}

// reasonOf is an error of encoding/json at a record, without the types of Go.
func reasonOf(raw []byte, err error) string {
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

// CheckInputs says why out cannot be written, if it is one of the inputs. Empty ones are none.
func CheckInputs(out string, inputs ...string) error {
	if slices.ContainsFunc(inputs, func(in string) bool { return in != "" && reads(in, out) }) {
		return fmt.Errorf("%s is what is read: give another file to write", out)
	}
	return nil
}

// reads reports whether out is the file of an input, by whatever path.
func reads(input, out string) bool {
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
