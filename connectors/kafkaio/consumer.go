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
	// idle is how long a partition has no new records before it stops holding the
	// watermark back.
	idle = time.Second
	// discovery is how often a running source looks for new partitions.
	discovery = 5 * time.Second
	// lease is how long a consumer is kept for its reader's next call.
	lease = time.Minute
)

// A consumer reads the partitions of one restriction ahead, in parallel. It outlives a
// call of its reader.
type consumer struct {
	src              Source
	client           *Client
	limits           recordbatch.Limits
	log              *slog.Logger
	clock            Clock
	reading          Reading
	ahead            *budgetShare
	parts            []*partitionReader // as the restriction has them
	history          bool               // see LedgerConfig.History
	historyWatermark time.Time          // the watermark that the run before has come to, if past
	turn             int                // whose turn it is to be asked first
	until            map[string]int64   // offsets that are not passed yet, by Position.Log; nil for none
	arrived          chan struct{}
	known            chan discovered
	lease            *time.Timer // closes it between two calls
	ctx              context.Context
	close            context.CancelFunc
}

// discovered holds added partitions, or the error why they cannot be read.
type discovered struct {
	spans found
	err   error
}

// A partitionReader is what the reader has taken of a partition.
type partitionReader struct {
	*fetcher
	next  int64     // offset after what was taken
	rest  *batch    // of the batch before, beyond consumer.until; nil for none
	quiet time.Time // since when nothing has come
	lag   eventlag.Lag
	age   time.Duration // see pace.Age
	reach timeReach
}

// done reports whether all of the partition was taken.
func (p *partitionReader) done() bool { return p.end >= 0 && p.next >= p.end }

func (p *partitionReader) pace() pace { return pace{p.lag.Usual, p.age, p.reach} }

// newConsumer opens a consumer, which ends with ctx. client asks the brokers.
func newConsumer(ctx context.Context, client *Client, src Source, rest restriction, limits recordbatch.Limits, log *slog.Logger) *consumer {
	c := &consumer{src: src, client: client, limits: limits, log: log, clock: src.clock(), reading: src.Form.Reading(), ahead: &budgetShare{budget: processBudget}, arrived: make(chan struct{}, 1), known: make(chan discovered, 1)}
	c.ctx, c.close = context.WithCancel(ctx)
	context.AfterFunc(c.ctx, func() { progresses.Delete(c); c.ahead.end() })
	at := make([]string, len(rest.Partitions))
	for i, s := range rest.Partitions {
		at[i] = s.Position.String()
	}
	log.Info("reading", "reader", rest.Reader, "at", strings.Join(at, " "))
	c.add(rest.Partitions)
	if !rest.Bounded && !rest.Past {
		have := map[string]topic{}
		for _, s := range rest.Partitions {
			have[s.Topic] = topic{partitions: max(have[s.Topic].partitions, s.Partition+1), id: s.ID}
		}
		go c.discover(have, rest.Reader, rest.Readers)
	}
	return c
}

func (c *consumer) add(spans []span) {
	c.ahead.partitions.Add(int32(len(spans)))
	for _, s := range spans {
		f := &fetcher{client: c.client, at: s.Position, topic: s.ID, end: s.End, limits: c.limits, reading: c.reading, pending: maxPending, log: c.log, ahead: c.ahead, batches: make(chan batch, 1), arrived: c.arrived}
		f.high.Store(-1)
		p := &partitionReader{fetcher: f, next: s.Offset, quiet: time.Now(), age: s.Age, reach: s.Reach}
		if s.Lag > 0 {
			p.lag.Add(p.quiet, []time.Duration{s.Lag})
		}
		c.parts = append(c.parts, p)
		if !s.done() {
			go f.run(c.ctx)
		}
	}
}

// at reports whether the consumer is where the restriction says.
func (c *consumer) at(rest restriction) bool {
	return slices.EqualFunc(c.parts, rest.Partitions, func(p *partitionReader, s span) bool { return p.next == s.Offset })
}

// discover looks for partitions that were added to the topics. They are read from the
// beginning, because all their records are new. It also notices a topic that was replaced
// so quickly that no fetcher has lost its connection.
func (c *consumer) discover(have map[string]topic, reader, readers int) {
	tick := time.NewTicker(discovery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		now, err := c.client.describe(c.ctx, c.src.Topics)
		if err != nil {
			continue // the fetchers tell what is wrong with the cluster
		}
		var more discovered
		for _, name := range c.src.Topics {
			was, is := have[name], now[name]
			more.err = cmp.Or(more.err, anotherTopic(name, was.id, is.id))
			for p := was.partitions; p < is.partitions; p++ {
				if p%readers == reader {
					more.spans = append(more.spans, span{Position: Position{name, p, 0}, End: -1, ID: is.id})
				}
			}
			have[name] = topic{partitions: max(was.partitions, is.partitions), id: cmp.Or(was.id, is.id)}
		}
		if len(more.spans) == 0 && more.err == nil {
			continue
		}
		select {
		case c.known <- more:
			notify(c.arrived)
		case <-c.ctx.Done():
			return
		}
	}
}

