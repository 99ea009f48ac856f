package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"hafvf/internal/jsontext"

	"github.com/twmb/franz-go/pkg/sr"
)

// A schema is a compiled schema of a registry, or the reason why there is none.
type schema struct {
	kind sr.SchemaType
	// read appends a payload as JSON to dst.
	read func(dst, payload []byte) ([]byte, error)

	err     error     // why the schema cannot be used; nil if it can
	retryAt time.Time // when to ask the registry again, if err is not nil
}

// payload calls read and turns its panics into reasons: the Protobuf decoder panics for some invalid payloads.
func (s *schema) payload(dst, payload []byte) (out []byte, reason error) {
	defer func() {
		if p := recover(); p != nil {
			out, reason = dst, fmt.Errorf("its decoder panics: %v", p)
		}
	}()
	return s.read(dst, payload)
}

// failureTTL is how long an unknown or unusable schema is not requested again.
const failureTTL = time.Minute

// maxFailed bounds the remembered schemas with errors, because corrupt records may contain any ID.
const maxFailed = 10_000

// schemas caches the schemas of a registry by ID. An ID never changes its meaning.
type schemas struct {
	cfg  Config
	turn chan struct{} // contains a token while a caller asks the registry

	mu     sync.RWMutex
	known  map[int]*schema
	failed int
}

var registries sync.Map // of *schemas, by the JSON of their Config

// schemasOf returns the cache for a registry, which all readers of the process share.
func schemasOf(c Config) *schemas {
	v, _ := registries.LoadOrStore(jsontext.Of(c), &schemas{cfg: c, turn: make(chan struct{}, 1), known: map[int]*schema{}})
	return v.(*schemas)
}

// cached returns a schema from the cache, or nil if the registry has to be asked.
func (s *schemas) cached(id int) *schema {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if k := s.known[id]; k != nil && (k.err == nil || time.Now().Before(k.retryAt)) {
		return k
	}
	return nil
}

// get returns a schema. It waits while the registry is unavailable. An error ends the run; a problem of this schema
// alone is in schema.err.
func (s *schemas) get(ctx context.Context, log *slog.Logger, id int) (*schema, error) {
	if k := s.cached(id); k != nil {
		return k, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if k := s.cached(id); k != nil { // another caller has asked meanwhile
		return k, nil
	}
	var text sr.Schema
	var parts []schemaReference
	err := s.cfg.askUntilAnswered(ctx, log, func(ctx context.Context, cl *sr.Client) (err error) {
		if text, err = cl.SchemaByID(ctx, id); err == nil {
			parts, err = references(ctx, cl, text.References)
		}
		return cmp.Or(err, checkPresent(text))
	})
	k := &schema{kind: text.Type}
	switch {
	case err == nil:
		if k.read, err = compile(text, parts); err != nil {
			k.err = fmt.Errorf("schema %d cannot be used: %w", id, err)
		}
	case notFound(err):
		k.err = fmt.Errorf("the schema registry does not know schema %d, or one that it refers to: %w", id, err)
	case tooLong(err):
		k.err = fmt.Errorf("schema %d cannot be used: %w", id, err)
	case ctx.Err() != nil:
		return nil, err
	default:
		return nil, s.cfg.explain(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.err != nil {
		if k.retryAt = time.Now().Add(failureTTL); s.known[id] == nil {
			s.failed++
		}
		if s.failed > maxFailed {
			maps.DeleteFunc(s.known, func(_ int, k *schema) bool { return k.err != nil })
			s.failed = 1
		}
	}
	s.known[id] = k
	return k, nil
}

// A schemaReference is a schema that another schema imports under this name.
type schemaReference struct{ name, text string }

// references fetches the schemas that refs name and those that they refer to. A schema comes after the ones that it
// refers to.
func references(ctx context.Context, cl *sr.Client, refs []sr.SchemaReference) (parts []schemaReference, err error) {
	seen := map[sr.SchemaReference]bool{}
	var fetch func(refs []sr.SchemaReference) error
	fetch = func(refs []sr.SchemaReference) error {
		for _, r := range refs {
			if seen[r] {
				continue
			}
			seen[r] = true
			found, err := cl.SchemaByVersion(ctx, r.Subject, r.Version)
			if err != nil {
				return err
			}
			if err := cmp.Or(checkPresent(found.Schema), fetch(found.References)); err != nil {
				return err
			}
			parts = append(parts, schemaReference{r.Name, found.Schema.Schema})
		}
		return nil
	}
	return parts, fetch(refs)
}

// errNoSchema means that an answer does not come from a registry, but for example from a proxy.
var errNoSchema = errors.New("the answer has no schema")

func checkPresent(s sr.Schema) error {
	if s.Schema == "" {
		return errNoSchema
	}
	return nil
}

// compile returns a function that appends payloads of a schema as JSON.
func compile(s sr.Schema, parts []schemaReference) (func(dst, payload []byte) ([]byte, error), error) {
	switch s.Type {
	case sr.TypeAvro:
		return compileAvro(s.Schema, parts)
	case sr.TypeProtobuf:
		return compileProtobuf(s.Schema, parts)
	case sr.TypeJSON:
		return func(dst, payload []byte) ([]byte, error) { return append(dst, payload...), nil }, nil
	}
	return nil, errors.New("its type is unknown")
}
