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

// WriteStored is Write for a runner that stores states. Waiting alerts are in the state of one step, so the
// runner's checkpoints include them. An outbox in the worker's process sends them, and the step polls it every
// second. WriteStored returns the lines that the receiver or a full outbox refuses.
func WriteStored(s beam.Scope, sink Sink, maxAge time.Duration, col beam.PCollection) (refused beam.PCollection) {
	dofn.CheckInput("webhook.WriteStored", col, dofn.Bytes)
	s = s.Scope("webhook.WriteHeld")
	keyed := beam.ParDo(s, &toReceiverFn{}, col)
	return beam.ParDo(s, &holdFn{Sink: sink, MaxAge: maxAge, Waiting: state.MakeBagState[[]byte]("waiting"), Next: timers.InProcessingTime("next")}, keyed)
}

// toReceiverFn gives all alerts the same key, so that one task sends them in their order.
type toReceiverFn struct{}

func (fn *toReceiverFn) ProcessElement(chunk []byte, emit func(string, []byte)) {
	emit("receiver", chunk)
}

// holdFn stores alerts until the receiver has accepted or refused them. An element of Waiting is a Chunk with one
// line per alert: the line's ID is Alert.StoredID, and its key is the result of Alert.Chunk.
type holdFn struct {
	Sink    Sink
	MaxAge  time.Duration
	Waiting state.Bag[[]byte]
	Next    timers.ProcessingTime

	name string // of the outbox
}

// pollInterval is the time between two checks for delivered alerts.
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

// OnTimer removes delivered alerts from the state. It queues alerts again that a process stored which has ended.
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
	dropped, pending := false, false
	queued, open := box.storedIDs()
	for _, chunk := range storedAlerts {
		alerts, err := parseStored(chunk)
		if err != nil {
			return err
		}
		for _, a := range alerts {
			d, finished := box.delivery(a.StoredID)
			waiting := !finished
			if waiting && !queued[a.StoredID] && !open[a.StoredID] { // stored by a process that has ended
				if waiting, err = box.put(a, true); err != nil {
					d.Refused = err.Error()
				}
			}
			if d.Refused != "" {
				refuse(a.refused(d.Refused))
			}
			if waiting {
				pending = pending || !open[a.StoredID]
				left = appendStored(left, a)
			} else {
				dropped = true
			}
		}
	}
	switch {
	case pending:
		fn.Next.Set(tp, time.Now().Add(pollInterval))
	case len(left) > 0: // open alerts, to be queued again if this process ends
		fn.Next.Set(tp, time.Now().Add(fn.Sink.Repeat))
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

// parseStored returns the alerts of an element of Waiting.
func parseStored(chunk []byte) (alerts []Alert, err error) {
	for line, err := range connectors.Chunk(chunk).Lines() {
		if err != nil {
			return nil, err
		}
		parsed, err := Alerts(line.Key)
		if err != nil {
			return nil, err
		}
		for _, a := range parsed {
			a.StoredID = line.ID
			alerts = append(alerts, a)
		}
	}
	return alerts, nil
}

// A sharedOutbox is an outbox that all copies of a step in this process share.
type sharedOutbox struct {
	*Outbox

	mu       sync.Mutex
	finished map[string]Delivery // by StoredID, until the step reads them
	used     time.Time
}

var (
	sharedMu sync.Mutex
	outboxes = map[string]*sharedOutbox{}
)

// idleTimeout is the time after which an unused outbox is closed, because its job has ended.
const idleTimeout = 5 * time.Minute

// outbox returns the outbox of the step in this process, and opens it if there is none. It closes idle outboxes of
// other steps.
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

// delivery returns the Delivery of a stored alert and forgets it. ok is false if there is none.
func (b *sharedOutbox) delivery(id string) (d Delivery, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, ok = b.finished[id]
	delete(b.finished, id)
	return d, ok
}

// storedIDs returns the StoredID of every queued and of every open alert. OutboxConfig.Delivered is called before an
// alert leaves these sets.
func (o *Outbox) storedIDs() (queued, open map[string]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	queued, open = make(map[string]bool, len(o.waiting)), make(map[string]bool, len(o.open))
	for _, e := range o.waiting {
		queued[e.StoredID] = true
	}
	for _, a := range o.open {
		open[a.StoredID] = true
	}
	return queued, open
}

// Shared returns the outboxes of all WriteStored steps in this process.
func Shared() (shared []*Outbox) {
	sharedMu.Lock()
	defer sharedMu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(outboxes)) {
		shared = append(shared, outboxes[name].Outbox)
	}
	return shared
}
