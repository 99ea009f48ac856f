package connectors

import (
	"testing"

	"hafvf/internal/testing/expect"
)

// A batch is decoded as it was encoded. A batch that is cut short is an error.
func TestBatchCoder(t *testing.T) {
	want := Batch{[]Record{
		{Source: "a.csv", Path: "b/a.csv", Position: 2, Raw: []byte("k,1"), Fields: []string{"k", "", "1"}, After: 7},
		{Source: "stdin", Path: "-", Position: 1 << 40, Index: 1, Raw: []byte{}, Reason: "not UTF-8"},
	}}
	expect.Form(t, serializeBatch, want)
}
