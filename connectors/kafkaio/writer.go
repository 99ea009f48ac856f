package kafkaio

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
	"golang.org/x/sync/errgroup"

	"hafvf/connectors/internal/retry"
	"hafvf/internal/account"
	"hafvf/internal/reminder"
)

const (
	// topicGrace is how long a topic may be unknown. Brokers learn of a new topic one after the other. After a start,
	// they learn of all topics in this way.
	topicGrace = 10 * time.Second
	// requestTime is the limit of one attempt. The broker stops waiting for replicas after half of it.
	requestTime = 30 * time.Second
	// leaderTime is the maximum time between requests for the partitions' leaders. kafka-go does not refresh them when
	// a broker answers that it is no longer the leader.
	leaderTime = 2 * time.Second
	// warnTime is the time between two warnings.
	warnTime = 10 * time.Second

	// batchBytes is the size of one request to a partition, before compression. The default limit of a topic is
	// 1,048,588 bytes.
	batchBytes = 1_000_000
	// inFlight is the number of partitions that are written at a time. Each has its own connection.
	inFlight = 16
)

// A Message is a message to write.
type Message struct {
	// Key selects the partition, as in the Java client. Messages without a key (nil, not empty) are spread over the
	// partitions.
	Key []byte
	// ID becomes the header "id", by which consumers of the topic recognise repeats.
	ID string
	// Value deletes the key from a compacted topic if it is nil (not empty).
	Value []byte
}

// A Sink is a topic to write to.
type Sink struct {
	Cluster Cluster
	Topic   string
	// Compression of the batches is one of Compressions. The default is DefaultCompression.
	Compression string
	// Form is the format in which WriteChunks and WriteChunk store lines.
	Form Form
}

// A Writer writes to a topic at least once, by kafka-go. Within a partition, the first copies of messages are stored
// in the order of Write's argument. After a failed attempt, messages may be stored again.
type Writer struct {
	sink   Sink
	codec  compress.Codec
	client *kafka.Client
	close  func()
	log    *slog.Logger

	retry retry.Policy
	grace time.Duration // topicGrace

	mu      sync.Mutex
	trouble reminder.Reminder // attempts are failing
	warned  bool              // a warning about the current trouble was logged
}

// NewWriter connects to the topic, which must exist. Its errors explain the remedy.
func NewWriter(ctx context.Context, s Sink, log *slog.Logger) (*Writer, error) {
	w, err := openWriter(s, log)
	if err != nil {
		return nil, err
	}
	client := NewClient(s.Cluster)
	defer client.Close()
	if _, err := client.Partitions(ctx, []string{s.Topic}); err != nil {
		return nil, err
	}
	return w, nil
}

// openWriter returns a Writer that connects with its first Write, as patiently as with later ones.
func openWriter(s Sink, log *slog.Logger) (*Writer, error) {
	codec, err := s.codec()
	if err != nil {
		return nil, err
	}
	d, err := s.Cluster.dialer()
	if err != nil {
		return nil, err
	}
	t := &kafka.Transport{
		ClientID: clientID, Dial: d.dial, DialTimeout: 2*dialTime + loginPause,
		MetadataTopics: []string{s.Topic}, MetadataTTL: leaderTime,
	}
	return &Writer{
		sink:   s,
		codec:  codec,
		client: &kafka.Client{Addr: kafka.TCP(d.brokers...), Timeout: requestTime, Transport: t},
		close:  t.CloseIdleConnections,
		log:    log,
		retry:  requests(deliveryTime),
		grace:  topicGrace,
	}, nil
}

// Close closes the connections. It does not wait for a Write.
func (w *Writer) Close() error {
	w.close()
	return nil
}

