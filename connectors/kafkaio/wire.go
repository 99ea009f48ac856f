package kafkaio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A fetchRequest asks the leader of a partition for records of committed
// transactions and of none.
//
// kafka-go's own fetch does not do: of a compacted, compressed batch whose last
// records are gone it does not tell where it ends, so that it is asked for again
// for ever; a batch of which nothing is left it takes for the records after it,
// and panics; it gives the marker of a transaction as a record, and the records of
// one that was aborted; and it does not know a time that the broker has given.
type fetchRequest struct {
	topic     string
	partition int
	offset    int64
	bytes     int           // about as much as may come, but always one batch
	wait      time.Duration // of the broker, for something to come

	known int16 // version of the request that the broker and kafka-go know
}

// fetchVersion came with Kafka 2.1; to an older one brokers give no records that
// are compressed with zstd.
const fetchVersion = 10

func (r *fetchRequest) ApiKey() protocol.ApiKey { return protocol.Fetch }

func (r *fetchRequest) Required(versions map[protocol.ApiKey]int16) bool {
	r.known = versions[protocol.Fetch]
	return true
}

// RawExchange sends the request and reads what is answered.
func (r *fetchRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if r.known < fetchVersion {
		return nil, permanent{errors.New("its broker is older than Kafka 2.1")}
	}
	const nobody, none, readCommitted = -1, -1, 1
	big := binary.BigEndian
	str := func(b []byte, s string) []byte { return append(big.AppendUint16(b, uint16(len(s))), s...) }
	b := make([]byte, 4, 128+len(r.topic))
	b = big.AppendUint16(b, uint16(protocol.Fetch))
	b = big.AppendUint16(b, fetchVersion)
	b = big.AppendUint32(b, 1) // correlation: one request at a time
	b = str(b, clientID)
	for _, n := range []int{nobody, int(r.wait.Milliseconds()), 1, r.bytes} { // replica, wait, least and most bytes
		b = big.AppendUint32(b, uint32(n))
	}
	b = append(b, readCommitted)
	for _, n := range []int{0, none, 1} { // session and its epoch, number of topics
		b = big.AppendUint32(b, uint32(n))
	}
	b = str(b, r.topic)
	for _, n := range []int{1, r.partition, none} { // number of partitions, partition, epoch of its leader
		b = big.AppendUint32(b, uint32(n))
	}
	b = big.AppendUint64(b, uint64(r.offset))
	start := none
	b = big.AppendUint64(b, uint64(start)) // of a follower's log
	b = big.AppendUint32(b, uint32(r.bytes))
	b = big.AppendUint32(b, 0) // topics of the session to forget
	big.PutUint32(b, uint32(len(b)-4))
	answer, err := exchange(rw, b)
	if err != nil {
		return nil, err
	}
	return readFetched(answer)
}

// exchange sends a request, its length before it, and returns the answer without
// its length.
func exchange(rw io.ReadWriter, request []byte) (answer []byte, err error) {
	if _, err := rw.Write(request); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(rw, size[:]); err != nil {
		return nil, err
	}
	const most = 1 << 30
	n := binary.BigEndian.Uint32(size[:])
	if n > most {
		return nil, fmt.Errorf("an answer has %d bytes, more than any that Kafka gives", n)
	}
	answer = make([]byte, n)
	_, err = io.ReadFull(rw, answer)
	return answer, err
}

// A describeRequest asks a broker for topics, in a version of the metadata request
// that kafka-go does not have.
type describeRequest struct {
	topics  []string
	version int16
}

const (
	epochsVersion = 7  // of the metadata request, with the epochs of leaders: Kafka 2.1
	idsVersion    = 10 // with the ids of topics: Kafka 2.8
	mostVersion   = 12 // that is asked for
)

