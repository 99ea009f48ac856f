package kafkaio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"hafvf/connectors/kafkaio/recordbatch"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// MaxRecord is the maximum size of key, value and headers of a record together, in bytes. A larger record is
	// truncated, see Record.Oversized: the results of a record must fit into a record again, and the default limit of
	// brokers is a megabyte.
	MaxRecord = 256 << 10

	fetchWait = 500 * time.Millisecond // how long the broker waits for new records
	// fetchTimeout is the time limit of a fetch. After it, the connection counts as lost.
	fetchTimeout = 20 * time.Second

	// staleTimeout is how long a partition may be unreadable because of errors that go away only if brokers have yet
	// to learn of a change: an unknown topic, an offset after the end, damaged records.
	staleTimeout = 30 * time.Second
)

// readLimits are the limits for a source's records. A fetch may have about 8 MiB when decompressed. The limit of one
// batch only prevents a forged batch from using all memory.
var readLimits = recordbatch.Limits{Record: MaxRecord, Fetch: 8 << 20, Batch: 1 << 30}

// A batch holds the records that one fetch returned from a partition.
type batch struct {
	records []Record
	bytes   int
	next    int64     // the offset after the batch: offsets in between may be missing
	deleted int64     // maximum number of records before the batch that were deleted before they were read
	arrived time.Time // time of arrival
	live    bool      // the fetcher waited for the records
	err     error     // why the partition cannot be read; no batch follows
}

// cut splits the batch into the records before offset, and the rest.
func (b batch) cut(offset int64) (batch, *batch) {
	i, _ := slices.BinarySearchFunc(b.records, offset, func(r Record, offset int64) int { return cmp.Compare(r.Offset, offset) })
	rest := b
	rest.records, rest.deleted = b.records[i:], 0
	b.records, b.next = b.records[:i:i], offset
	return b, &rest
}

// A fetcher reads a partition ahead: one batch in addition to the waiting one, if its reader's budget allows.
type fetcher struct {
	client       *Client
	position     Position // of the next fetch
	topic        string   // its ID, see span.ID
	end          int64    // negative for no end
	limits       recordbatch.Limits
	reading      Reading // nil: records stay unchanged
	staleTimeout time.Duration
	log          *slog.Logger
	conn         *link // connection to the leader; nil if there is none
	ahead        *budgetShare
	batches      chan batch
	arrived      chan<- struct{}           // receives a token for each batch; shared by all partitions
	high         atomic.Int64              // last known offset after the partition's last record; negative before the first fetch
	drained      atomic.Pointer[time.Time] // start of the last fetch that found nothing more; nil if there was none
	answered     time.Time                 // time of the last fetch's answer
}

// run fetches until ctx ends or the end is reached. Errors from absent brokers or a new leader are retried for ever,
// so that a consumer survives its brokers.
func (f *fetcher) run(ctx context.Context) {
	defer f.hangUp()
	for ctx.Err() == nil && (f.end < 0 || f.position.Offset < f.end) {
		var b batch
		var trouble outage
		err := requests(noLimit).Do(ctx, func(ctx context.Context) (err error) {
			b, err = f.attempt(ctx)
			return err
		}, func(err error) bool {
			if errors.As(err, new(permanentError)) || refused(err) || trouble.staleFor(err) > f.staleTimeout {
				return false
			}
			trouble.warn(f.log, err, "a partition cannot be read", "partition", f.position.Log(), "offset", f.position.Offset)
			return true
		})
		if err == nil && ctx.Err() == nil {
			if !trouble.Since.IsZero() {
				f.log.Info("the partition can be read again", "partition", f.position.Log(), "offset", f.position.Offset, "after", trouble.Lasts().Round(time.Millisecond).String())
			}
			err = f.read(ctx, &b)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			f.send(ctx, batch{err: fmt.Errorf("%s cannot be read at offset %d: %w", f.position.Log(), f.position.Offset, err)})
			return
		}
		if b.next > f.position.Offset {
			if !f.send(ctx, b) {
				return
			}
			f.position.Offset = b.next
		}
	}
}

// attempt fetches once. It connects first if there is no connection.
func (f *fetcher) attempt(ctx context.Context) (b batch, err error) {
	if f.conn == nil {
		f.conn, err = f.client.dialLeader(ctx, f.position, f.topic)
	}
	if err == nil {
		if b, err = f.fetch(ctx, f.conn); err != nil {
			f.hangUp()
		}
	}
	if errors.Is(err, kafka.OffsetOutOfRange) {
		return f.outOfRange(ctx)
	}
	return b, err
}

