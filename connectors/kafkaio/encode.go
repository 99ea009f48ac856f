package kafkaio

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/compress/gzip"
	"github.com/segmentio/kafka-go/compress/lz4"
	"github.com/segmentio/kafka-go/compress/snappy"
	"github.com/segmentio/kafka-go/compress/zstd"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Compressions are the valid values of Sink.Compression. Each codec uses its fastest level, which applies to this
// package only.
var Compressions = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// DefaultCompression was chosen with BenchmarkCompression. Brokers before Kafka 2.1 do not support it.
const DefaultCompression = "zstd"

// codecs has the order of Compressions.
var codecs = []compress.Codec{nil, &gzip.Codec{Level: 1}, new(snappy.Codec), new(lz4.Codec), &zstd.Codec{Level: 1}}

// codec returns the codec of the sink's compression, nil for none.
func (s Sink) codec() (compress.Codec, error) {
	i := slices.Index(Compressions, cmp.Or(s.Compression, DefaultCompression))
	if i < 0 {
		return nil, fmt.Errorf("compression %q of topic %q is unknown: use one of %s", s.Compression, s.Topic, strings.Join(Compressions, ", "))
	}
	return codecs[i], nil
}

// Positions in a record set, in bytes. The first four bytes are its size, before the batch.
const (
	checksumAt   = 4 + 17
	attributesAt = 4 + 21 // start of the bytes under the checksum
	recordsAt    = 4 + 61
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode returns the record set of a produce request with one batch. kafka-go can encode too, but its compression
// levels apply to the whole process. With its default levels, zstd and gzip take 1.5 times as long, and the output of
// zstd is 5 % larger.
func encode(codec compress.Codec, batch []*Message) ([]byte, error) {
	size := 0
	for _, m := range batch {
		size += m.size()
	}
	records := bytes.NewBuffer(make([]byte, 0, size))
	var record []byte
	for i, m := range batch {
		record = kbin.AppendVarint(append(record[:0], 0, 0), int32(i)) // no attributes, and the time of the first record
		record = kbin.AppendVarintBytes(kbin.AppendVarintBytes(record, m.Key), m.Value)
		if m.ID == "" {
			record = kbin.AppendVarint(record, 0)
		} else {
			record = kbin.AppendVarintString(kbin.AppendVarintString(kbin.AppendVarint(record, 1), "id"), m.ID)
		}
		records.Write(kbin.AppendVarint(records.AvailableBuffer(), int32(len(record))))
		records.Write(record)
	}
	now := time.Now().UnixMilli()
	head := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(len(batch) - 1), FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(batch)), Records: records.Bytes()}
	if codec != nil {
		out := bytes.NewBuffer(make([]byte, 0, size/2))
		w := codec.NewWriter(out)
		if _, err := records.WriteTo(w); err != nil {
			return nil, err
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
		head.Attributes, head.Records = int16(codec.Code()), out.Bytes()
	}
	head.Length = int32(recordsAt - 16 + len(head.Records)) // number of bytes after this field
	set := binary.BigEndian.AppendUint32(make([]byte, 0, recordsAt+len(head.Records)), uint32(recordsAt-4+len(head.Records)))
	set = head.AppendTo(set)
	binary.BigEndian.PutUint32(set[checksumAt:], crc32.Checksum(set[attributesAt:], castagnoli))
	return set, nil
}
