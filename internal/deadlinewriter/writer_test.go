package deadlinewriter

import (
	"bytes"
	"errors"
	"hafvf/internal/testing/expect"
	"io"
	"os"
	"testing"
	"time"
)

// pipe returns a Writer and the reader of its pipe.
func pipe(t *testing.T) (*Writer, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	expect.OK(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	return New(w, 100*time.Millisecond), r
}

// The reader receives all bytes, written before and after Hurry.
func TestWrite(t *testing.T) {
	o, r := pipe(t)
	want := bytes.Repeat([]byte("0123456789abcde"), 50_000)
	got := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(r)
		got <- b
	}()
	for i, part := range [][]byte{want[:70_000], nil, want[70_000:]} {
		if n, err := o.Write(part); n != len(part) || err != nil {
			t.Errorf("%d of %d bytes, %v", n, len(part), err)
		}
		if i == 1 {
			o.Hurry()
			o.Hurry()
		}
	}
	o.file.Close()
	if b := <-got; !bytes.Equal(b, want) {
		t.Errorf("got %d bytes, or different ones", len(b))
	}
}

// A pipe that nobody reads blocks a write until Hurry, and no later write.
func TestStuck(t *testing.T) {
	o, _ := pipe(t)
	err := make(chan error, 2)
	for range 2 {
		go func() {
			_, e := o.Write(make([]byte, 1<<20))
			err <- e
		}()
	}
	select {
	case e := <-err:
		t.Fatalf("the pipe accepted everything: %v", e)
	case <-time.After(50 * time.Millisecond):
	}
	o.Hurry()
	for range 2 {
		if e := <-err; !errors.Is(e, ErrStuck) {
			t.Error(e)
		}
	}
	if _, e := o.Write([]byte("a")); !errors.Is(e, ErrStuck) {
		t.Error(e)
	}
}
