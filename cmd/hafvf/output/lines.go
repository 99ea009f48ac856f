package output

import (
	"context"
	"io"
	"runtime"

	"hafvf/connectors"
	"hafvf/internal/parallel"
)

// A line is one of a file in JSON Lines, with what was parsed of it.
type line[T any] struct {
	connectors.Record
	parsed T
	err    error
}

// lines calls f with what parse makes of each line of a file in JSON Lines, in their order. The rows of
// CSV and Parquet are the lines that the same records would be. Several goroutines call parse. The first
// error ends it.
func lines[T any](ctx context.Context, path string, parse func(connectors.Record, *T) error, f func(*T) error) error {
	in, object, err := open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	for most := 1; err == nil; most = 1024 { // the first alone may be all that is asked for
		var all []line[T]
		for err == nil && len(all) < most {
			var raw connectors.Record
			if raw, err = in.Next(); err == nil {
				all = append(all, line[T]{Record: raw})
			}
		}
		parallel.Do(len(all), runtime.GOMAXPROCS(0), func(_, i int) {
			if object != nil {
				object(&all[i].Record)
			}
			all[i].err = parse(all[i].Record, &all[i].parsed)
		})
		for i := range all {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if all[i].err != nil {
				return all[i].err
			}
			if err := f(&all[i].parsed); err != nil {
				return err
			}
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}
