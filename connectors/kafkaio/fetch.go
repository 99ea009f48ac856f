package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	// MaxRecord is how many bytes key, value and headers of a record may have
	// together. A larger one is read past, see Record.Oversized: what is made of
	// a record has to fit into a record again, of which brokers take a megabyte
	// by default.
	MaxRecord = 256 << 10

	fetchBytes = 1 << 20                // of one fetch, and so of what a partition reads ahead
	fetchWait  = 500 * time.Millisecond // of the broker, for something to come
	// fetchTimeout is how long a fetch may take before the connection counts as
	// lost.
	fetchTimeout = 20 * time.Second

	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
	// patience is how long a partition may be unreadable for a reason that goes
	// away by itself only while a cluster settles: an unknown topic, an offset
	// beyond the end.
	patience = 30 * time.Second
	// reminders are how far apart the warnings are of what lasts.
	reminders = 30 * time.Second
)

// A batch is what one fetch brought of a partition.
type batch struct {
	records []Record
	bytes   int
	next    int64 // the offset after it: offsets may be missing in between
	err     error // why the partition cannot be read; then there is no more
}

// A fetcher reads a partition ahead, one batch beyond the one that waits.
type fetcher struct {
	cluster Cluster
	at      Position // of the next fetch
	end     int64    // negative: without
	log     *slog.Logger
	batches chan batch
	arrived chan<- struct{} // a token when there is a batch, shared by all partitions
	high    atomic.Int64    // the offset after the partition's last record, as last seen
}