func (r *describeRequest) ApiKey() protocol.ApiKey                 { return protocol.Metadata }
func (r *describeRequest) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange sends the request and reads what is answered.
func (r *describeRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = r.version
	for _, name := range r.topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	const correlation = 1 // one request at a time
	answer, err := exchange(rw, kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, req, correlation))
	if err != nil {
		return nil, err
	}
	c := &cursor{b: answer}
	c.skip(4) // correlation
	if req.IsFlexible() {
		for range c.uvarint() { // tagged fields of the header
			c.uvarint()
			c.skip(int(c.uvarint()))
			if c.short {
				break
			}
		}
	}
	res := kmsg.NewPtrMetadataResponse()
	res.Version = r.version
	if c.short {
		return nil, io.ErrUnexpectedEOF
	}
	if err := res.ReadFrom(c.b); err != nil {
		return nil, err
	}
	return &describedTopics{res.Topics}, nil
}

// describedTopics answer a describeRequest.
type describedTopics struct{ topics []kmsg.MetadataResponseTopic }

func (d *describedTopics) ApiKey() protocol.ApiKey { return protocol.Metadata }

// fetched is what came of a partition.
type fetched struct {
	high    int64     // the offset after its last record
	aborted []aborted // transactions that have a part in it
	batches []byte    // the last of them may be cut off
}

func (f *fetched) ApiKey() protocol.ApiKey { return protocol.Fetch }

// aborted is a transaction that was.
type aborted struct{ producer, first int64 }

func readFetched(answer []byte) (*fetched, error) {
	c := &cursor{b: answer}
	c.skip(4 + 4) // correlation, throttling
	code := kafka.Error(c.int16())
	c.skip(4) // session
	if topics := c.int32(); topics != 1 && code == 0 && !c.short {
		return nil, fmt.Errorf("a fetch of a topic brought %d", topics)
	}
	c.skip(int(c.int16())) // its name
	partitions := c.int32()
	c.skip(4) // its number
	if code == 0 {
		code = kafka.Error(c.int16())
	}
	if code != 0 {
		return nil, code
	}
	f := &fetched{high: c.int64()}
	c.skip(8 + 8) // the end of committed transactions, the start of the log
	for range c.int32() {
		f.aborted = append(f.aborted, aborted{c.int64(), c.int64()})
		if c.short {
			break
		}
	}
	f.batches = c.bytes(int64(c.int32()))
	if c.short || partitions != 1 {
		return nil, io.ErrUnexpectedEOF
	}
	return f, nil
}

