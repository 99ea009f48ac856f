package report

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"hafvf/cmd/hafvf/outfile"
	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf"
	"hafvf/internal/clock"
)

// Since is the start of a page's period. The zero value means no start.
type Since struct {
	Last time.Duration // time before the last record of all files
	From time.Time
}

// Files returns a Collector with the records of files of alerts, estimates and smoothed records, in any order. With
// period.Last it reads the files twice, so they must not include standard input. The page has times in zone.
func Files(ctx context.Context, paths []string, period Since, zone *time.Location) (*Collector, error) {
	start := period.From
	if period.Last > 0 {
		var last time.Time
		for _, path := range paths {
			fileLast, err := outfile.Last(ctx, path, func(string) bool { return true })
			if err != nil && !cutOff(err) {
				return nil, err
			}
			last = clock.Later(last, fileLast)
		}
		if !last.IsZero() {
			start = last.Add(-period.Last)
		}
	}
	c := NewCollector(start, zone)
	// Alerts are read first: they determine the keys with a series.
	var alerts, others []string
	whole := map[string]bool{"-": true} // files to read in full
	for _, path := range paths {
		c.Source(filepath.Base(path))
		first, err := firstOf(ctx, path)
		if err != nil {
			return nil, err
		}
		if first.Kind != nil {
			alerts = append(alerts, path)
		} else {
			others = append(others, path)
		}
		whole[path] = whole[path] || first.Smoothed()
	}
	var followed map[string]bool
	paths = slices.Concat(alerts, others)
	for i, path := range paths {
		if slices.Contains(paths[:i], path) {
			c.AddNote(fmt.Sprintf("%s was given twice and is read once.", filepath.Base(path)))
			continue
		}
		if i >= len(alerts) && !c.narrowed {
			followed = c.Narrow()
		}
		records := 0
		wants := func(r *output.Record) bool {
			return !r.Time.Before(start) && (r.Kind != nil || followed == nil || whole[path] || followed[*r.Key])
		}
		err := outfile.ForEach(ctx, path, wants, func(r *output.Record) error {
			records++
			switch {
			case r.Unread:
				c.skip(*r.Key, *r.Time)
			case r.Alert != nil:
				if c.file = path; path == "-" {
					c.file = ""
				}
				c.AddAlert(r.Alert)
			case r.Smoothed():
				c.AddSmoothed(r)
			default:
				e := recorded(r)
				c.AddEstimate(&e)
			}
			return nil
		})
		switch {
		case cutOff(err):
			c.AddNote(fmt.Sprintf("The last line of %s is cut off and ignored.", filepath.Base(path)))
		case err != nil:
			return nil, err
		case records == 0:
			c.AddNote(fmt.Sprintf("%s is empty.", filepath.Base(path)))
		}
	}
	return c, nil
}

// cutOff reports whether err is the error of a last line that ends early.
func cutOff(err error) bool {
	notRecord, ok := errors.AsType[output.NotRecord](err)
	return ok && notRecord.Cut
}

// firstOf returns the first record of a file, or a zero record for standard input, which can be read only once.
func firstOf(ctx context.Context, path string) (first output.Record, err error) {
	if path == "-" {
		return first, nil
	}
	errStop := errors.New("enough")
	err = outfile.ForEach(ctx, path, nil, func(r *output.Record) error {
		first = *r
		return errStop
	})
	if err == errStop || cutOff(err) {
		err = nil
	}
	return first, err
}

// recorded returns the estimate of a record.
func recorded(r *output.Record) Estimate {
	var t time.Time
	if r.Time != nil {
		t = *r.Time
	}
	e := newEstimate(*r.Key, t, r.X, *r.Predicted)
	if d := r.Detect; d != nil {
		e.Score, e.Threshold, e.Alarm, e.Outlier = output.OrNaN(d.Score), output.OrNaN(d.Threshold), d.Alarm != nil, d.Kind == string(hafvf.Outlier)
		if d.Usual != nil {
			e.Usual.Mean, e.Usual.SD = output.First(d.Usual.Mean), output.First(d.Usual.SD)
		}
	}
	return e
}

// Check returns an error unless out can be the file of a page of these inputs: it must not be an input or a folder,
// and must be an .html file.
func Check(inputs []string, out string) error {
	if err := outfile.CheckInputs(out, inputs...); err != nil {
		return err
	}
	if info, err := os.Stat(out); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder: give a file to write", out)
	}
	if ext := filepath.Ext(out); ext != ".html" && ext != ".htm" {
		return fmt.Errorf("%s: a page must be an .html file", out)
	}
	return nil
}
