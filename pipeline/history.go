package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"hafvf/connectors/kafkaio"
	"hafvf/connectors/promio"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/clock"
	"hafvf/internal/message"
	"hafvf/pipeline/config"
	"hafvf/pipeline/statebackend"
)

// A run with Migrate reads the past again if its states cannot be migrated completely. The past is the part of the
// source that earlier runs with the same states have read.

// readAgain returns an empty stateFile whose run rereads the source up to the position stored in source, and a
// description of that part. The file is nil if nothing can be read again.
func (g *Graph) readAgain(source []byte, log *slog.Logger) (file *stateFile, description string, err error) {
	file = &stateFile{File: &statebackend.File{Memory: statestore.NewMemory()}}
	if err := file.resume(g, source, log); err != nil {
		return nil, "", err
	}
	switch s := g.source.(type) {
	case querySource:
		start, until := s.Begin(time.Now()), file.position.Begin
		if !start.Before(until) {
			return nil, "", nil
		}
		file.position = &promio.Position{Until: until}
		return file, fmt.Sprintf("%s up to %s", message.Duration(until.Sub(start).Round(s.Step)), until.Format(time.RFC3339)), nil
	case fileSource:
		n := file.marks.Records(s.Source)
		if n == 0 {
			return nil, "", nil
		}
		file.marks = file.marks.WasRead()
		return file, fmt.Sprintf("%s of %s", message.Count(int(n), "record", "records"), s.Path), nil
	}
	return nil, "", nil
}

// A history is the part of the source that earlier runs with the same states have read, opened to be read again.
type history struct {
	where         string // place of the states
	description   string // of the part that is read again
	migrated      statestore.Migrated
	begin         func(*run)                                              // makes a run read the history
	caughtUp      func() bool                                             // reports whether a run that does not end by itself has read it; nil if the run ends by itself
	learned       func() *statestore.Memory                               // returns the states that the run has learned
	replaceStates func(learned *statestore.Memory) (*learnedTopic, error) // replaces the stored states
	close         func()
}

// A learnedTopic has the states learned from topics. A run starts with them instead of the states in its changelog.
type learnedTopic struct {
	states  map[string][]byte
	offsets map[string]int64 // offsets that the states have reached, by partition
}

// openHistory opens the history of a graph's states. It returns nil if the states can be migrated completely, or if
// there is no history.
func (g *Graph) openHistory(ctx context.Context, pool *clients, log *slog.Logger) (*history, error) {
	if t, ok := g.source.(topicSource); ok {
		if t.Changelog == "" || g.Runner.Name == config.Flink {
			return nil, nil
		}
		return g.historyOfTopic(ctx, t, pool, log)
	}
	if g.states == "" {
		return nil, nil
	}
	cfg := g.transform.(filtering).store(true, slog.New(slog.DiscardHandler)) // the run logs what it migrates
	cfg.DropIncompatible = true
	file, err := statebackend.OpenFile(g.states, cfg)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	rereading, description, err := g.readAgain(file.Source, log)
	if file.Migrated.Reset == 0 || err != nil || rereading == nil {
		file.Close()
		return nil, nil
	}
	p := &history{
		where: g.states, description: description, migrated: file.Migrated, close: file.Close,
		begin:   func(r *run) { r.states = rereading },
		learned: func() *statestore.Memory { return rereading.Memory },
		replaceStates: func(learned *statestore.Memory) (*learnedTopic, error) {
			for key, b := range learned.All() {
				file.Memory.Put(key, b)
			}
			file.Memory.Put(statestore.FleetKey, nil)
			maps.Copy(file.Memory.Reserved, learned.Reserved)
			if err := file.Commit(); err != nil {
				return nil, fmt.Errorf("state: %w", err)
			}
			return nil, nil
		},
	}
	if g.unbounded() {
		p.caughtUp = rereading.position.Reached
	}
	return p, nil
}

