package report

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/connectors"
	"hafvf/hafvf"
	"hafvf/internal/message"
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
// them twice, which standard input cannot be.
func Files(ctx context.Context, paths []string, since Since) (*Collector, error) {
	from := since.From
	if since.Last > 0 {
		var last time.Time
		for _, path := range paths {
			err := each(ctx, path, func(r *line) error {
				if r.time.After(last) {
					last = r.time
				}
				return nil
			}, nil, nil)
			if err != nil {
				return nil, err
			}
		}
		if !last.IsZero() {
			from = last.Add(-since.Last)
		}
	}
	c := NewCollector(from)
	// Alerts come first: they tell which keys get a series.
	first := map[string]bool{}
	for _, path := range paths {
		c.Source(filepath.Base(path))
		if path != "-" {
			holds, err := holdsAlerts(ctx, path)
			if err != nil {
				return nil, err
			}
			first[path] = holds
		}
	}
	ordered := slices.Clone(paths)
	slices.SortStableFunc(ordered, func(a, b string) int {
		switch {
		case first[a] == first[b]:
			return 0
		case first[a]:
			return -1
		}
		return 1
	})
	read := map[string]bool{}
	var followed map[string]bool
	for _, path := range ordered {
		if read[path] {
			c.Note(fmt.Sprintf("%s was given twice, and is read once.", filepath.Base(path)))
			continue
		}
		read[path] = true
		if !first[path] && !c.narrowed {
			followed = c.Narrow()
		}
		records := 0
		parse := func(r *line) (err error) {
			switch {
			case r.quick && r.time.Before(from):
			case r.alert:
				r.told, err = parseAlert(r.raw)
			case followed == nil || !r.quick || followed[string(r.key)]:
				r.estimate, err = parseEstimate(r.raw)
			}
			return err
		}
		err := each(ctx, path, func(r *line) error {
			records++
			switch {
			case r.told != nil:
				c.AddAlert(r.told)
			case r.estimate != nil:
				c.AddEstimate(r.estimate)
			case r.quick && r.time.Before(from):
				c.skipEarly()
			case !c.skip(r.key, r.time): // of a key that is new
				e, err := parseEstimate(r.raw)
				if err != nil {
					return NoRecords{r.path, r.at, err.Error()}
				}
				c.AddEstimate(e)
			}
			return nil
		}, parse, c)
		if err != nil {
			return nil, err
		}
		if records == 0 {
			c.Note(fmt.Sprintf("%s is empty.", filepath.Base(path)))
		}
	}
	return c, nil
}

// holdsAlerts looks at the first record of a file.
func holdsAlerts(ctx context.Context, path string) (alerts bool, err error) {
	enough := errors.New("enough")
	err = each(ctx, path, func(r *line) error {
		alerts = r.alert
		return enough
	}, nil, nil)
	if err == enough {
		err = nil
	}
	return alerts, err
}

// A line is a record that has been looked at, and not parsed in full.
type line struct {
	path  string
	at    int64
	raw   []byte
	key   []byte
	time  time.Time
	alert bool
	quick bool // it begins as run writes it, so that key and time are known

	// What a parse made of it.
	told     *Alert
	estimate *Estimate
}

// A batch is lines that are parsed together.
type batch struct {
	lines []line
	done  chan struct{}
	err   error // of a line that is no record
}

// each calls f with every record of a file, in order. Several goroutines call parse before that,
// if it is not nil. A last line that is cut off, as of a file that still grows, is left out; notes
// hears of it, if it is not nil.
func each(ctx context.Context, path string, f, parse func(*line) error, notes *Collector) error {
	switch ext := filepath.Ext(connectors.Unpacked(path)); ext {
	case ".csv", ".parquet":
		return fmt.Errorf("%s: alerts and estimates are read from JSON Lines, not %s: let run write them, with alerts: {jsonl: {path: …}} and sink: {jsonl: {path: …}}", path, ext[1:])
	}
	in, err := connectors.Open(connectors.Source{Format: connectors.JSONLines, Path: path})
	if err != nil {
		return err
	}
	batches, stop, done := make(chan *batch, 4), make(chan struct{}), make(chan struct{})
	var failed error
	cut := false
	go func() {
		defer close(done)
		defer in.Close()
		defer close(batches)
		for n, more := 0, true; more; {
			b := &batch{done: make(chan struct{}), lines: make([]line, 0, batchLines)}
			for more && len(b.lines) < batchLines {
				r, err := next(in)
				if err == nil {
					b.lines = append(b.lines, r)
					n++
					continue
				}
				more = false
				wrong, ends := errors.AsType[cutOff](err)
				switch {
				case err == io.EOF:
				case ends:
					failed = wrong.NoRecords
					if _, err := in.Next(); err == io.EOF && n > 0 {
						failed, cut = nil, true
					}
				default:
					failed = err
				}
			}
			go b.parse(parse)
			select {
			case batches <- b:
			case <-stop:
				return
			}
		}
	}()
	defer func() { close(stop); <-done }()
	for b := range batches {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		<-b.done
		if b.err != nil {
			return b.err
		}
		for i := range b.lines {
			if err := f(&b.lines[i]); err != nil {
				return err
			}
		}
	}
	<-done
	if cut && notes != nil {
		notes.Note(fmt.Sprintf("The last line of %s is cut off, and left out.", filepath.Base(path)))
	}
	return failed
}

// parse parses the lines of a batch up to the first that is no record.
func (b *batch) parse(parse func(*line) error) {
	defer close(b.done)
	if parse == nil {
		return
	}
	for i := range b.lines {
		r := &b.lines[i]
		if err := parse(r); err != nil {
			b.err = NoRecords{r.path, r.at, err.Error()}
			return
		}
	}
}

