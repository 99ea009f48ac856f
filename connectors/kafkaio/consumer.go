package kafkaio

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"hafvf/connectors/internal/eventlag"
	"hafvf/connectors/kafkaio/recordbatch"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
)

const (
	// idle is the time without new records after which a partition no longer holds the watermark back.
	idle = time.Second
	// discovery is the time between checks for new partitions.
	discovery = 5 * time.Second
	// lease is how long a consumer is kept for its reader's next call.
	lease = time.Minute
)

// A consumer reads the partitions of one restriction ahead, in parallel. It outlives a call of its reader.
type consumer struct {
	src              Source
	client           *Client
	limits           recordbatch.Limits
	log              *slog.Logger
	clock            Clock
	reading          Reading
	ahead            *budgetShare
	parts            []*partitionReader // in the order of the restriction
	history          bool               // see LedgerConfig.History
	historyWatermark time.Time          // with history, the watermark of the previous run
	nextPart         int                // index into parts at which take starts
	until            map[string]int64   // offsets at which take stops, by Position.Log; nil for none
	arrived          chan struct{}
	discoveries      chan discovered
	lease            *time.Timer // closes the consumer if no call follows
	ctx              context.Context
	close            context.CancelFunc
}

// discovered holds added partitions, or the error why they cannot be read.
type discovered struct {
	spans claimPartitions
	err   error
}

// A partitionReader tracks the records that the reader has taken from a partition.
type partitionReader struct {
	*fetcher
	next      int64     // offset after the last taken record
	rest      *batch    // rest of the last batch, from consumer.until on; nil for none
	lastTaken time.Time // time at which a batch was last taken, at first the start
	lag       eventlag.Lag
	age       time.Duration // see pace.Age
	reach     timeReach
}

// done reports whether the partition was read to its end.
func (p *partitionReader) done() bool { return p.end >= 0 && p.next >= p.end }

func (p *partitionReader) pace() pace { return pace{p.lag.Usual, p.age, p.reach} }

// newConsumer returns a consumer that ends with ctx. It uses client for requests to brokers.
func newConsumer(ctx context.Context, client *Client, src Source, rest restriction, limits recordbatch.Limits, log *slog.Logger) *consumer {
	c := &consumer{src: src, client: client, limits: limits, log: log, clock: src.clock(), reading: src.Form.Reading(), ahead: &budgetShare{budget: processBudget}, arrived: make(chan struct{}, 1), discoveries: make(chan discovered, 1)}
	c.ctx, c.close = context.WithCancel(ctx)
	context.AfterFunc(c.ctx, func() { progresses.Delete(c); c.ahead.end() })
	positions := make([]string, len(rest.Partitions))
	for i, s := range rest.Partitions {
		positions[i] = s.Position.String()
	}
	log.Info("reading", "reader", rest.Reader, "at", strings.Join(positions, " "))
	c.add(rest.Partitions)
	if !rest.Bounded && !rest.Past {
		known := map[string]topic{}
		for _, s := range rest.Partitions {
			known[s.Topic] = topic{partitions: max(known[s.Topic].partitions, s.Partition+1), id: s.ID}
		}
		go c.discover(known, rest.Reader, rest.Readers)
	}
	return c
}

func (c *consumer) add(spans []span) {
	c.ahead.partitions.Add(int32(len(spans)))
	for _, s := range spans {
		f := &fetcher{client: c.client, position: s.Position, topic: s.ID, end: s.End, limits: c.limits, reading: c.reading, staleTimeout: staleTimeout, log: c.log, ahead: c.ahead, batches: make(chan batch, 1), arrived: c.arrived}
		f.high.Store(-1)
		p := &partitionReader{fetcher: f, next: s.Offset, lastTaken: time.Now(), age: s.Age, reach: s.Reach}
		if s.Lag > 0 {
			p.lag.Add(p.lastTaken, []time.Duration{s.Lag})
		}
		c.parts = append(c.parts, p)
		if !s.done() {
			go f.run(c.ctx)
		}
	}
}

