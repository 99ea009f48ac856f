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
	data  []byte // see entry
	table []slot // collisions go on at the next one
	n     int    // entries that are found
	live  int    // bytes of these in data
	slack int    // the part of the data, 1/slack, that may be dead or free; 0 is usualSlack

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

// tagOf is the part of a hash that a slot has. Shards go by other bits, and so do slots.
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
func (t *Table) Size() int { return cap(t.data) + 4*cap(t.table) }

// All are the values by key, in any order. A value is valid until the next Put.
func (t *Table) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, s := range t.table {
			if s == 0 {
				continue
			}
			key, b, _ := t.entry(s.at())
			if !yield(string(key), b) {
				return
			}
		}
	}
}

// Get returns the value of a key, nil if there is none. It is valid until the next Put.
func (t *Table) Get(key string) []byte { return t.get(key, maphash.String(seed, key)) }

func (t *Table) get(key string, h uint64) []byte {
	if t.n == 0 {
		return nil
	}
	i := t.find(key, h)
	if t.table[i] == 0 {
		return nil
	}
	_, b, _ := t.entry(t.table[i].at())
	return b
}

// Put makes b the value of the key, which is not marked. Without b the key has none.
func (t *Table) Put(key string, b []byte) { t.put(key, maphash.String(seed, key), b) }

func (t *Table) put(key string, h uint64, b []byte) {
	if len(b) == 0 {
		t.remove(key, h)
		return
	}
	if 4*(t.n+1) > 3*len(t.table) {
		t.rehash(max(leastTable, 2*len(t.table)))
	}
	i := t.find(key, h)
	if s := t.table[i]; s != 0 {
		_, was, end := t.entry(s.at())
		if free := cap(was) - len(b); free >= 0 && free <= maxFree {
			t.data[s.at()] = t.data[s.at()]&^maxFree | byte(free)
			copy(was[:len(b)], b)
			t.table[i] &^= marked
			return
		}
		t.live -= end - s.at()
		t.n--
		t.table[i] = tagMask // no entry's; this one is written again
	}
	if size := entrySize(key, b); len(t.data)+size > cap(t.data) {
		t.makeRoom(size)
	}
	at := len(t.data)
	if at/unit >= maxPlace {
		panic("table: more than 2 GB")
	}
	t.data = appendEntry(t.data, key, b)
	t.table[i] = slotOf(at, h)
	t.n++
	t.live += len(t.data) - at
}

// Mark marks a key that has a value.
func (t *Table) Mark(key string) { t.table[t.find(key, maphash.String(seed, key))] |= marked }

// Marked reports whether the key was marked, and not put since.
func (t *Table) Marked(key string) bool {
	return t.n > 0 && t.table[t.find(key, maphash.String(seed, key))]&marked != 0
}

// remove removes the key. The slots behind its own move up, so that they are still found.
func (t *Table) remove(key string, h uint64) {
	if t.n == 0 {
		return
	}
	free := t.find(key, h)
	if t.table[free] == 0 {
		return
	}
	at := t.table[free].at()
	_, _, end := t.entry(at)
	t.live -= end - at
	t.n--
	mask := len(t.table) - 1
	for i := (free + 1) & mask; t.table[i] != 0; i = (i + 1) & mask {
		k, _, _ := t.entry(t.table[i].at())
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

// find returns the index of the key's slot, or of a free one for it. h is the hash of the key.
func (t *Table) find(key string, h uint64) int {
	mask, tag := len(t.table)-1, tagOf(h)
	for i := int(h) & mask; ; i = (i + 1) & mask {
		s := t.table[i]
		if s == 0 {
			return i
		}
		if s.tag() != tag {
			continue
		}
		if k, _, _ := t.entry(s.at()); string(k) == key {
			return i
		}
	}
}

// entry is that at a place of the data, which ends before end: a header, the key behind its length,
// and the room for the value, whose capacity b has. The header says how many units the entry takes,
// and in its last freeBits how much of the room is free.
func (t *Table) entry(at int) (key, b []byte, end int) {
	head := binary.LittleEndian.Uint32(t.data[at:])
	end = at + int(head>>freeBits)*unit
	n, size := binary.Uvarint(t.data[at+headSize:])
	at += headSize + size
	key = t.data[at : at+int(n)]
	return key, t.data[at+int(n) : end-int(head&maxFree) : end], end
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
	was := t.table
	t.table = make([]slot, size)
	for _, s := range was {
		if s == 0 {
			continue
		}
		key, _, _ := t.entry(s.at())
		mask := len(t.table) - 1
		i := int(maphash.Bytes(seed, key)) & mask
		for t.table[i] != 0 {
			i = (i + 1) & mask
		}
		t.table[i] = s
	}
}

// Expect says that so many keys with so many bytes in all will be put into a table that has none.
func (t *Table) Expect(keys, bytes int) {
	if t.n == 0 {
		t.rehash(max(len(t.table), tableFor(keys)))
		t.expected = bytes
	}
}

// Compact gives back the room of values that were replaced.
func (t *Table) Compact() { t.makeRoom(0) }

// makeRoom moves the entries together, so that there is room for so many bytes more: where they
// are, or to another slice if that has to grow, or to shrink because no bytes are to come.
func (t *Table) makeRoom(bytes int) {
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
	mask := len(t.table) - 1
	for at := 0; at < len(t.data); {
		key, _, end := t.entry(at)
		h := maphash.Bytes(seed, key)
		s := slotOf(at, h)
		i := int(h) & mask
		for t.table[i] != 0 && t.table[i]&^marked != s {
			i = (i + 1) & mask
		}
		if t.table[i] != 0 { // else the entry is dead
			t.table[i] = slotOf(len(data), h) | t.table[i]&marked
			data = append(data, t.data[at:end]...)
		}
		at = end
	}
	t.data = data
}

// entrySize is at least what appendEntry appends.
func entrySize(key string, b []byte) int {
	return headSize + binary.MaxVarintLen32 + len(key) + len(b) + unit
}
