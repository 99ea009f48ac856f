package pipeline

import (
	"bufio"
	"bytes"
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

	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/keyed"
	"hafvf/internal/account"
	"hafvf/internal/atomicfile"
	"hafvf/internal/message"
	"hafvf/internal/seal"
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
// every key its length, itself, the length of its sealed state, and that.
const stateMagic = "hafvf states 1\n"

// maxState bounds a length in the file, so that a damaged one does not ask for all memory.
const maxState = 1 << 30

// readStates reads the file of a graph's states, where it exists, and checks them.
// With migrate, it carries over those of another config.
func readStates(g *Graph, migrate bool, log *slog.Logger) (*stateFile, error) {
	f, err := loadStates(g.states)
	if err != nil {
		return nil, err
	}
	f.filter = g.transform.(filtering)
	return f, f.open(migrate, log)
}

// loadStates reads a file of states, where it exists. They are sealed.
func loadStates(path string) (*stateFile, error) {
	f := &stateFile{path: path, all: map[string][]byte{}}
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

// sealed are the states of a file that was loaded, opened, by key.
func (f *stateFile) sealed() (states []kafkaio.Restored) {
	for _, key := range slices.Sorted(maps.Keys(f.all)) {
		s := kafkaio.Restored{Key: key}
		s.Bytes, s.Settings, s.Err = seal.Open(key, f.all[key])
		states = append(states, s)
	}
	return states
}

// open opens the states, and says why they do not fit the configuration, or cannot be
// read.
func (f *stateFile) open(migrate bool, log *slog.Logger) error {
	migrator, err := keyed.NewMigrator(f.filter.cfg.Config)
	if err != nil {
		return err
	}
	states := f.sealed()
	var carried migration
	if migrate {
		if carried, err = f.filter.migrate(states, f.path); err != nil {
			return fmt.Errorf("state: %w", err)
		}
		if len(states) > 0 {
			log.Info("states are carried over to this config", "file", f.path, "states", carried.String())
		}
	}
	for _, s := range states {
		f.all[s.Key] = s.Bytes
		if b, ok := carried.changed[s.Key]; ok {
			f.all[s.Key] = b
			continue
		}
		switch _, err := checkState(migrator, s); {
		case errors.Is(err, keyed.ErrOtherConfig):
			return fmt.Errorf("state: %s does not fit the config, at the key %s: %w; give another file, the config that it was written with, or keep what can be kept with --migrate (hafvf check CONFIG --states %s says what)", f.path, message.Quote(s.Key), err, f.path)
		case err != nil:
			return fmt.Errorf("state: the state of the key %s in %s cannot be read: %w; restore the file, or remove it to begin anew", message.Quote(s.Key), f.path, err)
		}
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
	settings := f.filter.cfg.Settings()
	for _, key := range slices.Sorted(maps.Keys(f.all)) {
		b = binary.AppendUvarint(b[:0], uint64(len(key)))
		b = append(b, key...)
		_, text := settings(key)
		state := seal.Seal(key, text, f.all[key])
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
