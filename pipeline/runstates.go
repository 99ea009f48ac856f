package pipeline

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/connectors/promio"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/stored"
	"hafvf/internal/account"
	"hafvf/internal/filelock"
	"hafvf/internal/message"
)

// What a run begins with, and what it leaves: in a changelog, or in a file of states.

// written returns the function that makes what is stored of the state of a key.
func (f filtering) written() func(key string, state []byte) stored.State {
	settings := f.cfg.Settings()
	return func(key string, state []byte) stored.State {
		_, text := settings(key)
		return stored.State{Key: key, Settings: text, Bytes: state}
	}
}

// expiry returns the function that says when the key of a state expires.
func (f filtering) expiry() func(state []byte) time.Time {
	est, err := keyed.NewEstimator(f.cfg.Config)
	if err != nil {
		panic("pipeline: " + err.Error()) // the graph has checked it
	}
	return est.Expiry
}

// openStored opens what a changelog holds.
func openStored(found []kafkaio.Stored) []stored.State {
	all := make([]stored.State, len(found))
	for i, s := range found {
		all[i] = stored.Open(s.Key, s.Bytes)
		all[i].Place = s.Position.String()
	}
	return all
}

// openChangelog opens what a changelog holds for a run of this configuration, and puts the states
// of keys into a memory. It returns the last record of each partition that the states include. The
// error says that states belong to another configuration. Those that cannot be read have errors of
// their own.
func (f filtering) openChangelog(topic string, open func(key string, b []byte) stored.State, found iter.Seq[*kafkaio.Stored], memory *stored.Memory, migrate bool, log *slog.Logger) (included []kafkaio.Position, err error) {
	var at *kafkaio.Stored
	opened := func(yield func(stored.State) bool) {
		for at = range found {
			if !yield(open(at.Key, at.Bytes)) {
				return
			}
		}
	}
	a, err := stored.Adopt(f.cfg.Config, opened, migrate, "the changelog "+topic, func(s stored.State, changed bool) {
		at.Bytes, at.Replaced, at.Err = s.Bytes, changed, s.Err
		if s.Err == nil && s.Key != stored.FleetKey {
			memory.Restore(s.Key, s.Bytes)
			at.Taken = true
		}
	})
	if mismatch := new(stored.Mismatch); errors.As(err, &mismatch) {
		return nil, fmt.Errorf("the changelog %s does not fit the config, %w; take another changelog, the config that it was written with, or keep what can be kept with --migrate (hafvf check CONFIG --states %s says what)", topic, mismatch, topic)
	}
	if err != nil {
		return nil, err
	}
	a.Reset(topic, log)
	if migrate {
		log.Info("states are carried over to this config", "topic", topic, "states", a.String())
	}
	for log, offset := range a.Included {
		included = append(included, kafkaio.ParsePosition(log, offset))
	}
	return included, nil
}

// A stateFile is where a run's states come from and go to, and with them how far the source was
// read.
type stateFile struct {
	path     string
	filter   filtering
	marks    *connectors.Marks // of files
	position *promio.Position  // of a query; nil for files
	memory   *stored.Memory    // of the run
	// held are the states that hold, and heldAt is the position then, of a run without an end;
	// nil if those of the memory do.
	held   *stored.Memory
	heldAt []byte

	mu      sync.Mutex
	damaged map[string]error // by key, why its state cannot be read
}

// openStateFile opens the file of a graph's states for a run. The error says that states belong
// to another configuration, or cannot be read.
func openStateFile(g *Graph, migrate bool, log *slog.Logger) (*stateFile, error) {
	f := g.transform.(filtering)
	memory := stored.NewMemory()
	var source []byte
	var failed error
	all := func(yield func(stored.State) bool) { source, failed = stored.ReadFile(g.states, yield) }
	a, err := stored.Adopt(f.cfg.Config, all, migrate, g.states, func(s stored.State, _ bool) {
		if s.Err == nil {
			memory.Restore(s.Key, s.Bytes)
		}
	})
	if failed != nil {
		return nil, fmt.Errorf("state: %w", failed)
	}
	if mismatch := new(stored.Mismatch); errors.As(err, &mismatch) {
		return nil, fmt.Errorf("state: %s does not fit the config, %w; give another file, the config that it was written with, or keep what can be kept with --migrate (hafvf check CONFIG --states %s says what)", g.states, mismatch, g.states)
	}
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	file := &stateFile{path: g.states, filter: f, memory: memory}
	if err := file.resume(g, source, log); err != nil {
		return nil, fmt.Errorf("state: %s: %w; restore the file, or remove it to start without states", g.states, err)
	}
	if migrate && memory.Len() > 0 {
		log.Info("states are carried over to this config", "file", g.states, "states", a.String())
	}
	file.damaged = a.Reset(g.states, log)
	if g.endless() {
		file.held = stored.NewMemory()
		for key, b := range memory.All() {
			file.held.Put(key, b)
		}
		file.held.Fleet = memory.Fleet
		file.hold()
	}
	return file, nil
}

