package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors"
	"hafvf/internal/dofn"
	"hafvf/internal/jsontext"
)

func init() {
	register.Function2x0((&toReceiverFn{}).ProcessElement)
	dofn.Register(func(f *toReceiverFn) any { return f.ProcessElement })
	register.Function6x1((&holdFn{}).ProcessElement)
	dofn.Register(func(f *holdFn) any { return f.ProcessElement })
	register.Emitter2[string, []byte]()
}

// WriteStored is Write for a runner that keeps states. Alerts that wait for the receiver are the
// state of a step of their own, so that the runner's checkpoints hold them. An outbox in the
// worker's process sends them. The step looks every second at what has become of them. It
// returns the lines that the receiver does not take.
func WriteStored(s beam.Scope, sink Sink, maxAge time.Duration, col beam.PCollection) (refused beam.PCollection) {
	dofn.CheckInput("webhook.WriteStored", col, dofn.Bytes)
	s = s.Scope("webhook.WriteHeld")
	keyed := beam.ParDo(s, &toReceiverFn{}, col)
	return beam.ParDo(s, &holdFn{Sink: sink, MaxAge: maxAge, Waiting: state.MakeBagState[[]byte]("waiting"), Next: timers.InProcessingTime("next")}, keyed)
}

// toReceiverFn gives all alerts one key: one task sends them, in their order.
type toReceiverFn struct{}

func (fn *toReceiverFn) ProcessElement(chunk []byte, emit func(string, []byte)) {
	emit("receiver", chunk)
}

// holdFn holds alerts. An element of Waiting is a Chunk of alerts with the ids under which they
// are kept in place of their own, which are the keys of its lines.
type holdFn struct {
	Sink    Sink
	MaxAge  time.Duration
	Waiting state.Bag[[]byte]
	Next    timers.ProcessingTime

	name string // of the outbox
}

// pollInterval is the time between looks at what has become of alerts that wait.
const pollInterval = time.Second

func (fn *holdFn) Setup() { fn.name = jsontext.Of([]any{fn.Sink, fn.MaxAge}) }

func (fn *holdFn) ProcessElement(_ context.Context, sp state.Provider, tp timers.Provider, _ string, chunk []byte, refuse func(connectors.Refused)) error {
	box, err := fn.outbox()
	if err != nil {
		return err
	}
	all, err := Alerts(chunk)
	if err != nil {
		return err
	}
	var storedAlerts []byte
	for _, a := range all {
		a.StoredID = fmt.Sprintf("%016x%016x", time.Now().UnixNano(), rand.Uint64())
		waits, err := box.Put(a)
		switch {
		case err != nil:
			refuse(a.refused(err.Error()))
		case waits:
			storedAlerts = appendStored(storedAlerts, a)
		}
	}
	if len(storedAlerts) == 0 {
		return nil
	}
	fn.Next.Set(tp, time.Now().Add(pollInterval))
	return fn.Waiting.Add(sp, storedAlerts)
}

// OnTimer drops the alerts that wait no more.
func (fn *holdFn) OnTimer(_ context.Context, _ beam.EventTime, sp state.Provider, tp timers.Provider, _ string, _ timers.Context, refuse func(connectors.Refused)) error {
	box, err := fn.outbox()
	if err != nil {
		return err
	}
	storedAlerts, _, err := fn.Waiting.Read(sp)
	if err != nil {
		return err
	}
	var left []byte
	dropped, here := false, box.ids()
	for _, chunk := range storedAlerts {
		all, err := storedIn(chunk)
		if err != nil {
			return err
		}
		for _, a := range all {
			s, deliveries := box.delivery(a.StoredID)
			waits := !deliveries
			if waits && !here[a.StoredID] { // it comes from a process that has gone
				if waits, err = box.Put(a); err != nil {
					s.Refused = err.Error()
				}
			}
			if s.Refused != "" {
				refuse(a.refused(s.Refused))
			}
			if waits {
				left = appendStored(left, a)
			} else {
				dropped = true
			}
		}
	}
	if len(left) > 0 {
		fn.Next.Set(tp, time.Now().Add(pollInterval))
	}
	if !dropped && len(storedAlerts) <= 1 {
		return nil
	}
	if err := fn.Waiting.Clear(sp); err != nil || len(left) == 0 {
		return err
	}
	return fn.Waiting.Add(sp, left)
}

// appendStored appends an alert to an element of Waiting.
func appendStored(to []byte, a Alert) []byte {
	return append(connectors.Chunk(to).Begin(a.Chunk(), a.StoredID), '\n')
}

// storedIn are the alerts of an element of Waiting.
func storedIn(chunk []byte) (all []Alert, err error) {
	for line, err := range connectors.Chunk(chunk).Lines() {
		if err != nil {
			return nil, err
		}
		one, err := Alerts(line.Key)
		if err != nil {
			return nil, err
		}
		for _, a := range one {
			a.StoredID = line.ID
			all = append(all, a)
		}
	}
	return all, nil
}

// A sharedOutbox is an outbox that the steps of a process share: a step may run in any of its copies.
type sharedOutbox struct {
	*Outbox

	mu   sync.Mutex
	over map[string]Delivery // by id, until the step has looked
	used time.Time
}

var (
	sharedMu sync.Mutex
	boxes    = map[string]*sharedOutbox{}
)

// unused is the time after which an outbox that no step asks for ends: its job has gone.
const unused = 5 * time.Minute

// outbox returns the outbox of the step in this process.
func (fn *holdFn) outbox() (*sharedOutbox, error) {
	sharedMu.Lock()
	defer sharedMu.Unlock()
	for name, b := range boxes {
		if name != fn.name && time.Since(b.used) > unused {
			delete(boxes, name)
			go b.Close(0, time.Second)
		}
	}
	b := boxes[fn.name]
	if b == nil {
		b = &sharedOutbox{over: map[string]Delivery{}}
		box, err := OpenOutbox(OutboxConfig{Sink: fn.Sink, MaxAge: fn.MaxAge, Delivered: b.finish, Log: slog.Default()}, nil)
		if err != nil {
			return nil, err
		}
		b.Outbox = box
		boxes[fn.name] = b
	}
	b.used = time.Now()
	return b, nil
}

func (b *sharedOutbox) finish(all []Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range all {
		b.over[s.StoredID] = s
	}
}

// delivery returns what became of an alert, once.
func (b *sharedOutbox) delivery(id string) (s Delivery, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok = b.over[id]
	delete(b.over, id)
	return s, ok
}

// ids are those under which alerts that wait are kept. What has become of an alert is known
// before it is no longer among them.
func (o *Outbox) ids() map[string]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make(map[string]bool, len(o.waiting))
	for _, e := range o.waiting {
		all[e.StoredID] = true
	}
	return all
}

// Shared are the outboxes of the steps of WriteStored in this process.
func Shared() (all []*Outbox) {
	sharedMu.Lock()
	defer sharedMu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(boxes)) {
		all = append(all, boxes[name].Outbox)
	}
	return all
}
