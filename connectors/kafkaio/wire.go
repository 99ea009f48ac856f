package kafkaio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"hafvf/connectors/kafkaio/recordbatch"
	"hafvf/internal/wire"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A fetchRequest asks the leader of a partition for the records that belong to no
// transaction or to a committed one.
//
// kafka-go writes the request, but its answer is read here and in recordbatch. From a
// compacted, compressed batch that lost its last records, kafka-go's own fetch does not
// learn where the batch ends, and asks for it again for ever. A batch that lost all
// its records makes it take the following bytes for records, and panic. It returns the
// markers of transactions and the records of aborted ones, and ignores the time that
// a broker sets.
type fetchRequest struct {
	topic     string
	partition int
	offset    int64
	bytes     int           // about how much may come; one batch always comes whole
	wait      time.Duration // how long the broker waits for something to come

	known int16 // the newest version that both the broker and kafka-go know
}

// fetchVersion came with Kafka 2.1. Brokers refuse to send records compressed with
// zstd to older versions of the request.
const fetchVersion = 10

func (r *fetchRequest) ApiKey() protocol.ApiKey { return protocol.Fetch }

func (r *fetchRequest) Required(versions map[protocol.ApiKey]int16) bool {
	r.known = versions[protocol.Fetch]
	return true
}

// RawExchange sends the request and reads the answer.
func (r *fetchRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if r.known < fetchVersion {
		return nil, permanent{errors.New("its broker is older than Kafka 2.1")}
	}
	const consumer, noSession, unknown, readCommitted = -1, -1, -1, 1
	req := &fetch.Request{
		ReplicaID: consumer, MaxWaitTime: int32(r.wait.Milliseconds()), MinBytes: 1, MaxBytes: int32(r.bytes),
		IsolationLevel: readCommitted, SessionEpoch: noSession,
		Topics: []fetch.RequestTopic{{Topic: r.topic, Partitions: []fetch.RequestPartition{{
			Partition: int32(r.partition), CurrentLeaderEpoch: unknown, FetchOffset: r.offset,
			LogStartOffset: unknown, PartitionMaxBytes: int32(r.bytes),
		}}}},
	}
	if err := protocol.WriteRequest(rw, fetchVersion, correlation, clientID, req); err != nil {
		return nil, err
	}
	answer, err := readAnswer(rw)
	if err != nil {
		return nil, err
	}
	return readFetched(answer)
}

// correlation is the number of every request: a link has one at a time.
const correlation = 1

// readAnswer reads an answer and returns it without its length.
func readAnswer(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	const most = 1 << 30
	n := binary.BigEndian.Uint32(size[:])
	if n > most {
		return nil, fmt.Errorf("an answer has %d bytes, more than any that Kafka gives", n)
	}
	answer := make([]byte, n)
	_, err := io.ReadFull(r, answer)
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
	if _, err := rw.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, req, correlation)); err != nil {
		return nil, err
	}
	answer, err := readAnswer(rw)
	if err != nil {
		return nil, err
	}
	c := &wire.Cursor{B: answer}
	c.Skip(4) // correlation
	if req.IsFlexible() {
		for range c.Uvarint() { // tagged fields of the header
			c.Uvarint()
			c.Skip(int(c.Uvarint()))
			if c.Short {
				break
			}
		}
	}
	res := kmsg.NewPtrMetadataResponse()
	res.Version = r.version
	if c.Short {
		return nil, io.ErrUnexpectedEOF
	}
	if err := res.ReadFrom(c.B); err != nil {
		return nil, err
	}
	return &describedTopics{res.Topics, r.version >= epochsVersion}, nil
}

// describedTopics answer a describeRequest.
type describedTopics struct {
	topics []kmsg.MetadataResponseTopic
	epochs bool // are known
}

func (d *describedTopics) ApiKey() protocol.ApiKey { return protocol.Metadata }

// fetched is what came of a partition.
type fetched struct {
	high    int64 // the offset after its last record
	aborted []recordbatch.Aborted
	batches []byte // the last of them may be incomplete
}

func (f *fetched) ApiKey() protocol.ApiKey { return protocol.Fetch }

func readFetched(answer []byte) (*fetched, error) {
	c := &wire.Cursor{B: answer}
	c.Skip(4 + 4) // correlation, throttling
	code := kafka.Error(c.Int16())
	c.Skip(4) // session
	if topics := c.Int32(); topics != 1 && code == 0 && !c.Short {
		return nil, fmt.Errorf("a fetch of a topic brought %d", topics)
	}
	c.Skip(int(c.Int16())) // its name
	partitions := c.Int32()
	c.Skip(4) // its number
	if code == 0 {
		code = kafka.Error(c.Int16())
	}
	if code != 0 {
		return nil, code
	}
	f := &fetched{high: c.Int64()}
	c.Skip(8 + 8) // the end of committed transactions, the start of the log
	for range c.Int32() {
		f.aborted = append(f.aborted, recordbatch.Aborted{Producer: c.Int64(), First: c.Int64()})
		if c.Short {
			break
		}
	}
	f.batches = c.Bytes(int64(c.Int32()))
	if c.Short || partitions != 1 {
		return nil, io.ErrUnexpectedEOF
	}
	return f, nil
}
