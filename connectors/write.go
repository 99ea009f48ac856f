package connectors

import (
	"context"
	"fmt"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.DoFn3x1[context.Context, []byte, func([]byte), error](&writeFn{})
	register.DoFn1x0[[]byte](&endFn{})
	register.Emitter1[[]byte]()
}

// An output is where the Write transforms of a name write to.
type output struct {
	writer *Writer
	stored func(n int)
}

var outputs sync.Map // of output by name

// Register makes w the target of Write transforms of that name in this process.
// When a bundle of lines is written, stored is told their number. It panics if
// the name is taken.
func Register(name string, w *Writer, stored func(n int)) {
	if _, taken := outputs.LoadOrStore(name, output{w, stored}); taken {
		panic("connectors: writer " + name + " exists already")
	}
}

// Unregister forgets the writer of that name; it does not commit or abort it.
func Unregister(name string) { outputs.Delete(name) }

// Write takes a PCollection<[]byte> of Chunks and writes their lines to the
// Writer registered under name in the process that runs the pipeline. The first
// write that fails, fails the pipeline. Committing the Writer, after the pipeline
// has ended well, is left to the caller.
func Write(s beam.Scope, name string, col beam.PCollection) {
	s = s.Scope("connectors.Write")
	End(s, beam.ParDo(s, &writeFn{Name: name}, col))
}

// End takes a PCollection<[]byte> that nothing is ever put into. The embedded
// runner busily waits for a stage that has no output: this gives the one before
// it an output to another stage.
func End(s beam.Scope, none beam.PCollection) {
	beam.ParDo0(s, &endFn{}, beam.Reshuffle(s, none))
}

type writeFn struct {
	Name string

	lines int
	batch []byte
}

func (fn *writeFn) ProcessElement(_ context.Context, chunk []byte, _ func([]byte)) error {
	o, ok := outputs.Load(fn.Name)
	if !ok {
		return fmt.Errorf("connectors: no writer is registered as %q in this process", fn.Name)
	}
	fn.batch = fn.batch[:0]
	for line, err := range Chunk(chunk).Lines() {
		if err != nil {
			return err
		}
		fn.lines++
		fn.batch = append(fn.batch, line.Text...)
	}
	return o.(output).writer.Write(fn.batch)
}

func (fn *writeFn) FinishBundle(_ context.Context, _ func([]byte)) {
	if o, ok := outputs.Load(fn.Name); ok && fn.lines > 0 {
		o.(output).stored(fn.lines)
	}
	fn.lines = 0
}

type endFn struct{}

func (*endFn) ProcessElement([]byte) {}
