// Package table stores the bytes of many keys in little memory, or in a file.
package table

import (
	"bufio"
	"encoding/binary"
	"hash/maphash"
	"iter"

	"hafvf/internal/compact"
)

// A Table maps keys to values with little overhead: one slice without pointers has the keys and values one after
// the other, and a hash table of 4-byte slots finds them. So the garbage collector has no pointers to follow. The
// zero value is empty.
//
// A table that was spilled has its entries in a file, and its hash table in memory.
type Table struct {
	data  []byte  // entries
	file  *region // entries of a spilled table; nil in memory
	table []slot  // a collision takes the next slot
	n     int     // number of live entries
	live  int     // bytes of the live entries
	slack int     // up to 1/slack of the data may be dead or free; 0 means usualSlack

	expected int // bytes of data that Expect announced; 0 once data is allocated
}

// Entries begin at multiples of unit bytes. The unused bytes of an entry let its value grow in place: the counts
// and times of a state need another byte now and then.
const unit = 16

// seed is the seed of the hash. It differs in each process.
var seed = maphash.MakeSeed()

// A slot refers to an entry: its offset in data in units, counted from 1, a part of its hash, so that few other
// entries are compared, and whether the entry was marked after its last Put. The zero slot is free.
type slot uint32

const (
	unitBits = 27
	maxUnits = 1<<unitBits - 1
	tagMask  = 15 << unitBits
	marked   = 1 << 31
)

func (s slot) offset() int { return (int(s&maxUnits) - 1) * unit }
func (s slot) tag() slot   { return s & tagMask }

// slotOf returns the slot of an entry at offset with hash h.
func slotOf(offset int, h uint64) slot { return slot(offset/unit+1) | tagOf(h) }

// tagOf returns the part of a hash that a slot stores. The index of a slot uses other bits.
func tagOf(h uint64) slot { return slot(h>>48) << unitBits & tagMask }

const (
	minSlots     = 8
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
func (t *Table) Size() int { return cap(t.data) + 4*cap(t.table) + t.file.size() }

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
	if t.n == 0 {
		return nil
	}
	_, e := t.find(key, maphash.String(seed, key))
	return e.value()
}

// Put sets the value of a key and removes its mark. An empty b deletes the key.
func (t *Table) Put(key string, b []byte) {
	h := maphash.String(seed, key)
	if len(b) == 0 {
		t.remove(key, h)
		return
	}
	if 4*(t.n+1) > 3*len(t.table) {
		t.rehash(max(minSlots, 2*len(t.table)))
	}
	i, e := t.find(key, h)
	if t.Err() != nil {
		return
	}
	if s := t.table[i]; s != 0 {
		old := e.value()
		if free := cap(old) - len(b); free >= 0 && free <= maxFree {
			e[0] = e[0]&^maxFree | byte(free)
			copy(old[:len(b)], b)
			if t.file != nil {
				t.file.write(e, s.offset())
			}
			t.table[i] &^= marked
			return
		}
		t.live -= len(e)
		t.n--
		t.table[i] = tagMask // matches no entry; the slot is set again below
	}
	offset, size := t.append(key, b)
	t.table[i] = slotOf(offset, h)
	t.n++
	t.live += size
}

