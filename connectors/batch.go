package connectors

import (
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/internal/compact"
)

func init() {
	register.Emitter1[Batch]()
	register.Emitter1[Refused]()
	// Only samples are encoded within a stage, because the runner measures their size.
	beam.RegisterCoder(reflect.TypeFor[Batch](),
		func(b Batch) []byte { return compact.Encode(nil, b, serializeBatch) },
		func(b []byte) (out Batch, err error) { err = compact.Decode(b, &out, serializeBatch); return out, err })
}

// A Batch contains consecutive records of a source, about a thousand if the source is fast. Batches cost a runner
// far less time than single records.
type Batch struct{ Records []Record }

func serializeBatch(c *compact.Codec, b *Batch) {
	compact.List(c, &b.Records, 8, func(r *Record) {
		compact.Texts(c, &r.Source, &r.Path, &r.Reason)
		compact.Texts(c, &r.Raw)
		compact.Signed(c, &r.Position, &r.Index, &r.After)
		compact.List(c, &r.Fields, 1, func(text *string) { compact.Texts(c, text) })
	})
}
