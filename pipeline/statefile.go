package pipeline

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"hafvf/hafvf"
	"hafvf/internal/account"
	"hafvf/internal/atomicfile"
	"hafvf/internal/message"
	"hafvf/internal/seal"
	"hafvf/transforms"
)

// A stateFile holds the states of a run's keys: those that it begins with, and later those
// that it ends with.
type stateFile struct {
	path   string
	filter filtering

	mu  sync.Mutex
	all map[string][]byte // encoded, by key
}

// stateMagic begins a file of states. After it come, compressed and with a checksum, for
// every key its length, itself, the length of its sealed state, and that. States of
// earlier versions have no seal.
const stateMagic = "hafvf states 1\n"

// maxState bounds a length in the file, so that a damaged one does not ask for all memory.
const maxState = 1 << 30

// readStates reads the file of a graph's states, where it exists, and checks them.
func readStates(g *Graph, log *slog.Logger) (*stateFile, error) {
	f, err := loadStates(g)
	if err != nil {
		return nil, err
	}
	return f, f.check(log)
}

// loadStates reads the file of a graph's states, where it exists.
func loadStates(g *Graph) (*stateFile, error) {
	f := &stateFile{path: g.states, filter: g.transform.(filtering), all: map[string][]byte{}}
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	defer file.Close()
	if err := f.read(bufio.NewReaderSize(file, 1<<20)); err != nil {
		return nil, fmt.Errorf("state: %s is no file of states, or it is damaged: %w; restore it, or remove it to begin anew", f.path, err)
	}
	return f, nil
}

func (f *stateFile) read(r *bufio.Reader) error {
	magic := make([]byte, len(stateMagic))
	if _, err := io.ReadFull(r, magic); err != nil || string(magic) != stateMagic {
		return fmt.Errorf("it does not begin with %q", stateMagic)
	}
	z, err := zstd.NewReader(r)
	if err != nil {
		return err
	}
	defer z.Close()
	in := bufio.NewReader(z)
	for {
		key, err := readPart(in)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		state, err := readPart(in)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		f.all[string(key)] = state
	}
}

// readPart reads a length and as many bytes. The error is io.EOF where there is nothing.
func readPart(r *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > maxState {
		return nil, fmt.Errorf("a part of %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return b, nil
}

// check opens the states, and says why they do not fit the configuration, or cannot be
// read.
func (f *stateFile) check(log *slog.Logger) error {
	est, err := transforms.NewEstimator(f.filter.cfg)
	if err != nil {
		return err
	}
	old := 0
	for _, key := range slices.Sorted(maps.Keys(f.all)) {
		state, settings, sealed, err := seal.Open(key, f.all[key])
		if err = cmp.Or(err, f.filter.under(settings, sealed)); err == nil {
			_, err = est.CheckState(key, state)
		}
		if f.all[key] = state; !sealed {
			old++
		}
		switch {
		case errors.Is(err, hafvf.ErrOtherConfig):
			return fmt.Errorf("state: %s does not fit the config, at the key %s: %w; give another file, or the config that it was written with", f.path, message.Quote(key), err)
		case err != nil:
			return fmt.Errorf("state: the state of the key %s in %s cannot be read: %w; restore the file, or remove it to begin anew", message.Quote(key), f.path, err)
		}
	}
	if old > 0 {
		log.Info("states of an earlier version do not say what they were written under, and are taken for those of this config", "file", f.path, "keys", old, "config", f.filter.settings())
	}
	return nil
}

// keeper hands the states out, and takes those that hold.
func (f *stateFile) keeper() account.Keeper {
	return account.Keeper{
		Restore: func(key string) []byte {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.all[key]
		},
		Restored: func() map[string][]byte {
			f.mu.Lock()
			defer f.mu.Unlock()
			return maps.Clone(f.all)
		},
		Settled: func(states map[string]account.KeyState, _ time.Time) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for key, s := range states {
				f.all[key] = s.State
			}
		},
	}
}

// write replaces the file.
func (f *stateFile) write() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out bytes.Buffer
	out.WriteString(stateMagic)
	z, err := zstd.NewWriter(&out)
	if err != nil {
		return err
	}
	var b []byte
	for _, key := range slices.Sorted(maps.Keys(f.all)) {
		b = binary.AppendUvarint(b[:0], uint64(len(key)))
		b = append(b, key...)
		state := seal.Seal(key, f.filter.settings(), f.all[key])
		b = binary.AppendUvarint(b, uint64(len(state)))
		b = append(b, state...)
		if _, err := z.Write(b); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := atomicfile.Write(f.path, out.Bytes()); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}
