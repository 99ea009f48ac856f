package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"

	"github.com/twmb/franz-go/pkg/sr"

	"hafvf/connectors/kafkaio"
	"hafvf/internal/jsontext"
	"hafvf/internal/parallel"
)

// Name is the name of the Reading and the Writing that this package registers.
const Name = "registry"

// Formats of values.
const (
	Auto       = "auto"
	JSON       = "json" // without a registry
	Avro       = "avro"
	Protobuf   = "protobuf"
	JSONSchema = "json_schema"
)

func init() {
	kafkaio.RegisterForm(Name,
		func(setting string) kafkaio.Reading { return jsontext.Read[Source](setting).reading() },
		func(setting string) kafkaio.Writing { return jsontext.Read[Sink](setting).writing() })
}

// A Source describes how to read the values of topics.
type Source struct {
	Config
	// Format is the format of all values, or Auto: then the magic byte distinguishes values with a schema from
	// JSON. Keys are always read like Auto.
	Format string
}

// Form returns the kafkaio.Form of a source with these settings.
func (s Source) Form() kafkaio.Form { return kafkaio.Form{Name: Name, Setting: jsontext.Of(s)} }

// header decodes the magic byte and schema ID before a payload.
var header sr.ConfluentHeader

// reading returns a function that decodes the records of one consumer.
func (s Source) reading() kafkaio.Reading {
	cache := schemasOf(s.Config)
	return func(ctx context.Context, log *slog.Logger, records []kafkaio.Record) error {
		errs := make([]error, runtime.GOMAXPROCS(0))
		parallel.Chunks(len(records), len(errs), func(worker, start, end int) {
			r := valueReader{cache: cache, format: s.Format, ctx: ctx, log: log}
			for i := start; i < end && errs[worker] == nil; i++ {
				errs[worker] = r.record(&records[i])
			}
		})
		return cmp.Or(errs...)
	}
}

// A valueReader decodes some records of one fetch.
type valueReader struct {
	cache  *schemas
	format string
	ctx    context.Context
	log    *slog.Logger
	// text is the buffer to which values are appended. When it grows, earlier values keep the old one.
	text []byte
}

// textBytes is the minimum size of a new buffer.
const textBytes = 64 << 10

// record decodes the key and the value of a record. An error ends the run.
func (r *valueReader) record(rec *kafkaio.Record) error {
	var info kafkaio.DecodeInfo
	if id, payload, idErr := header.DecodeID(rec.Key); idErr == nil && rec.Oversized == 0 {
		text, reason, err := r.payload(id, payload, "")
		switch {
		case err != nil:
			return err
		case reason != nil:
			info.KeyReason = reason.Error()
		default:
			setKey(rec, &info, text)
		}
	}
	switch id, payload, idErr := header.DecodeID(rec.Value); {
	case len(rec.Value) == 0: // a tombstone, or no value
	case rec.Oversized > 0:
		if idErr == nil {
			info.Reason = "the value is cut"
		}
	case idErr == nil && r.format != JSON:
		text, reason, err := r.payload(id, payload, r.format)
		switch {
		case err != nil:
			return err
		case reason != nil:
			info.Reason = reason.Error()
		default:
			rec.Value = text
		}
	case r.format != JSON && r.format != Auto:
		info.Reason = fmt.Sprintf("the value does not begin with the magic byte and the id of a schema, which format: %s requires", r.format)
	}
	if info.Reason != "" || info.KeyReason != "" || info.KeyFields != nil {
		rec.DecodeInfo = &info
	}
	return nil
}

// setKey sets the key of a record from its JSON.
func setKey(rec *kafkaio.Record, info *kafkaio.DecodeInfo, text []byte) {
	var key string
	switch c := text[0]; {
	case c == '{':
		info.KeyFields = text
	case c == '"' && json.Unmarshal(text, &key) == nil:
		rec.Key = []byte(key)
	case c == '-' || c >= '0' && c <= '9':
		rec.Key = text
	default:
		info.KeyReason = "the key of the record is neither a text, nor a number, nor a record"
	}
}

// payload returns the payload of a schema as JSON, or the reason why it cannot be read. If format is neither empty
// nor Auto, the schema must have that format. An error ends the run.
func (r *valueReader) payload(id int, payload []byte, format string) (text []byte, reason, err error) {
	s, err := r.cache.get(r.ctx, r.log, id)
	switch {
	case err != nil:
		return nil, nil, err
	case s.err != nil:
		return nil, s.err, nil
	case format != "" && format != Auto && format != formatName(s.kind):
		return nil, fmt.Errorf("schema %d has the format %s, but format: %s is required", id, formatName(s.kind), format), nil
	case s.kind == sr.TypeJSON:
		if len(payload) == 0 {
			return nil, errors.New("nothing follows the id of the schema"), nil
		}
		return payload, nil, nil
	}
	if cap(r.text)-len(r.text) < len(payload) {
		r.text = make([]byte, 0, max(textBytes, 4*len(payload)))
	}
	start := len(r.text)
	out, reason := s.payload(r.text, payload)
	if reason != nil {
		return nil, fmt.Errorf("the payload does not fit schema %d: %w", id, reason), nil
	}
	r.text = out
	return out[start:len(out):len(out)], nil, nil
}
