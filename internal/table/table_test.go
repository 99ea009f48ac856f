package table

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A table is a map, whatever is put, replaced and removed, and take little more than its keys and
// values.
func TestTableIsAMap(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 36))
		var e Table
		want, met := map[string]string{}, map[string]bool{}
		keys, most := 1+rng.IntN(400), 1+rng.IntN(600)
		bytes := 0
		for i := range 4000 {
			key := fmt.Sprint("k", rng.IntN(keys))
			b := make([]byte, rng.IntN(most))
			if was := len(want[key]); was > 0 && rng.IntN(2) == 0 {
				b = make([]byte, max(0, was+rng.IntN(9)-4)) // about as long as it was
			}
			for j := range b {
				b[j] = byte(rng.IntN(256))
			}
			if i%5 == 0 {
				b = nil
			}
			if e.Put(key, b); len(b) == 0 {
				delete(want, key)
			} else {
				want[key] = string(b)
			}
			met[key] = true
			if e.Get(key) != nil != (len(b) > 0) || string(e.Get(key)) != string(b) || e.Marked(key) {
				t.Fatalf("seed %d: put %d bytes of %s, got %d", seed, len(b), key, len(e.Get(key)))
			}
			bytes = max(bytes, e.live)
		}
		check := func(e *Table) {
			t.Helper()
			if d := cmp.Diff(want, maps.Collect(func(yield func(string, string) bool) {
				for key, b := range e.All() {
					if !yield(key, string(b)) {
						return
					}
				}
			})); d != "" || e.Len() != len(want) {
				t.Fatalf("seed %d: %d entries, %s", seed, e.Len(), d)
			}
		}
		check(&e)
		if most := bytes + bytes/usualSlack + leastData + entrySize("k000", make([]byte, most)); cap(e.data) > 2*most {
			t.Errorf("seed %d: %d bytes of room for %d", seed, cap(e.data), bytes)
		}
	}
}

// Shards are a map, and empty when they were drained.
func TestShardsAreAMap(t *testing.T) {
	var s Shards
	want := map[string]string{}
	for i := range 5000 {
		key := fmt.Sprint("key", i%3000)
		want[key] = fmt.Sprint("value ", i)
		s.Put(key, []byte(want[key]))
	}
	for i := range 1000 {
		key := fmt.Sprint("key", i*2)
		delete(want, key)
		s.Put(key, nil)
	}
	if string(s.Get("key1")) != want["key1"] || s.Get("key2") != nil || s.Len() != len(want) {
		t.Errorf("%q, %q, %d keys", s.Get("key1"), s.Get("key2"), s.Len())
	}
	for _, each := range []iter.Seq2[string, []byte]{s.All(), s.Drain()} {
		got := map[string]string{}
		for key, b := range each {
			got[key] = string(b)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	if s.Len() != 0 || s.Get("key1") != nil {
		t.Errorf("%d keys are left", s.Len())
	}
}
