package transforms

import (
	"container/list"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"

	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/clock"
	"hafvf/internal/compact"
	"hafvf/internal/parallel"
	"hafvf/internal/table"
)

// A cell is a statestore.Cell with a worker's data about its keys.
type cell struct {
	*statestore.Cell

	agenda    agenda
	last      time.Time // latest time of an observation that waits or waited
	lastCheck time.Time // latest time at which its keys were checked

	share *memoryShare // memory that the cache counts for the cell; nil if it counts none
}

// size estimates the memory of the cell in bytes.
func (c *cell) size() int {
	return c.Size() + table.MapSize(c.agenda.first)
}

// cellOf returns a cell for the bundle. If the runner stores its states, read must load them.
func (fn *encodeFn) cellOf(name string, sp state.Provider) *openCell {
	c := fn.cells[name]
	if c != nil {
		return c
	}
	if c = fn.memoryCells[name]; c == nil {
		c = &openCell{name: name}
		if fn.memory == nil {
			fn.unread = append(fn.unread, c)
		} else {
			c.cell = &cell{Cell: fn.memory.Cell(name)}
			fn.memoryCells[name] = c
		}
	}
	c.provider = sp
	fn.cells[name] = c
	fn.order = append(fn.order, c)
	return c
}

// read loads the unread cells of the bundle from the runner.
func (fn *encodeFn) read() error {
	unread := fn.unread
	fn.unread = nil
	defer fn.resumed.log()
	return roundTrip(unread, func(c *openCell) (err error) {
		if c.cell, err = fn.states.read(c.provider, c.alone(fn.cfg)); err != nil {
			return err
		}
		return fn.resumed.takeOver(fn.states, c, fn.cfg)
	})
}

// open returns the open keys of the blocks. It decodes the states of keys that were not open. A key without a state
// gets its state of the previous run.
func (fn *encodeFn) open(blocks []queuedBlock) ([]*openKey, error) {
	if err := fn.read(); err != nil {
		return nil, err
	}
	opened := make([]*openKey, len(blocks))
	var unopened []*openKey
	for i, b := range blocks {
		e := fn.keys[b.key]
		if e == nil {
			if n := len(fn.free); n > 0 {
				e, fn.free = fn.free[n-1], fn.free[:n-1]
			} else {
				e = &openKey{}
			}
			e.key, e.cell = b.key, b.cell
			fn.keys[b.key] = e
			b.cell.order = append(b.cell.order, e)
			unopened = append(unopened, e)
		}
		opened[i] = e
	}
	readers := len(fn.workers)
	if fn.memory == nil {
		readers = roundTrips // some states are on a disk
	}
	parallel.Do(len(unopened), readers, func(_, i int) {
		e := unopened[i]
		e.state = e.cell.Get(e.key)
		e.found = e.state != nil
		e.touched = e.found && (fn.memory == nil || !e.cell.Marked(e.key))
	})
	for _, e := range unopened {
		if err := e.cell.readable(); err != nil {
			return nil, err
		}
		if !e.found {
			e.state, e.err = fn.account.Restore(e.key)
		}
	}
	parallel.Do(len(unopened), len(fn.workers), func(worker, i int) {
		e := unopened[i]
		if e.err == nil {
			e.KeyState, e.err = fn.workers[worker].Open(e.key, e.state)
		}
		if e.err != nil && !errors.Is(e.err, keyed.ErrOtherConfig) && !errors.Is(e.err, keyed.ErrNewer) {
			e.reset(fn.workers[worker])
		}
	})
	for _, e := range unopened {
		if e.err != nil {
			return nil, fmt.Errorf("key %q: %w", e.key, e.err)
		}
		if e.counted = true; !e.touched {
			fn.report.Counts.Keys++
		}
		matched(fn.account, fn.patterns, e.key)
	}
	return opened, nil
}

// A waitSpan is a range of the times of observations; zero without observations.
type waitSpan struct{ first, last time.Time }

// add extends the span to include o.
func (w *waitSpan) add(o waitSpan) {
	w.first, w.last = clock.Earlier(w.first, o.first), clock.Later(w.last, o.last)
}

// A cellState stores cells in the states of a runner.
type cellState struct {
	head        *state.Value[[]byte]
	log         *state.Bag[[]byte]
	settings    *state.Value[[]byte]
	text        string              // the job's settings; empty for cells of a single key
	fingerprint compact.Fingerprint // of text
}

// store returns the store of the cell whose states p provides.
func (s cellState) store(p state.Provider) statestore.CellStore { return cellStore{s, p} }

// cellStore is a statestore.CellStore.
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

// read returns the cell. alone names the only key of the cell; it is empty if keys share the cell.
func (s cellState) read(p state.Provider, alone string) (*cell, error) {
	var copied *cell
	logged := false
	c, err := statestore.ReadCell(s.store(p), alone, func(v statestore.Version) *statestore.Cell {
		logged = true
		if copied = cellCache.take(v); copied == nil {
			return nil
		}
		return copied.Cell
	})
	if copied == nil {
		copied = &cell{Cell: c}
		if err == nil && logged {
			cellCache.use(copied)
		}
	}
	return copied, err
}

