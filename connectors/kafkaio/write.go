package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors"
	"hafvf/internal/account"
	"hafvf/internal/dofn"
	"hafvf/internal/message"
)

func init() {
	register.Function2x1((&writeFn{}).ProcessElement)
	dofn.Register(func(f *writeFn) any { return f.ProcessElement })
	register.Function3x1((&writePairFn{}).ProcessElement)
	dofn.Register(func(f *writePairFn) any { return f.ProcessElement })
}

// Write takes a PCollection<KV<[]byte, []byte>> and writes each pair to a topic as the key and the value of a message,
// at least once. An empty key becomes a null key. The messages of a bundle are stored when the bundle ends.
//
// The topic must exist. Write waits for absent brokers as Writer.Write does. It panics if col has another type.
func Write(s beam.Scope, sink Sink, col beam.PCollection) {
	dofn.CheckInput("kafkaio.Write", col, typex.NewKV(dofn.Bytes, dofn.Bytes))
	s = s.Scope("kafkaio.Write")
	beam.ParDo0(s, &writePairFn{messageFn{Sink: sink}}, col)
}

// WriteChunks is Write for a PCollection<[]byte> of connectors.Chunks. Each line, without its line end, is the value
// of a message, with the id in the header "id".
func WriteChunks(s beam.Scope, sink Sink, col beam.PCollection) {
	dofn.CheckInput("kafkaio.WriteChunks", col, dofn.Bytes)
	s = s.Scope("kafkaio.Write")
	beam.ParDo0(s, &writeFn{messageFn{Sink: sink}}, col)
}

// WriteChunk writes the lines of a chunk to a topic, outside of a pipeline.
func (sink Sink) WriteChunk(ctx context.Context, c connectors.Chunk, log *slog.Logger) error {
	messages, err := appendMessages(ctx, nil, c, sink.Form.writing(), log)
	if err != nil {
		return err
	}
	w, err := openWriter(sink, log)
	if err != nil {
		return err
	}
	return errors.Join(w.Write(ctx, messages), w.Close())
}

// appendMessages appends the lines of a chunk to dst as messages, converted by write unless it is nil.
func appendMessages(ctx context.Context, dst []Message, c connectors.Chunk, write Writing, log *slog.Logger) ([]Message, error) {
	for line, err := range c.Lines() {
		if err != nil {
			return dst, err
		}
		value := line.Text[:len(line.Text)-1]
		if write != nil {
			if value, err = write(ctx, log, value); err != nil {
				return dst, err
			}
		}
		dst = append(dst, Message{Key: line.Key, ID: line.ID, Value: value})
	}
	return dst, nil
}

// writeBytes is the size at which a bundle writes the gathered messages.
const writeBytes = 8 << 20

// A messageFn writes the messages of a bundle.
type messageFn struct {
	Sink Sink

	writer  *Writer
	writing Writing
	waiting []Message
	size    int
}

func (fn *messageFn) StartBundle(ctx context.Context) (err error) {
	fn.waiting, fn.size = nil, 0
	if fn.writer == nil {
		// openWriter does not connect: the run has started, so Write waits for absent brokers.
		fn.writer, err = openWriter(fn.Sink, ledgerOf(ctx).logger())
		fn.writing = fn.Sink.Form.writing()
	}
	return err
}

// writePairFn writes pairs.
type writePairFn struct{ messageFn }

func (fn *writePairFn) ProcessElement(ctx context.Context, key, value []byte) error {
	m := Message{Value: slices.Concat([]byte{}, value)} // a runner may reuse the memory
	if len(key) > 0 {
		m.Key = slices.Clone(key)
	}
	fn.waiting = append(fn.waiting, m)
	return fn.added(ctx, len(fn.waiting)-1)
}

// writeFn writes the lines of chunks.
type writeFn struct{ messageFn }

func (fn *writeFn) ProcessElement(ctx context.Context, chunk []byte) error {
	n := len(fn.waiting)
	var err error
	within, end := account.From(ctx).WithStopTimeout(ctx) // the Form may wait for a registry
	defer end()
	fn.waiting, err = appendMessages(within, fn.waiting, chunk, fn.writing, ledgerOf(ctx).logger())
	switch {
	case errors.Is(err, account.ErrStopped):
		return fmt.Errorf("topic %q: %w, and the schema registry does not answer: not all of the last %s are written, and none after them", fn.Sink.Topic, err, message.Count(len(fn.waiting)+1, "record", "records"))
	case err != nil:
		return err
	}
	return fn.added(ctx, n)
}

// added adds the sizes of the waiting messages from index n on, and writes all messages if their size reaches
// writeBytes.
func (fn *messageFn) added(ctx context.Context, n int) error {
	for i := range fn.waiting[n:] {
		fn.size += fn.waiting[n+i].size()
	}
	if fn.size < writeBytes {
		return nil
	}
	return fn.flush(ctx)
}

func (fn *messageFn) flush(ctx context.Context) error {
	err := fn.writer.Write(ctx, fn.waiting)
	switch {
	case errors.Is(err, account.ErrStopped):
		return fmt.Errorf("%w: not all of the last %s are written, and none after them", err, message.Count(len(fn.waiting), "record", "records"))
	case err != nil:
		return err
	}
	fn.waiting, fn.size = fn.waiting[:0], 0
	return nil
}

func (fn *messageFn) FinishBundle(ctx context.Context) error { return fn.flush(ctx) }

func (fn *messageFn) Teardown() error {
	if fn.writer == nil {
		return nil
	}
	return fn.writer.Close()
}
