package table

import (
	"hash/maphash"
	"iter"
)

// Shards are a Table without its limit of 2 GB, which grows without being copied as a whole. Each
// key belongs to one of NumShards shards. Different goroutines may use different shards. The zero
// value has no keys.
type Shards struct {
	tables [NumShards]Table
}

const NumShards = 256

// Shard is the number of the shard that a key belongs to.
func Shard(key []byte) int { return int(maphash.Bytes(seed, key) >> 56) }

// of returns the table of a key, and the hash of the key.
func (s *Shards) of(key string) (*Table, uint64) {
	h := maphash.String(seed, key)
	return &s.tables[h>>56], h
}

// Len is the number of keys.
func (s *Shards) Len() (n int) {
	for i := range s.tables {
		n += s.tables[i].Len()
	}
	return n
}

// Get returns the value of a key, nil if there is none. It is valid until the next Put.
func (s *Shards) Get(key string) []byte {
	t, h := s.of(key)
	return t.get(key, h)
}

// Put makes b the value of the key. Without b the key has none.
func (s *Shards) Put(key string, b []byte) {
	t, h := s.of(key)
	t.slack = loose
	t.put(key, h, b)
}

// In are the values of a shard by key, in any order. A value is valid until the next Put.
func (s *Shards) In(shard int) iter.Seq2[string, []byte] { return s.tables[shard].All() }

// All are the values by key, in any order. A value is valid until the next Put.
func (s *Shards) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for i := range s.tables {
			for key, b := range s.In(i) {
				if !yield(key, b) {
					return
				}
			}
		}
	}
}

// Drain is All, and gives back the room of the values behind it. Afterwards there are no keys.
func (s *Shards) Drain() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for i := range s.tables {
			for key, b := range s.tables[i].All() {
				if !yield(key, b) {
					*s = Shards{}
					return
				}
			}
			s.tables[i] = Table{}
		}
	}
}
