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

// A Sink describes how lines of JSON are converted to Avro.
type Sink struct {
	Config
	Subject string // of the schema: TOPIC-value
	Schema  string // of all lines
}

// Form returns the kafkaio.Form of a sink with these settings.
func (s Sink) Form() kafkaio.Form { return kafkaio.Form{Name: Name, Setting: jsontext.Of(s)} }

// Register looks up the schema under Subject, and registers it if it is missing. It fails if an existing schema is
// incompatible.
func (s Sink) Register(ctx context.Context) error {
	err := s.ask(ctx, func(ctx context.Context, cl *sr.Client) error {
		_, err := s.id(ctx, cl)
		return err
	})
	return s.refused(err)
}

func (s Sink) refused(err error) error {
	if hasStatus(err, http.StatusConflict) {
		return fmt.Errorf("the schema registry %s refuses the schema of %s, because it is incompatible with the existing schema: write to another topic, delete the subject, or set its compatibility to NONE: %w", s.URL, s.Subject, err)
	}
	return s.explain(err)
}

// id looks up or registers the schema. A user who may only read can find a schema that others have registered.
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

// writing returns a function that converts lines to Avro. It asks for the schema's ID when it gets the first line.
func (s Sink) writing() kafkaio.Writing {
	encode := Encode(s.Schema)
	var prefix []byte // magic byte and ID; nil until they are known
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

// Encode returns a function that appends a line of JSON to dst as Avro of the schema. Encode panics if the schema
// is invalid.
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
