package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/connectors"
	"hafvf/hafvf"
)

// Since says from when on a page shows what happened. The zero value is from the beginning.
type Since struct {
	Last time.Duration // before the last time of all files
	From time.Time
}

// A NoRecords is the error of a file that holds something else.
type NoRecords struct {
	Path   string
	Line   int64
	Reason string
}

func (e NoRecords) Error() string {
	return fmt.Sprintf("%s, line %d is neither an alert nor an estimate: %s; give the alerts and estimates that run has written, in JSON Lines, or a config that ends with .yaml", e.Path, e.Line, e.Reason)
}

// Files gathers what is in files of alerts and of estimates, in any order. With Since.Last it reads
// them twice, which standard input cannot be. The page has the times of the zone.
func Files(ctx context.Context, paths []string, since Since, zone *time.Location) (*Collector, error) {
	from := since.From
	if since.Last > 0 {
		var last time.Time
		for _, path := range paths {
			_, err := each(ctx, path, nil, func(_ connectors.Record, r *line) error {
				if r.time.After(last) {
					last = r.time
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		if !last.IsZero() {
			from = last.Add(-since.Last)
		}
	}
	c := NewCollector(from, zone)
	// Alerts come first: they tell which keys get a series.
	var alerts, others []string
	for _, path := range paths {
		c.Source(filepath.Base(path))
		holds, err := holdsAlerts(ctx, path)
		if err != nil {
			return nil, err
		}
		if holds {
			alerts = append(alerts, path)
		} else {
			others = append(others, path)
		}
	}
	var followed map[string]bool
	paths = slices.Concat(alerts, others)
	for i, path := range paths {
		if slices.Contains(paths[:i], path) {
			c.Note(fmt.Sprintf("%s was given twice, and is read once.", filepath.Base(path)))
			continue
		}
		if i >= len(alerts) && !c.narrowed {
			followed = c.Narrow()
		}
		records := 0
		wants := func(r *line) bool {
			return !r.time.Before(from) && (r.alert || followed == nil || followed[string(r.key)])
		}
		cut, err := each(ctx, path, wants, func(raw connectors.Record, r *line) error {
			records++
			switch {
			case !r.parsed && r.time.Before(from):
				c.early++
				return nil
			case !r.parsed && c.skip(r.key, r.time):
				return nil
			case !r.parsed: // of a key that is new
				if err := r.parse(raw); err != nil {
					return err
				}
			}
			if r.alert {
				c.AddAlert(r.alertRecord)
			} else {
				c.AddEstimate(&r.estimate)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if cut {
			c.Note(fmt.Sprintf("The last line of %s is cut off, and left out.", filepath.Base(path)))
		}
		if records == 0 {
			c.Note(fmt.Sprintf("%s is empty.", filepath.Base(path)))
		}
	}
	return c, nil
}

// holdsAlerts looks at the first record of a file. Of standard input, which comes once, it says no.
func holdsAlerts(ctx context.Context, path string) (alerts bool, err error) {
	if path == "-" {
		return false, nil
	}
	enough := errors.New("enough")
	_, err = each(ctx, path, nil, func(_ connectors.Record, r *line) error {
		alerts = r.alert
		return enough
	})
	if err == enough {
		err = nil
	}
	return alerts, err
}

// A line is a record that has been looked at, and parsed in full or not.
type line struct {
	key   []byte
	time  time.Time
	alert bool
	cut   error // of a line that ends too early, which the last one may

	parsed      bool
	alertRecord *Alert
	estimate    Estimate // where told is nil
}

// each calls f with every record of a file, in order. Of those that begin as run writes them, so that
// key and time are known, it parses only those in full that wants asks for. A last line that is cut
// off, as of a file that still grows, is left out.
func each(ctx context.Context, path string, wants func(*line) bool, f func(connectors.Record, *line) error) (cut bool, err error) {
	if table, is := output.TableOf(path); is {
		return false, fmt.Errorf("%s: alerts and estimates are read from JSON Lines, not %s: let run write them, with alerts: {jsonl: {path: …}} and sink: {jsonl: {path: …}}", path, table.Name)
	}
	n := 0
	var ends error
	err = output.Lines(ctx, path, func(raw connectors.Record, r *line) error { return r.read(raw, wants) }, func(raw connectors.Record, r *line) error {
		if ends != nil {
			return ends
		}
		if ends = r.cut; ends != nil {
			return nil
		}
		n++
		return f(raw, r)
	})
	if ends != nil && (err != nil || n == 0) {
		err = ends
	}
	return ends != nil, err
}

// read reads as much of the line as is wanted.
func (r *line) read(raw connectors.Record, wants func(*line) bool) error {
	switch b := raw.Raw; {
	case raw.Reason != "":
		return NoRecords{raw.Path, raw.Position, raw.Reason}
	case !r.scan(b):
		err := r.parse(raw)
		if err != nil && b[0] == '{' && !json.Valid(b) {
			r.cut, err = err, nil
		}
		return err
	case b[len(b)-1] != '}' && !json.Valid(b):
		r.cut = NoRecords{raw.Path, raw.Position, "it is cut off"}
	case wants != nil && wants(r):
		return r.parse(raw)
	}
	return nil
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
func (r *line) scan(raw []byte) bool {
	rest, ok := bytes.CutPrefix(raw, keyFirst)
	if !ok {
		return false
	}
	if r.key, rest, ok = bytes.Cut(rest, timeNext); !ok || bytes.ContainsAny(r.key, `"\`) {
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
	r.time, rest = at, rest[end:]
	r.alert = bytes.HasPrefix(rest, kindNext)
	return r.alert || bytes.HasPrefix(rest, idNext) || bytes.HasPrefix(rest, countNext)
}

// parse reads what a page needs of the record. Of an estimate that is a part of output.Record: there
// may be millions.
func (r *line) parse(raw connectors.Record) error {
	var of struct {
		Alert
		Key, Kind *string
		X         output.Vectors
		Predicted *output.Moments
		Session   json.RawMessage
		Detect    *struct {
			Kind             string
			Alarm            *string
			Usual            *output.Moments
			Score, Threshold *float64
		}
	}
	of.Alert = newAlert()
	reason, err := "", json.Unmarshal(raw.Raw, &of)
	switch {
	case err != nil:
		reason = output.Reason(raw.Raw, err)
	case of.Key == nil:
		reason = "it has no key"
	case of.Kind == nil && of.Session != nil:
		reason = "it is a smoothed record: hafvf plot draws it, and hafvf sessions makes a table of it"
	case of.Kind == nil && of.Predicted == nil:
		reason = "it has neither kind nor prediction"
	}
	if reason != "" {
		return NoRecords{raw.Path, raw.Position, reason}
	}
	r.key, r.time, r.alert, r.parsed = []byte(*of.Key), of.Time, of.Kind != nil, true
	if r.alert {
		r.alertRecord = &of.Alert
		r.alertRecord.Key, r.alertRecord.Kind = *of.Key, *of.Kind
		if len(of.X) > 0 {
			r.alertRecord.X = Number(output.First(of.X[0]))
		}
		return nil
	}
	r.estimate = newEstimate(*of.Key, of.Time, of.X, *of.Predicted)
	if e, d := &r.estimate, of.Detect; d != nil {
		e.Score, e.Threshold, e.Alarm, e.Outlier = output.OrNaN(d.Score), output.OrNaN(d.Threshold), d.Alarm != nil, d.Kind == string(hafvf.Outlier)
		if d.Usual != nil {
			e.Usual.Mean, e.Usual.SD = output.First(d.Usual.Mean), output.First(d.Usual.SD)
		}
	}
	return nil
}

// Check says why out is no file for a page of these inputs.
func Check(inputs []string, out string) error {
	if inputs = slices.DeleteFunc(slices.Clone(inputs), func(in string) bool { return !output.Reads(in, out) }); len(inputs) > 0 {
		return fmt.Errorf("%s is what is read: give another file to write", out)
	}
	if info, err := os.Stat(out); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder: give a file to write", out)
	}
	if ext := filepath.Ext(out); ext != ".html" && ext != ".htm" {
		return fmt.Errorf("%s: a page is an .html file", out)
	}
	return nil
}
