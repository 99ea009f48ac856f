package webhook

import (
	"context"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors"
	"hafvf/internal/account"
	"hafvf/internal/dofn"
)

func init() {
	register.Function3x1((&writeFn{}).ProcessElement)
	dofn.Register(func(f *writeFn) any { return f.ProcessElement })
	register.Emitter1[Refused]()
}

// A Refused is a record that the receiver did not take.
type Refused struct {
	Key    []byte
	ID     string
	Text   []byte // without its line end
	Reason string
}

// Write takes a PCollection<[]byte> of connectors.Chunks and puts each line into the Outbox of
// that name that is attached to the run in this process. It does not wait for the receiver. It
// returns the lines that find no place there as a PCollection<Refused>.
func Write(s beam.Scope, name string, col beam.PCollection) (refused beam.PCollection) {
	return beam.ParDo(s.Scope("webhook.Write"), &writeFn{Name: name}, col)
}

type writeFn struct {
	Name string // of the outbox

	taken int
}

func (fn *writeFn) ProcessElement(ctx context.Context, chunk []byte, refuse func(Refused)) error {
	box := account.Part[*Outbox](account.From(ctx), fn.Name)
	if box == nil {
		return fmt.Errorf("webhook: the run has no outbox %q in this process", fn.Name)
	}
	for line, err := range connectors.Chunk(chunk).Lines() {
		if err != nil {
			return err
		}
		a := Alert{Key: line.Key, ID: line.ID, Text: line.Text[:len(line.Text)-1]}
		if err := box.Put(a); err != nil {
			refuse(Refused{Key: a.Key, ID: a.ID, Text: a.Text, Reason: "webhook: " + err.Error()})
			continue
		}
		fn.taken++
	}
	return nil
}

func (fn *writeFn) FinishBundle(ctx context.Context, _ func(Refused)) {
	account.From(ctx).Stored(fn.taken)
	fn.taken = 0
}