// isAt reports whether the consumer's positions are equal to the offsets of the restriction.
func (c *consumer) isAt(rest restriction) bool {
	return slices.EqualFunc(c.parts, rest.Partitions, func(p *partitionReader, s span) bool { return p.next == s.Offset })
}

// discover looks for partitions that were added to the topics. They are read from their beginning, because all their
// records are new. It also detects a topic that was replaced too quickly for any fetcher to lose its connection. known
// holds the partitions so far.
func (c *consumer) discover(known map[string]topic, reader, readers int) {
	tick := time.NewTicker(discovery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		topics, err := c.client.describe(c.ctx, c.src.Topics)
		if err != nil {
			continue // the fetchers report errors of the cluster
		}
		var more discovered
		for _, name := range c.src.Topics {
			old, current := known[name], topics[name]
			more.err = cmp.Or(more.err, replacedTopicError(name, old.id, current.id))
			for p := old.partitions; p < current.partitions; p++ {
				if p%readers == reader {
					more.spans = append(more.spans, span{Position: Position{name, p, 0}, End: -1, ID: current.id})
				}
			}
			known[name] = topic{partitions: max(old.partitions, current.partitions), id: cmp.Or(old.id, current.id)}
		}
		if len(more.spans) == 0 && more.err == nil {
			continue
		}
		select {
		case c.discoveries <- more:
			notify(c.arrived)
		case <-c.ctx.Done():
			return
		}
	}
}

// take returns the next batch of any partition and the partition's index, or −1 if no batch is available.
func (c *consumer) take() (int, batch) {
	for range c.parts {
		i := c.nextPart % len(c.parts)
		c.nextPart = i + 1
		p, until := c.parts[i], int64(math.MaxInt64)
		if c.until != nil {
			until = c.until[Position{Topic: p.position.Topic, Partition: p.position.Partition}.Log()] // the fetcher changes the offset of p.position
		}
		if p.next >= until {
			continue
		}
		var b batch
		if p.rest != nil {
			b, p.rest = *p.rest, nil
		} else {
			select {
			case b = <-p.batches:
				c.ahead.add(-b.memory())
			default:
				continue
			}
		}
		if b.next > until {
			b, p.rest = b.cut(until)
		}
		return i, b
	}
	return -1, batch{}
}

// stamp returns the batch with the event times of its records. It updates the partition's latest times and its lag.
// For a record that the fetcher waited for, the lag ends at its arrival. The arrival of a record in a backlog is
// unknown: its lag ends at the topic's timestamp, unless that equals the event time.
//
// A record without a readable time changes neither.
func (c *consumer) stamp(p *partitionReader, b batch) Batch {
	out := Batch{b.records, make([]int64, len(b.records))}
	var lags []time.Duration
	for i := range b.records {
		r := &b.records[i]
		t, ok := c.clock(*r)
		if !ok {
			t = r.Time
		}
		out.Times[i] = int64(mtime.FromTime(t))
		if passed := p.reach.logTime(c.src.SubtractLag); passed.After(t) {
			r.LogTime = passed
		}
		if !ok {
			continue
		}
		arrived, known := r.Time, r.Time.UnixMilli() > 0 && r.Time.UnixMilli() != t.UnixMilli()
		if b.live {
			arrived, known = b.arrived, true
		}
		if known && c.src.Clock != "" {
			lags = append(lags, arrived.Sub(t))
		}
		latest := p.reach.Latest
		p.reach.observe(r, t, b.arrived)
		if p.reach.Latest == latest {
			continue
		}
		if p.age = 0; known {
			p.age = max(0, arrived.Sub(t))
		}
	}
	p.lag.Add(b.arrived, lags)
	return out
}

