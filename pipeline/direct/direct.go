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

// registerRunner registers the runner with beam.Run as "direct". In a program that also links Beam's deprecated
// runner of that name, Beam's runner keeps the name.
func registerRunner() {
	defer func() { _ = recover() }() // beam.RegisterRunner panics if the name is taken
	beam.RegisterRunner("direct", Execute)
}

// A Runner executes pipelines. Its zero value is ready for use.
type Runner struct {
	// Shards is the number of bundles that a keyed or splittable stage may process at once. Default 1: every run
	// processes elements in the same order.
	Shards int
	// Grace is the time that a running function has to return after an error or the end of the context. After that,
	// the function is abandoned: it continues without effect and is not torn down. Default 10 s.
	Grace time.Duration
}

const defaultGrace = 10 * time.Second

// Execute runs p with the zero Runner.
func Execute(ctx context.Context, p *beam.Pipeline) (beam.PipelineResult, error) {
	return Runner{}.Execute(ctx, p)
}

// Execute runs p until it ends. If ctx ends first, the error is the cause of ctx. If a function returns an error,
// Execute returns an *Error. The result has the metrics of all successful bundles; it is nil if p cannot be
// translated. Execute panics if beam.Init has not been called.
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

// An Error is the error of a step.
type Error struct {
	Step string // name of the step, including its scopes
	Err  error  // error that the step's function returned; a *Panic if it panicked
}

func (e *Error) Error() string { return e.Step + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// A Panic is the error of a function that panicked.
type Panic struct {
	Value string // value of the panic as text
	Stack string
}

func (p *Panic) Error() string { return "panic: " + p.Value + "\n" + p.Stack }

// panicOf parses the value and the stack from the text of the error that package exec makes of a panic (Beam 2.77.0,
// exec/util.go). It returns nil for other errors.
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

// stepError returns an *Error with the step and the error in an error of package exec. The error of a panic does not
// name its step; then it is the step that b tracks. names maps ids of steps to names.
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

// doFnError returns the step's id and the function's error if err is an exec.doFnError. That type has no Unwrap (Beam
// 2.77.0, exec/util.go), so its fields are read by reflection. inner is nil if err is another error or lacks these
// fields.
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
