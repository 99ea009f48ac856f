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

// A File holds the states of a run in memory. Commit writes them to a file after the run has ended without an error.
type File struct {
	Memory *statestore.Memory
	// Source is the position of the source, encoded by the run. The file stores it with the states.
	Source []byte
	// Migrated counts the states that were read, by the result of their migration.
	Migrated statestore.Migrated
	// Damaged has, by key, the errors of states that cannot be read. Their keys are reset.
	Damaged map[string]error

	path   string
	cfg    Config
	unlock func()
}

// OpenFile locks a file and reads the states of the previous run. If the file does not exist, there are no states.
func OpenFile(path string, cfg Config) (*File, error) {
	unlock, err := Lock(path, "wait until it ends, or give this run its own state", cfg.log())
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

// ReadFile is OpenFile without the lock, for a File that is never committed.
func ReadFile(path string, cfg Config) (*File, error) {
	f := &File{Memory: cfg.newMemory(), path: path, cfg: cfg, unlock: func() {}}
	var failed error
	stored := func(yield func(statestore.State) bool) { f.Source, failed = statestore.ReadFile(path, yield) }
	a, err := statestore.Migrate(cfg.Filter, stored, cfg.migration(), path, func(s statestore.State, _ bool) {
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
		cfg.log().Info("migrated the states to this config", "file", path, "states", a.String())
	}
	f.Damaged = a.ResetDamaged(path, cfg.log())
	return f, nil
}

// In returns a context for a runner in this process. The filters of its pipeline use the states.
func (f *File) In(ctx context.Context) context.Context {
	run := account.Watch()
	account.WithValue(run, "", f.Memory)
	return run.In(ctx)
}

// Close releases the lock of the file.
func (f *File) Close() { f.unlock() }

// Commit replaces the file by a file with the states in memory.
func (f *File) Commit() error {
	replace, discard, err := f.Prepare(f.Memory, f.Source, time.Time{})
	if err != nil {
		return err
	}
	defer discard()
	return replace()
}

// Prepare writes the states of a memory to a temporary file, without the keys that expired before latest. replace
// replaces the file by it. discard removes it; after replace, discard does nothing.
func (f *File) Prepare(memory *statestore.Memory, source []byte, latest time.Time) (replace func() error, discard func(), err error) {
	written, expiry := f.cfg.written(), f.cfg.expiry()
	file, err := statestore.PrepareFile(f.path, source, func(yield func(statestore.State) bool) {
		for _, key := range slices.Sorted(maps.Keys(memory.Reserved)) {
			if !yield(written(key, memory.Reserved[key])) {
				return
			}
		}
		for key, b := range memory.All() {
			if end := expiry(b); !end.IsZero() && end.Before(latest) {
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

// Lock locks the file of states at path until unlock is called. If another run holds the lock, the error names the run,
// and ends in advice.
func Lock(path, advice string, log *slog.Logger) (unlock func(), err error) {
	target := path
	if t, err := filepath.EvalSymlinks(path); err == nil {
		target = t // two links to one file have one lock
	}
	lock, err := filelock.Acquire(filepath.Join(filepath.Dir(target), "."+filepath.Base(target)+".lock"))
	locked, isLocked := errors.AsType[*filelock.LockedError](err)
	switch {
	case err == nil:
		return lock.Release, nil
	case isLocked:
		return nil, fmt.Errorf("%s: %w; %s", path, locked, advice)
	case errors.Is(err, errors.ErrUnsupported):
		log.Warn("cannot lock the file of states: do not use it in two runs at the same time", "file", path, "error", err)
		return func() {}, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, message.CannotWrite(path, err)
	}
	return nil, fmt.Errorf("%s cannot be locked by a file next to it: %w", path, message.Cause(err))
}
