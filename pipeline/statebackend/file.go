package statebackend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/account"
	"hafvf/internal/filelock"
	"hafvf/internal/message"
)

// A File has the states of a run in memory, and writes them to a file when the run has ended well.
type File struct {
	Memory *statestore.Memory
	// Source says how far the source was read, in a form that the run knows. The file has it beside
	// the states.
	Source []byte
	// Migrated says what has become of the states that were read.
	Migrated statestore.Migrated
	// Damaged says of keys whose states cannot be read why. They begin anew.
	Damaged map[string]error

	path   string
	cfg    Config
	unlock func()
}

// OpenFile locks a file and reads the states of the run before. A file that does not exist has none.
func OpenFile(path string, cfg Config) (*File, error) {
	unlock, err := Lock(path, "wait for its end, or give this run a state of its own", cfg.log())
	if err != nil {
		return nil, err
	}
	f, err := ReadFile(path, cfg)
	if err != nil {
		unlock()
		return nil, err
	}
	f.unlock = unlock
	return f, nil
}

// ReadFile is OpenFile without a lock, for a file that is not written.
func ReadFile(path string, cfg Config) (*File, error) {
	f := &File{Memory: statestore.NewMemory(), path: path, cfg: cfg, unlock: func() {}}
	var failed error
	all := func(yield func(statestore.State) bool) { f.Source, failed = statestore.ReadFile(path, yield) }
	a, err := statestore.Migrate(cfg.Filter, all, cfg.migration(), path, func(s statestore.State, _ bool) {
		if s.Err == nil {
			f.Memory.Restore(s.Key, s.Bytes)
		}
	})
	switch mismatch := new(statestore.MismatchError); {
	case failed != nil:
		return nil, failed
	case errors.As(err, &mismatch):
		return nil, fmt.Errorf("%s does not fit the config, %w", path, mismatch)
	case err != nil:
		return nil, err
	}
	f.Migrated = a
	if cfg.Migrate && f.Memory.Len() > 0 {
		cfg.log().Info("states are carried over to this config", "file", path, "states", a.String())
	}
	f.Damaged = a.ResetDamaged(path, cfg.log())
	return f, nil
}

// In returns a context in which a runner of this process finds the states.
func (f *File) In(ctx context.Context) context.Context {
	run := account.Watch()
	account.WithValue(run, "", f.Memory)
	return run.In(ctx)
}

// Close gives the lock of the file back.
func (f *File) Close() { f.unlock() }

// Commit replaces the file by the states in memory.
func (f *File) Commit() error {
	replace, discard, err := f.Prepare(f.Memory, f.Source, time.Time{})
	if err != nil {
		return err
	}
	defer discard()
	return replace()
}

// Prepare writes the states of a memory, without those of keys that have expired by the latest time
// of any. replace replaces the file by them, and discard gives them up; after replace it does nothing.
func (f *File) Prepare(memory *statestore.Memory, source []byte, latest time.Time) (replace func() error, discard func(), err error) {
	written, expiry := f.cfg.written(), f.cfg.expiry()
	file, err := statestore.PrepareFile(f.path, source, func(yield func(statestore.State) bool) {
		for _, key := range slices.Sorted(maps.Keys(memory.Reserved)) {
			if !yield(written(key, memory.Reserved[key])) {
				return
			}
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
		return nil, nil, err
	}
	replace = func() error {
		if err := file.Commit(); err != nil {
			return fmt.Errorf("%s cannot be written: %w", f.path, message.Cause(err))
		}
		return nil
	}
	return replace, file.Discard, nil
}

// Lock keeps other runs from the file of states at path, until unlock is called. The error
// says which run has it, and what to do.
func Lock(path, advice string, log *slog.Logger) (unlock func(), err error) {
	at := path
	if to, err := filepath.EvalSymlinks(path); err == nil {
		at = to // two links to one file have one lock
	}
	lock, err := filelock.Acquire(filepath.Join(filepath.Dir(at), "."+filepath.Base(at)+".lock"))
	locked, isLocked := errors.AsType[*filelock.LockedError](err)
	switch {
	case err == nil:
		return lock.Release, nil
	case isLocked:
		return nil, fmt.Errorf("%s: %w; %s", path, locked, advice)
	case errors.Is(err, errors.ErrUnsupported):
		log.Warn("the file of states cannot be locked: let no two runs use it at a time", "file", path, "error", err)
		return func() {}, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, message.CannotWrite(path, err)
	}
	return nil, fmt.Errorf("%s cannot be locked by a file beside it: %w", path, message.Cause(err))
}
