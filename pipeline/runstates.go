package pipeline

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/internal/account"
	"hafvf/internal/filelock"
	"hafvf/internal/message"
	"hafvf/internal/states"
)

// What a run begins with, and what it leaves: in a changelog, or in a file of states.

// written returns the function that makes what is stored of the state of a key.
func (f filtering) written() func(key string, state []byte) states.State {
	settings := f.cfg.Settings()
	return func(key string, state []byte) states.State {
		_, text := settings(key)
		return states.State{Key: key, Settings: text, Bytes: state}
	}
}

// openStored opens what a changelog holds.
func openStored(stored []kafkaio.Stored) []states.State {
	all := make([]states.State, len(stored))
	for i, s := range stored {
		all[i] = states.Open(s.Key, s.Bytes)
		all[i].Place = s.Position.String()
	}
	return all
}

// openChangelog opens what a changelog holds, in place, for a run of this configuration. It
// returns the last record of each partition that the states include. The error says that
// states belong to another configuration. Those that cannot be read have errors of their own.
func (f filtering) openChangelog(stored []kafkaio.Stored, migrate bool, log *slog.Logger) (included []kafkaio.Position, err error) {
	if len(stored) == 0 {
		return nil, nil
	}
	topic := stored[0].Topic
	a, err := states.Adopt(f.cfg.Config, openStored(stored), migrate, "the changelog "+topic)
	if mismatch := new(states.Mismatch); errors.As(err, &mismatch) {
		return nil, fmt.Errorf("the changelog %s does not fit the config, %w; take another changelog, the config that it was written with, or keep what can be kept with --migrate (hafvf check CONFIG --states %s says what)", topic, mismatch, topic)
	}
	if err != nil {
		return nil, err
	}
	damaged := a.Reset(topic, log)
	if migrate {
		log.Info("states are carried over to this config", "topic", topic, "states", a.String())
	}
	for i := range stored {
		s := &stored[i]
		s.Bytes, s.Replaced, s.Err = a.States[s.Key], a.Changed[s.Key], damaged[s.Key]
	}
	for log, offset := range a.Included {
		included = append(included, kafkaio.ParsePosition(log, offset))
	}
	return included, nil
}

// A stateFile holds the states of a run's keys: those that it begins with, and later those
// that it ends with; and with them how far the files of the source were read.
type stateFile struct {
	path   string
	filter filtering
	marks  *connectors.Marks

	mu  sync.Mutex
	all map[string][]byte // encoded, by key

	damaged map[string]error // by key, why its state cannot be read
}

// openStateFile opens the file of a graph's states for a run. The error says that states belong
// to another configuration, or cannot be read.
func openStateFile(g *Graph, migrate bool, log *slog.Logger) (*stateFile, error) {
	f := g.transform.(filtering)
	all, source, err := states.ReadFile(g.states)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	marks, err := connectors.ParseMarks(source, log)
	if err != nil {
		return nil, fmt.Errorf("state: %s: %w; restore the file, or remove it to start without states", g.states, err)
	}
	a, err := states.Adopt(f.cfg.Config, all, migrate, g.states)
	if mismatch := new(states.Mismatch); errors.As(err, &mismatch) {
		return nil, fmt.Errorf("state: %s does not fit the config, %w; give another file, the config that it was written with, or keep what can be kept with --migrate (hafvf check CONFIG --states %s says what)", g.states, mismatch, g.states)
	}
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	if migrate && len(all) > 0 {
		log.Info("states are carried over to this config", "file", g.states, "states", a.String())
	}
	return &stateFile{path: g.states, filter: f, marks: marks, all: a.States, damaged: a.Reset(g.states, log)}, nil
}

// keeper hands the states out, and takes those that hold.
func (f *stateFile) keeper() account.Keeper {
	return account.Keeper{
		Restore: func(key string) ([]byte, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.all[key], f.damaged[key]
		},
		Restored: func() map[string][]byte {
			f.mu.Lock()
			defer f.mu.Unlock()
			return maps.Clone(f.all)
		},
		Settled: func(settled map[string]account.KeyState, _ time.Time) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for key, s := range settled {
				f.all[key] = s.State
			}
		},
	}
}

// prepare writes the states that hold. replace replaces the file by them, and discard gives
// them up unless that was done.
func (f *stateFile) prepare() (replace func() error, discard func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	written := f.filter.written()
	source, _ := f.marks.AppendBinary(nil) // which never fails
	file, err := states.PrepareFile(f.path, source, func(yield func(states.State) bool) {
		for _, key := range slices.Sorted(maps.Keys(f.all)) {
			if !yield(written(key, f.all[key])) {
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
