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
	register.Function3x1((&writeFn{}).ProcessElement)
	dofn.Register(func(f *writeFn) any { return f.ProcessElement })
	register.Function1x0((&endFn{}).ProcessElement)
	dofn.Register(func(f *endFn) any { return f.ProcessElement })
	register.Emitter1[[]byte]()
}

// Write takes a PCollection<[]byte> of Chunks and writes their lines to the Writer
// of that name that is attached to the run in this process. Without a name they are
// dropped. The first write that fails, fails the pipeline. Committing the Writer, after
// the pipeline has ended well, is left to the caller.
func Write(s beam.Scope, run, name string, col beam.PCollection) {
	s = s.Scope("connectors.Write")
	End(s, beam.ParDo(s, &writeFn{Account: run, Name: name}, col))
}

// End takes a PCollection<[]byte> that nothing is ever put into. The embedded
// runner busily waits for a stage that has no output: this gives the one before
// it an output to another stage.
func End(s beam.Scope, none beam.PCollection) {
	beam.ParDo0(s, &endFn{}, beam.Reshuffle(s, none))
}

type writeFn struct {
	Account, Name string // of the run, of the writer

	lines int
	batch []byte
}

func (fn *writeFn) ProcessElement(_ context.Context, chunk []byte, _ func([]byte)) error {
	w := account.Part[*Writer](account.Of(fn.Account), fn.Name)
	if w == nil && fn.Name != "" {
		return fmt.Errorf("connectors: the run %q has no writer %q in this process", fn.Account, fn.Name)
	}
	batch, lines, err := Chunk(chunk).appendTexts(fn.batch[:0])
	if err != nil {
		return err
	}
	fn.batch = batch
	fn.lines += lines
	if w == nil {
		return nil
	}
	return w.Write(fn.batch)
}

func (fn *writeFn) FinishBundle(_ context.Context, _ func([]byte)) {
	account.Of(fn.Account).Stored(fn.lines)
	fn.lines = 0
}

type endFn struct{}

func (*endFn) ProcessElement([]byte) {}
