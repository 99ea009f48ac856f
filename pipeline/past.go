package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"hafvf/connectors/promio"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/stored"
	"hafvf/internal/message"
	"hafvf/pipeline/store"
)

// The past is what a run of the same states has read of its source. A run with Migrate reads it again
// where the states cannot be carried over whole.

// readAgain returns an empty file of states that reads again what was read up to a position in the source,
// and says what that is. It is nil if there is nothing that can be read again.
func (g *Graph) readAgain(source []byte, log *slog.Logger) (file *stateFile, what string, err error) {
	file = &stateFile{File: &store.File{Memory: stored.NewMemory()}}
	if err := file.resume(g, source, log); err != nil {
		return nil, "", err
	}
	switch s := g.source.(type) {
	case querySource:
		from, until := s.Begin(time.Now()), file.position.Begin
		if !from.Before(until) {
			return nil, "", nil
		}
		file.position = &promio.Position{Until: until}
		return file, fmt.Sprintf("%s up to %s", message.Duration(until.Sub(from).Round(s.Step)), until.Format(time.RFC3339)), nil
	case fileSource:
		n := file.marks.Records(s.Source)
		if n == 0 {
			return nil, "", nil
		}
		file.marks = file.marks.Again()
		return file, fmt.Sprintf("%s of %s", message.Count(int(n), "record", "records"), s.Path), nil
	}
	return nil, "", nil
}

// learn replaces the states of a graph's file that cannot be carried over whole by those of a run under
// the settings of the graph over the past. That run writes nothing and tells nobody. It does nothing if
// the states can be carried over, or if there is no past. It reports whether the run was stopped: then,
// and if it fails, the file is as it was.
func (r Run) learn(ctx context.Context, g *Graph, stop <-chan struct{}, log *slog.Logger) (stopped bool, err error) {
	filter, filters := g.transform.(filtering)
	if _, topics := g.source.(topicSource); !filters || topics || g.states == "" {
		return false, nil
	}
	cfg := filter.store(true, slog.New(slog.DiscardHandler)) // the run itself says what it carries over
	cfg.Leave = true
	file, err := store.OpenFile(g.states, cfg)
	if err != nil {
		return false, fmt.Errorf("state: %w", err)
	}
	defer file.Close()
	if file.Adopted.Anew == 0 {
		return false, nil
	}
	again, what, err := g.readAgain(file.Source, log)
	if err != nil || again == nil {
		return false, nil // which the run says
	}
	log.Info("states cannot be carried over whole: learning from the past, of which nothing is written or told", "file", g.states, "states", file.Adopted.String(), "past", what)
	var mu sync.Mutex
	var since time.Time
	state := &run{log: log, states: again, stopping: stop, observed: &Observer{Estimate: func(_ string, e *keyed.Estimate, _ []keyed.Told) {
		mu.Lock()
		defer mu.Unlock()
		if e != nil && !e.Time.IsZero() && (since.IsZero() || e.Time.Before(since)) {
			since = e.Time
		}
	}}}
	defer func() { err = errors.Join(err, state.close(ctx, false)) }()
	quiet := g.quiet()
	if err := state.open(ctx, quiet); err != nil {
		return false, err
	}
	if err := r.through(ctx, quiet, state, stop); err != nil {
		return false, err
	}
	stopped = state.isStopped()
	if g.endless() {
		stopped = !again.position.Reached()
	}
	if stopped {
		return true, nil
	}
	learned := again.Memory
	if learned.Len() == 0 {
		log.Warn("the past has no record that can be learned")
		return false, nil
	}
	lost := 0
	for _, key := range file.Adopted.Lost {
		if learned.Cell(stored.CellName(key, learned.Names())).Get(key) == nil {
			lost++
		}
	}
	for key, b := range learned.All() {
		file.Memory.Put(key, b)
	}
	file.Memory.Fleet = learned.Fleet
	if err := file.Commit(); err != nil {
		return false, fmt.Errorf("state: %w", err)
	}
	about := []any{"records", state.progress().Read, "keys", learned.Len(), "lost keys", lost}
	if !since.IsZero() {
		about = append(about, "since", since)
	}
	log.Info("learned from the past", about...)
	return false, nil
}

// quiet returns the graph without outputs.
func (g *Graph) quiet() *Graph {
	here := *g
	here.sink, here.dead, here.alerts = graphSink{}, graphSink{}, nil
	f := g.transform.(filtering)
	f.receivers = nil
	here.transform = f
	return &here
}
