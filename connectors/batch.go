package connectors

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/internal/compact"
)

func init() {
	register.Emitter1[Batch]()
	register.Emitter1[Refused]()
	// Within a stage nothing is encoded but samples, of which the runner takes the size.
	beam.RegisterCoder(reflect.TypeFor[Batch](), encodeBatch, decodeBatch)
}

// A Batch holds records that follow each other in a source, about a thousand of them where
// the source is quick. A batch takes a runner far less time than single records do.
type Batch struct{ Records []Record }

func encodeBatch(b Batch) (out []byte) {
	for _, r := range b.Records {
		for _, text := range []string{r.Source, r.Path, string(r.Raw), r.Reason} {
			out = compact.AppendString(out, text)
		}
		out = binary.AppendVarint(out, r.Position)
		out = binary.AppendVarint(out, r.Index)
		out = binary.AppendVarint(out, r.After)
		out = binary.AppendUvarint(out, uint64(len(r.Fields)))
		for _, text := range r.Fields {
			out = compact.AppendString(out, text)
		}
	}
	return out
}

func decodeBatch(b []byte) (out Batch, err error) {
	for c := (&compact.Reader{B: b}); len(c.B) > 0; {
		r := Record{Source: c.Text(), Path: c.Text(), Raw: []byte(c.Text()), Reason: c.Text(), Position: c.Varint(), Index: c.Varint(), After: c.Varint()}
		for range c.Count(1) {
			r.Fields = append(r.Fields, c.Text())
		}
		if c.Bad {
			return Batch{}, fmt.Errorf("connectors: a batch: %w", compact.ErrCut)
		}
		out.Records = append(out.Records, r)
	}
	return out, nil
}
