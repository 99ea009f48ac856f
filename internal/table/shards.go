package table

import (
	"hash/fnv"
	"iter"
)

// Shards is a Table that grows without copying all data at once. Each key belongs to one of NumShards shards.
// Different goroutines may use different shards. The zero value is empty.
type Shards struct {
	tables [NumShards]Table
}

const NumShards = 256

// Shard returns the number of the shard that a key belongs to.
func Shard[S string | []byte](key S) int { return int(FNV1a(key) % NumShards) }

// FNV1a returns the hash FNV-1a. It must not change: stored states are found by it.
func FNV1a[S string | []byte](key S) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	return h.Sum64()
}

// Len returns the number of keys.
func (s *Shards) Len() (n int) {
	for i := range s.tables {
		n += s.tables[i].Len()
	}
	return n
}

// Get returns the value of a key, or nil if there is none. The value is valid until the next Put.
func (s *Shards) Get(key string) []byte { return s.tables[Shard(key)].Get(key) }

// Put sets the value of a key. An empty b deletes the key.
func (s *Shards) Put(key string, b []byte) {
	t := &s.tables[Shard(key)]
	t.slack = looseSlack
	t.Put(key, b)
}

// Live returns about the number of bytes of keys and values.
func (s *Shards) Live() (bytes int) {
	for i := range s.tables {
		bytes += s.tables[i].Live()
	}
	return bytes
}

// In returns the values of a shard by key, in any order. A value is valid until the next Put.
func (s *Shards) In(shard int) iter.Seq2[string, []byte] { return s.tables[shard].All() }

// All returns the values by key, in any order. A value is valid until the next Put.
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

// Drain is All, but it releases each shard after its last value. Afterwards s is empty.
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
