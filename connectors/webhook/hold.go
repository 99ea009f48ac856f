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
	alerts, err := Alerts(chunk)
	if err != nil {
		return err
	}
	var storedAlerts []byte
	for _, a := range alerts {
		a.StoredID = fmt.Sprintf("%016x%016x", time.Now().UnixNano(), rand.Uint64())
		queued, err := box.Put(a)
		switch {
		case err != nil:
			refuse(a.refused(err.Error()))
		case queued:
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
	dropped, queued := false, box.storedIDs()
	for _, chunk := range storedAlerts {
		alerts, err := parseStored(chunk)
		if err != nil {
			return err
		}
		for _, a := range alerts {
			d, finished := box.delivery(a.StoredID)
			waiting := !finished
			if waiting && !queued[a.StoredID] { // it comes from a process that has gone
				if waiting, err = box.Put(a); err != nil {
					d.Refused = err.Error()
				}
			}
			if d.Refused != "" {
				refuse(a.refused(d.Refused))
			}
			if waiting {
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
func appendStored(dst []byte, a Alert) []byte {
	return append(connectors.Chunk(dst).Begin(a.Chunk(), a.StoredID), '\n')
}

// storedIn are the alerts of an element of Waiting.
func parseStored(chunk []byte) (alerts []Alert, err error) {
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
			alerts = append(alerts, a)
		}
	}
	return alerts, nil
}

// A sharedOutbox is an outbox that the steps of a process share: a step may run in any of its copies.
type sharedOutbox struct {
	*Outbox

	mu       sync.Mutex
	finished map[string]Delivery // by id, until the step has looked
	used     time.Time
}

var (
	sharedMu sync.Mutex
	outboxes = map[string]*sharedOutbox{}
)

// unused is the time after which an outbox that no step asks for ends: its job has gone.
const idleTimeout = 5 * time.Minute

// outbox returns the outbox of the step in this process.
func (fn *holdFn) outbox() (*sharedOutbox, error) {
	sharedMu.Lock()
	defer sharedMu.Unlock()
	for name, b := range outboxes {
		if name != fn.name && time.Since(b.used) > idleTimeout {
			delete(outboxes, name)
			go b.Close(0, time.Second)
		}
	}
	b := outboxes[fn.name]
	if b == nil {
		b = &sharedOutbox{finished: map[string]Delivery{}}
		box, err := OpenOutbox(OutboxConfig{Sink: fn.Sink, MaxAge: fn.MaxAge, Delivered: b.finish, Log: slog.Default()}, nil)
		if err != nil {
			return nil, err
		}
		b.Outbox = box
		outboxes[fn.name] = b
	}
	b.used = time.Now()
	return b, nil
}

func (b *sharedOutbox) finish(deliveries []Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range deliveries {
		b.finished[d.StoredID] = d
	}
}

// delivery returns what became of an alert, once.
func (b *sharedOutbox) delivery(id string) (d Delivery, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, ok = b.finished[id]
	delete(b.finished, id)
	return d, ok
}

// ids are those under which alerts that wait are kept. What has become of an alert is known
// before it is no longer among them.
func (o *Outbox) storedIDs() map[string]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	ids := make(map[string]bool, len(o.waiting))
	for _, e := range o.waiting {
		ids[e.StoredID] = true
	}
	return ids
}

// Shared are the outboxes of the steps of WriteStored in this process.
func Shared() (shared []*Outbox) {
	sharedMu.Lock()
	defer sharedMu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(outboxes)) {
		shared = append(shared, outboxes[name].Outbox)
	}
	return shared
}
