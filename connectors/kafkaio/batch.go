package kafkaio

import (
	"reflect"

	"hafvf/internal/compact"
	"hafvf/internal/dofn"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	// Within a stage, only the samples from which the runner estimates sizes are encoded.
	beam.RegisterCoder(reflect.TypeFor[Batch](),
		func(b Batch) []byte { return compact.Encode(nil, b, batchForm) },
		func(b []byte) (out Batch, err error) { err = compact.Decode(b, &out, batchForm); return out, err })
	register.Emitter2[beam.EventTime, Batch]()
	register.Function2x0((&recordsFn{}).ProcessElement)
	dofn.Register(func(f *recordsFn) any { return f.ProcessElement })
}

// A Batch holds records of one partition, in the order of their offsets.
type Batch struct {
	Records []Record
	Times   []int64 // event time of each record as a beam.EventTime, by the source's clock
}

// recordsFn emits the records of batches, each with its event time.
type recordsFn struct{}

func (fn *recordsFn) ProcessElement(b Batch, emit func(beam.EventTime, Record)) {
	for i, r := range b.Records {
		emit(beam.EventTime(b.Times[i]), r)
	}
}

func batchForm(c *compact.Codec, b *Batch) {
	compact.List(c, &b.Records, 8, func(r *Record) { recordForm(c, r) })
	compact.List(c, &b.Times, 1, func(t *int64) { compact.Signed(c, t) })
}

func recordForm(c *compact.Codec, r *Record) {
	// bytes encodes null and empty differently.
	bytes := func(fields ...*[]byte) {
		for _, p := range fields {
			null, none := *p == nil, false
			if c.Bits(&null, &none, &none); !null {
				compact.Texts(c, p)
			}
		}
	}
	compact.Texts(c, &r.Topic)
	compact.Signed(c, &r.Partition, &r.Oversized)
	compact.Signed(c, &r.Offset)
	c.Times(&r.Time, &r.LogTime)
	bytes(&r.Key, &r.Value)
	compact.List(c, &r.Headers, 2, func(h *Header) {
		compact.Texts(c, &h.Key)
		bytes(&h.Value)
	})
	found, none := r.DecodeInfo != nil, false
	if c.Bits(&found, &none, &none); found {
		f := compact.Ref(&r.DecodeInfo)
		compact.Texts(c, &f.Reason, &f.KeyReason)
		bytes(&f.KeyFields)
	}
}
