package output

import (
	"context"
	"io"
	"runtime"

	"hafvf/connectors"
	"hafvf/internal/parallel"
)

// A line is one of a file in JSON Lines, with the record that was parsed of it.
type line struct {
	Record
	raw connectors.Record
	cut *NotRecord // of a line that ends too early, which the last one may
	err error
}

// lines calls f with each line of a file in JSON Lines, parsed as far as wants says, in their order. The rows of
// CSV and Parquet are the lines that the same records would be. Several goroutines call wants. The first
// error ends it.
func lines(ctx context.Context, path string, wants func(*Record) bool, f func(*line) error) error {
	in, object, err := open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	for most := 1; err == nil; most = 1024 { // the first alone may be all that is asked for
		var all []line
		for err == nil && len(all) < most {
			var raw connectors.Record
			if raw, err = in.Next(); err == nil {
				all = append(all, line{raw: raw})
			}
		}
		parallel.Do(len(all), runtime.GOMAXPROCS(0), func(_, i int) {
			if object != nil {
				object(&all[i].raw)
			}
			all[i].err = all[i].parse(wants)
		})
		for i := range all {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if all[i].err != nil {
				return all[i].err
			}
			if err := f(&all[i]); err != nil {
				return err
			}
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}
