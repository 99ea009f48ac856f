// Package table holds the bytes of many keys in little memory, or in a file.
package table

import (
	"bufio"
	"encoding/binary"
	"hash/maphash"
	"iter"

	"hafvf/internal/compact"
)

// A Table has values by key, in few bytes more than these have: one slice without pointers holds
// keys and values one behind the other, and a hash table of 4-byte places finds them. The garbage
// collector has nothing to follow there. The zero value has none.
//
// A table that was spilled has its entries in a file instead, and its hash table in memory.
type Table struct {
	data  []byte  // entries
	file  *region // has them in place of data; nil in memory
	table []slot  // collisions go on at the next one
	n     int     // entries that are found
	live  int     // bytes of these
	slack int     // the part of the data, 1/slack, that may be dead or free; 0 is usualSlack

	expected int // bytes of data, before there are any
}

// Entries begin at multiples of this many bytes. What is free of them is room for the value to grow
// where it is: the counts and times of a state take another byte now and then.
const unit = 16

// seed is that of the hash, another one in each process.
var seed = maphash.MakeSeed()

// A slot finds an entry: the place in data, counted in units from 1, a part of the hash, so that
// few entries are looked at in vain, and whether the entry was marked and not put since. The zero
// slot is free.
type slot uint32

const (
	placeBits = 27
	maxPlace  = 1<<placeBits - 1
	tagMask   = 15 << placeBits
	marked    = 1 << 31
)

func (s slot) at() int   { return (int(s&maxPlace) - 1) * unit }
func (s slot) tag() slot { return s & tagMask }

// slotOf is the slot of an entry at a place.
func slotOf(at int, h uint64) slot { return slot(at/unit+1) | tagOf(h) }

// tagOf is the part of a hash that a slot has. The place of a slot goes by other bits.
func tagOf(h uint64) slot { return slot(h>>48) << placeBits & tagMask }

const (
	leastTable = 8
	leastData  = 256

	// Less slack takes less memory, and moves the data more often.
	usualSlack = 8
	// loose is the slack of what is read once, and given back.
	loose = 2
)

// Len is the number of keys.
func (t *Table) Len() int { return t.n }

// Live is about the number of bytes of keys and values.
func (t *Table) Live() int { return t.live }

// Size is about what the table takes in memory.
func (t *Table) Size() int { return cap(t.data) + 4*cap(t.table) + t.file.size() }

// All are the values by key, in any order. A value is valid until the next Put.
func (t *Table) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for e := range t.entries() {
			if !yield(string(e.key()), e.value()) {
				return
			}
		}
	}
}

// Get returns the value of a key, nil if there is none. It is valid until the next Put. Different
// goroutines may call it at the same time.
func (t *Table) Get(key string) []byte {
	if t.n == 0 {
		return nil
	}
	_, e := t.find(key, maphash.String(seed, key))
	return e.value()
}

// Put makes b the value of the key, which is not marked. Without b the key has none.
func (t *Table) Put(key string, b []byte) {
	h := maphash.String(seed, key)
	if len(b) == 0 {
		t.remove(key, h)
		return
	}
	if 4*(t.n+1) > 3*len(t.table) {
		t.rehash(max(leastTable, 2*len(t.table)))
	}
	i, e := t.find(key, h)
	if t.Err() != nil {
		return
	}
	if s := t.table[i]; s != 0 {
		was := e.value()
		if free := cap(was) - len(b); free >= 0 && free <= maxFree {
			e[0] = e[0]&^maxFree | byte(free)
			copy(was[:len(b)], b)
			if t.file != nil {
				t.file.write(e, s.at())
			}
			t.table[i] &^= marked
			return
		}
		t.live -= len(e)
		t.n--
		t.table[i] = tagMask // no entry's; this one is written again
	}
	at, size := t.append(key, b)
	t.table[i] = slotOf(at, h)
	t.n++
	t.live += size
}

// append appends an entry, and returns its place and size.
func (t *Table) append(key string, b []byte) (at, size int) {
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
	at = t.end()
	if t.file != nil {
		e := appendEntry(make([]byte, 0, entrySize(key, b)), key, b)
		t.file.write(e, at)
		return at, len(e)
	}
	t.data = appendEntry(t.data, key, b)
	return at, len(t.data) - at
}

// end is the place behind all entries.
func (t *Table) end() int {
	if t.file != nil {
		return t.file.end
	}
	return len(t.data)
}

// full reports whether there are no places left.
func (t *Table) full() bool { return t.end()/unit >= maxPlace }

// wasteful reports whether more than half of the entries' bytes are dead.
func (t *Table) wasteful() bool { return t.end() > 2*t.live+leastData }

