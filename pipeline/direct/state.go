package direct

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
	"google.golang.org/protobuf/encoding/protowire"
)

// A states holds the user states of a shard by window. Functions of a bundle may read and write states concurrently.
type states struct {
	mu      sync.Mutex
	windows map[string]*windowStates // by encoded window
	over    timeQueue[*windowStates] // by their ends
}

// A windowStates holds the states of one window, in the encoding of the SDK.
type windowStates struct {
	name   string
	end    mtime.Time // end of the window plus the allowed lateness
	timers int        // number of timers set for the window

	states map[stateName]*keyStates
}

// A stateName names a state of a step.
type stateName struct{ step, state string }

// A keyStates holds a state by key.
type keyStates struct {
	bags  map[string][]byte
	maps  map[string]map[string][]byte
	lists map[string][]listEntry
}

// A listEntry is an entry of an ordered list.
type listEntry struct {
	sortKey int64
	bytes   []byte
}

func newStates() *states {
	return &states{windows: map[string]*windowStates{}, over: timeQueue[*windowStates]{dropped: func(*windowStates) bool { return false }}}
}

// forWindow returns the states of an encoded window of the stage. It adds them if necessary. The caller must hold
// s.mu, or no bundle may run.
func (s *states) forWindow(stage *stage, window []byte) (*windowStates, error) {
	if w := s.windows[string(window)]; w != nil {
		return w, nil
	}
	w, err := stage.input.winDec.DecodeSingle(bytes.NewReader(window))
	if err != nil {
		return nil, err
	}
	states := &windowStates{
		name: string(window), end: w.MaxTimestamp() + stage.lateness, states: map[stateName]*keyStates{},
	}
	s.windows[states.name] = states
	s.over.push(states, states.end)
	return states, nil
}

// forget deletes the states of windows that the watermark has passed. A window with timers is kept.
func (s *states) forget(watermark mtime.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var timed []*windowStates
	for w := range s.over.before(watermark) {
		if w.timers > 0 {
			timed = append(timed, w)
			continue
		}
		delete(s.windows, w.name)
	}
	for _, w := range timed {
		s.over.push(w, w.end)
	}
}

// A writer is called with each write.
type writer func(p []byte) error

func (w writer) Write(p []byte) (int, error) { return len(p), w(p) }
func (w writer) Close() error                { return nil }

func reader(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }

// state calls f with a state of a window, under the lock.
func (b *bundle) state(id exec.StreamID, state string, window []byte, f func(s *keyStates)) error {
	shardStates := b.shard.states
	shardStates.mu.Lock()
	defer shardStates.mu.Unlock()
	w, err := shardStates.forWindow(b.shard.stage, window)
	if err != nil {
		return err
	}
	name := stateName{id.PtransformID, state}
	s := w.states[name]
	if s == nil {
		s = &keyStates{bags: map[string][]byte{}, maps: map[string]map[string][]byte{}, lists: map[string][]listEntry{}}
		w.states[name] = s
	}
	f(s)
	return nil
}

// read returns a reader of the result of f.
func (b *bundle) read(id exec.StreamID, state string, window []byte, f func(s *keyStates) []byte) (io.ReadCloser, error) {
	var found []byte
	err := b.state(id, state, window, func(s *keyStates) { found = f(s) })
	// Later appends do not change the bytes before the end of found.
	return reader(found), err
}

// change returns a writer that calls f with the state and the data of each write.
func (b *bundle) change(id exec.StreamID, state string, window []byte, f func(s *keyStates, p []byte)) (io.Writer, error) {
	return writer(func(p []byte) error {
		return b.state(id, state, window, func(s *keyStates) { f(s, p) })
	}), nil
}

// The following methods implement exec.StateReader.

// OpenBagUserStateReader opens a bag. A value is a bag of one element.
func (b *bundle) OpenBagUserStateReader(_ context.Context, id exec.StreamID, state string, key, window []byte) (io.ReadCloser, error) {
	return b.read(id, state, window, func(s *keyStates) []byte { return s.bags[string(key)] })
}

// OpenBagUserStateAppender appends to a bag.
func (b *bundle) OpenBagUserStateAppender(_ context.Context, id exec.StreamID, state string, key, window []byte) (io.Writer, error) {
	return b.change(id, state, window, func(s *keyStates, p []byte) { s.bags[string(key)] = append(s.bags[string(key)], p...) })
}

// OpenBagUserStateClearer clears a bag.
func (b *bundle) OpenBagUserStateClearer(_ context.Context, id exec.StreamID, state string, key, window []byte) (io.Writer, error) {
	return b.change(id, state, window, func(s *keyStates, _ []byte) { delete(s.bags, string(key)) })
}

