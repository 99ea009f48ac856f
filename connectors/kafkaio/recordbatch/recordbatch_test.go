package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/snappy"
	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hafvf/internal/testing/expect"
)

// An encodedBatch is a batch to encode by kmsg, an independent implementation.
type encodedBatch struct {
	kmsg.RecordBatch
	codec   compress.Compression
	unframe bool // snappy without the framing of Java's library
	records []kmsg.Record
}

func (m encodedBatch) bytes(t testing.TB) []byte {
	t.Helper()
	var plain []byte
	for _, r := range m.records {
		r.Length = int32(len(r.AppendTo(nil)) - 1) // minus the byte of the length itself, which is 0
		plain = r.AppendTo(plain)
	}
	b := m.RecordBatch
	b.Magic, b.PartitionLeaderEpoch = 2, -1
	b.Attributes |= int16(m.codec)
	if b.NumRecords == 0 {
		b.NumRecords = int32(len(m.records))
	}
	b.Records = plain
	if m.unframe {
		b.Records = snappy.Encode(nil, plain)
	} else if m.codec != 0 {
		var out bytes.Buffer
		w := m.codec.Codec().NewWriter(&out)
		expect.Get(w.Write(plain))(t)
		expect.OK(t, w.Close())
		b.Records = out.Bytes()
	}
	b.Length = int32(len(b.AppendTo(nil)) - lengthEnd)
	return seal(b.AppendTo(nil))
}

// seal sets the checksums of all complete batches.
func seal(data []byte) []byte {
	big := binary.BigEndian
	for rest := data; len(rest) >= headerLength; {
		n := lengthEnd + int64(big.Uint32(rest[8:]))
		if n > int64(len(rest)) || n < headerLength {
			break
		}
		big.PutUint32(rest[17:], crc32.Checksum(rest[21:n], castagnoli))
		rest = rest[n:]
	}
	return data
}

const start = 1_700_000_000_000 // Unix milliseconds

// threeRecords returns records at the offsets 0, 2 and 5 of a batch.
func threeRecords() []kmsg.Record {
	return []kmsg.Record{
		{Key: []byte("k"), Value: []byte("one")},
		{OffsetDelta: 2, TimestampDelta64: -7, Value: []byte{}, Headers: []kmsg.Header{{Key: "h", Value: []byte("v")}, {Key: ""}}},
		{OffsetDelta: 5, TimestampDelta64: 9, Key: []byte{}},
	}
}

func batchAt(base int64) encodedBatch {
	return encodedBatch{RecordBatch: kmsg.RecordBatch{FirstOffset: base, LastOffsetDelta: 5, FirstTimestamp: start, MaxTimestamp: start + 9, ProducerID: -1}, records: threeRecords()}
}

// wanted returns the decoded records of batchAt.
func wanted(base int64) []Record {
	t := func(ms int64) time.Time { return time.UnixMilli(start + ms).UTC() }
	return []Record{
		{Offset: base, Time: t(0), Key: []byte("k"), Value: []byte("one"), Size: 4},
		{Offset: base + 2, Time: t(-7), Value: []byte{}, Headers: []Header{{"h", []byte("v")}, {"", nil}}, Size: 2},
		{Offset: base + 5, Time: t(9), Key: []byte{}},
	}
}

// wide are limits that no test reaches by accident.
var wide = Limits{Record: 1 << 20, Fetch: 1 << 20, Batch: 8 << 20}

func decode(f Fetch, l Limits) (records []Record, next int64, err error) {
	next, err = f.Decode(l, func(r Record) { records = append(records, r) })
	return records, next, err
}

func fetchOf(batches ...[]byte) Fetch { return Fetch{Batches: bytes.Join(batches, nil), End: -1} }

