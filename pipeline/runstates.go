package pipeline

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/connectors/promio"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/account"
	"hafvf/pipeline/statebackend"
)

// States at the start and end of a run, in a changelog or in a file of states.

// openStored decodes the states of a changelog.
func openStored(found []kafkaio.StoredState) []statestore.State {
	states := make([]statestore.State, len(found))
	for i, s := range found {
		states[i] = statestore.Open(s.Key, s.Bytes)
		states[i].Place = s.Position.String()
	}
	return states
}

// store returns the config for storing the graph's states.
func (f filtering) store(migrate bool, log *slog.Logger) statebackend.Config {
	return statebackend.Config{Filter: f.cfg, Migrate: migrate, Log: log}
}

// withMigrateHint adds the remedies to an error about states of another config.
func withMigrateHint(err error, remedy, place string) error {
	if !errors.As(err, new(*statestore.MismatchError)) {
		return err
	}
	return fmt.Errorf("%w; use %s, the config that it was written with, or --migrate, which keeps as much as possible (hafvf check CONFIG --states %s shows what)", err, remedy, place)
}

// A stateFile stores the states of a run, and how far its source was read.
type stateFile struct {
	*statebackend.File
	marks    *connectors.FileMarks // of files
	position *promio.Position      // of a query; nil for files
	// committed are the committed states of a run without an end, and committedAt is the position at that time. Both
	// are nil if the states in the memory are committed.
	committed   *statestore.Memory
	committedAt []byte

	mu sync.Mutex // guards Damaged
}

// openStateFile opens the file of a graph's states for a run. It fails if the states belong to another config, or
// cannot be read.
func openStateFile(g *Graph, open func(string, statebackend.Config) (*statebackend.File, error), migrate bool, log *slog.Logger) (*stateFile, error) {
	opened, err := open(g.states, g.transform.(filtering).store(migrate, log))
	if err != nil {
		return nil, fmt.Errorf("state: %w", withMigrateHint(err, "another file", g.states))
	}
	file := &stateFile{File: opened}
	if err := file.resume(g, opened.Source, log); err != nil {
		opened.Close()
		return nil, fmt.Errorf("state: %s: %w; restore the file, or remove it to start without states", g.states, err)
	}
	if g.unbounded() {
		file.committed = statestore.NewMemory()
		for key, b := range opened.Memory.All() {
			file.committed.Put(key, b)
		}
		maps.Copy(file.committed.Reserved, opened.Memory.Reserved)
		file.commit()
	}
	return file, nil
}

// resume reads the source position in a file of states. It ignores the position of another kind of source.
func (f *stateFile) resume(g *Graph, source []byte, log *slog.Logger) (err error) {
	if _, queries := g.source.(querySource); queries {
		f.position, err = promio.ParsePosition(source)
		return err
	}
	if promio.IsPosition(source) {
		source = nil
	}
	f.marks, err = connectors.ParseMarks(source, log)
	return err
}

// begin stores the start of a query before the first request. A run that is killed before it stores states starts there
// again.
func (f *stateFile) begin(t time.Time) error {
	f.position.Start(t)
	if f.committed != nil {
		f.commit()
	}
	replace, discard, err := f.prepare(time.Time{})
	if err != nil {
		return err
	}
	defer discard()
	return replace()
}

// commit sets committedAt to the current position.
func (f *stateFile) commit() { f.committedAt, _ = f.position.AppendBinary(nil) } // never fails

// keeper returns a StateKeeper that reports damaged states and stores the states of reserved keys. All other states are
// in the memory.
func (f *stateFile) keeper() account.StateKeeper {
	return account.StateKeeper{
		InMemory: true,
		Restore: func(key string) ([]byte, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if statestore.Reserved(key) {
				return f.Memory.Reserved[key], f.Damaged[key]
			}
			err := f.Damaged[key]
			delete(f.Damaged, key) // the key is reset only once
			return nil, err
		},
		Committed: func(committed map[string]account.EncodedState, _ time.Time) {
			for key, s := range committed {
				if statestore.Reserved(key) {
					f.Memory.Put(key, s.State)
				}
			}
		},
	}
}

// prepare writes the committed states to a temporary file, see statebackend.File.Prepare.
func (f *stateFile) prepare(latest time.Time) (replace func() error, discard func(), err error) {
	memory := f.Memory
	var source []byte
	switch {
	case f.committed != nil:
		memory, source = f.committed, f.committedAt
	case f.position != nil:
		source, _ = f.position.AppendBinary(nil) // never fails
	default:
		source, _ = f.marks.AppendBinary(nil)
	}
	commit, discard, err := f.Prepare(memory, source, latest)
	if err != nil {
		return nil, nil, fmt.Errorf("state: %w", err)
	}
	return func() error {
		if err := commit(); err != nil {
			return fmt.Errorf("state: %w", err)
		}
		return nil
	}, discard, nil
}
