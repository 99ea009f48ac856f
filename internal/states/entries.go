package states

import (
	"encoding/binary"
	"hash/maphash"
	"iter"
	"slices"

	"hafvf/internal/compact"
)

// entries are encoded entities by key, in few bytes more than these have: one slice without
// pointers holds keys and entities one behind the other, and a hash table of 4-byte places finds
// them. The zero value has none.
type entries struct {
	data  []byte   // see entry
	table []uint32 // place of an entry in data, plus 1; 0 is free. Collisions go on at the next slot. See unmet
	n     int      // entries that are found
	live  int      // bytes of these in data
}

// An entity has room to grow by less than this many bytes where it is: most of its counts and
// times take another byte now and then.
const roomy = 16

// hashed is the seed of the hash. The hash of the place of a state is another one: see CellName.
var hashed = maphash.MakeSeed()

// unmet marks a slot whose entry was there before the run, which has not put it since.
const unmet = 1 << 31

const (
	leastTable = 8
	leastData  = 256
	// slack is the part of the data, 1/slack, that may be dead or free.
	slack = 8
)

// Len is the number of entities.
func (e *entries) Len() int { return e.n }

// Live is about the number of bytes of the entities, with their keys.
func (e *entries) Live() int { return e.live }

// Size is about what the entities take in memory.
func (e *entries) Size() int { return cap(e.data) + 4*cap(e.table) }

// All are the entities by key, in any order. An entity is valid until the next Put.
func (e *entries) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, at := range e.table {
			if at == 0 {
				continue
			}
			key, b, _ := e.entry(int(at&^unmet) - 1)
			if !yield(string(key), b) {
				return
			}
		}
	}
}

// Entity returns the encoded entity of a key, nil if there is none. It is valid until the next
// Put.
func (e *entries) Entity(key string) []byte {
	if e.n == 0 {
		return nil
	}
	_, at := e.find(key)
	if at == 0 {
		return nil
	}
	_, b, _ := e.entry(at - 1)
	return b
}

// Put makes b the key's entity. Without b the key has none.
func (e *entries) Put(key string, b []byte) {
	if len(b) == 0 {
		e.remove(key)
		return
	}
	if 4*(e.n+1) > 3*len(e.table) {
		e.rehash(max(leastTable, 2*len(e.table)))
	}
	slot, at := e.find(key)
	if at > 0 {
		_, was, end := e.entry(at - 1)
		if free := cap(was) - len(b); free >= 0 && free < 2*roomy {
			e.data[end-cap(was)-1] = byte(free)
			copy(was[:len(b)], b)
			e.table[slot] = uint32(at)
			return
		}
		e.live -= end - (at - 1)
		e.n--
		e.table[slot] = 0 // the entry is written again, at this slot
	}
	before := len(e.data)
	if size := entrySize(key, b); before+size > cap(e.data) {
		e.makeRoom(size)
		before = len(e.data)
	}
	e.data = appendRoomy(e.data, key, b)
	if len(e.data) >= unmet-1 {
		panic("states: the keys that share a state have more than 2 GB: share fewer keys")
	}
	e.table[slot] = uint32(before + 1)
	e.n++
	e.live += len(e.data) - before
}

// Met reports whether the key's entity was put in this run, or is none.
func (e *entries) Met(key string) bool {
	if e.n == 0 {
		return true
	}
	slot, _ := e.find(key)
	return e.table[slot]&unmet == 0
}

// remove removes the key. The slots behind its own move up, so that they are still found.
func (e *entries) remove(key string) {
	if e.n == 0 {
		return
	}
	free, at := e.find(key)
	if at == 0 {
		return
	}
	_, _, end := e.entry(at - 1)
	e.live -= end - (at - 1)
	e.n--
	mask := len(e.table) - 1
	for i := (free + 1) & mask; e.table[i] != 0; i = (i + 1) & mask {
		k, _, _ := e.entry(int(e.table[i]&^unmet) - 1)
		if home := int(maphash.Bytes(hashed, k)) & mask; (i-home)&mask >= (i-free)&mask {
			e.table[free] = e.table[i]
			free = i
		}
	}
	e.table[free] = 0
	if e.n < len(e.table)/8 && len(e.table) > leastTable || len(e.data) > 2*e.live+leastData {
		e.rehash(tableFor(e.n))
		e.makeRoom(0)
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
func (e *entries) find(key string) (slot, at int) {
	mask := len(e.table) - 1
	for slot = int(maphash.String(hashed, key)) & mask; ; slot = (slot + 1) & mask {
		at = int(e.table[slot] &^ unmet)
		if at == 0 {
			return slot, 0
		}
		if k, _, _ := e.entry(at - 1); string(k) == key {
			return slot, at
		}
	}
}

// entry is that at a place of the data, which ends before end: the key and the room for the entity,
// each behind its length. The first byte of the room says how much of its end is free. The capacity
// of b is the rest of the room.
func (e *entries) entry(at int) (key, b []byte, end int) {
	n, size := binary.Uvarint(e.data[at:])
	at += size
	key = e.data[at : at+int(n)]
	at += int(n)
	n, size = binary.Uvarint(e.data[at:])
	at += size
	end = at + int(n)
	return key, e.data[at+1 : end-int(e.data[at]) : end], end
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
func (e *entries) rehash(size int) {
	was := e.table
	e.table = make([]uint32, size)
	for _, at := range was {
		if at > 0 {
			e.place(at)
		}
	}
}

// place finds a slot for the entry at a place of the data, plus 1.
func (e *entries) place(at uint32) {
	key, _, _ := e.entry(int(at&^unmet) - 1)
	mask := len(e.table) - 1
	slot := int(maphash.Bytes(hashed, key)) & mask
	for e.table[slot] != 0 {
		slot = (slot + 1) & mask
	}
	e.table[slot] = at
}

// makeRoom moves the entries to a slice that has room for so many bytes more, without those
// that are dead.
func (e *entries) makeRoom(bytes int) {
	need := e.live + bytes
	data := make([]byte, 0, max(leastData, need+need/slack))
	for slot, at := range e.table {
		if at == 0 {
			continue
		}
		from := int(at&^unmet) - 1
		_, _, end := e.entry(from)
		e.table[slot] = uint32(len(data)+1) | at&unmet
		data = append(data, e.data[from:end]...)
	}
	e.data = data
}

// appendAll appends all entries as they are stored.
func (e *entries) appendAll(to []byte) []byte {
	for key, b := range e.All() {
		to = appendEntry(to, key, b)
	}
	return to
}

// load puts encoded entries, the last of a key last. An entry without bytes removes its key.
func (e *entries) load(b []byte) error {
	if e.n == 0 {
		e.data = slices.Grow(e.data, len(b))
	}
	for r := (&compact.Reader{B: b}); len(r.B) > 0; {
		key := r.Text()
		n := r.Count(1)
		if r.Bad {
			return ErrCell
		}
		e.Put(key, r.B[:n])
		r.B = r.B[n:]
	}
	return nil
}

// appendEntry appends an entry as it is stored: key and entity, each behind its length.
func appendEntry(to []byte, key string, b []byte) []byte {
	to = compact.AppendString(to, key)
	to = binary.AppendUvarint(to, uint64(len(b)))
	return append(to, b...)
}

// entrySize is at least what appendRoomy appends.
func entrySize(key string, b []byte) int {
	return binary.MaxVarintLen32 + len(key) + binary.MaxVarintLen32 + 1 + len(b) + roomy
}
