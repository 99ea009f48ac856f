package states

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Entries are a map, whatever is put, replaced and removed, and take little more than its keys and
// values.
func TestEntriesAreAMap(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 36))
		var e entries
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
			if e.Entity(key) != nil != (len(b) > 0) || string(e.Entity(key)) != string(b) || !e.Met(key) {
				t.Fatalf("seed %d: put %d bytes of %s, got %d", seed, len(b), key, len(e.Entity(key)))
			}
			bytes = max(bytes, e.live)
		}
		check := func(e *entries) {
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
		var stored entries
		if err := stored.load(e.appendAll(nil)); err != nil {
			t.Fatal(err)
		}
		check(&stored)
		if most := bytes + bytes/slack + leastData + entrySize("k000", make([]byte, most)); cap(e.data) > 2*most {
			t.Errorf("seed %d: %d bytes of room for %d", seed, cap(e.data), bytes)
		}
	}
}

// A memory finds what was restored and put, and tells them apart.
func TestMemory(t *testing.T) {
	m := NewMemory([]string{"a", "b", "c"})
	want := map[string]string{}
	for i := range 1000 {
		key := fmt.Sprint("key", i)
		m.Restore(key, fmt.Append(nil, "state ", i))
		want[key] = fmt.Sprint("state ", i)
	}
	m.Restore(FleetKey, []byte("fleet"))
	for i := range 100 {
		key := fmt.Sprint("key", i*7)
		c := m.Cell(CellName(key, m.names))
		if c.Met(key) {
			t.Errorf("%s is of this run", key)
		}
		c.Put(key, []byte("again"))
		want[key] = "again"
		if !c.Met(key) {
			t.Errorf("%s is not of this run", key)
		}
	}
	got := map[string]string{}
	for key, b := range m.All() {
		got[key] = string(b)
	}
	if d := cmp.Diff(want, got); d != "" || m.Len() != len(want) || string(m.Fleet) != "fleet" {
		t.Error(d)
	}
}