func (f *fetcher) hangUp() {
	if f.conn != nil {
		f.conn.Close()
		f.conn = nil
	}
}

func (f *fetcher) send(ctx context.Context, b batch) bool {
	select {
	case f.batches <- b:
		notify(f.arrived)
		return true
	case <-ctx.Done():
		return false
	}
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func leaderOf(md *kmsg.MetadataResponse, position Position) (leader kmsg.MetadataResponseBroker, err error) {
	for _, t := range md.Topics {
		if nameOf(t) != position.Topic {
			continue
		}
		if code := kafka.Error(t.ErrorCode); code != 0 && code != kafka.UnknownTopicOrPartition {
			return leader, code
		}
		for _, p := range t.Partitions {
			if int(p.Partition) != position.Partition {
				continue
			}
			for _, b := range md.Brokers {
				if b.NodeID == p.Leader {
					return b, nil
				}
			}
			return leader, kafka.LeaderNotAvailable
		}
	}
	return leader, staleMetadataError{errors.New("it does not exist any more")}
}

// fetch reads the records from the fetcher's position on. The batch is empty if there are none.
func (f *fetcher) fetch(ctx context.Context, conn *link) (batch, error) {
	if conn.fetch < fetchVersion {
		return batch{}, permanentError{errors.New("its broker is older than Kafka 2.1")}
	}
	asking, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	start := time.Now()
	answer, err := ask[rawAnswer](asking, conn, fetchRequest(f.position, f.ahead.fetchBytes()))
	if err != nil {
		return batch{}, err
	}
	end, in, err := parseFetchAnswer(answer)
	if err != nil {
		return batch{}, err
	}
	now, high := time.Now(), f.high.Load()
	live := high >= 0 && f.position.Offset >= high && start.Sub(f.answered) < idle
	f.answered = now
	f.high.Store(end) // before claim waits: the new records hold the watermark back
	if f.position.Offset >= end {
		f.drained.Store(&start)
	}
	if len(in.Batches) == 0 {
		return batch{next: f.position.Offset, arrived: now, live: live}, nil
	}
	if !f.ahead.claim(ctx, f.limits.Fetch) {
		return batch{}, context.Cause(ctx)
	}
	b, err := f.decode(in)
	b.arrived, b.live = now, live
	f.ahead.add(b.memory() - f.limits.Fetch)
	return b, err
}

// decode returns the records of an answer.
func (f *fetcher) decode(in recordbatch.Fetch) (b batch, err error) {
	in.From, in.End = f.position.Offset, f.end
	b.next, err = in.Decode(f.limits, func(r recordbatch.Record) {
		record := Record{Position: f.position, Time: r.Time, Key: r.Key, Value: r.Value, Headers: r.Headers}
		record.Offset = r.Offset
		if r.Oversized {
			record.Oversized = r.Size
		}
		b.records = append(b.records, record)
		b.bytes += r.Size
	})
	switch {
	case errors.As(err, new(*recordbatch.Unsupported)):
		return batch{}, permanentError{err}
	case err != nil:
		return batch{}, staleMetadataError{err}
	}
	return b, nil
}

// outOfRange returns an empty batch up to the first record that is left, if retention has deleted the next records,
// and logs how many are lost. An offset after the end means that the topic was replaced, unless the leader has yet to
// learn of a change.
func (f *fetcher) outOfRange(ctx context.Context) (batch, error) {
	partition, log := map[string][]int{f.position.Topic: {f.position.Partition}}, f.position.Log()
	firsts, err := f.client.offsets(ctx, partition, atFirst, false)
	if err != nil {
		return batch{}, err
	}
	ends, err := f.client.offsets(ctx, partition, atEnd, false)
	first, last := firsts[log], ends[log]
	switch {
	case err != nil:
		return batch{}, err
	case f.position.Offset < first:
		f.log.Warn("records were deleted before they were read: continuing at the first remaining record",
			"partition", f.position.Log(), "at", f.position.Offset, "first", first, "lost", first-f.position.Offset)
		if f.end >= 0 {
			first = min(first, f.end)
		}
		return batch{next: first, deleted: first - f.position.Offset}, nil
	case f.position.Offset > last:
		return batch{}, staleMetadataError{beyondEndError(last)}
	}
	return batch{}, kafka.OffsetOutOfRange
}
