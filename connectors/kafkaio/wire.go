package kafkaio

import (
	"encoding/binary"
	"fmt"
	"io"

	"hafvf/connectors/kafkaio/recordbatch"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A rawRequest is a message of franz-go that is sent over a link, with its own version. It is used for two requests:
// kafka-go asks for topics in a version without their ids (metadataRequest), and its fetches fail at compacted batches
// (fetchRequest).
type rawRequest struct{ kmsg.Request }

func (r rawRequest) ApiKey() protocol.ApiKey               { return protocol.ApiKey(r.Key()) }
func (rawRequest) Required(map[protocol.ApiKey]int16) bool { return true }

// A rawAnswer is the answer to a rawRequest.
type rawAnswer struct{ kmsg.Response }

func (a rawAnswer) ApiKey() protocol.ApiKey { return protocol.ApiKey(a.Key()) }

// RawExchange sends the request and reads the answer.
func (r rawRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	const correlation = 1 // same for every request: a link has one at a time
	if _, err := rw.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, r, correlation)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(rw, size[:]); err != nil {
		return nil, err
	}
	const maxBytes = 1 << 30
	n := binary.BigEndian.Uint32(size[:])
	if n > maxBytes {
		return nil, fmt.Errorf("an answer has %d bytes, more than any that Kafka gives", n)
	}
	answer := kbin.Reader{Src: make([]byte, n)}
	if _, err := io.ReadFull(rw, answer.Src); err != nil {
		return nil, err
	}
	answer.Int32() // correlation
	if r.IsFlexible() {
		kmsg.SkipTags(&answer)
	}
	res := r.ResponseKind()
	if !answer.Ok() || res.ReadFrom(answer.Src) != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return rawAnswer{res}, nil
}

const (
	// epochsVersion is the first version of the metadata request with the epochs of leaders: Kafka 2.1. kafka-go's own
	// request has no such version.
	epochsVersion = 7
	// maxMetadataVersion is the maximum version of the metadata request that is used. From version 10 on it contains
	// the ids of topics: Kafka 2.8.
	maxMetadataVersion = 12
	// fetchVersion came with Kafka 2.1. In older versions of the request, brokers refuse to send records that are
	// compressed with zstd.
	fetchVersion = 10
)

// metadataRequest asks for the cluster's brokers and for topics: no topics if the list is empty, all topics if it is
// nil.
func (l *link) metadataRequest(topics []string) rawRequest {
	req := kmsg.NewPtrMetadataRequest()
	if req.Version = min(l.metadata, maxMetadataVersion); topics != nil {
		req.Topics = make([]kmsg.MetadataRequestTopic, len(topics))
	}
	for i := range topics {
		req.Topics[i].Topic = &topics[i]
	}
	return rawRequest{req}
}

// fetchRequest asks the leader of a partition for about the given number of bytes of records, but for at least one
// whole batch. It asks only for records outside of transactions and in committed ones.
//
// kafka-go's own fetch does not work here. If a compacted, compressed batch has lost its last records, it cannot find
// the end of the batch and fetches it again for ever. If a batch has lost all its records, it parses the following
// bytes as records and panics. It returns the markers of transactions and the records of aborted ones, and ignores
// timestamps that the broker sets.
func fetchRequest(position Position, bytes int) rawRequest {
	const readCommitted = 1
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = int32(position.Partition), position.Offset, int32(bytes)
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.Partitions = position.Topic, []kmsg.FetchRequestTopicPartition{p}
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.IsolationLevel, req.Topics = fetchVersion, readCommitted, []kmsg.FetchRequestTopic{t}
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(fetchWait.Milliseconds()), 1, int32(bytes)
	return rawRequest{req}
}

// parseFetchAnswer returns the offset after the partition's last record, and the batches. The last batch may be
// incomplete.
func parseFetchAnswer(answer rawAnswer) (high int64, in recordbatch.Fetch, err error) {
	res := answer.Response.(*kmsg.FetchResponse)
	switch {
	case res.ErrorCode != 0:
		return 0, in, kafka.Error(res.ErrorCode)
	case len(res.Topics) != 1:
		return 0, in, fmt.Errorf("a fetch of one topic returned %d", len(res.Topics))
	case len(res.Topics[0].Partitions) != 1:
		return 0, in, io.ErrUnexpectedEOF
	}
	p := res.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return 0, in, kafka.Error(p.ErrorCode)
	}
	for _, a := range p.AbortedTransactions {
		in.Aborted = append(in.Aborted, recordbatch.Aborted{Producer: a.ProducerID, First: a.FirstOffset})
	}
	in.Batches = p.RecordBatches
	return p.HighWatermark, in, nil
}
