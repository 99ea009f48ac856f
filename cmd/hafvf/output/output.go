// Package output declares the records that a run has written, and tables of them.
package output

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/message"
)

// A Record is a record of a key or of an incident. It has the fields that reports need.
type Record struct {
	Key  *string
	Time *time.Time
	Kind *string // nil for estimates and smoothed records
	// Alert is the alert or incident; nil without Kind. Such a record has no other fields except those above.
	Alert *Alert `json:"-"`
	// Unread means that only Key, Time and Kind have been read; Alert is nil.
	Unread bool   `json:"-"`
	Path   string `json:"-"` // path of the file
	Line   int64  `json:"-"`

	N int64
	X Vectors

	// Fields of an estimate.
	Predicted *Moments
	Lower     *Values // nil without an interval
	Upper     *Values
	LogP      *float64 `json:"log_predictive"`
	Weight    *float64
	Levels    []struct{ Alpha, Beta *float64 }
	Bank      []struct{}
	Detect    *Detection
	WarmUp    bool `json:"warm_up"`

	Memory *float64

	// Fields of a smoothed record.
	ID                string
	Estimate          *Estimate                         // also set for estimates
	Forward, Backward struct{ Weight, Memory *float64 } // not in brief records
	Session           *Session
	Revision          int64
	Split             string
	Evidence          *float64 `json:"change_evidence"`
	Change            bool
	// Fields of a change.
	Probability *float64  `json:"change_probability"`
	Interval    *Interval `json:"change_interval"`
	Outlier     *float64  // not with levels
	Segment     *Segment  // not with levels
}

// A Session is the session of a smoothed record.
type Session struct {
	Start, End *Point
	N          int64
	Drift      *Drift
	Wanders    bool
	Kind       *string // nil if the session has none
	Against    *float64
}

// A Segment is the segment of a smoothed record.
type Segment struct {
	Start *Point
	N     int64
	Moments
	Scatter Values // standard deviation of an observation; nil in records of earlier builds
}

// A Drift is the change of a session's level per day or, without times, per trial, with its 95 % interval.
type Drift struct{ Rate, Lower, Upper float64 }

// An Interval is the 95 % interval of a change.
type Interval struct {
	From, To *time.Time
	FromN    int64 `json:"from_n"`
	ToN      int64 `json:"to_n"`
}

// Moments are a mean and a standard deviation.
type Moments struct{ Mean, SD Values }

// An Estimate is the estimated mean of the likelihood, by a filter or a smoother.
type Estimate struct {
	Moments
	Regime *Moments
}

// A Detection is the result of detection for an observation. Brief records have no start.
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

// Starts reports whether a change or a revision is found at this observation. A nil Detection returns false.
func (d *Detection) Starts() bool { return d != nil && (d.Kind == "change" || d.Kind == "revision") }

// Smoothed reports whether the record is a smoothed record.
func (r *Record) Smoothed() bool { return r.Session != nil }

// SessionName returns the name of the session, within its key, of a smoothed record without times.
func (r *Record) SessionName() string {
	name, _ := strings.CutPrefix(r.ID, *r.Key+"/")
	return name[:max(0, strings.LastIndexByte(name, '/'))]
}

// Untimed reports whether a smoothed record has no times.
func (r *Record) Untimed() bool { return r.Session.Start.Time.IsZero() }

// CompareNames compares names of sessions part by part. It compares numbers by value.
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

// A Point is a time or, in sessions without times, the number of a trial.
type Point struct{ keyed.Point }

// UnmarshalJSON reads a string as a time, and a number as a trial.
func (p *Point) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return json.Unmarshal(b, &p.Time)
	}
	return json.Unmarshal(b, &p.Trial)
}

// A NotRecord is the error for a line that is not a record of a run.
type NotRecord struct {
	Path   string
	Line   int64
	Reason string
	// Cut means that the line is the last, follows other records, and ends early, as in a file that is being written.
	Cut bool
}

func (e NotRecord) Error() string {
	return fmt.Sprintf("%s, line %d is not a record of a run: %s: give the JSON Lines, CSV or Parquet of hafvf run", e.Path, e.Line, e.Reason)
}

// Parse reads a record from a JSON object, in full only if wants is nil or returns true; it sets Unread otherwise. The
// error is a NotRecord with the path and the line of place. cut reports that the text ends early.
func (r *Record) Parse(raw []byte, place NotRecord, wants func(*Record) bool) (cut bool, err error) {
	r.Path, r.Line = place.Path, place.Line
	scanned := r.scan(raw)
	if scanned && raw[len(raw)-1] != '}' && !json.Valid(raw) {
		place.Reason = "it is cut off"
		return true, place
	}
	if scanned && wants != nil && !wants(r) {
		r.Unread = true
		return false, nil
	}
	if place.Reason = r.read(raw); place.Reason == "" {
		return false, nil
	}
	return !scanned && raw[0] == '{' && !json.Valid(raw), place
}

// read reads the whole record. It returns the reason if the line is not a record.
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

// scan reads key, time and kind of a record in the field order of run. It returns false for other records.
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
	t, err := time.Parse(time.RFC3339, string(rest[:end]))
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
	r.Key, r.Time = &key, &t
	return true
}

// reasonOf returns an error of encoding/json without the names of Go types.
func reasonOf(raw []byte, err error) string {
	if bytes.Contains(raw, []byte(`"learning_rate":`)) && bytes.Contains(raw, []byte(`"trial":`)) {
		return "it is a row of a table of hafvf trials: give the records of hafvf run"
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%s is a %s", strings.ToLower(cmp.Or(wrong.Field, "it")), wrong.Value)
	}
	if wrong, ok := errors.AsType[*time.ParseError](err); ok {
		return fmt.Sprintf("the time %s is not RFC 3339", message.Quote(wrong.Value))
	}
	return "it is not a JSON object: " + err.Error()
}
