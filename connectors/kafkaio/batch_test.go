package kafkaio

import (
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

var someBatch = Batch{
	[]Record{
		{Position: Position{"in", 3, 7}, Time: time.UnixMilli(1_800_000_000_123).UTC(), Value: []byte("v"), Headers: []Header{{Key: "h"}, {Key: "", Value: []byte{}}}},
		{Position: Position{"in", 3, 1 << 40}, Time: time.UnixMilli(1 << 50).UTC(), Key: []byte{}, Oversized: 300_000, DecodeInfo: &DecodeInfo{Reason: "why", KeyFields: []byte("{}")}},
	},
	[]int64{1_800_000_000_000, -5},
}

// A decoded batch equals the encoded one, with null and empty distinguished. An incomplete encoding is an error.
func TestBatchCoder(t *testing.T) {
	expect.Form(t, batchForm, someBatch)
}
