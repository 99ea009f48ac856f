package statestore

import (
	"iter"
	"slices"
	"strconv"

	"hafvf/hafvf/keyed"
	"hafvf/internal/table"
)

// A Memory holds the states of all keys of a run in one process, in cells. So there is one copy of
// a state. Different goroutines may use different cells.
type Memory struct {
	// Settings, if not nil, are the settings of the job's states. A filter with other settings fails.
	Settings *keyed.AllSettings
	// Reserved are the states of reserved keys, as the run has found them or as they were put last.
	Reserved map[string][]byte

	names []string
	cells map[string]*Cell
}

// memoryCells is the number of cells of a Memory.
const memoryCells = 256

// NewMemory returns a memory without states.
func NewMemory() *Memory {
	m := &Memory{Reserved: map[string][]byte{}, cells: map[string]*Cell{}}
	for i := range memoryCells {
		name := strconv.Itoa(i)
		m.names = append(m.names, name)
		m.cells[name] = &Cell{}
	}
	return m
}

// Names are those of the cells.
func (m *Memory) Names() []string { return m.names }

// Cell returns the cell of that name.
func (m *Memory) Cell(name string) *Cell { return m.cells[name] }

// Expect says that so many keys with so many bytes in all will be restored. table.Shards has the
// same cells if there are as many: those of a shard fill one cell, and then those of the next.
func (m *Memory) Expect(keys, bytes int) {
	for _, c := range m.cells {
		c.Expect(keys/len(m.cells), (bytes+bytes/16)/len(m.cells))
	}
}

// Restore puts the state of a key from before the run.
func (m *Memory) Restore(key string, state []byte) {
	if Reserved(key) {
		m.Put(key, state)
		return
	}
	c := m.cells[CellName(key, m.names)]
	c.Put(key, state)
	c.Mark(key)
}

// Put puts the state of a key; nil takes it away.
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

// Touched reports whether the state of a key was put in this run, or there is none.
func (m *Memory) Touched(key string) bool { return !m.cells[CellName(key, m.names)].Marked(key) }

// Len is the number of keys that are not reserved.
func (m *Memory) Len() (n int) {
	for _, c := range m.cells {
		n += c.Len()
	}
	return n
}

// All are the keys that are not reserved, with their states, by cell, and sorted within one. Nothing may be put
// meanwhile.
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

// CellName returns the name of the key's cell among those; the key where there are none.
func CellName(key string, cells []string) string {
	if len(cells) == 0 {
		return key
	}
	return cells[table.FNV1a(key)%uint64(len(cells))]
}
