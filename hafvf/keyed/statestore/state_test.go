package statestore

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A state that was sealed for a key can be opened for that key only, and not if any bit is changed or the end is
// cut off.
func TestSeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, settings := rapid.String().Draw(t, "key"), rapid.String().Draw(t, "settings")
		state := rapid.SliceOf(rapid.Byte()).Draw(t, "state")
		b := State{Key: key, Settings: settings, Bytes: state}.Seal()
		if got := Open(key, b); got.Err != nil || got.Key != key || got.Settings != settings || !bytes.Equal(got.Bytes, state) {
			t.Fatalf("%+v", got)
		}
		if err := Open(key+"x", b).Err; err == nil || !strings.Contains(err.Error(), "the state of another key") {
			t.Fatalf("another key: %v", err)
		}
		bit := rapid.IntRange(0, 8*len(b)-1).Draw(t, "bit")
		damaged := bytes.Clone(b)
		damaged[bit/8] ^= 1 << (bit % 8)
		if Open(key, damaged).Err == nil {
			t.Fatalf("bit %d is changed, but Open returns no error", bit)
		}
		if Open(key, b[:rapid.IntRange(0, len(b)-1).Draw(t, "length")]).Err == nil {
			t.Fatal("the end is missing, but Open returns no error")
		}
	})
}

func TestOpenUnsealed(t *testing.T) {
	for _, b := range []string{"", "\x00\x01", "\xff", "state"} {
		if got := Open("k", []byte(b)); got.Err == nil || got.Bytes != nil || string(got.Seal()) != b || !strings.Contains(got.Err.Error(), "no seal") {
			t.Errorf("%q: %+v", b, got)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add("k", State{Key: "k", Settings: "order=arrival", Bytes: []byte("state")}.Seal())
	f.Fuzz(func(t *testing.T, key string, b []byte) {
		s := Open(key, b)
		if s.Err != nil {
			return
		}
		if reopened := Open(key, s.Seal()); reopened.Err != nil || reopened.Settings != s.Settings || !bytes.Equal(reopened.Bytes, s.Bytes) {
			t.Fatalf("%+v", reopened)
		}
	})
}