// Mark marks a key that has a value.
func (t *Table) Mark(key string) {
	if i, e := t.find(key, maphash.String(seed, key)); e != nil {
		t.table[i] |= marked
	}
}

// Marked reports whether the key was marked, and not put since.
func (t *Table) Marked(key string) bool {
	if t.n == 0 {
		return false
	}
	i, _ := t.find(key, maphash.String(seed, key))
	return t.table[i]&marked != 0
}

// remove removes the key. The slots behind its own move up, so that they are still found.
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
		k := t.entry(t.table[i].at()).key()
		if home := int(maphash.Bytes(seed, k)) & mask; (i-home)&mask >= (i-free)&mask {
			t.table[free] = t.table[i]
			free = i
		}
	}
	t.table[free] = 0
	if t.n < len(t.table)/8 && len(t.table) > leastTable || t.wasteful() {
		t.rehash(tableFor(t.n))
		t.makeRoom(0)
	}
}

// tableFor is the size of a table for n entries.
func tableFor(n int) int {
	size := leastTable
	for 4*(n+1) > 3*size {
		size *= 2
	}
	return size
}

// find returns the index of the key's slot, and its entry; or the index of a free slot for it, and
// no entry. h is the hash of the key.
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
		if e := t.entry(s.at()); string(e.key()) == key {
			return i, e
		}
	}
}

// entry is that at a place; none after an error.
func (t *Table) entry(at int) entry {
	if t.file != nil {
		return t.file.entry(at, t.live/t.n*5/4) // most are about as long as others
	}
	e := entry(t.data[at:])
	return e[:e.size()]
}

// An entry is a header, the key behind its length, and the room for the value. The header says how
// many units the entry takes, and in its last freeBits how much of the room is free.
type entry []byte

func (e entry) head() uint32 { return binary.LittleEndian.Uint32(e) }

func (e entry) size() int { return int(e.head()>>freeBits) * unit }

func (e entry) key() []byte {
	if len(e) == 0 {
		return nil
	}
	n, size := binary.Uvarint(e[headSize:])
	at := headSize + size
	return e[at : at+int(n)]
}

// value has the room as its capacity.
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

// appendEntry appends an entry as it is in memory.
func appendEntry(to []byte, key string, b []byte) []byte {
	at := len(to)
	to = compact.AppendString(append(to, 0, 0, 0, 0), key)
	to = append(to, b...)
	free := -(len(to) - at) & (unit - 1)
	to = append(to, make([]byte, free)...)
	binary.LittleEndian.PutUint32(to[at:], uint32((len(to)-at)/unit<<freeBits|free))
	return to
}

// rehash makes the table one of that size.
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

// found is how an entry is found.
type found struct {
	hash uint64
	slot *slot
}

// entries are those that are found, in the order of their places. Their slots may be changed to
// places before.
func (t *Table) entries() iter.Seq2[entry, found] {
	return func(yield func(entry, found) bool) {
		mask, entryAt := len(t.table)-1, t.entry
		if t.file != nil {
			entryAt = t.file.inTurn()
		}
		for at := 0; at < t.end(); {
			e := entryAt(at)
			if t.Err() != nil {
				return
			}
			h := maphash.Bytes(seed, e.key())
			s := slotOf(at, h)
			i := int(h) & mask
			for t.table[i] != 0 && t.table[i]&^marked != s {
				i = (i + 1) & mask
			}
			if t.table[i] != 0 && !yield(e, found{h, &t.table[i]}) { // else the entry is dead
				return
			}
			at += len(e)
		}
	}
}

// Reserve says that so many keys with so many bytes in all will be put into a table that has none.
func (t *Table) Reserve(keys, bytes int) {
	if t.n == 0 {
		t.rehash(max(len(t.table), tableFor(keys)))
		t.expected = bytes
	}
}

// Compact gives back the room of values that were replaced.
func (t *Table) Compact() { t.makeRoom(0) }

// makeRoom moves the entries together, so that there is room for so many bytes more: where they
// are, or to another slice if that has to grow, or to shrink because no bytes are to come; or
// to another region of the file.
func (t *Table) makeRoom(bytes int) {
	if t.file != nil {
		to := t.file.file.region()
		w := bufio.NewWriterSize(to, pieceBytes)
		at := 0
		for e, f := range t.entries() {
			*f.slot = slotOf(at, f.hash) | *f.slot&marked
			at += len(e)
			w.Write(e)
		}
		w.Flush()
		if t.Err() == nil {
			t.file.release()
			t.file = to
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
		data = make([]byte, 0, max(leastData, need+need/slack, t.expected))
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

// entrySize is at least what appendEntry appends.
func entrySize(key string, b []byte) int {
	return headSize + binary.MaxVarintLen32 + len(key) + len(b) + unit
}