// take returns the next batch of any partition and the partition's index, −1 if no batch
// is there.
func (c *consumer) take() (int, batch) {
	for range c.parts {
		i := c.turn % len(c.parts)
		c.turn = i + 1
		p, until := c.parts[i], int64(math.MaxInt64)
		if c.until != nil {
			until = c.until[Position{Topic: p.at.Topic, Partition: p.at.Partition}.Log()] // the fetcher moves its offset
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

// stamp returns the batch with the times of its records. It notes what they say of the
// partition: the times that it has reached, and the lag. The lag of a record that was waited for is
// that of its arrival. A record of a backlog has been in the topic for as long as nobody knows; its
// lag is that of the topic's timestamp, unless both times are the same.
//
// A record without a time that can be read says nothing.
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
		if passed := p.reach.logTime(c.src.Lags); passed.After(t) {
			r.LogTime = passed
		}
		if !ok {
			continue
		}
		arrived, known := r.Time, r.Time.UnixMilli() > 0 && r.Time.UnixMilli() != t.UnixMilli()
		if b.live {
			arrived, known = b.at, true
		}
		if known && c.src.Clock != "" {
			lags = append(lags, arrived.Sub(t))
		}
		latest := p.reach.Latest
		p.reach.observe(r, t, b.at)
		if p.reach.Latest == latest {
			continue
		}
		if p.age = 0; known {
			p.age = max(0, arrived.Sub(t))
		}
	}
	p.lag.Add(b.at, lags)
	return out
}

// watermark is the time before which no more records are expected: the least over the
// partitions. A partition counts with its latest record time, less the disorder. One that has
// had no new records for a while counts with the time at which that was last seen, less its
// usual lag. In no case is a partition nearer to the clock than its usual lag, which is at
// least the disorder: a time that is ahead of the others does not take the watermark past them.
// A partition that cannot be read does not advance. In the past, the latest record time of all and what
// the run before has passed stand for the clock.
func (c *consumer) watermark(now time.Time) time.Time {
	least := now.Add(-c.src.Disorder)
	if c.history {
		least = c.historyWatermark
		for _, p := range c.parts {
			if at := p.reach.latest().Add(-c.src.Disorder); p.reach.Latest != 0 && at.After(least) {
				least = at
			}
		}
	}
	for _, p := range c.parts {
		if p.done() {
			continue
		}
		high, drained := p.high.Load(), p.drained.Load()
		at := now.Add(-c.lagOf(p))
		switch {
		case high >= 0 && p.next >= high && drained != nil && drained.Sub(p.quiet) > idle:
			at = drained.Add(-c.lagOf(p))
		case p.reach.Latest == 0:
			return time.UnixMilli(mtime.MinTimestamp.Milliseconds())
		case p.reach.latest().Add(-c.src.Disorder).Before(at):
			at = p.reach.latest().Add(-c.src.Disorder)
		}
		if at.Before(least) {
			least = at
		}
	}
	return least
}

// lagOf is the usual lag of a partition, at least the disorder and the lag of its latest record: a
// topic of the past that pauses stays in the past. If no usual lag is known, that of the other
// partitions counts, unless it is that of times ahead of the clock: these say nothing of other
// records.
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
		usual = 0 // nobody has said what the time of a record is
	case usual == 0:
		usual = eventlag.Unknown
	}
	return max(usual, c.src.Disorder, p.age)
}

var consumers sync.Map // of *consumer by reader, between two calls

// resume returns the consumer of a reader if it is where rest says. Otherwise, as after a
// restart, it returns a new one.
func resume(name string, src Source, rest restriction, ledger *Ledger) *consumer {
	if v, ok := consumers.LoadAndDelete(name); ok {
		c := v.(*consumer)
		if c.lease.Stop() && c.at(rest) {
			return c
		}
		c.close()
	}
	if ledger != nil {
		c := newConsumer(ledger.ctx, ledger.cfg.Client, src, rest, readLimits, ledger.cfg.Log)
		c.history, c.historyWatermark = rest.Past, ledger.stepper.at
		return c
	}
	client := NewClient(src.Cluster)
	c := newConsumer(context.Background(), client, src, rest, readLimits, slog.Default())
	context.AfterFunc(c.ctx, client.Close)
	return c
}

// put keeps the consumer for the reader's next call. It expires, because that call may go
// to another worker or never come.
func (c *consumer) put(name string) {
	c.lease = time.AfterFunc(lease, func() {
		consumers.CompareAndDelete(name, c)
		c.close()
	})
	if v, ok := consumers.Swap(name, c); ok {
		v.(*consumer).close()
	}
}

// progress returns how far each partition was taken.
func (c *consumer) progress() []partitionProgress {
	all := make([]partitionProgress, len(c.parts))
	for i, p := range c.parts {
		all[i] = partitionProgress{Position: Position{p.at.Topic, p.at.Partition, p.next}, High: p.high.Load(), Lag: EventLag{p.lag.Usual, p.lag.Most}, pace: p.pace()}
	}
	return all
}
