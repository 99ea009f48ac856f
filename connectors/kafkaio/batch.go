package kafkaio

import (
	"encoding/binary"
	"errors"
	"reflect"
	"time"

	"hafvf/internal/dofn"

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

// encodeBatch tells null from empty: of what may be null the length is one more.
func encodeBatch(b Batch) (out []byte) {
	text := func(s string) { out = append(binary.AppendUvarint(out, uint64(len(s))), s...) }
	nullable := func(s []byte) {
		if s == nil {
			out = append(out, 0)
			return
		}
		out = append(binary.AppendUvarint(out, uint64(len(s))+1), s...)
	}
	for i, r := range b.Records {
		text(r.Topic)
		for _, n := range []int64{int64(r.Partition), r.Offset, r.Time.UnixMilli(), b.Times[i], int64(r.Oversized), int64(len(r.Headers))} {
			out = binary.AppendVarint(out, n)
		}
		nullable(r.Key)
		nullable(r.Value)
		for _, h := range r.Headers {
			text(h.Key)
			nullable(h.Value)
		}
	}
	return out
}

var errBatch = errors.New("kafkaio: a batch is malformed")

func decodeBatch(b []byte) (Batch, error) {
	bad := false
	number := func() int64 {
		n, k := binary.Varint(b)
		if bad = bad || k <= 0; bad {
			return 0
		}
		b = b[k:]
		return n
	}
	nullable := func(null uint64) []byte {
		n, k := binary.Uvarint(b)
		if bad = bad || k <= 0 || n > uint64(len(b)-k)+null; bad {
			return nil
		}
		b = b[k:]
		if n < null {
			return nil
		}
		n -= null
		s := append([]byte{}, b[:n]...)
		b = b[n:]
		return s
	}
	var out Batch
	for len(b) > 0 && !bad {
		var r Record
		r.Topic = string(nullable(0))
		r.Partition, r.Offset, r.Time = int(number()), number(), time.UnixMilli(number()).UTC()
		at := number()
		r.Oversized = int(number())
		headers := number()
		r.Key, r.Value = nullable(1), nullable(1)
		for ; headers > 0 && !bad; headers-- {
			r.Headers = append(r.Headers, Header{Key: string(nullable(0)), Value: nullable(1)})
		}
		out.Records, out.Times = append(out.Records, r), append(out.Times, at)
	}
	if bad {
		return Batch{}, errBatch
	}
	return out, nil
}
