package direct

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
)

// A stepTracker tracks which step of a plan is running. A step calls the steps that consume its output, and is
// running again when they return. So a panic belongs to the running step.
type stepTracker struct {
	first string // first step of the stage, which counts as running if no step is
	step  atomic.Pointer[string]
	calls atomic.Int64 // number of calls of steps
}

// watch makes the units of a plan report when they run. A plan does not export its units (Beam 2.77.0, exec/plan.go),
// so they are read by reflection. Without that field, the first step counts as running.
func watch(plan *exec.Plan, s *stage) *stepTracker {
	b := &stepTracker{first: s.id}
	field := reflect.ValueOf(plan).Elem().FieldByName("units")
	if !field.IsValid() || field.Type() != reflect.TypeFor[[]exec.Unit]() {
		return b
	}
	units := *(*[]exec.Unit)(field.Addr().UnsafePointer())
	for i, u := range units {
		switch u := u.(type) {
		case *exec.PCollection:
			u.Out = b.wrap(u.Out, s.consumerOf(u.PColID))
		case *exec.Multiplex:
			for i, out := range u.Out {
				u.Out[i] = b.wrap(out, "")
			}
		case stepped:
			units[i] = &watchedUnit{u, b, u.GetPID()}
		}
	}
	return b
}

// stepped are the units that know their step.
type stepped interface {
	exec.Unit
	GetPID() string
}

// consumerOf returns the step of the stage that consumes a PCollection, or "".
func (s *stage) consumerOf(pcollection string) string {
	for _, id := range s.steps {
		if s.descriptor.GetTransforms()[id].GetInputs()[mainInput] == pcollection {
			return id
		}
	}
	return ""
}

// wrap returns a node that marks its step as running during calls. step is used if the node does not know its step.
// If it is "", the node is returned unchanged.
func (b *stepTracker) wrap(n exec.Node, step string) exec.Node {
	if n, ok := n.(stepped); ok {
		step = n.GetPID()
	}
	switch n.(type) {
	case *exec.Multiplex, *exec.DataSink:
		return n
	}
	if step == "" {
		return n
	}
	return &watchedNode{n, b, &step}
}

// track marks a step as running during f. A step that fails or panics stays marked.
func (b *stepTracker) track(step *string, f func() error) error {
	b.calls.Add(1)
	prev := b.step.Swap(step)
	err := f()
	if err == nil {
		b.step.Store(prev)
	}
	return err
}

// id returns the id of the running step.
func (b *stepTracker) id() string {
	if step := b.step.Load(); step != nil {
		return *step
	}
	return b.first
}

// A watchedNode marks its step as running during calls.
type watchedNode struct {
	exec.Node
	blame *stepTracker
	step  *string
}

func (n *watchedNode) StartBundle(ctx context.Context, id string, data exec.DataContext) error {
	return n.blame.track(n.step, func() error { return n.Node.StartBundle(ctx, id, data) })
}

func (n *watchedNode) ProcessElement(ctx context.Context, e *exec.FullValue, values ...exec.ReStream) error {
	return n.blame.track(n.step, func() error { return n.Node.ProcessElement(ctx, e, values...) })
}

func (n *watchedNode) FinishBundle(ctx context.Context) error {
	return n.blame.track(n.step, func() error { return n.Node.FinishBundle(ctx) })
}

// A watchedUnit marks its step as running while a plan sets it up or tears it down.
type watchedUnit struct {
	exec.Unit
	blame *stepTracker
	step  string
}

func (u *watchedUnit) Up(ctx context.Context) error {
	return u.blame.track(&u.step, func() error { return u.Unit.Up(ctx) })
}

func (u *watchedUnit) Down(ctx context.Context) error {
	return u.blame.track(&u.step, func() error { return u.Unit.Down(ctx) })
}

// errExited is the error for a function that ended its goroutine with runtime.Goexit, for example by t.Fatal.
var errExited = errors.New("the function has ended its goroutine, by runtime.Goexit or testing.T.Fatal: return an error instead")
