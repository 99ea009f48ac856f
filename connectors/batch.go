package connectors

import (
	"bytes"
	"encoding/gob"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
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

func encodeBatch(b Batch) ([]byte, error) {
	var out bytes.Buffer
	err := gob.NewEncoder(&out).Encode(b)
	return out.Bytes(), err
}

func decodeBatch(b []byte) (out Batch, err error) {
	err = gob.NewDecoder(bytes.NewReader(b)).Decode(&out)
	return out, err
}
