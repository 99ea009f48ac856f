package webhook

import (
	"context"

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

// Write takes a PCollection<[]byte> of connectors.Chunks and sends each line to the sink,
// at least once. It returns what the receiver did not take as a PCollection<Refused>; a
// pipeline waits for a receiver that is away. The run in this process learns how many lines
// were taken.
func Write(s beam.Scope, sink Sink, col beam.PCollection) (refused beam.PCollection) {
	s = s.Scope("webhook.Write")
	return beam.ParDo(s, &writeFn{Sink: sink}, col)
}

type writeFn struct {
	Sink Sink

	client  *Client
	waiting []connectors.Line // of the bundle, fewer than a batch
	taken   int
}

func (fn *writeFn) Setup() (err error) {
	fn.client, err = NewClient(fn.Sink)
	return err
}

func (fn *writeFn) StartBundle(context.Context, func(Refused)) { fn.waiting, fn.taken = nil, 0 }

func (fn *writeFn) ProcessElement(ctx context.Context, chunk []byte, refuse func(Refused)) error {
	for line, err := range connectors.Chunk(chunk).Lines() {
		if err != nil {
			return err
		}
		if fn.waiting = append(fn.waiting, line); len(fn.waiting) < fn.client.batch {
			continue
		}
		if err := fn.send(ctx, fn.waiting, refuse); err != nil {
			return err
		}
		fn.waiting = fn.waiting[:0]
	}
	return nil
}

// send sends a batch. The error is that of ctx.
func (fn *writeFn) send(ctx context.Context, batch []connectors.Line, refuse func(Refused)) error {
	texts := make([][]byte, len(batch))
	for i, l := range batch {
		texts[i] = l.Text[:len(l.Text)-1]
	}
	refused, err := fn.client.Post(ctx, texts)
	if err != nil {
		return err
	}
	for i, why := range refused {
		if why == nil {
			fn.taken++
			continue
		}
		refuse(Refused{Key: batch[i].Key, ID: batch[i].ID, Text: texts[i], Reason: "webhook: " + why.Error()})
	}
	return nil
}

func (fn *writeFn) FinishBundle(ctx context.Context, refuse func(Refused)) error {
	if len(fn.waiting) > 0 {
		if err := fn.send(ctx, fn.waiting, refuse); err != nil {
			return err
		}
	}
	account.From(ctx).Stored(fn.taken)
	return nil
}