func TestDecode(t *testing.T) {
	one := batchAt(10).bytes(t)
	marker := batchAt(16)
	marker.Attributes, marker.ProducerID = transactional|control, 4
	part := batchAt(10)
	part.Attributes, part.ProducerID = transactional, 4
	emptied := batchAt(10)
	emptied.records = nil
	appended := batchAt(10)
	appended.Attributes = appendTime
	times := wanted(10)
	for i := range times {
		times[i].Time = time.UnixMilli(start + 9).UTC()
	}
	later := batchAt(22).bytes(t)
	aborted := fetchOf(part.bytes(t), marker.bytes(t), later)
	aborted.Aborted = []Aborted{{Producer: 9, First: 99}, {Producer: 4, First: 10}}
	again := encodedBatch{RecordBatch: part.RecordBatch, records: threeRecords()}
	again.FirstOffset = 22
	afterwards := fetchOf(part.bytes(t), marker.bytes(t), again.bytes(t))
	afterwards.Aborted = aborted.Aborted[1:]
	middle := fetchOf(one, later)
	middle.From, middle.End = 11, 15
	gap := fetchOf(one)
	gap.From, gap.End = 11, 12
	for _, c := range []struct {
		name string
		in   Fetch
		want []Record
		next int64
	}{
		{"nothing", Fetch{From: 3, End: -1}, nil, 3},
		{"one", fetchOf(one), wanted(10), 16},
		{"two", fetchOf(one, later), append(wanted(10), wanted(22)...), 28},
		{"incomplete", fetchOf(one, later[:len(later)-1]), wanted(10), 16},
		{"incomplete in the length", fetchOf(one, later[:9]), wanted(10), 16},
		{"a stretch", middle, wanted(10)[1:2], 15},
		{"a stretch without records", gap, nil, 12},
		{"emptied by compaction", fetchOf(emptied.bytes(t)), nil, 16},
		{"the broker's time", fetchOf(appended.bytes(t)), times, 16},
		{"committed", fetchOf(part.bytes(t), marker.bytes(t)), wanted(10), 22},
		{"aborted", aborted, wanted(22), 28},
		{"committed after one that was aborted", afterwards, wanted(22), 28},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, next, err := decode(c.in, wide)
			if d := cmp.Diff(c.want, got); d != "" || next != c.next || err != nil {
				t.Errorf("next %d (want %d), %v (-want +got):\n%s", next, c.next, err, d)
			}
		})
	}
}

func TestCodecs(t *testing.T) {
	check := func(name string, m encodedBatch) {
		t.Run(name, func(t *testing.T) {
			got, _, err := decode(fetchOf(m.bytes(t)), wide)
			expect.OK(t, err)
			expect.Same(t, wanted(0), got)
			large := m
			large.records = []kmsg.Record{{Value: make([]byte, 100_000)}}
			for limit, fits := range map[int]bool{200_000: true, 100_000: false} {
				l := wide
				l.Batch = limit
				got, _, err := decode(fetchOf(large.bytes(t)), l)
				if fits && (err != nil || len(got) != 1 || got[0].Size != 100_000) {
					t.Errorf("with the limit %d: %v", limit, err)
				}
				if !fits && (!errors.As(err, new(*Unsupported)) || !strings.Contains(err.Error(), "more than 100000 bytes")) {
					t.Errorf("with the limit %d: %v", limit, err)
				}
			}
		})
	}
	for _, codec := range []compress.Compression{compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		m := batchAt(0)
		m.codec = codec
		check(codec.String(), m)
	}
	m := batchAt(0)
	m.codec, m.unframe = compress.Snappy, true
	check("snappy unframed", m)
}

func TestLimits(t *testing.T) {
	big := batchAt(0)
	big.LastOffsetDelta = 0
	big.records = []kmsg.Record{{Key: bytes.Repeat([]byte("k"), Kept+1), Value: []byte("v"), Headers: []kmsg.Header{{Key: "h"}}}}
	l := wide
	l.Record, l.Fetch = Kept, Kept
	got, next, err := decode(fetchOf(big.bytes(t), batchAt(1).bytes(t)), l)
	want := []Record{{Time: time.UnixMilli(start).UTC(), Key: bytes.Repeat([]byte("k"), Kept), Value: []byte("v"), Size: Kept + 3, Oversized: true}}
	if d := cmp.Diff(want, got); d != "" || next != 1 || err != nil {
		t.Errorf("next %d, %v (-want +got):\n%s", next, err, d)
	}
}