// watermark returns the time before which no more records are expected, the minimum over the partitions. Usually, a
// partition counts with its latest record time less Disorder. A partition that has been empty for longer than idle
// counts with the time of the last check less its usual lag. No partition is closer to the clock than its usual lag,
// which is at least Disorder: so a time ahead of the others does not push the watermark past them. A partition that
// cannot be read does not advance. For a replay of the history, the clock is replaced by the latest record time of all
// partitions and the watermark of the previous run.
func (c *consumer) watermark(now time.Time) time.Time {
	earliest := now.Add(-c.src.Disorder)
	if c.history {
		earliest = c.historyWatermark
		for _, p := range c.parts {
			if t := p.reach.latest().Add(-c.src.Disorder); p.reach.Latest != 0 && t.After(earliest) {
				earliest = t
			}
		}
	}
	for _, p := range c.parts {
		if p.done() {
			continue
		}
		high, drained := p.high.Load(), p.drained.Load()
		t := now.Add(-c.lagOf(p))
		switch {
		case high >= 0 && p.next >= high && drained != nil && drained.Sub(p.lastTaken) > idle:
			t = drained.Add(-c.lagOf(p))
		case p.reach.Latest == 0:
			return time.UnixMilli(mtime.MinTimestamp.Milliseconds())
		case p.reach.latest().Add(-c.src.Disorder).Before(t):
			t = p.reach.latest().Add(-c.src.Disorder)
		}
		if t.Before(earliest) {
			earliest = t
		}
	}
	return earliest
}

// lagOf returns the usual lag of a partition, at least Disorder and the lag of its latest record: so the watermark of
// an old topic that pauses does not jump to the present. If the partition's usual lag is unknown, lagOf uses the
// maximum of the other partitions. It ignores those with times ahead of the clock, which do not predict the lag of
// other records.
func (c *consumer) lagOf(p *partitionReader) time.Duration {
	usual := p.lag.Usual
	if usual == 0 {
		for _, other := range c.parts {
			if other.lag.Usual > eventlag.Min {
				usual = max(usual, other.lag.Usual)
			}
		}
	}
	switch {
	case c.src.Clock == "":
		usual = 0 // without a Clock, record timestamps may mean anything
	case usual == 0:
		usual = eventlag.Unknown
	}
	return max(usual, c.src.Disorder, p.age)
}

var consumers sync.Map // *consumer by reader, between two calls

// resume returns the consumer of a reader if its positions are the offsets of rest. Otherwise, for example after a
// restart, it returns a new one.
func resume(name string, src Source, rest restriction, ledger *Ledger) *consumer {
	if v, ok := consumers.LoadAndDelete(name); ok {
		c := v.(*consumer)
		if c.lease.Stop() && c.isAt(rest) {
			return c
		}
		c.close()
	}
	if ledger != nil {
		c := newConsumer(ledger.ctx, ledger.cfg.Client, src, rest, readLimits, ledger.cfg.Log)
		c.history, c.historyWatermark = rest.Past, ledger.stepper.watermark
		return c
	}
	client := NewClient(src.Cluster)
	c := newConsumer(context.Background(), client, src, rest, readLimits, slog.Default())
	context.AfterFunc(c.ctx, client.Close)
	return c
}

// put keeps the consumer for the reader's next call. It expires after lease, because that call may go to another
// worker or never come.
func (c *consumer) put(name string) {
	c.lease = time.AfterFunc(lease, func() {
		consumers.CompareAndDelete(name, c)
		c.close()
	})
	if v, ok := consumers.Swap(name, c); ok {
		v.(*consumer).close()
	}
}

// progress returns the position in each partition after the last taken record.
func (c *consumer) progress() []partitionProgress {
	list := make([]partitionProgress, len(c.parts))
	for i, p := range c.parts {
		list[i] = partitionProgress{Position: Position{p.position.Topic, p.position.Partition, p.next}, High: p.high.Load(), Lag: EventLag{p.lag.Usual, p.lag.Max}, pace: p.pace()}
	}
	return list
}
