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
}

// Write takes a PCollection<[]byte> of connectors.Chunks, and puts each line into the run's Outbox of the given
// name. It does not wait for the receiver. It returns the lines that the outbox rejects as a
// PCollection<connectors.Refused>.
func Write(s beam.Scope, name string, col beam.PCollection) (refused beam.PCollection) {
	dofn.CheckInput("webhook.Write", col, dofn.Bytes)
	return beam.ParDo(s.Scope("webhook.Write"), &writeFn{Name: name}, col)
}

// refused returns the record of an alert for the dead letter.
func (a Alert) refused(reason string) connectors.Refused {
	return connectors.Refused{Key: a.Key, ID: a.ID, Text: a.Text, Reason: "webhook: " + reason}
}

// Refusals returns the alerts that the receiver has refused, for the dead letter.
func Refusals(deliveries []Delivery) (refused []connectors.Refused) {
	for _, d := range deliveries {
		if d.Refused != "" {
			refused = append(refused, d.refused(d.Refused))
		}
	}
	return refused
}

// Chunk returns the alert as a connectors.Chunk of one line, without its StoredID.
func (a Alert) Chunk() connectors.Chunk {
	return append(append(connectors.Chunk(nil).Begin(a.Key, a.ID), a.Text...), '\n')
}

// Alerts returns the lines of a connectors.Chunk. They share the memory of chunk.
func Alerts(chunk []byte) (alerts []Alert, err error) {
	for line, err := range connectors.Chunk(chunk).Lines() {
		if err != nil {
			return nil, err
		}
		alerts = append(alerts, Alert{Key: line.Key, ID: line.ID, Text: line.Text[:len(line.Text)-1]})
	}
	return alerts, nil
}

type writeFn struct {
	Name string // of the outbox
}

func (fn *writeFn) ProcessElement(ctx context.Context, chunk []byte, refuse func(connectors.Refused)) error {
	box := account.Value[*Outbox](account.From(ctx), fn.Name)
	if box == nil {
		return fmt.Errorf("webhook: the run has no outbox %q in this process", fn.Name)
	}
	alerts, err := Alerts(chunk)
	if err != nil {
		return err
	}
	for _, a := range alerts {
		if _, err := box.Put(a); err != nil {
			refuse(a.refused(err.Error()))
		}
	}
	return nil
}
