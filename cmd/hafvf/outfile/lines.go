package outfile

import (
	"context"
	"errors"
	"io"
	"runtime"

	"hafvf/cmd/hafvf/output"
	"hafvf/connectors"
	"hafvf/internal/parallel"
)

// A line is a line of a JSON Lines file, with the record parsed from it.
type line struct {
	output.Record
	raw connectors.Record
	cut *output.NotRecord // error of a line that ends early; nil for other lines
	err error
}

// lines calls f for each line of a JSON Lines file, in order, and parses lines in full only if wants returns true.
// Rows of CSV and Parquet files are converted to JSON lines. Several goroutines call wants. lines stops at the first
// error.
func lines(ctx context.Context, path string, wants func(*output.Record) bool, f func(*line) error) error {
	reader, object, err := open(path)
	if err != nil {
		return err
	}
	defer reader.Close()
	for batchSize := 1; err == nil; batchSize = 1024 { // the caller may need only the first
		var batch []line
		for err == nil && len(batch) < batchSize {
			var raw connectors.Record
			if raw, err = reader.Next(); err == nil {
				batch = append(batch, line{raw: raw})
			}
		}
		parallel.Do(len(batch), runtime.GOMAXPROCS(0), func(_, i int) {
			if object != nil {
				object(&batch[i].raw)
			}
			batch[i].err = batch[i].parse(wants)
		})
		for i := range batch {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if batch[i].err != nil {
				return batch[i].err
			}
			if err := f(&batch[i]); err != nil {
				return err
			}
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// parse reads the line, in full only if wants returns true.
func (l *line) parse(wants func(*output.Record) bool) error {
	place := output.NotRecord{Path: l.raw.Path, Line: l.raw.Position, Reason: l.raw.Reason}
	if place.Reason != "" {
		l.Path, l.Line = place.Path, place.Line
		return place
	}
	cut, err := l.Parse(l.raw.Raw, place, wants)
	if wrong, ok := errors.AsType[output.NotRecord](err); ok && cut {
		l.cut = &wrong
		return nil
	}
	return err
}