func TestRefused(t *testing.T) {
	damage := func(offset int, b byte) []byte { // with correct checksums
		data := batchAt(10).bytes(t)
		data[offset] = b
		return seal(data)
	}
	many := batchAt(10)
	many.NumRecords = 4
	unordered := batchAt(10)
	unordered.records[1].OffsetDelta = 0
	beyond := batchAt(10)
	beyond.records[2].OffsetDelta = 6
	end := batchAt(math.MaxInt64 - 5)
	spoilt := batchAt(10).bytes(t)
	spoilt[len(spoilt)-1]++
	old := damage(16, 1)
	far := fetchOf(batchAt(10).bytes(t))
	far.From = 16
	for _, c := range []struct {
		name        string
		in          Fetch
		want        string
		unsupported bool
	}{
		{"format before 0.11", fetchOf(old), "the records at offset 10 have the format before Kafka 0.11, which is not supported", true},
		{"unknown format", fetchOf(damage(16, 3)), "the records at offset 10 have a format that is not known", false},
		{"checksum", fetchOf(spoilt), "the records at offset 10 are damaged: their checksum is wrong", false},
		{"unknown codec", fetchOf(damage(22, 5)), "the records at offset 10 are damaged: their compression has the unknown number 5", true},
		{"fewer records than it says", fetchOf(many.bytes(t)), "the records at offset 10 are damaged: unexpected EOF", false},
		{"an offset twice", fetchOf(unordered.bytes(t)), "the records at offset 10 are damaged: the offset 10 is not between 10 and 16", false},
		{"an offset beyond the end", fetchOf(beyond.bytes(t)), "the records at offset 10 are damaged: the offset 16 is not between 12 and 16", false},
		{"a batch twice", fetchOf(batchAt(10).bytes(t), batchAt(10).bytes(t)), "the records at offset 10 are damaged: their offsets do not ascend", false},
		{"no next offset", fetchOf(end.bytes(t)), "the records at offset 9223372036854775802 are damaged: their offsets do not ascend", false},
		{"nothing new", far, "92 bytes arrived, but no record at or after offset 16", false},
	} {
		_, _, err := decode(c.in, wide)
		if err == nil || err.Error() != c.want || errors.As(err, new(*Unsupported)) != c.unsupported {
			t.Errorf("%s: got %v (unsupported: %v)\nwant %s", c.name, err, errors.As(err, new(*Unsupported)), c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	seed := func(batches ...[]byte) { f.Add(bytes.Join(batches, nil), int64(0), int64(-1), int64(4), int64(0)) }
	plain := batchAt(0).bytes(f)
	seed(plain, batchAt(6).bytes(f))
	seed(plain, plain[:30])
	for _, codec := range []compress.Compression{compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		m := batchAt(0)
		m.codec = codec
		seed(m.bytes(f))
	}
	raw := batchAt(0)
	raw.codec, raw.unframe = compress.Snappy, true
	seed(raw.bytes(f))
	aborted, marker := batchAt(0), batchAt(6)
	aborted.Attributes, aborted.ProducerID = transactional, 4
	marker.Attributes, marker.ProducerID = transactional|control, 4
	seed(aborted.bytes(f), marker.bytes(f), batchAt(12).bytes(f))
	many := batchAt(0)
	many.NumRecords = math.MaxInt32
	seed(many.bytes(f))
	forged := func(codec compress.Compression, records ...byte) {
		m := batchAt(0)
		m.Attributes, m.Records = int16(codec), records
		m.NumRecords = 1
		m.Magic = 2
		m.Length = int32(headerLength - lengthEnd + len(records))
		seed(seal(m.AppendTo(nil)))
	}
	// Lengths of 2 and of 4 GiB, and a window of 512 MiB.
	forged(compress.Snappy, append(append(bytes.Clone(xerial), 0, 0, 0, 1, 0, 0, 0, 1), 0x7f, 0xff, 0xff, 0xff, 0)...)
	forged(compress.Snappy, 0xff, 0xff, 0xff, 0xff, 0x0f, 0)
	forged(compress.Zstd, 0x28, 0xb5, 0x2f, 0xfd, 0, 19<<3, 1, 0, 0)

	limits := Limits{Record: 100, Fetch: 1000, Batch: 1 << 20}
	f.Fuzz(func(t *testing.T, batches []byte, from, end, producer, first int64) {
		if from < 0 || end >= 0 && end <= from {
			t.Skip()
		}
		in := Fetch{Batches: seal(bytes.Clone(batches)), From: from, End: end, Aborted: []Aborted{{producer, first}}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		last, size := int64(-1), 0
		next, err := in.Decode(limits, func(r Record) {
			if r.Offset <= last || r.Offset < from || end >= 0 && r.Offset >= end {
				t.Errorf("the offset %d came after %d, of [%d, %d)", r.Offset, last, from, end)
			}
			last = r.Offset
			if size >= limits.Fetch+limits.Batch {
				t.Errorf("a record came after %d bytes", size)
			}
			size += r.Size
			truncated := len(r.Key) + len(r.Value)
			for _, h := range r.Headers {
				truncated += len(h.Key) + len(h.Value)
			}
			if r.Oversized != (r.Size > limits.Record) || !r.Oversized && truncated != r.Size || truncated > r.Size {
				t.Errorf("a record of %d bytes came with %d of them, oversized: %v", r.Size, truncated, r.Oversized)
			}
		})
		runtime.ReadMemStats(&after)
		// A header of two bytes becomes one of forty, in a slice that doubles. Decoders keep buffers of several MiB.
		if got, maxAlloc := after.TotalAlloc-before.TotalAlloc, uint64(32<<20+100*limits.Batch*(1+len(batches)/headerLength)); got > maxAlloc {
			t.Errorf("%d bytes were allocated for %d", got, len(batches))
		}
		if err == nil && (next <= last || next < from || end >= 0 && next > end || next == from && len(batches) > 0) {
			t.Errorf("after offset %d of [%d, %d) comes %d", last, from, end, next)
		}
	})
}
