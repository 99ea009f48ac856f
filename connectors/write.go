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

var writers sync.Map // of *Writer by name

// Register makes w the target of Write transforms of that name in this process.
// It panics if the name is taken.
func Register(name string, w *Writer) {
	if _, taken := writers.LoadOrStore(name, w); taken {
		panic("connectors: writer " + name + " exists already")
	}
}

// Unregister forgets the writer of that name; it does not commit or abort it.
func Unregister(name string) { writers.Delete(name) }

// Write takes a PCollection<[]byte> of chunks, each of whole JSON lines, and
// writes them to the Writer registered under name in the process that runs the
// pipeline. The first write that fails, fails the pipeline. Committing the
// Writer, after the pipeline has ended well, is left to the caller.
func Write(s beam.Scope, name string, col beam.PCollection) {
	s = s.Scope("connectors.Write")
	none := beam.ParDo(s, &writeFn{Name: name}, col)
	// The embedded runner busily waits for a stage that has no output: give
	// this one an output to another stage, which never receives anything.
	beam.ParDo0(s, &endFn{}, beam.Reshuffle(s, none))
}

type writeFn struct {
	Name string
}

func (fn *writeFn) ProcessElement(_ context.Context, lines []byte, _ func([]byte)) error {
	w, ok := writers.Load(fn.Name)
	if !ok {
		return fmt.Errorf("connectors: no writer is registered as %q in this process", fn.Name)
	}
	return w.(*Writer).Write(lines)
}

type endFn struct{}

func (*endFn) ProcessElement([]byte) {}
