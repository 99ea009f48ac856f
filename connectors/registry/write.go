package registry

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"

	"hafvf/connectors/kafkaio"
	"hafvf/internal/jsontext"
)

// A Sink says how lines of JSON become Avro.
type Sink struct {
	Config
	Subject string // of the schema, TOPIC-value
	Schema  string // of all lines
}

// Form is that of a sink whose lines are written in this way.
func (s Sink) Form() kafkaio.Form { return kafkaio.Form{Name: Name, Setting: jsontext.Of(s)} }

// Register finds the schema under the subject, or registers it. The error says if what stands
// there does not allow it.
func (s Sink) Register(ctx context.Context) error {
	err := s.ask(ctx, func(ctx context.Context, cl *sr.Client) error {
		_, err := s.id(ctx, cl)
		return err
	})
	return s.refused(err)
}

func (s Sink) refused(err error) error {
	if hasStatus(err, http.StatusConflict) {
		return fmt.Errorf("the schema registry %s refuses the schema of %s, as it is not compatible with what stands there: write to another topic, delete the subject, or set its compatibility to NONE: %w", s.URL, s.Subject, err)
	}
	return s.explain(err)
}

// id finds or registers the schema. Who may only read finds one that others have registered.
func (s Sink) id(ctx context.Context, cl *sr.Client) (int, error) {
	schema := sr.Schema{Schema: s.Schema}
	found, err := cl.LookupSchema(ctx, s.Subject, schema)
	id := found.ID
	if notFound(err) {
		id, err = cl.RegisterSchema(ctx, s.Subject, schema, -1, -1)
	}
	if err == nil && id <= 0 {
		err = errNoSchema
	}
	return id, err
}

// writing returns what makes Avro of lines. It asks for the id of the schema with the first
// one.
func (s Sink) writing() kafkaio.Writing {
	encode := Encode(s.Schema)
	var prefix []byte // magic byte and id; nil before they are known
	return func(ctx context.Context, log *slog.Logger, line []byte) ([]byte, error) {
		if prefix == nil {
			id := 0
			err := s.askUntilAnswered(ctx, log, func(ctx context.Context, cl *sr.Client) (err error) {
				id, err = s.id(ctx, cl)
				return err
			})
			if err != nil {
				if ctx.Err() != nil {
					return nil, err
				}
				return nil, s.refused(err)
			}
			prefix = binary.BigEndian.AppendUint32([]byte{0}, uint32(id))
		}
		return encode(bytes.Clone(prefix), line)
	}
}

// Encode returns what appends a line of JSON as Avro of the schema. It panics if the schema is
// none.
func Encode(schema string) func(dst, line []byte) ([]byte, error) {
	s := avro.MustParse(schema)
	return func(dst, line []byte) ([]byte, error) {
		var v map[string]any
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		return s.AppendEncode(dst, v)
	}
}
