package connectors

import (
	"encoding/binary"
	"errors"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.Emitter1[Batch]()
	// Within a stage nothing is encoded but samples, of which the runner takes the size.
	beam.RegisterCoder(reflect.TypeFor[Batch](), encodeBatch, decodeBatch)
}

// A Batch holds records that follow each other in a source, about a thousand of them where
// the source is quick. A batch takes a runner far less time than single records do.
type Batch struct{ Records []Record }

func encodeBatch(b Batch) []byte {
	out := binary.AppendUvarint(nil, uint64(len(b.Records)))
	for _, r := range b.Records {
		for _, text := range []string{r.Source, r.Path, string(r.Raw), r.Reason} {
			out = append(binary.AppendUvarint(out, uint64(len(text))), text...)
		}
		noTime := int64(0)
		if r.NoTime {
			noTime = 1
		}
		for _, n := range []int64{r.Position, r.Index, noTime, int64(len(r.Fields))} {
			out = binary.AppendVarint(out, n)
		}
		for _, field := range r.Fields {
			out = append(binary.AppendUvarint(out, uint64(len(field))), field...)
		}
	}
	return out
}

var errBatch = errors.New("connectors: a batch is malformed")

func decodeBatch(b []byte) (Batch, error) {
	bad := false
	count := func() uint64 {
		n, k := binary.Uvarint(b)
		if bad = bad || k <= 0; bad {
			return 0
		}
		b = b[k:]
		return n
	}
	number := func() int64 {
		n, k := binary.Varint(b)
		if bad = bad || k <= 0; bad {
			return 0
		}
		b = b[k:]
		return n
	}
	text := func() string {
		n := count()
		if bad = bad || n > uint64(len(b)); bad {
			return ""
		}
		s := string(b[:n])
		b = b[n:]
		return s
	}
	var out Batch
	for range count() {
		r := Record{Source: text(), Path: text(), Raw: []byte(text()), Reason: text(), Position: number(), Index: number(), NoTime: number() == 1}
		for range number() {
			r.Fields = append(r.Fields, text())
			if bad {
				break
			}
		}
		if bad {
			return Batch{}, errBatch
		}
		out.Records = append(out.Records, r)
	}
	if bad || len(b) > 0 {
		return Batch{}, errBatch
	}
	return out, nil
}