// append appends an entry. It returns its offset and size.
func (t *Table) append(key string, b []byte) (offset, size int) {
	if t.file != nil {
		if t.wasteful() || t.full() {
			t.makeRoom(0)
		}
	} else if size := entrySize(key, b); len(t.data)+size > cap(t.data) {
		t.makeRoom(size)
	}
	if t.full() {
		panic("table: more than 2 GB")
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

// full reports whether no further offset fits in a slot.
func (t *Table) full() bool { return t.end()/unit >= maxUnits }

// wasteful reports whether more than half of the entries' bytes are dead.
func (t *Table) wasteful() bool { return t.end() > 2*t.live+minDataBytes }

// Mark marks a key, which must have a value.
func (t *Table) Mark(key string) {
	if i, e := t.find(key, maphash.String(seed, key)); e != nil {
		t.table[i] |= marked
	}
}

// Marked reports whether the key was marked after its last Put.
func (t *Table) Marked(key string) bool {
	if t.n == 0 {
		return false
	}
	i, _ := t.find(key, maphash.String(seed, key))
	return t.table[i]&marked != 0
}

// remove removes the key. It moves later slots up, so that they are still found.
func (t *Table) remove(key string, h uint64) {
	if t.n == 0 {
		return
	}
	free, e := t.find(key, h)
	if t.table[free] == 0 || t.Err() != nil {
		return
	}
	t.live -= len(e)
	t.n--
	mask := len(t.table) - 1
	for i := (free + 1) & mask; t.table[i] != 0; i = (i + 1) & mask {
		k := t.entry(t.table[i].offset()).key()
		if home := int(maphash.Bytes(seed, k)) & mask; (i-home)&mask >= (i-free)&mask {
			t.table[free] = t.table[i]
			free = i
		}
	}
	t.table[free] = 0
	if t.n < len(t.table)/8 && len(t.table) > minSlots || t.wasteful() {
		t.rehash(tableFor(t.n))
		t.makeRoom(0)
	}
}

// tableFor returns the number of slots for n entries.
func tableFor(n int) int {
	size := minSlots
	for 4*(n+1) > 3*size {
		size *= 2
	}
	return size
}

// find returns the index of the key's slot, and its entry; if there is none, the index of a free slot for the key,
// and nil. h is the hash of the key.
func (t *Table) find(key string, h uint64) (int, entry) {
	mask, tag := len(t.table)-1, tagOf(h)
	for i := int(h) & mask; ; i = (i + 1) & mask {
		s := t.table[i]
		if s == 0 {
			return i, nil
		}
		if s.tag() != tag {
			continue
		}
		if e := t.entry(s.offset()); string(e.key()) == key {
			return i, e
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

// rehash replaces the hash table by one with the given number of slots.
func (t *Table) rehash(size int) {
	table, mask := make([]slot, size), size-1
	for _, f := range t.entries() {
		i := int(f.hash) & mask
		for table[i] != 0 {
			i = (i + 1) & mask
		}
		table[i] = *f.slot
	}
	t.table = table
}

// A location is the hash and the slot of an entry.
type location struct {
	hash uint64
	slot *slot
}

// entries returns the live entries in the order of their offsets. The caller may change the slot of an entry to an
// earlier offset.
func (t *Table) entries() iter.Seq2[entry, location] {
	return func(yield func(entry, location) bool) {
		mask, entryAt := len(t.table)-1, t.entry
		if t.file != nil {
			entryAt = t.file.sequential()
		}
		for offset := 0; offset < t.end(); {
			e := entryAt(offset)
			if t.Err() != nil {
				return
			}
			h := maphash.Bytes(seed, e.key())
			s := slotOf(offset, h)
			i := int(h) & mask
			for t.table[i] != 0 && t.table[i]&^marked != s {
				i = (i + 1) & mask
			}
			if t.table[i] != 0 && !yield(e, location{h, &t.table[i]}) { // otherwise the entry is dead
				return
			}
			offset += len(e)
		}
	}
}

// Reserve prepares an empty table for the given number of keys and total bytes.
func (t *Table) Reserve(keys, bytes int) {
	if t.n == 0 {
		t.rehash(max(len(t.table), tableFor(keys)))
		t.expected = bytes
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
		offset := 0
		for e, f := range t.entries() {
			*f.slot = slotOf(offset, f.hash) | *f.slot&marked
			offset += len(e)
			w.Write(e)
		}
		w.Flush()
		if t.Err() == nil {
			t.file.release()
			t.file = moved
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
	for e, f := range t.entries() {
		*f.slot = slotOf(len(data), f.hash) | *f.slot&marked
		data = append(data, e...)
	}
	t.data = data
}

// entrySize returns an upper bound of the bytes that appendEntry appends.
func entrySize(key string, b []byte) int {
	return headSize + binary.MaxVarintLen32 + len(key) + len(b) + unit
}