// write writes the cell with the changed keys. alone is as in read.
func (s cellState) write(p state.Provider, c *cell, alone string, changed []*openKey) error {
	if alone != "" {
		if len(changed) == 0 {
			return nil // nothing changed when the timer fired
		}
		last := changed[len(changed)-1] // an expired key may have been opened again
		if last.state == nil {
			return s.head.Clear(p)
		}
		return s.head.Write(p, last.state)
	}
	v, err := c.Write(s.store(p), s.text, s.fingerprint, func(yield func(string, []byte) bool) {
		for _, e := range changed {
			if !yield(e.key, e.state) {
				return
			}
		}
	})
	if err == nil && v != (statestore.Version{}) {
		cellCache.put(v, c)
	}
	return err
}

// cellCache has the cells that this process has cached: up to 512 MB in memory, or a quarter of GOMEMLIMIT if it is
// set.
var cellCache = newCache(cacheBound(debug.SetMemoryLimit(-1)))

func cacheBound(limit int64) int {
	if limit == math.MaxInt64 {
		return 512 << 20
	}
	return int(limit / 4)
}

// A cache keeps cells for later bundles: in memory up to the bound, and beyond it in a file, as single entries. It
// has at most one copy of each cell, the last one.
type cache struct {
	mu     sync.Mutex
	byID   map[statestore.CellID]*list.Element // elements of used, whose values are cachedCells
	used   list.List                           // most recently used first
	bytes  int                                 // memory of the cells, cached or in use
	bound  int                                 // limit of bytes
	file   *table.File                         // nil before the first spill
	create func() (table.ReaderWriterAt, error)
	warn   sync.Once
}

// A cachedCell is a cell in the cache.
type cachedCell struct {
	*cell
	version statestore.Version
}

// A memoryShare is the memory that the cache counts for a cell. A bundle that fails does not return its cells: they
// count until the garbage collector finds them.
type memoryShare struct{ bytes int }

func newCache(bound int) *cache {
	return &cache{byID: map[statestore.CellID]*list.Element{}, bound: bound, create: temporary}
}

// temporary creates a file. It removes the name if the system allows that, so that the file ends with the process.
func temporary() (table.ReaderWriterAt, error) {
	f, err := os.CreateTemp("", "hafvf-cells-*")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name())
	return f, nil
}

// take removes and returns the copy with version v, or nil if there is none. It drops a copy with another version.
func (k *cache) take(v statestore.Version) *cell {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.byID[v.Cell()]
	if e == nil {
		return nil
	}
	c := e.Value.(cachedCell)
	if err := c.Err(); err != nil {
		k.failed(err)
	} else if c.version == v {
		return k.remove(e)
	}
	k.drop(e)
	return nil
}

// remove removes a copy. Its memory still counts.
func (k *cache) remove(e *list.Element) *cell {
	c := k.used.Remove(e).(cachedCell)
	delete(k.byID, c.version.Cell())
	return c.cell
}

func (k *cache) drop(e *list.Element) { k.count(k.remove(e), 0) }

// put caches a cell, unless its file has failed. If a copy is dropped, the log must be read again.
func (k *cache) put(v statestore.Version, c *cell) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.byID[v.Cell()]; e != nil {
		k.drop(e)
	}
	if err := c.Err(); err != nil {
		k.count(c, 0)
		k.failed(err)
		return
	}
	k.byID[v.Cell()] = k.used.PushFront(cachedCell{c, v})
	k.fit(c)
}

// use counts a cell that is in use and does not come from the cache.
func (k *cache) use(c *cell) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fit(c)
}

// count sets the memory that counts for a cell, in bytes.
func (k *cache) count(c *cell, bytes int) {
	if c.share == nil {
		c.share = &memoryShare{}
		runtime.AddCleanup(c, func(share *memoryShare) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.bytes -= share.bytes
		}, c.share)
	}
	k.bytes += bytes - c.share.bytes
	c.share.bytes = bytes
}

// fit counts a cell and keeps the cells within the bound. It spills the least recently used copies, then the cell
// itself. If the spilled copies still take too much memory, it drops copies, but not the cell. Other bundles wait
// meanwhile: most copies are spilled once.
func (k *cache) fit(c *cell) {
	k.count(c, c.size())
	for e := k.used.Back(); e != nil && k.bytes > k.bound; {
		oldest := e
		e = e.Prev()
		if !k.spill(oldest.Value.(cachedCell).cell) {
			k.drop(oldest)
		}
	}
	if k.bytes > k.bound {
		k.spill(c)
	}
	for e := k.used.Back(); e != nil && e.Value.(cachedCell).cell != c && k.bytes > k.bound; e = k.used.Back() {
		k.drop(e)
	}
}

// spill moves a cell to the file. It reports whether the cell is in the file.
func (k *cache) spill(c *cell) bool {
	if c.Spilled() {
		return true
	}
	if k.file == nil {
		f, err := k.create()
		if err != nil {
			k.failed(err)
			return false
		}
		k.file = table.NewFile(f)
		slog.Info("cached states exceed the memory limit: moving some to a temporary file", "memory", k.bound, "folder", os.TempDir())
	}
	if err := c.Spill(k.file); err != nil {
		k.failed(err)
		return false
	}
	k.count(c, c.size())
	return true
}

// failed logs once that copies are dropped because the file cannot store them.
func (k *cache) failed(err error) {
	k.warn.Do(func() {
		slog.Warn("cached states exceed the memory limit, and a temporary file cannot store them: reading them from the runner again, which is slow; give the worker more memory, or a TMPDIR with space", "error", err)
	})
}