const (
	batchHeader = 61 // bytes before the records
	batchLength = 12 // bytes that a batch's length does not count

	codecBits     = 0x07
	appendTime    = 0x08 // the broker has given the records their time
	transactional = 0x10
	control       = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// decode appends to b the records from b.next up to end, unless that is negative,
// and moves b.next on. It stops after a batch that brings b above a number of
// bytes: compressed, a few can be very many.
func (f *fetched) decode(b *batch, at Position, end int64, limits limits) error {
	big := binary.BigEndian
	slices.SortFunc(f.aborted, func(a, b aborted) int { return int(min(max(a.first-b.first, -1), 1)) })
	gone := map[int64]bool{} // producers whose transaction was aborted
	from := b.next
	for rest := f.batches; len(rest) >= batchLength && (end < 0 || b.next < end) && b.bytes < limits.fetch; {
		base, size := int64(big.Uint64(rest)), batchLength+int64(big.Uint32(rest[8:]))
		if size > int64(len(rest)) {
			break
		}
		data := rest[:size]
		rest = rest[size:]
		switch {
		case len(data) > 16 && data[16] < 2:
			return permanent{fmt.Errorf("the records at offset %d have the format before Kafka 0.11, which is not read", base)}
		case len(data) < batchHeader || data[16] != 2:
			return fmt.Errorf("the records at offset %d have a format that is not known", base)
		case crc32.Checksum(data[21:], castagnoli) != big.Uint32(data[17:]):
			return fmt.Errorf("the records at offset %d are damaged: their checksum is wrong", base)
		}
		attributes := big.Uint16(data[21:])
		last := base + int64(big.Uint32(data[23:]))
		producer := int64(big.Uint64(data[43:]))
		for len(f.aborted) > 0 && f.aborted[0].first <= last {
			gone[f.aborted[0].producer] = true
			f.aborted = f.aborted[1:]
		}
		switch {
		case attributes&control != 0:
			delete(gone, producer) // a marker ends its transaction
		case attributes&transactional != 0 && gone[producer]:
		default:
			if err := b.add(data, attributes, at, from, end, limits.record); err != nil {
				return fmt.Errorf("the records at offset %d are damaged: %w", base, err)
			}
		}
		b.next = max(b.next, last+1)
		if end >= 0 {
			b.next = min(b.next, end)
		}
	}
	if b.next == from && len(f.batches) > 0 {
		return fmt.Errorf("%d bytes came, but no record at or after offset %d", len(f.batches), from)
	}
	return nil
}

// add appends the records of one batch.
func (b *batch) add(data []byte, attributes uint16, at Position, from, end int64, limit int) error {
	big := binary.BigEndian
	base, first, latest := int64(big.Uint64(data)), int64(big.Uint64(data[27:])), int64(big.Uint64(data[35:]))
	count := int(int32(big.Uint32(data[57:])))
	data = data[batchHeader:]
	if codec := attributes & codecBits; codec != 0 {
		var err error
		if data, err = inflate(kafka.Compression(codec), data); err != nil {
			return err
		}
	}
	c := &cursor{b: data}
	for range count {
		length := c.varint()
		r := &cursor{b: c.bytes(length)}
		if length < 0 || c.short {
			return io.ErrUnexpectedEOF
		}
		r.skip(1) // attributes
		ms := first + r.varint()
		if attributes&appendTime != 0 {
			ms = latest
		}
		at.Offset = base + r.varint()
		record := Record{Position: at, Time: time.UnixMilli(ms).UTC(), Key: r.bytes(r.varint()), Value: r.bytes(r.varint())}
		headers := r.varint()
		for i := int64(0); i < headers && !r.short; i++ {
			record.Headers = append(record.Headers, Header{string(r.bytes(r.varint())), r.bytes(r.varint())})
		}
		if r.short {
			return io.ErrUnexpectedEOF
		}
		if at.Offset < from || end >= 0 && at.Offset >= end {
			continue
		}
		size := record.size()
		b.bytes += size
		if size > limit {
			// Cloned, as otherwise the whole would stay in memory.
			record.Oversized, record.Headers = size, nil
			record.Key = bytes.Clone(record.Key[:min(len(record.Key), keepOversized)])
			record.Value = bytes.Clone(record.Value[:min(len(record.Value), keepOversized)])
		}
		b.records = append(b.records, record)
	}
	return nil
}

func inflate(c kafka.Compression, data []byte) ([]byte, error) {
	codec := c.Codec()
	if codec == nil {
		return nil, permanent{fmt.Errorf("their compression has the number %d, which is not known", int(c))}
	}
	r := codec.NewReader(bytes.NewReader(data))
	defer r.Close()
	var out bytes.Buffer
	out.Grow(4 * len(data))
	_, err := out.ReadFrom(r)
	return out.Bytes(), err
}

// A cursor reads what is encoded as Kafka does. Where there is not enough it
// reads zeros, and is short from then on.
type cursor struct {
	b     []byte
	short bool
}

func (c *cursor) skip(n int) { c.take(int64(n)) }

func (c *cursor) take(n int64) []byte {
	if n < 0 || n > int64(len(c.b)) {
		c.b, c.short = nil, true
		return nil
	}
	taken := c.b[:n:n]
	c.b = c.b[n:]
	return taken
}

// bytes are the next n, or nil, which stands for null, where n is negative.
func (c *cursor) bytes(n int64) []byte {
	if n < 0 {
		return nil
	}
	return c.take(n)
}

func (c *cursor) number(size int) (n uint64) {
	for _, b := range c.take(int64(size)) {
		n = n<<8 | uint64(b)
	}
	return n
}

func (c *cursor) int16() int16 { return int16(c.number(2)) }
func (c *cursor) int32() int32 { return int32(c.number(4)) }
func (c *cursor) int64() int64 { return int64(c.number(8)) }

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.b, c.short = nil, true
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		c.b, c.short = nil, true
		return 0
	}
	c.b = c.b[n:]
	return v
}
