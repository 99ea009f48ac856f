package pipeline

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/connectors/promio"
	"hafvf/connectors/webhook"
	"hafvf/internal/account"
	"hafvf/internal/message"
	"hafvf/internal/tabular"
	"hafvf/pipeline/config"
	"hafvf/pipeline/decode"
	"hafvf/transforms"
)

var decodesSeries = registerDecoder("series", func(d *decode.Decoder, b promio.Batch, pass func([]decode.Decoded)) {
	d.Series(b.Series, pass)
})

// querySource is a source that queries Prometheus.
type querySource struct{ promio.Source }

func (q querySource) check(context.Context, *clients) error { return promio.Check(q.Source) }
func (q querySource) values() []string                      { return []string{"value"} }
func (q querySource) kind() tabular.Kind                    { return tabular.Number }
func (q querySource) state() any                            { return q.Query }
func (q querySource) leavesOutputs(bool, bool) bool         { return q.Bounded }

func (q querySource) describe() string {
	text := fmt.Sprintf("prometheus %s every %s", message.Shorten(q.Query), message.Duration(q.Step))
	if q.Bounded {
		text += ", to the present"
	}
	return text
}

func (q querySource) read(s beam.Scope) (batches beam.PCollection, decoder transforms.Registered) {
	return promio.Read(s, q.Source), decodesSeries(decoding{Fields: config.Fields{Zone: "UTC"}})
}

// snifferAttempts is the number of attempts to get a complete answer from a server when past data is inspected.
const snifferAttempts = 3

// boundedToNow returns the graph. If it queries Prometheus, its input ends with the points that are final now, and the
// run does not wait for the rest of a partial answer.
func (g *Graph) boundedToNow() *Graph {
	q, ok := g.source.(querySource)
	if !ok {
		return g
	}
	clone := *g
	q.Bounded, q.Attempts = true, snifferAttempts
	clone.source = q
	return &clone
}

// unbounded reports whether the graph queries Prometheus until it is stopped.
func (g *Graph) unbounded() bool {
	q, ok := g.source.(querySource)
	return ok && !q.Bounded
}

// saveEvery is the time between two writes of the file of states in a run without an end. Tests set a shorter time.
var saveEvery = time.Minute

// A periodicSaver replaces the file of states during a run, as soon as the sinks and receivers have the outputs up to
// these states. A killed run therefore repeats outputs, but its states equal those of a run that was not killed.
type periodicSaver struct {
	file *stateFile
	run  *run
	last time.Time // when a file was last prepared

	mu         sync.Mutex
	preparedAt time.Time    // when the pending file was prepared
	replace    func() error // puts the pending file in place; nil for none
	discard    func()
}

// keeper returns the StateKeeper for the file of states of a run without an end. It holds committed states apart from
// the memory, because the next bundle may already change the memory.
func (s *periodicSaver) keeper() account.StateKeeper {
	k := s.file.keeper()
	committed := k.Committed
	k.Suspends, k.InMemory = true, false
	k.Commits = func() bool { return !s.waits(time.Now()) }
	k.Commit = func() error {
		s.close() // the pending file is older
		s.last = time.Now()
		s.prepare()
		s.commit()
		return nil
	}
	k.Committed = func(states map[string]account.EncodedState, start time.Time) {
		committed(states, start)
		for key, state := range states {
			s.file.committed.Put(key, state.State)
		}
		s.file.commit()
		if time.Since(s.last) >= saveEvery {
			s.last = time.Now()
			s.prepare()
		}
	}
	return k
}

// prepare writes the committed states to a file, unless an earlier file is still pending.
func (s *periodicSaver) prepare() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replace != nil {
		return
	}
	replace, discard, err := s.file.prepare(time.Time{}) // the run itself removes expired keys
	if err != nil {
		s.failed(err)
		return
	}
	s.preparedAt, s.replace, s.discard = time.Now(), replace, discard
}

// commit puts the pending file in place if the receivers have all alerts from before it was prepared.
func (s *periodicSaver) commit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replace == nil {
		return
	}
	if s.waits(s.preparedAt) {
		return
	}
	err := s.run.sync()
	if err == nil {
		err = s.replace()
	}
	if err != nil {
		s.failed(err)
	}
	s.discard()
	s.replace = nil
}

// waits reports whether an alert queued at t or before is still pending.
func (s *periodicSaver) waits(t time.Time) bool {
	return slices.ContainsFunc(s.run.outboxes, func(box *webhook.Outbox) bool {
		stats := box.Stats()
		return stats.Waiting > 0 && !stats.Oldest.After(t)
	})
}

func (s *periodicSaver) failed(err error) {
	s.run.log.Warn("cannot store states: a run killed now resumes from the previous states", "reason", err.Error())
}

// close discards the pending file.
func (s *periodicSaver) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replace != nil {
		s.discard()
		s.replace = nil
	}
}