const batchLines = 256

// cutOff is the error of a line that ends too early.
type cutOff struct{ NoRecords }

// next reads a line and looks at it.
func next(in *connectors.Reader) (line, error) {
	raw, err := in.Next()
	if err != nil {
		return line{}, err
	}
	r := line{path: raw.Path, at: raw.Position, raw: raw.Raw}
	wrong := NoRecords{raw.Path, raw.Position, raw.Reason}
	if raw.Reason != "" {
		return r, wrong
	}
	if r.look() {
		if raw.Raw[len(raw.Raw)-1] != '}' && !json.Valid(raw.Raw) {
			wrong.Reason = "it is cut off"
			return r, cutOff{wrong}
		}
		return r, nil
	}
	if err := r.parse(); err != nil {
		wrong.Reason = err.Error()
		if raw.Raw[0] == '{' && !json.Valid(raw.Raw) {
			return r, cutOff{wrong}
		}
		return r, wrong
	}
	return r, nil
}

var (
	keyFirst  = []byte(`{"key":"`)
	timeNext  = []byte(`","time":"`)
	kindNext  = []byte(`","kind":"`)
	idNext    = []byte(`","id":`)
	countNext = []byte(`","n":`)
)

// look reads key, time and kind of a record that begins as run writes it. It reports false for
// any other one.
func (r *line) look() bool {
	rest, ok := bytes.CutPrefix(r.raw, keyFirst)
	if !ok {
		return false
	}
	end := bytes.IndexByte(rest, '"')
	if end < 0 || bytes.IndexByte(rest[:end], '\\') >= 0 {
		return false
	}
	r.key = rest[:end]
	rest, ok = bytes.CutPrefix(rest[end:], timeNext)
	if !ok {
		return false
	}
	if end = bytes.IndexByte(rest, '"'); end < 0 || end > 40 {
		return false
	}
	at, err := time.Parse(time.RFC3339, string(rest[:end]))
	if err != nil {
		return false
	}
	r.time = at
	rest = rest[end:]
	switch {
	case bytes.HasPrefix(rest, kindNext):
		r.alert = true
	case bytes.HasPrefix(rest, idNext) || bytes.HasPrefix(rest, countNext):
	default:
		return false
	}
	r.quick = true
	return true
}

// parse reads key, time and kind of any other record.
func (r *line) parse() error {
	var head struct {
		Key       *string
		Kind      *string
		Time      *time.Time
		Predicted json.RawMessage
		Session   json.RawMessage
	}
	if err := json.Unmarshal(r.raw, &head); err != nil {
		return errors.New(reasonOf(err))
	}
	switch {
	case head.Key == nil:
		return errors.New("it has no key")
	case head.Kind == nil && head.Predicted == nil && head.Session == nil:
		return errors.New("it has neither kind nor prediction")
	}
	r.key, r.alert = []byte(*head.Key), head.Kind != nil
	if head.Time != nil {
		r.time = *head.Time
	}
	return nil
}

// reasonOf is an error of encoding/json without the types of Go.
func reasonOf(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%s is a %s", strings.ToLower(cmp.Or(wrong.Field, "it")), wrong.Value)
	}
	if wrong, ok := errors.AsType[*time.ParseError](err); ok {
		return fmt.Sprintf("the time %s is not RFC 3339", message.Quote(wrong.Value))
	}
	return "it is no JSON object: " + err.Error()
}

func parseAlert(raw []byte) (*Alert, error) {
	a := newAlert()
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, errors.New(reasonOf(err))
	}
	return &a, nil
}

// parseEstimate reads what a page needs of an estimate, which is a part of output.Record: there
// may be millions.
func parseEstimate(raw []byte) (*Estimate, error) {
	var r struct {
		Key       *string
		Time      *time.Time
		X         any
		Predicted *output.Moments
		Session   json.RawMessage
		Detect    *struct {
			Kind             string
			Alarm            *string
			Usual            *output.Moments
			Score, Threshold *float64
		}
	}
	nan := math.NaN()
	e := Estimate{X: nan, Score: nan, Threshold: nan}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, errors.New(reasonOf(err))
	}
	switch {
	case r.Key == nil:
		return nil, errors.New("it has no key")
	case r.Session != nil:
		return nil, errors.New("it is a smoothed record: hafvf plot draws it, and hafvf sessions makes a table of it")
	case r.Predicted == nil:
		return nil, errors.New("it has no prediction")
	}
	e.Key = *r.Key
	if r.Time != nil {
		e.Time = *r.Time
	}
	e.Predicted.Mean, e.Predicted.SD = output.First(r.Predicted.Mean), output.First(r.Predicted.SD)
	if v := output.Observed(r.X, r.Predicted.Mean); len(v) > 0 {
		e.X = v[0]
	}
	e.Usual.Mean, e.Usual.SD = nan, nan
	if d := r.Detect; d != nil {
		if d.Usual != nil {
			e.Usual.Mean, e.Usual.SD = output.First(d.Usual.Mean), output.First(d.Usual.SD)
		}
		e.Score, e.Threshold, e.Alarm = output.OrNaN(d.Score), output.OrNaN(d.Threshold), d.Alarm != nil
		e.Outlier = d.Kind == string(hafvf.Outlier)
	}
	return &e, nil
}

// Check says why out is no file for a page of these inputs.
func Check(inputs []string, out string) error {
	if inputs = slices.DeleteFunc(slices.Clone(inputs), func(in string) bool { return !output.Reads(in, out) }); len(inputs) > 0 {
		return fmt.Errorf("%s is what is read: give another file to write", out)
	}
	if info, err := os.Stat(out); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder: give a file to write", out)
	}
	return nil
}
