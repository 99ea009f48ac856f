package statestore

import (
	"iter"
	"slices"
	"strconv"

	"hafvf/hafvf/keyed"
	"hafvf/internal/table"
)

// A Memory holds the states of all keys of a run in one process, in cells. It has one copy of each state. Different
// cells can be used concurrently.
type Memory struct {
	// Settings, if not nil, are the settings of the job's states. A filter with other settings fails.
	Settings *keyed.AllSettings
	// Reserved holds the states of reserved keys: as restored, or as put last.
	Reserved map[string][]byte

	names []string
	cells map[string]*Cell
}

// memoryCells is the number of cells of a Memory.
const memoryCells = 256

// NewMemory returns a Memory without states.
func NewMemory() *Memory {
	m := &Memory{Reserved: map[string][]byte{}, cells: map[string]*Cell{}}
	for i := range memoryCells {
		name := strconv.Itoa(i)
		m.names = append(m.names, name)
		m.cells[name] = &Cell{}
	}
	return m
}

// Names returns the names of the cells.
func (m *Memory) Names() []string { return m.names }

// Cell returns the cell with that name.
func (m *Memory) Cell(name string) *Cell { return m.cells[name] }

// Reserve prepares the cells for that number of keys, with that number of bytes in total, to be restored.
// table.Shards with the same number of shards assigns keys to the same cells, so that its shards fill one cell
// after the other.
func (m *Memory) Reserve(keys, bytes int) {
	for _, c := range m.cells {
		c.Reserve(keys/len(m.cells), (bytes+bytes/16)/len(m.cells))
	}
}

// Restore puts the state that a key had before the run.
func (m *Memory) Restore(key string, state []byte) {
	if Reserved(key) {
		m.Put(key, state)
		return
	}
	c := m.cells[CellName(key, m.names)]
	c.Put(key, state)
	c.Mark(key)
}

// Put puts the state of a key. A nil state removes it.
func (m *Memory) Put(key string, state []byte) {
	switch {
	case !Reserved(key):
		m.cells[CellName(key, m.names)].Put(key, state)
	case state == nil:
		delete(m.Reserved, key)
	default:
		m.Reserved[key] = state
	}
}

// Touched reports whether the state of a key was put in this run, or does not exist.
func (m *Memory) Touched(key string) bool { return !m.cells[CellName(key, m.names)].Marked(key) }

// Updated reports whether a key has a state that was put in this run.
func (m *Memory) Updated(key string) bool {
	return m.Touched(key) && m.cells[CellName(key, m.names)].Get(key) != nil
}

// Len returns the number of keys that are not reserved.
func (m *Memory) Len() (n int) {
	for _, c := range m.cells {
		n += c.Len()
	}
	return n
}

// All returns the keys that are not reserved, with their states: cell by cell, sorted within each cell. Do not call
// Put or Restore during the iteration.
func (m *Memory) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		var keys []string
		for _, name := range m.names {
			c := m.cells[name]
			keys = keys[:0]
			for key := range c.All() {
				keys = append(keys, key)
			}
			slices.Sort(keys)
			for _, key := range keys {
				if !yield(key, c.Get(key)) {
					return
				}
			}
		}
	}
}

// CellName returns the name of the key's cell among cells, or the key itself if cells is empty.
func CellName(key string, cells []string) string {
	if len(cells) == 0 {
		return key
	}
	return cells[table.FNV1a(key)%uint64(len(cells))]
}
