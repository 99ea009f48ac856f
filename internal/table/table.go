// Package table stores the bytes of many keys in little memory, or in a file.
package table

import (
	"bufio"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"unsafe"

	"hafvf/internal/compact"
)

// A Table maps keys to values with little overhead: one slice without pointers has the keys and values one after
// the other, and a map without pointers has their offsets. So the garbage collector has no pointers to follow. The
// zero value is empty.
//
// A table that was spilled has its entries in a file, and its map in memory.
type Table struct {
	data  []byte         // entries
	file  *region        // entries of a spilled table; nil in memory
	index map[uint64]ref // by the hash of the key or, if other keys have it, the next free hash
	n     int            // number of live entries
	live  int            // bytes of the live entries
	slack int            // up to 1/slack of the data may be dead or free; 0 means usualSlack

	expected int // bytes of data that Reserve announced; 0 once data is allocated
}

// Entries begin at multiples of unit bytes. The unused bytes of an entry let its value grow in place: the counts
// and times of a state need another byte now and then.
const unit = 16

// seed is the seed of the hash. It differs in each process.
var seed = maphash.MakeSeed()

// hashMask has the bits of a hash that count. Tests clear some, so that different keys have one hash.
var hashMask = ^uint64(0)

func hashOf(key string) uint64 { return maphash.String(seed, key) & hashMask }

// A ref is the offset of an entry. Its last bit is set if the entry was marked after its last Put.
type ref int

const (
	marked ref = 1
	// removed takes the place of a removed entry, so that entries at the next hashes are still found.
	removed ref = -unit
)

func (r ref) offset() int { return int(r &^ marked) }

const (
	minDataBytes = 256

	// Less slack takes less memory, and moves the data more often.
	usualSlack = 8
	// looseSlack is the slack of tables that are read once and then released.
	looseSlack = 2
)

// Len returns the number of keys.
func (t *Table) Len() int { return t.n }

// Live returns about the number of bytes of keys and values.
func (t *Table) Live() int { return t.live }

// Size returns about the memory of the table, in bytes.
func (t *Table) Size() int { return cap(t.data) + MapSize(t.index) + t.file.size() }

// MapSize estimates the memory of a map in bytes, without the memory that its keys and values point to. A map has a
// power of two of slots, and fills at most 7/8 of them.
func MapSize[K comparable, V any](m map[K]V) int {
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

// All returns the values by key, in any order. A value is valid until the next Put.
func (t *Table) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for e := range t.entries() {
			if !yield(string(e.key()), e.value()) {
				return
			}
		}
	}
}

// Get returns the value of a key, or nil if there is none. The value is valid until the next Put. Several
// goroutines may call Get at the same time.
func (t *Table) Get(key string) []byte {
	_, e := t.find(key)
	return e.value()
}

// Put sets the value of a key and removes its mark. An empty b deletes the key.
func (t *Table) Put(key string, b []byte) {
	if len(b) == 0 {
		t.remove(key)
		return
	}
	h, e := t.find(key)
	if t.Err() != nil {
		return
	}
	if e != nil {
		old := e.value()
		if free := cap(old) - len(b); free >= 0 && free <= maxFree {
			e[0] = e[0]&^maxFree | byte(free)
			copy(old[:len(b)], b)
			t.index[h] &^= marked
			if t.file != nil {
				t.file.write(e, t.index[h].offset())
			}
			return
		}
		t.drop(h, e)
	}
	offset, size := t.append(key, b)
	if t.index == nil {
		t.index = map[uint64]ref{}
	}
	insert(t.index, hashOf(key), ref(offset))
	t.n++
	t.live += size
}

// insert stores a ref under h or, if this hash is not free, under the next free hash.
func insert(index map[uint64]ref, h uint64, r ref) {
	for old, ok := index[h]; ok && old != removed; old, ok = index[h] {
		h++
	}
	index[h] = r
}

// drop removes the entry under h from the index.
func (t *Table) drop(h uint64, e entry) {
	t.live -= len(e)
	t.n--
	if _, ok := t.index[h+1]; ok {
		t.index[h] = removed
	} else {
		delete(t.index, h)
	}
}

// append appends an entry. It returns its offset and size.
func (t *Table) append(key string, b []byte) (offset, size int) {
	if t.file != nil {
		if t.wasteful() {
			t.makeRoom(0)
		}
	} else if size := entrySize(key, b); len(t.data)+size > cap(t.data) {
		t.makeRoom(size)
	}
	offset = t.end()
	if t.file != nil {
		e := appendEntry(make([]byte, 0, entrySize(key, b)), key, b)
		t.file.write(e, offset)
		return offset, len(e)
	}
	t.data = appendEntry(t.data, key, b)
	return offset, len(t.data) - offset
}

// end returns the offset after the last entry.
func (t *Table) end() int {
	if t.file != nil {
		return t.file.end
	}
	return len(t.data)
}

// wasteful reports whether more than half of the entries' bytes are dead.
func (t *Table) wasteful() bool { return t.end() > 2*t.live+minDataBytes }

// Mark marks a key, which must have a value.
func (t *Table) Mark(key string) {
	if h, e := t.find(key); e != nil {
		t.index[h] |= marked
	}
}

