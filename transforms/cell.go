package transforms

import (
	"container/list"
	"math"
	"runtime/debug"
	"sync"
	"time"
	"unsafe"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"

	"hafvf/hafvf/keyed"
	"hafvf/internal/states"
)

// A cell is a states.Cell with what a worker knows of its keys.
type cell struct {
	*states.Cell

	// When keys have to be looked at again; nil where that is not known.
	waits     map[string]wait      // observations that wait
	deadlines map[string]time.Time // when a key becomes silent
	// What the timers of the cell are set for. A timer may be too early, and never late.
	timers  wait
	watched time.Time
}

// size is about what the cell takes in memory.
func (c *cell) size() int {
	return c.Size() + mapSize(c.waits) + mapSize(c.deadlines)
}

// mapSize is about what a map takes in memory, without what its keys and values point to. A
// map has room for a power of two of entries, of which it fills 7/8 at most.
func mapSize[K comparable, V any](m map[K]V) int {
	var slot struct {
		key   K
		value V
	}
	if m == nil {
		return 0
	}
	slots := 8
	for slots*7/8 < len(m) {
		slots *= 2
	}
	return slots * (int(unsafe.Sizeof(slot)) + 1)
}

// A wait spans the times of observations that wait; zero where none does.
type wait struct{ first, last time.Time }

// add extends the span by another, and reports whether that was more.
func (w *wait) add(o wait) bool {
	was := *w
	if w.first.IsZero() || !o.first.IsZero() && o.first.Before(w.first) {
		w.first = o.first
	}
	if o.last.After(w.last) {
		w.last = o.last
	}
	return *w != was
}

// findWaits looks for the keys with observations that wait.
func (c *cell) findWaits() {
	if c.waits != nil {
		return
	}
	c.waits = map[string]wait{}
	for key, b := range c.All() {
		if first, last := keyed.Waiting(b); !first.IsZero() {
			c.waits[key] = wait{first, last}
		}
	}
	c.timers = c.wait()
}

// wait spans the observations of all keys that wait.
func (c *cell) wait() (all wait) {
	for _, w := range c.waits {
		all.add(w)
	}
	return all
}

// A cellState is how the runner keeps cells.
type cellState struct {
	head     *state.Value[[]byte]
	log      *state.Bag[[]byte]
	settings *state.Value[[]byte]
	text     string            // of the job's settings; empty if keys share no states
	own      keyed.Fingerprint // of text
}

// in returns the store of the cell whose states the provider gives.
func (s cellState) in(p state.Provider) states.Store { return cellStore{s, p} }

// cellStore is a states.Store.
type cellStore struct {
	cellState
	p state.Provider
}

func (s cellStore) ReadHead() ([]byte, bool, error) { return s.head.Read(s.p) }
func (s cellStore) WriteHead(b []byte) error        { return s.head.Write(s.p, b) }
func (s cellStore) AddLog(piece []byte) error       { return s.log.Add(s.p, piece) }
func (s cellStore) ClearLog() error                 { return s.log.Clear(s.p) }
func (s cellStore) WriteSettings(text string) error { return s.settings.Write(s.p, []byte(text)) }

func (s cellStore) ReadLog() ([][]byte, error) {
	pieces, _, err := s.log.Read(s.p)
	return pieces, err
}

func (s cellStore) ReadSettings() (string, error) {
	text, _, err := s.settings.Read(s.p)
	return string(text), err
}

// read returns the cell. alone names the only key of the cell, if it has but one.
func (s cellState) read(p state.Provider, alone string) (*cell, error) {
	var copied *cell
	c, err := states.ReadCell(s.in(p), alone, func(v states.Version) *states.Cell {
		if copied = kept.take(v); copied == nil {
			return nil
		}
		return copied.Cell
	})
	if copied != nil {
		return copied, err
	}
	return &cell{Cell: c}, err
}

// write writes the cell with the changed entities in it. alone is as for read.
func (s cellState) write(p state.Provider, c *cell, alone string, changed []*held) error {
	if alone != "" {
		if len(changed) == 0 {
			return nil // a timer fired for nothing
		}
		last := changed[len(changed)-1] // a key that has expired may have spoken again
		if last.state == nil {
			return s.head.Clear(p)
		}
		return s.head.Write(p, last.state)
	}
	v, err := c.Write(s.in(p), s.text, s.own, func(yield func(string, []byte) bool) {
		for _, e := range changed {
			if !yield(e.key, e.state) {
				return
			}
		}
	})
	if err == nil && v != (states.Version{}) {
		kept.put(v, c)
	}
	return err
}

// kept are the copies of cells of this process: 512 MB of them, or a quarter of GOMEMLIMIT
// where that is set.
var kept = newCopies(copiesBound(debug.SetMemoryLimit(-1)))

func copiesBound(limit int64) int {
	if limit == math.MaxInt64 {
		return 512 << 20
	}
	return int(limit / 4)
}

type copies struct {
	mu    sync.Mutex
	of    map[states.Version]*list.Element // of used, whose values are copies
	used  list.List                        // the last used copy first
	bytes int
	bound int // of bytes
}

// A copied is a cell that is kept.
type copied struct {
	*cell
	version states.Version
	size    int
}

func newCopies(bound int) *copies {
	return &copies{of: map[states.Version]*list.Element{}, bound: bound}
}

// take removes and returns the copy, nil where there is none.
func (k *copies) take(v states.Version) *cell {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.of[v]
	if e == nil {
		return nil
	}
	return k.remove(e)
}

func (k *copies) remove(e *list.Element) *cell {
	c := k.used.Remove(e).(copied)
	delete(k.of, c.version)
	k.bytes -= c.size
	return c.cell
}

// put keeps the copy. If that is too much, it drops those that were not used for longest, one
// by one. A copy that was dropped costs a reading of the log.
func (k *copies) put(v states.Version, c *cell) {
	k.mu.Lock()
	defer k.mu.Unlock()
	size := c.size()
	k.of[v] = k.used.PushFront(copied{c, v, size})
	k.bytes += size
	for k.bytes > k.bound && k.used.Len() > 1 {
		k.remove(k.used.Back())
	}
}
