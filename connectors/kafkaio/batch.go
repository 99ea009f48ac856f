package kafkaio

import (
	"encoding/binary"
	"errors"
	"reflect"
	"time"

	"hafvf/internal/dofn"
	"hafvf/internal/wire"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	// Within a stage nothing is encoded but samples, of which the runner takes the size.
	beam.RegisterCoder(reflect.TypeFor[Batch](), encodeBatch, decodeBatch)
	register.Emitter2[beam.EventTime, Batch]()
	register.Function2x0((&recordsFn{}).ProcessElement)
	dofn.Register(func(f *recordsFn) any { return f.ProcessElement })
}

// A Batch holds records of a partition, in the order of their offsets.
type Batch struct {
	Records []Record
	Times   []int64 // of the records, by the source's clock, as a beam.EventTime each
}

// recordsFn emits the records of batches, each at its time.
type recordsFn struct{}

func (fn *recordsFn) ProcessElement(b Batch, emit func(beam.EventTime, Record)) {
	for i, r := range b.Records {
		emit(beam.EventTime(b.Times[i]), r)
	}
}

// encodeBatch tells null from empty, by a length of -1.
func encodeBatch(b Batch) (out []byte) {
	text := func(s []byte) {
		if s == nil {
			out = binary.AppendVarint(out, -1)
			return
		}
		out = append(binary.AppendVarint(out, int64(len(s))), s...)
	}
	for i, r := range b.Records {
		text([]byte(r.Topic))
		text(r.Key)
		text(r.Value)
		for _, n := range []int64{int64(r.Partition), r.Offset, r.Time.UnixMilli(), b.Times[i], logMillis(r), int64(r.Oversized), int64(len(r.Headers))} {
			out = binary.AppendVarint(out, n)
		}
		for _, h := range r.Headers {
			text([]byte(h.Key))
			text(h.Value)
		}
		if f := r.Finding; f == nil {
			text(nil)
		} else {
			text([]byte(f.Reason))
			text([]byte(f.KeyReason))
			text(f.KeyFields)
		}
	}
	return out
}

// logMillis is Record.LogTime in Unix milliseconds, 0 for none.
func logMillis(r Record) int64 {
	if r.LogTime.IsZero() {
		return 0
	}
	return r.LogTime.UnixMilli()
}

var errBatch = errors.New("kafkaio: a batch is malformed")

func decodeBatch(b []byte) (out Batch, err error) {
	for c := (wire.Cursor{B: b}); len(c.B) > 0; {
		text := func() []byte { return c.Bytes(c.Varint()) }
		r := Record{Position: Position{Topic: string(text())}, Key: text(), Value: text()}
		r.Partition, r.Offset, r.Time = int(c.Varint()), c.Varint(), time.UnixMilli(c.Varint()).UTC()
		at := c.Varint()
		if ms := c.Varint(); ms != 0 {
			r.LogTime = time.UnixMilli(ms).UTC()
		}
		r.Oversized = int(c.Varint())
		for n := c.Varint(); n > 0 && !c.Short; n-- {
			r.Headers = append(r.Headers, Header{Key: string(text()), Value: text()})
		}
		if reason := text(); reason != nil {
			r.Finding = &Finding{string(reason), string(text()), text()}
		}
		if c.Short {
			return Batch{}, errBatch
		}
		out.Records, out.Times = append(out.Records, r), append(out.Times, at)
	}
	return out, nil
}
