package seal

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What was sealed for a key is opened for that key alone, and not with any bit changed or
// any end cut off.
func TestSeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, settings := rapid.String().Draw(t, "key"), rapid.String().Draw(t, "settings")
		state := rapid.SliceOf(rapid.Byte()).Draw(t, "state")
		b := Seal(key, settings, state)
		got, text, err := Open(key, b)
		if err != nil || text != settings || !bytes.Equal(got, state) {
			t.Fatalf("%q, %q, %v", got, text, err)
		}
		if _, _, err := Open(key+"x", b); err == nil || !strings.Contains(err.Error(), "the state of another key") {
			t.Fatalf("another key: %v", err)
		}
		bit := rapid.IntRange(0, 8*len(b)-1).Draw(t, "bit")
		damaged := bytes.Clone(b)
		damaged[bit/8] ^= 1 << (bit % 8)
		if _, _, err := Open(key, damaged); err == nil {
			t.Fatalf("bit %d is changed, and nobody sees it", bit)
		}
		if _, _, err := Open(key, b[:rapid.IntRange(0, len(b)-1).Draw(t, "length")]); err == nil {
			t.Fatal("the end is missing, and nobody sees it")
		}
	})
}

func TestOpenUnsealed(t *testing.T) {
	for _, b := range []string{"", "\x00\x01", "\xff", "state"} {
		if got, _, err := Open("k", []byte(b)); err == nil || got != nil || !strings.Contains(err.Error(), "begin anew") {
			t.Errorf("%q: %q, %v", b, got, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add("k", Seal("k", "order=arrival", []byte("state")))
	f.Fuzz(func(t *testing.T, key string, b []byte) {
		state, settings, err := Open(key, b)
		if err != nil {
			return
		}
		if again, text, err := Open(key, Seal(key, settings, state)); err != nil || text != settings || !bytes.Equal(again, state) {
			t.Fatalf("%q, %q, %v", again, text, err)
		}
	})
}
