package report

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf"
	"hafvf/internal/clock"
)

// Since says from when on a page shows what happened. The zero value is from the beginning.
type Since struct {
	Last time.Duration // before the last time of all files
	From time.Time
}

// Files gathers what is in files of alerts, of estimates and of smoothed records, in any order. With
// Since.Last it reads them twice, which standard input cannot be. The page has the times of the zone.
func Files(ctx context.Context, paths []string, since Since, zone *time.Location) (*Collector, error) {
	from := since.From
	if since.Last > 0 {
		var last time.Time
		for _, path := range paths {
			of, err := output.Last(ctx, path, func(string) bool { return true })
			if err != nil && !cutOff(err) {
				return nil, err
			}
			last = clock.Later(last, of)
		}
		if !last.IsZero() {
			from = last.Add(-since.Last)
		}
	}
	c := NewCollector(from, zone)
	// Alerts come first: they tell which keys get a series.
	var alerts, others []string
	whole := map[string]bool{"-": true} // files of which all is read
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
			c.Note(fmt.Sprintf("%s was given twice, and is read once.", filepath.Base(path)))
			continue
		}
		if i >= len(alerts) && !c.narrowed {
			followed = c.Narrow()
		}
		records := 0
		wants := func(r *output.Record) bool {
			return !r.Time.Before(from) && (r.Kind != nil || followed == nil || whole[path] || followed[*r.Key])
		}
		err := output.Each(ctx, path, wants, func(r *output.Record) error {
			records++
			switch {
			case r.Unread:
				c.skip(*r.Key, *r.Time)
			case r.Alert != nil:
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
			c.Note(fmt.Sprintf("The last line of %s is cut off, and left out.", filepath.Base(path)))
		case err != nil:
			return nil, err
		case records == 0:
			c.Note(fmt.Sprintf("%s is empty.", filepath.Base(path)))
		}
	}
	return c, nil
}

// cutOff reports whether an error is of a last line that ends too early.
func cutOff(err error) bool {
	not, is := errors.AsType[output.NotRecord](err)
	return is && not.Cut
}

// firstOf is the first record of a file. Standard input, which comes once, has none.
func firstOf(ctx context.Context, path string) (first output.Record, err error) {
	if path == "-" {
		return first, nil
	}
	enough := errors.New("enough")
	err = output.Each(ctx, path, nil, func(r *output.Record) error {
		first = *r
		return enough
	})
	if err == enough || cutOff(err) {
		err = nil
	}
	return first, err
}

// recorded is an estimate as a page shows it.
func recorded(r *output.Record) Estimate {
	var at time.Time
	if r.Time != nil {
		at = *r.Time
	}
	e := newEstimate(*r.Key, at, r.X, *r.Predicted)
	if d := r.Detect; d != nil {
		e.Score, e.Threshold, e.Alarm, e.Outlier = output.OrNaN(d.Score), output.OrNaN(d.Threshold), d.Alarm != nil, d.Kind == string(hafvf.Outlier)
		if d.Usual != nil {
			e.Usual.Mean, e.Usual.SD = output.First(d.Usual.Mean), output.First(d.Usual.SD)
		}
	}
	return e
}

// Check says why out is no file for a page of these inputs.
func Check(inputs []string, out string) error {
	if err := output.CheckInputs(out, inputs...); err != nil {
		return err
	}
	if info, err := os.Stat(out); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder: give a file to write", out)
	}
	if ext := filepath.Ext(out); ext != ".html" && ext != ".htm" {
		return fmt.Errorf("%s: a page is an .html file", out)
	}
	return nil
}