// OpenMultimapUserStateReader opens an entry of a map.
func (b *bundle) OpenMultimapUserStateReader(_ context.Context, id exec.StreamID, state string, key, window, entry []byte) (io.ReadCloser, error) {
	return b.read(id, state, window, func(s *keyStates) []byte { return s.maps[string(key)][string(entry)] })
}

// OpenMultimapUserStateAppender appends to an entry of a map.
func (b *bundle) OpenMultimapUserStateAppender(_ context.Context, id exec.StreamID, state string, key, window, entry []byte) (io.Writer, error) {
	return b.change(id, state, window, func(s *keyStates, p []byte) {
		entries := s.maps[string(key)]
		if entries == nil {
			entries = map[string][]byte{}
			s.maps[string(key)] = entries
		}
		entries[string(entry)] = append(entries[string(entry)], p...)
	})
}

// OpenMultimapUserStateClearer clears an entry of a map.
func (b *bundle) OpenMultimapUserStateClearer(_ context.Context, id exec.StreamID, state string, key, window, entry []byte) (io.Writer, error) {
	return b.change(id, state, window, func(s *keyStates, _ []byte) {
		if delete(s.maps[string(key)], string(entry)); len(s.maps[string(key)]) == 0 {
			delete(s.maps, string(key))
		}
	})
}

// OpenMultimapKeysUserStateReader opens the keys of a map.
func (b *bundle) OpenMultimapKeysUserStateReader(_ context.Context, id exec.StreamID, state string, key, window []byte) (io.ReadCloser, error) {
	return b.read(id, state, window, func(s *keyStates) (keys []byte) {
		for _, k := range slices.Sorted(maps.Keys(s.maps[string(key)])) {
			keys = append(keys, k...)
		}
		return keys
	})
}

// OpenMultimapKeysUserStateClearer clears a map.
func (b *bundle) OpenMultimapKeysUserStateClearer(_ context.Context, id exec.StreamID, state string, key, window []byte) (io.Writer, error) {
	return b.change(id, state, window, func(s *keyStates, _ []byte) { delete(s.maps, string(key)) })
}

// OpenOrderedListUserStateReader opens the entries of an ordered list with sort keys in [start, end). If end is
// math.MaxInt64, the SDK also means the largest key.
func (b *bundle) OpenOrderedListUserStateReader(_ context.Context, id exec.StreamID, state string, key, window []byte, start, end int64) (io.ReadCloser, error) {
	return b.read(id, state, window, func(s *keyStates) (found []byte) {
		for _, e := range s.lists[string(key)] {
			if e.within(start, end) {
				found = append(found, e.bytes...)
			}
		}
		return found
	})
}

// OpenOrderedListUserStateAppender adds an entry with each write: a sort key and a value.
func (b *bundle) OpenOrderedListUserStateAppender(_ context.Context, id exec.StreamID, state string, key, window []byte) (io.Writer, error) {
	return writer(func(p []byte) error {
		sortKey, n := protowire.ConsumeVarint(p)
		if n < 0 {
			return errors.New("an entry of an ordered list has no sort key")
		}
		entry := listEntry{int64(sortKey), bytes.Clone(p)}
		return b.state(id, state, window, func(s *keyStates) {
			list := s.lists[string(key)]
			i, _ := slices.BinarySearchFunc(list, entry, func(a, b listEntry) int { return cmp.Or(cmp.Compare(a.sortKey, b.sortKey), -1) })
			s.lists[string(key)] = slices.Insert(list, i, entry)
		})
	}), nil
}

// OpenOrderedListUserStateClearer clears the entries of an ordered list with sort keys in [start, end).
func (b *bundle) OpenOrderedListUserStateClearer(_ context.Context, id exec.StreamID, state string, key, window []byte, start, end int64) (io.Writer, error) {
	return b.change(id, state, window, func(s *keyStates, _ []byte) {
		list := slices.DeleteFunc(s.lists[string(key)], func(e listEntry) bool { return e.within(start, end) })
		if s.lists[string(key)] = list; len(list) == 0 {
			delete(s.lists, string(key))
		}
	})
}

func (e listEntry) within(start, end int64) bool {
	return e.sortKey >= start && (e.sortKey < end || end == math.MaxInt64)
}

// OpenIterable implements exec.StateReader. Groups are always complete, so the SDK never asks for a part.
func (b *bundle) OpenIterable(context.Context, exec.StreamID, []byte) (io.ReadCloser, error) {
	return nil, errors.New("the direct runner does not support reading a group in parts")
}