// Write returns when all in-sync replicas have stored all messages. While brokers are unreachable, elect leaders or
// lack replicas, Write tries again, for up to two minutes per batch, and logs warnings. After an error, any of the
// messages may have been written, or may still be written: do not change them, and write all of them again before any
// others. Concurrent calls are not ordered.
func (w *Writer) Write(ctx context.Context, msgs []Message) error {
	if len(msgs) == 0 {
		return nil
	}
	n, err := w.partitions(ctx)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(inFlight)
	for p, part := range assign(msgs, n) {
		if len(part) > 0 {
			g.Go(func() error { return w.writePartition(gctx, p, part) })
		}
	}
	if err = g.Wait(); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// assign returns the messages of each of n partitions.
func assign(msgs []Message, n int) [][]*Message {
	parts := make([][]*Message, n)
	keyless := rand.IntN(n) // one partition per call, because fewer requests are cheaper
	for i := range msgs {
		m := &msgs[i]
		p := keyless
		if m.Key != nil {
			p = int(partitionFor(m.Key, n))
		}
		parts[p] = append(parts[p], m)
	}
	return parts
}

// writePartition has one batch in flight at a time: a later batch must not be stored while an earlier one may still
// fail. kafka.Writer cannot be used here: it continues with the next batch after errors that it considers permanent,
// such as a short absence of the leader, and it cannot be cancelled.
func (w *Writer) writePartition(ctx context.Context, p int, msgs []*Message) error {
	for len(msgs) > 0 {
		n, size := 0, 0
		for n < len(msgs) && (n == 0 || size+msgs[n].size() <= batchBytes) {
			size += msgs[n].size()
			n++
		}
		if err := w.deliver(ctx, p, msgs[:n]); err != nil {
			return err
		}
		msgs = msgs[n:]
	}
	return nil
}

// size returns an upper bound of the size of m in a batch before compression, in bytes.
func (m *Message) size() int {
	const framing = 40 // lengths, offset and time as varints, and "id"
	return len(m.Key) + len(m.ID) + len(m.Value) + framing
}

func (w *Writer) deliver(ctx context.Context, p int, batch []*Message) error {
	err := w.patiently(ctx, fmt.Sprintf("partition %d", p), func(ctx context.Context) error { return w.produce(ctx, p, batch) })
	switch {
	case !errors.Is(err, kafka.MessageSizeTooLarge) && !errors.Is(err, kafka.RecordListTooLarge):
		return err
	case len(batch) > 1:
		// The topic's limit may be less than batchBytes.
		half := len(batch) / 2
		if err := w.deliver(ctx, p, batch[:half]); err != nil {
			return err
		}
		return w.deliver(ctx, p, batch[half:])
	}
	m := batch[0]
	return fmt.Errorf("topic %q does not take the message with id %q and key %q, which has %d bytes: increase max.message.bytes of the topic",
		w.sink.Topic, m.ID, m.Key, len(m.Value))
}

func (w *Writer) produce(ctx context.Context, p int, batch []*Message) error {
	set, err := encode(w.codec, batch)
	if err != nil {
		return err
	}
	res, err := w.client.RawProduce(ctx, &kafka.RawProduceRequest{
		Topic:        w.sink.Topic,
		Partition:    p,
		RequiredAcks: kafka.RequireAll,
		RawRecords:   protocol.RawRecordSet{Reader: bytes.NewReader(set)},
	})
	if err != nil {
		return bare(err)
	}
	return res.Error
}

// partitions returns the number of partitions of the topic.
func (w *Writer) partitions(ctx context.Context) (n int, err error) {
	err = w.patiently(ctx, "its partitions", func(ctx context.Context) error {
		md, err := w.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{w.sink.Topic}})
		if err != nil {
			return bare(err)
		}
		topic := md.Topics[0]
		if n = len(topic.Partitions); n == 0 && topic.Error == nil {
			return kafka.LeaderNotAvailable // it is being created
		}
		return topic.Error
	})
	return n, err
}

// patiently calls do until it succeeds, fails for good, or the policy's budget is spent.
func (w *Writer) patiently(ctx context.Context, what string, do func(context.Context) error) error {
	var unknown time.Time // time of the first of the latest errors, if all of them are that the topic is unknown
	var final, last error
	within, end := account.From(ctx).WithStopTimeout(ctx)
	defer end()
	err := w.retry.Do(within, do, func(err error) bool {
		last = err
		switch {
		case isUnknown(err):
			unknown = cmp.Or(unknown, time.Now())
			if time.Since(unknown) > w.grace {
				final = fmt.Errorf("topic %q does not exist, or was deleted: create it (%w)", w.sink.Topic, err)
				return false
			}
		case !retryable(err):
			final = w.final(err)
			return false
		default:
			unknown = time.Time{}
		}
		w.warn(what, err)
		return true
	})
	switch {
	case err == nil:
		w.recovered()
		return nil
	case ctx.Err() != nil:
		return err
	case final != nil:
		return final
	case errors.Is(err, account.ErrStopped):
		return fmt.Errorf("topic %q, %s: %w, and Kafka did not take the messages within %s: %w", w.sink.Topic, what, err, account.StopTimeout, cmp.Or(last, errors.New("no broker answers")))
	}
	return fmt.Errorf("topic %q, %s: Kafka did not take the messages within %s: %w", w.sink.Topic, what, w.retry.Budget, err)
}

// final returns the message for an error that does not go away by retrying.
func (w *Writer) final(err error) error {
	if errors.Is(err, kafka.TopicAuthorizationFailed) || errors.Is(err, kafka.ClusterAuthorizationFailed) {
		return fmt.Errorf("%s may not write to topic %q: allow the operation Write on it", w.sink.Cluster.user(), w.sink.Topic)
	}
	return fmt.Errorf("topic %q does not take messages: %w", w.sink.Topic, err)
}

// warn logs the first failed attempt, and then one every warnTime.
func (w *Writer) warn(what string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trouble.Due(warnTime) {
		w.warned = true
		w.log.Warn("Kafka does not take messages; trying again",
			"topic", w.sink.Topic, "what", what, "error", err, "for", w.trouble.Lasts().Round(time.Second))
	}
}

// recovered logs that attempts succeed again, if a failure was logged.
func (w *Writer) recovered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.warned {
		w.log.Info("Kafka takes messages again", "topic", w.sink.Topic, "after", w.trouble.Lasts().Round(time.Millisecond))
	}
	w.trouble.Since, w.warned = time.Time{}, false
}

// bare removes kafka-go's misleading prefix: its errors of produce requests mention fetching.
func bare(err error) error {
	if p, ok := errors.AsType[*rawproduce.Error](err); ok {
		return p.Err
	}
	if strings.HasPrefix(err.Error(), "kafka.(*Client)") {
		return cmp.Or(errors.Unwrap(err), err)
	}
	return err
}