// Marked reports whether the key was marked after its last Put.
func (t *Table) Marked(key string) bool {
	h, e := t.find(key)
	return e != nil && t.index[h]&marked != 0
}

func (t *Table) remove(key string) {
	h, e := t.find(key)
	if e == nil || t.Err() != nil {
		return
	}
	if t.drop(h, e); t.wasteful() {
		t.makeRoom(0)
	}
}

// find returns the entry of a key and the hash under which the index has it. The entry is nil if there is none.
func (t *Table) find(key string) (uint64, entry) {
	for h := hashOf(key); ; h++ {
		r, ok := t.index[h]
		if !ok {
			return h, nil
		}
		if r == removed {
			continue
		}
		if e := t.entry(r.offset()); string(e.key()) == key {
			return h, e
		}
	}
}

// entry returns the entry at offset, nil after an error.
func (t *Table) entry(offset int) entry {
	if t.file != nil {
		return t.file.entry(offset, t.live/t.n*5/4) // most entries have about the average length
	}
	e := entry(t.data[offset:])
	return e[:e.size()]
}

// An entry is a header, the key with its length before it, and the room for the value. The header has the size of
// the entry in units and, in its last freeBits, the number of free bytes at the end.
type entry []byte

func (e entry) head() uint32 { return binary.LittleEndian.Uint32(e) }

func (e entry) size() int { return int(e.head()>>freeBits) * unit }

func (e entry) key() []byte {
	if len(e) == 0 {
		return nil
	}
	n, size := binary.Uvarint(e[headSize:])
	start := headSize + size
	return e[start : start+int(n)]
}

func (e entry) hash() uint64 { return maphash.Bytes(seed, e.key()) & hashMask }

// value returns the value. Its capacity is the room in the entry.
func (e entry) value() []byte {
	if len(e) == 0 {
		return nil
	}
	n, size := binary.Uvarint(e[headSize:])
	return e[headSize+size+int(n) : len(e)-int(e.head()&maxFree) : len(e)]
}

const (
	headSize = 4
	freeBits = 5
	maxFree  = 1<<freeBits - 1
)

// appendEntry appends an entry to dst in its encoded form.
func appendEntry(dst []byte, key string, b []byte) []byte {
	start := len(dst)
	dst = compact.AppendString(append(dst, 0, 0, 0, 0), key)
	dst = append(dst, b...)
	free := -(len(dst) - start) & (unit - 1)
	dst = append(dst, make([]byte, free)...)
	binary.LittleEndian.PutUint32(dst[start:], uint32((len(dst)-start)/unit<<freeBits|free))
	return dst
}

// entries returns the live entries and their refs, in the order of their offsets.
func (t *Table) entries() iter.Seq2[entry, ref] {
	return func(yield func(entry, ref) bool) {
		entryAt := t.entry
		if t.file != nil {
			entryAt = t.file.sequential()
		}
		for offset := 0; offset < t.end(); {
			e := entryAt(offset)
			if t.Err() != nil {
				return
			}
			h := e.hash()
			r, ok := t.index[h]
			for ok && r.offset() != offset {
				h++
				r, ok = t.index[h]
			}
			if ok && !yield(e, r) { // otherwise the entry is dead
				return
			}
			offset += len(e)
		}
	}
}

// Reserve prepares an empty table for the given number of keys and total bytes.
func (t *Table) Reserve(keys, bytes int) {
	if t.n == 0 {
		t.index, t.expected = make(map[uint64]ref, keys), bytes
	}
}

// Compact releases the space of replaced values.
func (t *Table) Compact() { t.makeRoom(0) }

// makeRoom removes dead entries, so that the given number of bytes fit. In memory it moves the entries within the
// slice, or to another slice if the slice must grow, or may shrink because bytes is 0. In a file it moves them to
// another region.
func (t *Table) makeRoom(bytes int) {
	if t.file != nil {
		moved := t.file.file.region()
		w := bufio.NewWriterSize(moved, pieceBytes)
		offset, index := 0, make(map[uint64]ref, t.n)
		for e, r := range t.entries() {
			insert(index, e.hash(), ref(offset)|r&marked)
			offset += len(e)
			w.Write(e)
		}
		w.Flush()
		if t.Err() == nil {
			t.file.release()
			t.file, t.index = moved, index
		}
		return
	}
	need := t.live + bytes
	slack := t.slack
	if slack == 0 {
		slack = usualSlack
	}
	data := t.data[:0]
	if bytes == 0 || need+need/(2*slack) > cap(data) {
		data = make([]byte, 0, max(minDataBytes, need+need/slack, t.expected))
		t.expected = 0
	}
	if t.live == len(t.data) {
		t.data = append(data, t.data...)
		return
	}
	index := make(map[uint64]ref, t.n)
	for e, r := range t.entries() {
		insert(index, e.hash(), ref(len(data))|r&marked) // before data may overwrite e
		data = append(data, e...)
	}
	t.data, t.index = data, index
}

// entrySize returns an upper bound of the bytes that appendEntry appends.
func entrySize(key string, b []byte) int {
	return headSize + binary.MaxVarintLen32 + len(key) + len(b) + unit
}
