package kafkaio

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors"
	"hafvf/internal/account"
	"hafvf/internal/dofn"
)

func init() {
	register.Function2x1((&writeFn{}).ProcessElement)
	dofn.Register(func(f *writeFn) any { return f.ProcessElement })
}

// Write takes a PCollection<[]byte> of connectors.Chunks and writes each line, without its
// line end, to a topic, at least once and with the id as the header "id". The lines of a
// bundle are stored when the bundle ends.
//
// The topic must exist. Write waits for absent brokers as Writer.Write does. A ledger in
// this process learns how many lines were stored.
func Write(s beam.Scope, sink Sink, col beam.PCollection) {
	s = s.Scope("kafkaio.Write")
	beam.ParDo0(s, &writeFn{Sink: sink}, col)
}

// writeBytes is how much a bundle gathers before it writes.
const writeBytes = 8 << 20

type writeFn struct {
	Sink Sink

	writer  *Writer
	waiting []Message
	size    int
	stored  int
}

func (fn *writeFn) StartBundle(ctx context.Context) (err error) {
	fn.waiting, fn.size, fn.stored = nil, 0, 0
	if fn.writer == nil {
		// openWriter does not connect: the run has begun, so Write waits for absent brokers.
		fn.writer, err = openWriter(fn.Sink, ledgerOf(ctx).logger())
	}
	return err
}

func (fn *writeFn) ProcessElement(ctx context.Context, chunk []byte) error {
	for line, err := range connectors.Chunk(chunk).Lines() {
		if err != nil {
			return err
		}
		m := Message{Key: line.Key, ID: line.ID, Value: line.Text[:len(line.Text)-1]}
		fn.waiting = append(fn.waiting, m)
		fn.size += m.size()
	}
	if fn.size < writeBytes {
		return nil
	}
	return fn.flush(ctx)
}

func (fn *writeFn) flush(ctx context.Context) error {
	if err := fn.writer.Write(ctx, fn.waiting); err != nil {
		return err
	}
	fn.stored += len(fn.waiting)
	fn.waiting, fn.size = fn.waiting[:0], 0
	return nil
}

func (fn *writeFn) FinishBundle(ctx context.Context) error {
	if err := fn.flush(ctx); err != nil {
		return err
	}
	account.From(ctx).Stored(fn.stored)
	return nil
}

func (fn *writeFn) Teardown() error {
	if fn.writer == nil {
		return nil
	}
	return fn.writer.Close()
}
