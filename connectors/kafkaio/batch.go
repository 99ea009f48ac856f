package kafkaio

import (
	"encoding/json"
	"reflect"

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

// A wireBatch has records as they are encoded.
type wireBatch struct {
	Records []wireRecord
	Times   []int64
}

func encodeBatch(b Batch) ([]byte, error) {
	w := wireBatch{Times: b.Times}
	for _, r := range b.Records {
		w.Records = append(w.Records, wireRecord{r, r.Time.UnixMilli()})
	}
	return json.Marshal(w)
}

func decodeBatch(b []byte) (out Batch, err error) {
	var w wireBatch
	err = json.Unmarshal(b, &w)
	out.Times = w.Times
	for _, r := range w.Records {
		out.Records = append(out.Records, r.record())
	}
	return out, err
}
