package connectors

import (
	"encoding/binary"
	"errors"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors/internal/wire"
)

func init() {
	register.Emitter1[Batch]()
	// Within a stage nothing is encoded but samples, of which the runner takes the size.
	beam.RegisterCoder(reflect.TypeFor[Batch](), encodeBatch, decodeBatch)
}

// A Batch holds records that follow each other in a source, about a thousand of them where
// the source is quick. A batch takes a runner far less time than single records do.
type Batch struct{ Records []Record }

func encodeBatch(b Batch) (out []byte) {
	for _, r := range b.Records {
		for _, text := range append([]string{r.Source, r.Path, string(r.Raw), r.Reason}, r.Fields...) {
			out = append(binary.AppendVarint(out, int64(len(text))), text...)
		}
		out = binary.AppendVarint(out, -1) // no text
		out = binary.AppendVarint(out, r.Position)
		out = binary.AppendVarint(out, r.Index)
		noTime := int64(0)
		if r.NoTime {
			noTime = 1
		}
		out = binary.AppendVarint(out, noTime)
	}
	return out
}

var errBatch = errors.New("connectors: a batch is malformed")

func decodeBatch(b []byte) (out Batch, err error) {
	for c := (wire.Cursor{B: b}); len(c.B) > 0; {
		text := func() string { return string(c.Bytes(c.Varint())) }
		r := Record{Source: text(), Path: text(), Raw: []byte(text()), Reason: text()}
		for n := c.Varint(); n >= 0 && !c.Short; n = c.Varint() {
			r.Fields = append(r.Fields, string(c.Bytes(n)))
		}
		r.Position, r.Index, r.NoTime = c.Varint(), c.Varint(), c.Varint() == 1
		if c.Short {
			return Batch{}, errBatch
		}
		out.Records = append(out.Records, r)
	}
	return out, nil
}
