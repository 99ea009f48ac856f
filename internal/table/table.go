// Package table holds the bytes of many keys in little memory.
package table

import (
	"encoding/binary"
	"hash/maphash"
	"iter"

	"hafvf/internal/compact"
)

// A Table has values by key, in few bytes more than these have: one slice without pointers holds
// keys and values one behind the other, and a hash table of 4-byte places finds them. The garbage
// collector has nothing to follow there. The zero value has none.
type Table struct {
	data  []byte   // see entry
	table []uint32 // place of an entry in data, plus 1; 0 is free. Collisions go on at the next slot. See marked
	n     int      // entries that are found
	live  int      // bytes of these in data
	slack int      // the part of the data, 1/slack, that may be dead or free; 0 is usualSlack
}

// A value has room to grow by less than this many bytes where it is: the counts and times of a
// state take another byte now and then.
const roomy = 16

// seed is that of the hash, another one in each process.
var seed = maphash.MakeSeed()

// marked is the bit of a slot whose entry was marked and not put since.
const marked = 1 << 31

const (
	leastTable = 8
	leastData  = 256

	// Less slack takes less memory, and moves the data more often.
	usualSlack = 8
	// loose is the slack of what is read once, and given back.
	loose = 3
)

// Len is the number of keys.
func (t *Table) Len() int { return t.n }

// Live is about the number of bytes of keys and values.
func (t *Table) Live() int { return t.live }

// Size is about what the table takes in memory.
func (t *Table) Size() int { return cap(t.data) + 4*cap(t.table) }

// All are the values by key, in any order. A value is valid until the next Put.
func (t *Table) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, at := range t.table {
			if at == 0 {
				continue
			}
			key, b, _ := t.entry(int(at&^marked) - 1)
			if !yield(string(key), b) {
				return
			}
		}
	}
}

// Get returns the value of a key, nil if there is none. It is valid until the next Put.
func (t *Table) Get(key string) []byte {
	if t.n == 0 {
		return nil
	}
	_, at := t.find(key)
	if at == 0 {
		return nil
	}
	_, b, _ := t.entry(at - 1)
	return b
}

// Put makes b the value of the key, which is not marked. Without b the key has none.
func (t *Table) Put(key string, b []byte) {
	if len(b) == 0 {
		t.remove(key)
		return
	}
	if 4*(t.n+1) > 3*len(t.table) {
		t.rehash(max(leastTable, 2*len(t.table)))
	}
	slot, at := t.find(key)
	if at > 0 {
		_, was, end := t.entry(at - 1)
		if free := cap(was) - len(b); free >= 0 && free < 2*roomy {
			t.data[end-cap(was)-1] = byte(free)
			copy(was[:len(b)], b)
			t.table[slot] = uint32(at)
			return
		}
		t.live -= end - (at - 1)
		t.n--
		t.table[slot] = 0 // the entry is written again, at this slot
	}
	before := len(t.data)
	if size := entrySize(key, b); before+size > cap(t.data) {
		t.makeRoom(size)
		before = len(t.data)
	}
	t.data = appendRoomy(t.data, key, b)
	if len(t.data) >= marked-1 {
		panic("table: more than 2 GB")
	}
	t.table[slot] = uint32(before + 1)
	t.n++
	t.live += len(t.data) - before
}

// Mark marks a key that has a value.
func (t *Table) Mark(key string) {
	slot, _ := t.find(key)
	t.table[slot] |= marked
}

// Marked reports whether the key was marked, and not put since.
func (t *Table) Marked(key string) bool {
	if t.n == 0 {
		return false
	}
	slot, _ := t.find(key)
	return t.table[slot]&marked != 0
}

// remove removes the key. The slots behind its own move up, so that they are still found.
func (t *Table) remove(key string) {
	if t.n == 0 {
		return
	}
	free, at := t.find(key)
	if at == 0 {
		return
	}
	_, _, end := t.entry(at - 1)
	t.live -= end - (at - 1)
	t.n--
	mask := len(t.table) - 1
	for i := (free + 1) & mask; t.table[i] != 0; i = (i + 1) & mask {
		k, _, _ := t.entry(int(t.table[i]&^marked) - 1)
		if home := int(maphash.Bytes(seed, k)) & mask; (i-home)&mask >= (i-free)&mask {
			t.table[free] = t.table[i]
			free = i
		}
	}
	t.table[free] = 0
	if t.n < len(t.table)/8 && len(t.table) > leastTable || len(t.data) > 2*t.live+leastData {
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

// find returns the slot of the key and its place in the data plus 1, or a free slot and 0.
func (t *Table) find(key string) (slot, at int) {
	mask := len(t.table) - 1
	for slot = int(maphash.String(seed, key)) & mask; ; slot = (slot + 1) & mask {
		at = int(t.table[slot] &^ marked)
		if at == 0 {
			return slot, 0
		}
		if k, _, _ := t.entry(at - 1); string(k) == key {
			return slot, at
		}
	}
}

// entry is that at a place of the data, which ends before end: the key and the room for the value,
// each behind its length. The first byte of the room says how much of its end is free. The capacity
// of b is the rest of the room.
func (t *Table) entry(at int) (key, b []byte, end int) {
	n, size := binary.Uvarint(t.data[at:])
	at += size
	key = t.data[at : at+int(n)]
	at += int(n)
	n, size = binary.Uvarint(t.data[at:])
	at += size
	end = at + int(n)
	return key, t.data[at+1 : end-int(t.data[at]) : end], end
}

// appendRoomy appends an entry as it is in memory.
func appendRoomy(to []byte, key string, b []byte) []byte {
	free := (roomy - len(b)%roomy) % roomy
	to = compact.AppendString(to, key)
	to = append(binary.AppendUvarint(to, uint64(1+len(b)+free)), byte(free))
	to = append(to, b...)
	return append(to, make([]byte, free)...)
}

// rehash makes the table one of that size.
func (t *Table) rehash(size int) {
	was := t.table
	t.table = make([]uint32, size)
	for _, at := range was {
		if at > 0 {
			t.place(at)
		}
	}
}

// place finds a slot for the entry at a place of the data, plus 1.
func (t *Table) place(at uint32) {
	key, _, _ := t.entry(int(at&^marked) - 1)
	mask := len(t.table) - 1
	slot := int(maphash.Bytes(seed, key)) & mask
	for t.table[slot] != 0 {
		slot = (slot + 1) & mask
	}
	t.table[slot] = at
}

// Grow makes room for so many bytes if there are no values yet.
func (t *Table) Grow(bytes int) {
	if t.n == 0 {
		t.makeRoom(bytes)
	}
}

// Compact gives back the room of values that were replaced.
func (t *Table) Compact() { t.makeRoom(0) }

// makeRoom moves the entries to a slice that has room for so many bytes more, without those
// that are dead.
func (t *Table) makeRoom(bytes int) {
	need := t.live + bytes
	slack := t.slack
	if slack == 0 {
		slack = usualSlack
	}
	data := make([]byte, 0, max(leastData, need+need/slack))
	for slot, at := range t.table {
		if at == 0 {
			continue
		}
		from := int(at&^marked) - 1
		_, _, end := t.entry(from)
		t.table[slot] = uint32(len(data)+1) | at&marked
		data = append(data, t.data[from:end]...)
	}
	t.data = data
}

// entrySize is at least what appendRoomy appends.
func entrySize(key string, b []byte) int {
	return binary.MaxVarintLen32 + len(key) + binary.MaxVarintLen32 + 1 + len(b) + roomy
}
