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

// A schema is one of a registry, ready to read payloads.
type schema struct {
	kind sr.SchemaType
	// read appends a payload as JSON.
	read func(dst, payload []byte) ([]byte, error)

	err     error     // why there is none
	retryAt time.Time // when the registry is asked again, with err
}

// payload is read. The library that decodes Protobuf panics at some payloads, which are no worse than
// others that do not fit.
func (s *schema) payload(dst, payload []byte) (out []byte, reason error) {
	defer func() {
		if p := recover(); p != nil {
			out, reason = dst, fmt.Errorf("its decoder panics: %v", p)
		}
	}()
	return s.read(dst, payload)
}

// doubtTime is how long a schema that the registry does not know, or that cannot be used, is
// not asked for again.
const failureTTL = time.Minute

// mostDoubted bounds how many such schemas are remembered: garbage may name any.
const maxFailed = 10_000

// schemas are those of a registry that this process has asked for, by id. Ids never change
// their meaning.
type schemas struct {
	cfg  Config
	turn chan struct{} // holds the token of who asks the registry

	mu     sync.RWMutex
	known  map[int]*schema
	failed int
}

var registries sync.Map // of *schemas by the text of a Config

// schemasOf are those of a registry. All readers of the process share them.
func schemasOf(c Config) *schemas {
	v, _ := registries.LoadOrStore(jsontext.Of(c), &schemas{cfg: c, turn: make(chan struct{}, 1), known: map[int]*schema{}})
	return v.(*schemas)
}

// cached returns a schema without asking the registry, nil if the registry has to be asked.
func (s *schemas) cached(id int) *schema {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if k := s.known[id]; k != nil && (k.err == nil || time.Now().Before(k.retryAt)) {
		return k
	}
	return nil
}

// get returns a schema. It waits while the registry is away. The error is one that ends the
// run; that of a schema alone is in the schema.
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
	if k := s.cached(id); k != nil { // another has asked meanwhile
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

// A schemaReference is a schema that another refers to, by the name that the other has for it.
type schemaReference struct{ name, text string }

// references fetches the schemas that others refer to, each after those that it refers to.
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

// errForeign is the error of an answer that no registry gives, as a proxy before it may.
var errNoSchema = errors.New("the answer has no schema")

func checkPresent(s sr.Schema) error {
	if s.Schema == "" {
		return errNoSchema
	}
	return nil
}

// compile makes ready what reads payloads of a schema.
func compile(s sr.Schema, parts []schemaReference) (func(dst, payload []byte) ([]byte, error), error) {
	switch s.Type {
	case sr.TypeAvro:
		return compileAvro(s.Schema, parts)
	case sr.TypeProtobuf:
		return compileProtobuf(s.Schema, parts)
	case sr.TypeJSON:
		return func(dst, payload []byte) ([]byte, error) { return append(dst, payload...), nil }, nil
	}
	return nil, errors.New("it is of an unknown type")
}
