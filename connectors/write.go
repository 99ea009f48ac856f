package connectors

import (
	"context"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/internal/account"
	"hafvf/internal/dofn"
)

func init() {
	register.Function2x1((&writeFn{}).ProcessElement)
	dofn.Register(func(f *writeFn) any { return f.ProcessElement })
}

// Write takes a PCollection<[]byte> of Chunks, and writes their lines to the run's Writer of the given name. If
// name is empty, the lines are dropped. The first failed write fails the pipeline. The caller must commit the
// Writer after the pipeline has succeeded.
func Write(s beam.Scope, name string, col beam.PCollection) {
	dofn.CheckInput("connectors.Write", col, dofn.Bytes)
	s = s.Scope("connectors.Write")
	beam.ParDo0(s, &writeFn{Name: name}, col)
}

// WriteChunk writes the lines of a chunk to a Writer outside a pipeline.
func WriteChunk(w *Writer, c Chunk) error {
	lines, err := c.appendTexts(nil)
	if err != nil {
		return err
	}
	return w.Write(lines)
}

type writeFn struct {
	Name string // of the writer

	batch []byte
}

func (fn *writeFn) ProcessElement(ctx context.Context, chunk []byte) error {
	w := account.Value[*Writer](account.From(ctx), fn.Name)
	if w == nil && fn.Name != "" {
		return fmt.Errorf("connectors: the run has no writer %q in this process", fn.Name)
	}
	batch, err := Chunk(chunk).appendTexts(fn.batch[:0])
	if err != nil {
		return err
	}
	fn.batch = batch
	if w == nil {
		return nil
	}
	return w.Write(fn.batch)
}
