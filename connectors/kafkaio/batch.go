package kafkaio

import (
	"encoding/binary"
	"errors"
	"reflect"
	"time"

	"hafvf/internal/dofn"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/twmb/franz-go/pkg/kbin"
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
	for i, r := range b.Records {
		out = kbin.AppendVarintString(out, r.Topic)
		out = kbin.AppendVarintBytes(out, r.Key)
		out = kbin.AppendVarintBytes(out, r.Value)
		for _, n := range []int64{int64(r.Partition), r.Offset, r.Time.UnixMilli(), b.Times[i], logMillis(r), int64(r.Oversized), int64(len(r.Headers))} {
			out = binary.AppendVarint(out, n)
		}
		for _, h := range r.Headers {
			out = kbin.AppendVarintBytes(kbin.AppendVarintString(out, h.Key), h.Value)
		}
		if f := r.DecodeInfo; f == nil {
			out = kbin.AppendVarintBytes(out, nil)
		} else {
			out = kbin.AppendVarintString(kbin.AppendVarintString(out, f.Reason), f.KeyReason)
			out = kbin.AppendVarintBytes(out, f.KeyFields)
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
	for c := (kbin.Reader{Src: b}); len(c.Src) > 0; {
		r := Record{Position: Position{Topic: c.VarintString()}, Key: c.VarintBytes(), Value: c.VarintBytes()}
		r.Partition, r.Offset, r.Time = int(c.Varlong()), c.Varlong(), time.UnixMilli(c.Varlong()).UTC()
		at := c.Varlong()
		if ms := c.Varlong(); ms != 0 {
			r.LogTime = time.UnixMilli(ms).UTC()
		}
		r.Oversized = int(c.Varlong())
		for n := c.Varlong(); n > 0 && c.Ok(); n-- {
			r.Headers = append(r.Headers, Header{Key: c.VarintString(), Value: c.VarintBytes()})
		}
		if reason := c.VarintBytes(); reason != nil {
			r.DecodeInfo = &DecodeInfo{string(reason), c.VarintString(), c.VarintBytes()}
		}
		if !c.Ok() {
			return Batch{}, errBatch
		}
		out.Records, out.Times = append(out.Records, r), append(out.Times, at)
	}
	return out, nil
}
