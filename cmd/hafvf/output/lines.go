package output

import (
	"context"
	"io"

	"hafvf/connectors"
)

// A batch is lines that are parsed together, with the error that ends them.
type batch[T any] struct {
	lines  []connectors.Record
	parsed []T
	err    error
}

const batchLines = 256

// Lines calls f with each line of a file in JSON Lines and what parse makes of it, in their order. The
// rows of CSV and Parquet are the lines that the same records would be.
// Several goroutines call parse. The first error ends it.
func Lines[T any](ctx context.Context, path string, parse func(connectors.Record, *T) error, f func(connectors.Record, *T) error) error {
	in, object, err := open(path)
	if err != nil {
		return err
	}
	batches, stop := make(chan chan batch[T], 4), make(chan struct{})
	go func() {
		defer close(batches)
		defer in.Close()
		for more := true; more; {
			b, done := batch[T]{}, make(chan batch[T], 1)
			for b.err == nil && len(b.lines) < batchLines {
				var raw connectors.Record
				if raw, b.err = in.Next(); b.err == nil {
					b.lines = append(b.lines, raw)
				}
			}
			more = b.err == nil
			go func() {
				b.parsed = make([]T, len(b.lines))
				for i := range b.lines {
					if object != nil {
						object(&b.lines[i])
					}
					if err := parse(b.lines[i], &b.parsed[i]); err != nil {
						b.parsed, b.err = b.parsed[:i], err
						break
					}
				}
				done <- b
			}()
			select {
			case batches <- done:
			case <-stop:
				return
			}
		}
	}()
	defer func() {
		close(stop)
		for range batches { // until the file is closed
		}
	}()
	for done := range batches {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b := <-done
		for i := range b.parsed {
			if err := f(b.lines[i], &b.parsed[i]); err != nil {
				return err
			}
		}
		if b.err == io.EOF {
			return nil
		}
		if b.err != nil {
			return b.err
		}
	}
	return nil
}
