package connectors

import (
	"testing"

	"hafvf/internal/testing/expect"
)

func TestChunk(t *testing.T) {
	want := []Line{
		{[]byte("pump"), "in-0-1", []byte("{\"a\":1}\n")},
		{nil, "", []byte("{}\n")},
		{[]byte{}, "in-0-2", []byte("\n")},
		{[]byte("new\nline"), "a\nb", []byte("[]\n")},
	}
	var c Chunk
	whole := map[int]bool{0: true} // lengths after which a line ends
	for _, l := range want {
		c = append(c.Begin(l.Key, l.ID), l.Text...)
		whole[len(c)] = true
	}
	var got []Line
	for l, err := range c.Lines() {
		expect.OK(t, err)
		got = append(got, l)
	}
	expect.Same(t, want, got)
	for n := range c {
		var last error
		for _, err := range c[:n].Lines() {
			last = err
		}
		expect.Same(t, whole[n], last == nil, "cut off after ", n, " bytes")
	}
}

func FuzzChunk(f *testing.F) {
	f.Add([]byte(Chunk(nil).Begin([]byte("k"), "id")))
	f.Add([]byte("\x02k\x02id\n\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for range Chunk(b).Lines() {
		}
	})
}