// historyOfTopic is openHistory for topics with a changelog.
func (g *Graph) historyOfTopic(ctx context.Context, t topicSource, pool *clients, log *slog.Logger) (*history, error) {
	cfg := g.transform.(filtering).store(true, slog.New(slog.DiscardHandler))
	cfg.DropIncompatible = true
	topic, err := statebackend.OpenTopic(ctx, kafkaio.LedgerConfig{
		Client: pool.client(t.Cluster), Topics: t.Topics, Group: t.Group, Changelog: t.Changelog, History: true, EndOnStop: t.Bounded, Log: log,
	}, cfg)
	if err != nil {
		return nil, err
	}
	readable, deleted, err := topic.HistoryLen(ctx)
	if topic.Migrated.Reset == 0 || err != nil || readable == 0 {
		return nil, errors.Join(err, topic.Close(ctx, false))
	}
	p := &history{
		where: t.Changelog, description: message.Count(int(readable), "record", "records") + " of " + strings.Join(t.Topics, ", "), migrated: topic.Migrated,
		begin: func(r *run) { r.ledger, r.memory = topic.Ledger, topic.Memory },
		learned: func() *statestore.Memory {
			for key, b := range topic.LearnedStates() {
				topic.Memory.Put(key, b)
			}
			return topic.Memory
		},
		replaceStates: func(learned *statestore.Memory) (*learnedTopic, error) {
			states := maps.Collect(learned.All())
			maps.Copy(states, learned.Reserved)
			return &learnedTopic{states, topic.OpeningOffsets()}, nil
		},
		close: func() { topic.Close(ctx, false) },
	}
	if deleted > 0 {
		p.description += ", before which the brokers have deleted " + strconv.FormatInt(deleted, 10)
	}
	if !t.Bounded {
		p.caughtUp = topic.CaughtUp
	}
	return p, nil
}

// historyOf describes what a run with Migrate would read again for the states at where. It returns "" if that is
// nothing, or if the graph's runs keep their states elsewhere. source is the position stored in a file of states.
func (g *Graph) historyOf(ctx context.Context, where string, source []byte, log *slog.Logger) (description string, err error) {
	t, topics := g.source.(topicSource)
	switch {
	case topics && t.Changelog != "" && where == changelogPlace(t.Changelog) && g.Runner.Name != config.Flink:
		var pool clients
		defer pool.close()
		p, err := g.historyOfTopic(ctx, t, &pool, log)
		if p == nil || err != nil {
			return "", err
		}
		p.close()
		return p.description, nil
	case source != nil && g.states != "" && !topics:
		_, description, err = g.readAgain(source, log)
	}
	return description, err
}

// learn reruns the history of a graph whose states cannot be migrated completely, and replaces the states by the
// learned ones. The rerun writes no records and sends no alerts. learn does nothing if the states can be migrated or
// if there is no history. If the rerun is stopped or fails, the stored states stay unchanged. For topics, learn returns
// the learned states for the run to start with.
func (r Run) learn(ctx context.Context, g *Graph, stop <-chan struct{}, log *slog.Logger) (topic *learnedTopic, stopped bool, err error) {
	if _, filters := g.transform.(filtering); !filters {
		return nil, false, nil
	}
	var pool clients
	defer pool.close()
	p, err := g.openHistory(ctx, &pool, log)
	if p == nil || err != nil {
		return nil, false, err
	}
	defer p.close()
	log.Info("states cannot be migrated completely: learning from the past, without writing records or alerts", "in", p.where, "states", p.migrated.String(), "past", p.description)
	var mu sync.Mutex
	var earliest time.Time
	state := &run{log: log, stopping: stop, history: p, observed: &Observer{Estimate: func(_ string, e *keyed.Estimate, _ []keyed.AlertEvent) {
		mu.Lock()
		defer mu.Unlock()
		if e != nil {
			earliest = clock.Earlier(earliest, e.Time)
		}
	}}}
	defer func() { err = errors.Join(err, state.close(ctx, false)) }()
	p.begin(state)
	quiet := g.withoutOutputs()
	if err := state.open(ctx, quiet); err != nil {
		return nil, false, err
	}
	if err := r.runOpened(ctx, quiet, state, stop); err != nil {
		return nil, false, err
	}
	if stopped = state.isStopped(); p.caughtUp != nil {
		stopped = !p.caughtUp()
	}
	if stopped {
		return nil, true, nil
	}
	learned := p.learned()
	if learned.Len() == 0 {
		log.Warn("the past has no record that can be learned")
		return nil, false, nil
	}
	lost := 0
	for _, key := range p.migrated.Dropped {
		if learned.Cell(statestore.CellName(key, learned.Names())).Get(key) == nil {
			lost++
		}
	}
	if topic, err = p.replaceStates(learned); err != nil {
		return nil, false, err
	}
	attrs := []any{"records", state.progress().Read, "keys", learned.Len(), "lost keys", lost}
	if !earliest.IsZero() {
		attrs = append(attrs, "since", earliest)
	}
	log.Info("learned from the past", attrs...)
	return topic, false, nil
}

// withoutOutputs returns the graph without outputs.
func (g *Graph) withoutOutputs() *Graph {
	clone := *g
	clone.sink, clone.dead, clone.alerts = graphSink{}, graphSink{}, nil
	if f, ok := g.transform.(filtering); ok {
		f.receivers = nil
		clone.transform = f
	}
	return &clone
}
