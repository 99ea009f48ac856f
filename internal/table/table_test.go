package table

import (
	"fmt"
	"hafvf/internal/testing/expect"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A checkedTable is a table and its expected contents.
type checkedTable struct {
	Table
	rng          *rand.Rand
	keys, maxLen int // number of keys, maximum length of values
	want         map[string]string
	marked       map[string]bool
	bytes        int // maximum of live
}

func newCheckedTable(rng *rand.Rand) *checkedTable {
	return &checkedTable{rng: rng, keys: 1 + rng.IntN(400), maxLen: 1 + rng.IntN(600), want: map[string]string{}, marked: map[string]bool{}}
}

// change puts, removes or marks a random key.
func (c *checkedTable) change() (key string) {
	rng := c.rng
	key = fmt.Sprint("k", rng.IntN(c.keys))
	old, exists := c.want[key]
	if exists && rng.IntN(4) == 0 {
		if c.Mark(key); c.Err() == nil {
			c.marked[key] = true
		}
		return key
	}
	b := make([]byte, rng.IntN(c.maxLen))
	if exists && rng.IntN(2) == 0 {
		b = make([]byte, max(0, len(old)+rng.IntN(9)-4)) // about the previous length
	}
	for j := range b {
		b[j] = byte(rng.IntN(256))
	}
	if rng.IntN(5) == 0 {
		b = nil
	}
	c.Put(key, b)
	delete(c.marked, key)
	if len(b) == 0 {
		delete(c.want, key)
	} else {
		c.want[key] = string(b)
	}
	c.bytes = max(c.bytes, c.live)
	return key
}

// check compares the value of a key.
func (c *checkedTable) check(t *testing.T, key string) {
	t.Helper()
	want, exists := c.want[key]
	if got := c.Get(key); c.Err() == nil && ((got != nil) != exists || string(got) != want) {
		t.Fatalf("%d bytes of %s, %d wanted", len(got), key, len(want))
	}
	if got := c.Marked(key); c.Err() == nil && got != c.marked[key] {
		t.Fatalf("%s is marked: %v", key, got)
	}
}

// checkAll compares all values.
func (c *checkedTable) checkAll(t *testing.T) {
	t.Helper()
	got := map[string]string{}
	for key, b := range c.All() {
		got[key] = string(b)
	}
	if c.Err() != nil {
		return
	}
	if d := cmp.Diff(c.want, got); d != "" || c.Len() != len(c.want) {
		t.Fatalf("%d entries, %s", c.Len(), d)
	}
}

// collide makes keys have one of 16 hashes if seed is odd.
func collide(t *testing.T, seed uint64) {
	t.Helper()
	t.Cleanup(func() { hashMask = ^uint64(0) })
	hashMask = [...]uint64{^uint64(0), 15}[seed%2]
}

// A table behaves like a map for every sequence of Put and Mark, also if keys have one hash, and needs little more
// memory than its keys and values.
func TestTableIsAMap(t *testing.T) {
	for seed := range uint64(30) {
		collide(t, seed)
		c := newCheckedTable(rand.New(rand.NewPCG(seed, 36)))
		for range 4000 {
			c.check(t, c.change())
		}
		c.checkAll(t)
		if maxBytes := c.bytes + c.bytes/usualSlack + minDataBytes + entrySize("k000", make([]byte, c.maxLen)); cap(c.data) > 2*maxBytes {
			t.Errorf("seed %d: %d bytes of room for %d", seed, cap(c.data), c.bytes)
		}
	}
}

// Shards behave like a map, and are empty after Drain.
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
	for _, values := range []iter.Seq2[string, []byte]{s.All(), s.Drain()} {
		got := map[string]string{}
		for key, b := range values {
			got[key] = string(b)
		}
		expect.Same(t, want, got)
	}
	if s.Len() != 0 || s.Get("key1") != nil {
		t.Errorf("%d keys are left", s.Len())
	}
}