// resume reads how far the source was read. What is said of a source of another kind means nothing
// to this one.
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

// begin stores where a query begins before it is asked: a run that is killed before it stores states
// begins there again.
func (f *stateFile) begin(at time.Time) error {
	f.position.Start(at)
	if f.held != nil {
		f.hold()
	}
	replace, discard, err := f.prepare(time.Time{})
	if err != nil {
		return err
	}
	defer discard()
	return replace()
}

// hold notes the position up to which the states hold.
func (f *stateFile) hold() { f.heldAt, _ = f.position.AppendBinary(nil) } // which never fails

// keeper says which states cannot be read, and keeps that of the fleet; those of keys are in the
// memory.
func (f *stateFile) keeper() account.Keeper {
	return account.Keeper{
		InMemory: true,
		Restore: func(key string) ([]byte, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if key == stored.FleetKey {
				return f.memory.Fleet, f.damaged[key]
			}
			err := f.damaged[key]
			delete(f.damaged, key) // it begins anew once
			return nil, err
		},
		Settled: func(settled map[string]account.KeyState, _ time.Time) {
			if s, ok := settled[stored.FleetKey]; ok {
				f.memory.Fleet = s.State
			}
		},
	}
}

// prepare writes the states that hold, without those of keys that have expired by the latest time
// of any. replace replaces the file by them, and discard gives them up unless that was done.
func (f *stateFile) prepare(latest time.Time) (replace func() error, discard func(), err error) {
	written, expiry := f.filter.written(), f.filter.expiry()
	memory := f.memory
	var source []byte
	switch {
	case f.held != nil:
		memory, source = f.held, f.heldAt
	case f.position != nil:
		source, _ = f.position.AppendBinary(nil) // which never fails
	default:
		source, _ = f.marks.AppendBinary(nil)
	}
	file, err := stored.PrepareFile(f.path, source, func(yield func(stored.State) bool) {
		if memory.Fleet != nil && !yield(written(stored.FleetKey, memory.Fleet)) {
			return
		}
		for key, b := range memory.All() {
			if at := expiry(b); !at.IsZero() && at.Before(latest) {
				continue
			}
			if !yield(written(key, b)) {
				return
			}
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("state: %w", err)
	}
	replaced := false
	replace = func() error {
		replaced = true
		if err := file.Commit(); err != nil {
			return fmt.Errorf("state: %s cannot be written: %w", f.path, message.Cause(err))
		}
		return nil
	}
	discard = func() {
		if !replaced {
			file.Discard()
		}
	}
	return replace, discard, nil
}

// lockStates keeps other runs from the file of states at path, until unlock is called. The error
// says which run has it, and what to do.
func lockStates(path, advice string, log *slog.Logger) (unlock func(), err error) {
	at := path
	if to, err := filepath.EvalSymlinks(path); err == nil {
		at = to // two links to one file have one lock
	}
	lock, err := filelock.Acquire(filepath.Join(filepath.Dir(at), "."+filepath.Base(at)+".lock"))
	held, isHeld := errors.AsType[*filelock.Held](err)
	switch {
	case err == nil:
		return lock.Release, nil
	case isHeld:
		return nil, fmt.Errorf("state: %s: %w; %s", path, held, advice)
	case errors.Is(err, errors.ErrUnsupported):
		log.Warn("the file of states cannot be locked: let no two runs use it at a time", "file", path, "error", err)
		return func() {}, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("state: %s cannot be written: its folder %s does not exist; create it first", path, filepath.Dir(path))
	}
	return nil, fmt.Errorf("state: %s cannot be locked by a file beside it: %w", path, message.Cause(err))
}
