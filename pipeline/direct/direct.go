package direct

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/internal/pipelineproto"
)

func init() { registerRunner() }

// registerRunner makes the runner known to beam.Run as "direct". Beam's deprecated runner of that
// name keeps the name in a program that links both.
func registerRunner() {
	defer func() { _ = recover() }() // beam.RegisterRunner panics if the name is taken
	beam.RegisterRunner("direct", Execute)
}

// A Runner executes pipelines. Its zero value is ready for use.
type Runner struct {
	// Shards is the number of bundles that a stage of keys, or of restrictions, may process
	// at once. Default 1: elements are processed in an order that each run repeats.
	Shards int
	// Grace is how long a function may go on when the run is over by an error or by its
	// context. After that the function is abandoned: it goes on without effect, and it is
	// not torn down. Default 10 s.
	Grace time.Duration
}

const defaultGrace = 10 * time.Second

// Execute runs p by the zero Runner.
func Execute(ctx context.Context, p *beam.Pipeline) (beam.PipelineResult, error) {
	return Runner{}.Execute(ctx, p)
}

// Execute runs p to its end. If ctx ends first, the error is its cause. If a function
// returns an error, Execute returns an *Error. The result holds the metrics of all bundles
// that ended well; it is nil if p cannot be translated. Execute panics if beam.Init has not
// been called.
func (r Runner) Execute(ctx context.Context, p *beam.Pipeline) (beam.PipelineResult, error) {
	if !beam.Initialized() {
		panic("direct: Execute before beam.Init")
	}
	r.Shards = max(r.Shards, 1)
	if r.Grace <= 0 {
		r.Grace = defaultGrace
	}
	edges, _, err := p.Build()
	if err != nil {
		return nil, err
	}
	if err := refuseForeign(edges); err != nil {
		return nil, err
	}
	pb, err := pipelineproto.Marshal(p, "", nil)
	if err != nil {
		return nil, err
	}
	t, err := translate(pb)
	if err != nil {
		return nil, err
	}
	t.findSources(edges)
	beam.PipelineOptions.LoadOptionsFromFlags(nil)
	return newEngine(ctx, t, r).run()
}

// An Error is that of a step.
type Error struct {
	Step string // name of the step, with its scopes
	Err  error  // as the step's function has returned it; a *Panic if it has panicked
}

func (e *Error) Error() string { return e.Step + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// A Panic is the error of a function that has panicked.
type Panic struct {
	Value string // of the panic
	Stack string
}

func (p *Panic) Error() string { return "panic: " + p.Value + "\n" + p.Stack }

// panicOf takes the value and the stack out of the error that package exec makes of a panic, in words
// (Beam 2.77.0, exec/util.go). It is nil if err is another error.
func panicOf(err error) *Panic {
	head, rest, found := strings.Cut(err.Error(), "\nFull error:\n")
	value, panicked := strings.CutPrefix(head, "panic: ")
	if !found || !panicked {
		return nil
	}
	if i := strings.Index(rest, head+" "); i >= 0 {
		rest = rest[i+len(head)+1:]
	}
	return &Panic{value, rest}
}

// stepError finds the step and its error in an error of package exec. The error of a panic does
// not say which step it is of: that is the one that is to blame. names are those of the steps, by
// id.
func stepError(err error, names map[string]string, b *stepTracker) error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if id, inner := doFnError(e); inner != nil {
			return &Error{names[id], inner}
		}
	}
	if p := panicOf(err); p != nil {
		err = p
	}
	return &Error{names[b.id()], err}
}

// doFnError returns the step's id and the function's error if err is an exec.doFnError. That
// type has no Unwrap (Beam 2.77.0, exec/util.go), so its fields are read by reflection. The
// error is nil if there are no such fields.
func doFnError(err error) (id string, inner error) {
	v := reflect.ValueOf(err)
	if v.Kind() != reflect.Pointer || v.Type().Elem().Name() != "doFnError" {
		return "", nil
	}
	step, field := v.Elem().FieldByName("pid"), v.Elem().FieldByName("err")
	if step.Kind() != reflect.String || !field.IsValid() || field.Type() != reflect.TypeFor[error]() {
		return "", nil
	}
	inner, _ = reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem().Interface().(error)
	return step.String(), inner
}
