package direct

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
)

// A stepTracker knows which step of a plan has the control. A step calls those that take what it
// emits, and gets the control back, so that a panic is that of the step that has it.
type stepTracker struct {
	first string // step of the stage, which has it when nobody else has
	step  atomic.Pointer[string]
	calls atomic.Int64 // in which a step was given the control
}

// watch has the units of a plan of the stage say when they have the control. A plan exports no
// units (Beam 2.77.0, exec/plan.go), so they are read by reflection. Without that field the
// blame is the first step's.
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
			u.Out = b.taker(u.Out, s.takerOf(u.PColID))
		case *exec.Multiplex:
			for i, out := range u.Out {
				u.Out[i] = b.taker(out, "")
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

// takerOf is the step of the stage that takes a PCollection, or "".
func (s *stage) takerOf(pcollection string) string {
	for _, id := range s.steps {
		if s.descriptor.GetTransforms()[id].GetInputs()[mainInput] == pcollection {
			return id
		}
	}
	return ""
}

// taker is a node that has the control while it is called. step is what is known if the node
// does not say which step it is; "" leaves the control where it is.
func (b *stepTracker) taker(n exec.Node, step string) exec.Node {
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

// during gives a step the control while f runs. A step that fails or panics keeps it.
func (b *stepTracker) during(step *string, f func() error) error {
	b.calls.Add(1)
	was := b.step.Swap(step)
	err := f()
	if err == nil {
		b.step.Store(was)
	}
	return err
}

// id is the step that has the control.
func (b *stepTracker) id() string {
	if step := b.step.Load(); step != nil {
		return *step
	}
	return b.first
}

// A watchedNode has the control while it is called.
type watchedNode struct {
	exec.Node
	blame *stepTracker
	step  *string
}

func (n *watchedNode) StartBundle(ctx context.Context, id string, data exec.DataContext) error {
	return n.blame.during(n.step, func() error { return n.Node.StartBundle(ctx, id, data) })
}

func (n *watchedNode) ProcessElement(ctx context.Context, e *exec.FullValue, values ...exec.ReStream) error {
	return n.blame.during(n.step, func() error { return n.Node.ProcessElement(ctx, e, values...) })
}

func (n *watchedNode) FinishBundle(ctx context.Context) error {
	return n.blame.during(n.step, func() error { return n.Node.FinishBundle(ctx) })
}

// A watchedUnit has the control while a plan sets it up, or tears it down.
type watchedUnit struct {
	exec.Unit
	blame *stepTracker
	step  string
}

func (u *watchedUnit) Up(ctx context.Context) error {
	return u.blame.during(&u.step, func() error { return u.Unit.Up(ctx) })
}

func (u *watchedUnit) Down(ctx context.Context) error {
	return u.blame.during(&u.step, func() error { return u.Unit.Down(ctx) })
}

// errExited is that of a function that never came back.
var errExited = errors.New("the function has ended its goroutine, by runtime.Goexit or as Fatal of a testing.T does: return an error")