// run fetches until ctx ends or the span does. What a broker's absence or a new
// leader breaks is retried for ever: a consumer outlives its brokers.
func (f *fetcher) run(ctx context.Context) {
	var conn *kafka.Conn
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	var trouble outage
	sent := f.at.Offset
	defer func() {
		// Where the last records of the span are gone, nothing brought its end.
		if f.end >= 0 && sent < f.end && f.at.Offset >= f.end {
			f.send(ctx, batch{next: f.end})
		}
	}()
	for ctx.Err() == nil && (f.end < 0 || f.at.Offset < f.end) {
		var err error
		if conn == nil {
			conn, err = f.dial(ctx)
		}
		var b batch
		if err == nil {
			b, err = f.fetch(conn)
		}
		if err != nil && conn != nil {
			conn.Close()
			conn = nil
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			trouble.over(f.log, f.at)
		case errors.Is(err, kafka.OffsetOutOfRange):
			err = f.outOfRange(ctx, trouble.since)
		case errors.Is(err, kafka.UnknownTopicOrPartition):
			if trouble.lasts() > patience {
				err = permanent{fmt.Errorf("%s does not exist any more", f.at.Log())}
			}
		}
		var lost permanent
		if errors.As(err, &lost) || refused(err) {
			f.send(ctx, batch{err: fmt.Errorf("%s cannot be read at offset %d: %w", f.at.Log(), f.at.Offset, err)})
			return
		}
		if err != nil {
			if !trouble.wait(ctx, f.log, f.at, err) {
				return
			}
			continue
		}
		if b.next > f.at.Offset {
			if !f.send(ctx, b) {
				return
			}
			f.at.Offset, sent = b.next, b.next
		}
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

func (f *fetcher) dial(ctx context.Context) (conn *kafka.Conn, err error) {
	dialer, err := f.cluster.Dialer()
	if err != nil {
		return nil, permanent{err}
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	for _, broker := range f.cluster.Brokers {
		if conn, err = dialer.DialLeader(ctx, "tcp", broker, f.at.Topic, f.at.Partition); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(fetchTimeout))
	if _, err = conn.Seek(f.at.Offset, kafka.SeekAbsolute|kafka.SeekDontCheck); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// fetch reads one batch at the fetcher's offset; an empty one where nothing came.
func (f *fetcher) fetch(conn *kafka.Conn) (b batch, err error) {
	conn.SetDeadline(time.Now().Add(fetchTimeout))
	in := conn.ReadBatchWith(kafka.ReadBatchConfig{MinBytes: 1, MaxBytes: fetchBytes, MaxWait: fetchWait})
	defer func() { err = errors.Join(err, ignoreTimeout(in.Close())) }()
	b.next = f.at.Offset
	if in.Err() == nil {
		f.high.Store(in.HighWaterMark())
	}
	for f.end < 0 || b.next < f.end {
		m, err := in.ReadMessage()
		if err != nil {
			// The end of the batch, or an error that Close returns as well. Compaction
			// leaves holes, which the batch's own offset is past.
			break
		}
		b.next = m.Offset + 1
		if marker(m) {
			continue
		}
		r := Record{Position: Position{f.at.Topic, f.at.Partition, m.Offset}, Time: m.Time, Key: m.Key, Value: m.Value}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, Header(h))
		}
		b.bytes += r.size()
		if r.size() > MaxRecord {
			r.Oversized = r.size()
			r.Key, r.Value, r.Headers = r.Key[:min(len(r.Key), keepOversized)], r.Value[:min(len(r.Value), keepOversized)], nil
		}
		b.records = append(b.records, r)
	}
	if f.end < 0 || b.next < f.end {
		b.next = max(b.next, in.Offset())
	}
	return b, nil
}

// ignoreTimeout drops the error that says that nothing came in time.
func ignoreTimeout(err error) error {
	if errors.Is(err, kafka.RequestTimedOut) {
		return nil
	}
	return err
}

// marker reports whether a message is the end of a transaction. kafka-go gives
// these control records as if they were data, without their attribute: a key of
// version 0 and type (abort, commit), a value of version 0 and epoch. No text
// looks like that.
func marker(m kafka.Message) bool {
	k, v := m.Key, m.Value
	return len(k) == 4 && k[0] == 0 && k[1] == 0 && k[2] == 0 && k[3] <= 1 && len(v) == 6 && v[0] == 0 && v[1] == 0
}

// outOfRange goes on at the first record that is still there where retention has
// overtaken the reader, and says how many are gone. An offset beyond the end,
// where a cluster does not settle, is another topic's.
func (f *fetcher) outOfRange(ctx context.Context, since time.Time) error {
	first, last, err := f.cluster.offsets(ctx, f.at.Topic, f.at.Partition)
	switch {
	case err != nil:
		return err
	case f.at.Offset < first:
		f.log.Warn("records were deleted before they were read: reading on at the first that is left",
			"partition", f.at.Log(), "at", f.at.Offset, "first", first, "lost", first-f.at.Offset)
		f.at.Offset = first
		return nil
	case f.at.Offset > last && !since.IsZero() && time.Since(since) > patience:
		return permanent{fmt.Errorf("its end is %d: was the topic deleted and created again? Then take another group and changelog, or say where to start", last)}
	}
	return kafka.OffsetOutOfRange
}

// permanent is an error that no retry mends.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// refused reports whether a broker has refused us for good.
func refused(err error) bool {
	for _, e := range []error{kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed, kafka.SASLAuthenticationFailed, kafka.UnsupportedSASLMechanism} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// An outage is a run of errors of one partition.
type outage struct {
	since   time.Time // of the first; zero while there is none
	told    time.Time
	backoff time.Duration
}

func (o *outage) lasts() time.Duration {
	if o.since.IsZero() {
		return 0
	}
	return time.Since(o.since)
}

// wait backs off after an error, and warns of the first and of what lasts. It
// reports false where ctx ended.
func (o *outage) wait(ctx context.Context, log *slog.Logger, at Position, err error) bool {
	now := time.Now()
	if o.since.IsZero() {
		o.since = now
	}
	if now.Sub(o.told) >= reminders {
		o.told = now
		log.Warn("a partition cannot be read: trying again", "partition", at.Log(), "offset", at.Offset, "for", o.lasts().Round(time.Second).String(), "error", err)
	}
	o.backoff = min(max(2*o.backoff, firstBackoff), lastBackoff)
	select {
	case <-time.After(o.backoff):
		return true
	case <-ctx.Done():
		return false
	}
}

func (o *outage) over(log *slog.Logger, at Position) {
	if !o.since.IsZero() {
		log.Info("the partition can be read again", "partition", at.Log(), "offset", at.Offset, "after", o.lasts().Round(time.Millisecond).String())
	}
	*o = outage{}
}
