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

// querySource is a source that asks Prometheus.
type querySource struct{ promio.Source }

func (q querySource) check(context.Context, *clients) error { return promio.Check(q.Source) }
func (q querySource) values() []string                      { return []string{"value"} }
func (q querySource) kind() tabular.Kind                    { return tabular.Number }
func (q querySource) state() any                            { return q.Query }
func (q querySource) part(bool, bool) bool                  { return q.Bounded }

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

// snifferAttempts is how often who looks at the past asks a server that answers in part.
const snifferAttempts = 3

// history returns the graph, or if it asks Prometheus, that of what is final now, which waits for no
// rest of a partial answer.
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

// endless reports whether the graph asks Prometheus until it is stopped.
func (g *Graph) unbounded() bool {
	q, ok := g.source.(querySource)
	return ok && !q.Bounded
}

// saveEvery is the time after which a run without an end replaces its file of states. Tests have
// less.
var saveEvery = time.Minute

// A periodicSaver replaces the file of states while the run goes on, as soon as the sinks have what came
// before. A run that is killed therefore repeats outputs, and its states are those of a run that
// was not.
type periodicSaver struct {
	file *stateFile
	run  *run
	last time.Time // when a file was prepared

	mu         sync.Mutex
	preparedAt time.Time    // when the file that waits was prepared
	replace    func() error // by the file that waits; nil for none
	discard    func()
}

// keeper is that of the file of states of a run without an end. It holds the states apart from the
// memory, in which the next bundle may have begun.
func (s *periodicSaver) keeper() account.StateKeeper {
	k := s.file.keeper()
	committed := k.Committed
	k.Suspends, k.InMemory = true, false
	k.Commits = func() bool { return !s.waits(time.Now()) }
	k.Commit = func() error {
		s.close() // what waits is older
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

// prepare writes the states that hold, unless others still wait for the receivers of alerts.
func (s *periodicSaver) prepare() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replace != nil {
		return
	}
	replace, discard, err := s.file.prepare(time.Time{}) // keys that expire are gone by themselves
	if err != nil {
		s.failed(err)
		return
	}
	s.preparedAt, s.replace, s.discard = time.Now(), replace, discard
}

// commit replaces the file by what was prepared, if the receivers have the alerts from before.
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

// waits reports whether an alert of a time, or from before, waits for its receiver.
func (s *periodicSaver) waits(t time.Time) bool {
	return slices.ContainsFunc(s.run.outboxes, func(box *webhook.Outbox) bool {
		stats := box.Stats()
		return stats.Waiting > 0 && !stats.Oldest.After(t)
	})
}

func (s *periodicSaver) failed(err error) {
	s.run.log.Warn("the states are not stored; a run that is killed now goes on from those of before", "reason", err.Error())
}

// close gives up what waits.
func (s *periodicSaver) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replace != nil {
		s.discard()
		s.replace = nil
	}
}
