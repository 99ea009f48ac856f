// Package recordbatch decodes record batches, the format in which Kafka 0.11 and newer stores records and answers
// fetches (version 2 in its documentation).
//
// Unlike the decoder of segmentio/kafka-go it handles batches from which compaction has removed some or all records,
// the markers of transactions, the records of aborted transactions, and timestamps that the broker has set.
package recordbatch

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
)

// A Fetch is a broker's answer to a fetch of one partition, and the range of wanted offsets.
type Fetch struct {
	// Batches are record batches in the order of their offsets. Decode skips the last one if it is incomplete.
	Batches []byte
	// Aborted lists the aborted transactions that the broker reported. Decode skips their records.
	Aborted []Aborted
	// From is the first wanted offset. The first batch may begin before it, because a broker sends whole batches.
	From int64
	// End is the offset after the last wanted one; negative for no limit.
	End int64
}

// Aborted is an aborted transaction.
type Aborted struct {
	Producer int64 // the producer's id
	First    int64 // the offset of its first record in the partition
}

// Limits are numbers of bytes, each positive.
type Limits struct {
	// Record is the maximum size of key, value and headers of a record together. Decode removes the headers of a
	// larger record, and truncates its key and its value to Kept bytes each; see Record.Oversized.
	Record int
	// Fetch limits the sum of Record.Size and Overhead over the records. Decode stops after the batch that exceeds it.
	Fetch int
	// Batch is the maximum size of one batch after decompression, and of the window of zstd. A larger batch is an
	// Unsupported error.
	Batch int
}

// Overhead estimates the memory of a record in addition to its Size, in bytes.
const Overhead = 128

// Kept is the maximum size of the key and of the value of an oversized record after truncation, in bytes.
const Kept = 64 << 10

// A Record is one record. Its bytes may share memory with Fetch.Batches.
type Record struct {
	Offset  int64
	Time    time.Time // UTC, in milliseconds
	Key     []byte    // nil if null
	Value   []byte    // nil if null
	Headers []Header
	// Size is the number of bytes of key, value and headers before truncation.
	Size int
	// Oversized reports whether Size is above Limits.Record, so that Decode has truncated Key and Value.
	Oversized bool
}

// A Header is one header of a record.
type Header struct {
	Key   string
	Value []byte // nil if null
}

// Unsupported is the error for records that this package cannot read. Other errors mean damage, which may be absent
// after a second fetch.
type Unsupported struct{ text string }

func (u *Unsupported) Error() string { return u.text }

const (
	headerLength = 61 // bytes before the records
	lengthEnd    = 12 // bytes that a batch's length does not count

	codecBits     = 0x07
	appendTime    = 0x08 // all records have the broker's time
	transactional = 0x10
	control       = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Decode calls add for the wanted records, in ascending order of their offsets, and returns the offset to fetch next.
// It is above From unless Batches is empty. Offsets before next may have no record.
//
// After an error, discard the records that add received. Errors contain the offset at which the batch begins.
func (f Fetch) Decode(limits Limits, add func(Record)) (next int64, err error) {
	big := binary.BigEndian
	begun := slices.SortedFunc(slices.Values(f.Aborted), func(a, b Aborted) int { return cmp.Compare(a.First, b.First) })
	aborting := map[int64]bool{} // producers that are inside an aborted transaction
	next = f.From
	size := 0
	free := int64(0) // first offset after the batches so far
	for rest := f.Batches; len(rest) >= lengthEnd && (f.End < 0 || next < f.End) && size < limits.Fetch; {
		base, length := int64(big.Uint64(rest)), lengthEnd+int64(big.Uint32(rest[8:]))
		if length > int64(len(rest)) {
			break
		}
		data := rest[:length]
		rest = rest[length:]
		switch {
		case len(data) > 16 && data[16] < 2:
			return next, &Unsupported{fmt.Sprintf("the records at offset %d have the format before Kafka 0.11, which is not supported", base)}
		case len(data) < headerLength || data[16] != 2:
			return next, fmt.Errorf("the records at offset %d have a format that is not known", base)
		case crc32.Checksum(data[21:], castagnoli) != big.Uint32(data[17:]):
			return next, fmt.Errorf("the records at offset %d are damaged: their checksum is wrong", base)
		}
		span := int64(int32(big.Uint32(data[23:]))) // last offset minus base
		if base < free || span < 0 || base > math.MaxInt64-1-span {
			return next, fmt.Errorf("the records at offset %d are damaged: their offsets do not ascend", base)
		}
		last := base + span
		free = last + 1
		attributes := big.Uint16(data[21:])
		producer := int64(big.Uint64(data[43:]))
		for len(begun) > 0 && begun[0].First <= last {
			aborting[begun[0].Producer] = true
			begun = begun[1:]
		}
		switch {
		case attributes&control != 0:
			delete(aborting, producer) // a marker ends its transaction
		case attributes&transactional != 0 && aborting[producer]:
		default:
			n, err := f.records(data, limits, add)
			if err != nil {
				return next, fmt.Errorf("the records at offset %d are damaged: %w", base, err)
			}
			size += n
		}
		next = max(next, last+1)
		if f.End >= 0 {
			next = min(next, f.End)
		}
	}
	if next == f.From && len(f.Batches) > 0 {
		return next, fmt.Errorf("%d bytes arrived, but no record at or after offset %d", len(f.Batches), f.From)
	}
	return next, nil
}

// records calls add for the wanted records of one batch. It returns the sum of their Size and Overhead.
func (f Fetch) records(data []byte, limits Limits, add func(Record)) (sum int, err error) {
	big := binary.BigEndian
	attributes := big.Uint16(data[21:])
	base, span := int64(big.Uint64(data)), int64(int32(big.Uint32(data[23:])))
	first, latest := int64(big.Uint64(data[27:])), int64(big.Uint64(data[35:]))
	count := int(int32(big.Uint32(data[57:])))
	data, err = inflate(attributes&codecBits, data[headerLength:], limits.Batch)
	if err != nil {
		return 0, err
	}
	c := kbin.Reader{Src: data}
	before := int64(-1) // offset of the last record minus base
	for range count {
		r := kbin.Reader{Src: c.Span(int(c.Varlong()))}
		if !c.Ok() {
			return sum, io.ErrUnexpectedEOF
		}
		r.Int8() // attributes
		ms := first + r.Varlong()
		if attributes&appendTime != 0 {
			ms = latest
		}
		delta := r.Varlong()
		record := Record{Offset: base + delta, Time: time.UnixMilli(ms).UTC(), Key: r.VarintBytes(), Value: r.VarintBytes()}
		for n := r.Varlong(); n > 0 && r.Ok(); n-- {
			record.Headers = append(record.Headers, Header{r.VarintString(), r.VarintBytes()})
		}
		if !r.Ok() {
			return sum, io.ErrUnexpectedEOF
		}
		if delta <= before || delta > span {
			return sum, fmt.Errorf("the offset %d is not between %d and %d", record.Offset, base+before, base+span+1)
		}
		before = delta
		if record.Offset < f.From || f.End >= 0 && record.Offset >= f.End {
			continue
		}
		record.Size = len(record.Key) + len(record.Value)
		for _, h := range record.Headers {
			record.Size += len(h.Key) + len(h.Value)
		}
		sum += record.Size + Overhead
		if record.Size > limits.Record {
			// The copies release the batch, which is large.
			record.Oversized, record.Headers = true, nil
			record.Key = bytes.Clone(record.Key[:min(len(record.Key), Kept)])
			record.Value = bytes.Clone(record.Value[:min(len(record.Value), Kept)])
		}
		add(record)
	}
	return sum, nil
}
