// Package outfile reads the files of records that a run has written, and writes tables.
package outfile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/connectors"
	"hafvf/internal/message"
)

// ForEach calls f for every record of a file, in order. If wants returns false, a record in the field order of run is
// not read in full: f gets it with Unread. A nil wants reads all. Several goroutines call wants.
func ForEach(ctx context.Context, path string, wants func(*output.Record) bool, f func(*output.Record) error) error {
	var cutLine *output.NotRecord
	n := 0
	err := lines(ctx, path, wants, func(l *line) error {
		if cutLine != nil {
			return *cutLine
		}
		if cutLine = l.cut; cutLine != nil {
			return nil
		}
		n++
		return f(&l.Record)
	})
	if cutLine != nil && (err == nil || n == 0) {
		cutLine.Cut = n > 0
		return *cutLine
	}
	return err
}

// ForEachResult calls f for the estimates or the smoothed records of a file. It fails if the file has alerts, or
// records of several kinds.
func ForEachResult(ctx context.Context, path string, wants func(*output.Record) bool, f func(*output.Record) error) error {
	kind := ""
	return ForEach(ctx, path, wants, func(r *output.Record) error {
		if r.Kind != nil {
			return output.NotRecord{Path: r.Path, Line: r.Line, Reason: "it is an alert or an incident, which hafvf report shows"}
		}
		if r.Unread {
			return nil
		}
		recordKind := "an estimate"
		switch {
		case r.Smoothed() && r.Untimed():
			recordKind = "a smoothed record without times"
		case r.Smoothed():
			recordKind = "a smoothed record"
		}
		if kind == "" {
			kind = recordKind
		}
		if recordKind != kind {
			return fmt.Errorf("%s, line %d is %s and line 1 %s: give a file with records of one kind", r.Path, r.Line, recordKind, kind)
		}
		return f(r)
	})
}

// Last returns the latest time of the records for whose keys selects returns true; zero without such records.
func Last(ctx context.Context, path string, selects func(key string) bool) (last time.Time, err error) {
	err = ForEach(ctx, path, func(*output.Record) bool { return false }, func(r *output.Record) error {
		if r.Time != nil && r.Time.After(last) && selects(*r.Key) {
			last = *r.Time
		}
		return nil
	})
	return last, err
}

// CheckInputs returns an error if out is one of the inputs. It ignores empty inputs.
func CheckInputs(out string, inputs ...string) error {
	if slices.ContainsFunc(inputs, func(input string) bool { return input != "" && sameFile(input, out) }) {
		return fmt.Errorf("%s is an input: give another file to write", out)
	}
	return nil
}

// sameFile reports whether out is the same file as the input or, if the input is a pattern, as one of its files.
func sameFile(input, out string) bool {
	outInfo, err := os.Stat(out)
	if err != nil {
		return false
	}
	if input == "-" {
		inputInfo, err := os.Stdin.Stat()
		return err == nil && os.SameFile(inputInfo, outInfo)
	}
	paths, _ := filepath.Glob(input) // a source may be a pattern
	return slices.ContainsFunc(append(paths, input), func(path string) bool {
		inputInfo, err := os.Stat(path)
		return err == nil && os.SameFile(inputInfo, outInfo)
	})
}

// CheckTable returns an error unless out is the name of a table.
func CheckTable(out string) error {
	if _, ok := TableOf(out); !ok {
		return fmt.Errorf("%s: a table is a .csv or a .parquet file", out)
	}
	return nil
}

// CheckFolder returns an error if the folder of out does not exist. Commands call it before long work.
func CheckFolder(out string) error {
	if _, err := os.Stat(filepath.Dir(out)); err != nil {
		return message.CannotWrite(out, err)
	}
	return nil
}

// WriteTable writes a table to out, which must have passed CheckTable. An existing file is replaced only by a complete
// one.
func WriteTable(out string, t output.Table) error {
	format, _ := TableOf(out)
	w, err := connectors.Create(connectors.Sink{Format: format.Name, Path: out, Columns: t.Columns})
	if err != nil {
		return err
	}
	defer w.Abort()
	for line := range t.Lines {
		if err := w.Write(line); err != nil {
			return err
		}
	}
	return w.Commit()
}
