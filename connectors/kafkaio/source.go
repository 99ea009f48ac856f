package kafkaio

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"hafvf/internal/account"
	"hafvf/internal/dofn"
	"hafvf/internal/inorder"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.Function5x2((&readFn{}).ProcessElement)
	dofn.Register(func(f *readFn) any { return f.ProcessElement })
	register.Emitter2[beam.EventTime, Record]()
}

// The values of Start.At.
const (
	Earliest  = "earliest"
	Latest    = "latest"
	Committed = "committed"
	AtOffset  = "offset"
	AtTime    = "time"
)

// Start says where reading begins in partitions that exist when the source starts.
// Partitions that are added later are read from their beginning.
type Start struct {
	// At is Earliest, Latest, Committed, AtOffset or AtTime. Committed is the offset
	// that the group has committed, or the beginning of a partition that has none.
	At     string
	Offset int64     // for AtOffset, in every partition
	Time   time.Time // for AtTime: reading begins with the first record at or after it
}

// A Source says what to read. It needs Kafka 2.1 or newer. Records of a transaction are
// read when the transaction is committed, in the order of their offsets; later records
// wait for them. Records of aborted transactions are skipped.
type Source struct {
	Cluster Cluster
	Topics  []string
	Group   string // whose offsets Committed starts at
	Start   Start
	// Bounded ends the source where the partitions end at its start.
	Bounded bool
	// Disorder is how far a record's time may be behind the latest of its partition. The
	// watermark lags by as much. The watermark of a partition in which nothing comes follows
	// the clock by the usual lag of the partition's records, at least Disorder.
	Disorder time.Duration
	// Lags has Record.LogTime allow for what records of the partition are usually late.
	Lags bool
	// Clock is the name of a registered Clock, and ClockSetting what it is made with.
	// Default: the record's timestamp. A time beyond the present holds as the present, and the
	// usual lag is known of sources with a Clock only.
	Clock, ClockSetting string
	// Form is that of the records in the topics. The Clock sees what it has made of them.
	Form Form
	// Readers are the names of readers that share the partitions. With readers the source
	// is a stateful function with these names as keys, for runners whose splittable
	// functions have defects. Default: none, and a splittable function.
	Readers []string
	// Poll is how long a call waits for records. Without a ledger, a call also gathers
	// records for as long. Default 100 ms.
	Poll time.Duration
}

// A Clock returns the event time of a record, and false if it has none.
type Clock func(Record) (time.Time, bool)

// RegisterClock registers under a name what makes a clock of Source.ClockSetting. Call it
// in an init function, so that workers that run the same program know it too. It panics if
// the name is taken.
func RegisterClock(name string, of func(setting string) Clock) { clocks.register(name, of) }

func (src Source) clock() Clock {
	if src.Clock == "" {
		return func(r Record) (time.Time, bool) { return r.Time, true }
	}
	return clocks.make(src.Clock, src.ClockSetting)
}

const (
	// bundleRecords and bundleBytes are how much a source emits in one bundle.
	bundleRecords = 1 << 14
	bundleBytes   = 16 << 20
	// breath is the default of Source.Poll.
	breath = 100 * time.Millisecond
)

// Read reads src and returns a PCollection<Record>, in the order of the offsets
// within each partition, at the records' event times.
//
// A ledger in this process holds the source back, until what was read before is dealt with, and can stop
// it. Without one, a call emits the records that came while it polled.
func Read(s beam.Scope, src Source) beam.PCollection {
	s = s.Scope("kafkaio.Read")
	return beam.ParDo(s, &recordsFn{}, readBatches(s, src))
}

// ReadBatches is Read without a collection of single records: it returns a
// PCollection<Batch>, each of what one fetch brought, at the earliest of the times of its
// records, or at the watermark if that is later.
func ReadBatches(s beam.Scope, src Source) beam.PCollection {
	return readBatches(s.Scope("kafkaio.Read"), src)
}

func readBatches(s beam.Scope, src Source) beam.PCollection {
	begin := beam.Impulse(s)
	if len(src.Readers) > 0 {
		return beam.ParDo(s, newLoopFn(src, rand.Text()), beam.ParDo(s, &readersFn{src.Readers}, begin))
	}
	return beam.ParDo(s, &readFn{Source: src, Run: rand.Text()}, begin)
}

// readFn reads all partitions. A call emits one bundle and defers the rest. Between calls
// the partitions are read ahead.
type readFn struct {
	inorder.Whole[restriction] // see tracker
	inorder.Timed[restriction]
	Source Source
	Run    string // names the consumer between calls
}

func (fn *readFn) CreateInitialRestriction(ctx context.Context, _ []byte) (restriction, error) {
	return fn.Source.deal(ctx, ledgerOf(ctx), 0, 1)
}

// deal returns the partitions of one of several readers.
func (src Source) deal(ctx context.Context, ledger *Ledger, reader, readers int) (restriction, error) {
	rest := restriction{Reader: reader, Readers: readers, Bounded: src.Bounded, Past: ledger.isPast()}
	spans, err := src.spans(ctx, ledger)
	if ledger == nil {
		err = ofRunner(err)
	}
	for _, s := range spans {
		if s.Partition%readers == reader {
			rest.Partitions = append(rest.Partitions, s)
		}
	}
	return rest, err
}

func (fn *readFn) CreateTracker(r restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(&tracker{rest: r.clone()})
}

// TruncateRestriction ends the source when a runner drains the pipeline.
func (fn *readFn) TruncateRestriction(rt *sdf.LockRTracker, _ []byte) restriction {
	r := rt.GetRestriction().(restriction)
	r.Over = true
	return r
}

func (fn *readFn) ProcessElement(ctx context.Context, w *inorder.Watermark, rt *sdf.LockRTracker, _ []byte, emit func(beam.EventTime, Batch)) (sdf.ProcessContinuation, error) {
	ended, at, err := fn.Source.call(ctx, fn.Run, ledgerOf(ctx), rt, mtime.Time(w.MS), emit)
	if err != nil || ended {
		return sdf.StopProcessing(), err
	}
	w.MS = max(w.MS, at.UnixMilli())
	return sdf.ResumeProcessingIn(0), nil
}

// call emits a bundle by the consumer of the restriction's reader, with at as the watermark so far. It
// reports whether the source has ended, and otherwise the next watermark.
func (src Source) call(ctx context.Context, run string, ledger *Ledger, rt *sdf.LockRTracker, at mtime.Time, emit func(beam.EventTime, Batch)) (ended bool, watermark time.Time, err error) {
	rest := rt.GetRestriction().(restriction)
	name := fmt.Sprint(run, "/", rest.Reader)
	c := resume(name, src, rest, ledger)
	stepped, err := ledger.step(ctx, c)
	if err == nil && !stepped {
		// The watermark follows the clock where a partition pauses: no record is too late for a window
		// because of that.
		ended, err = c.read(ctx, ledger, rt, func(t beam.EventTime, b Batch) { emit(max(t, at), b) })
	}
	if err != nil || ended {
		c.close()
		if ledger == nil {
			err = ofRunner(err)
		}
		return ended, watermark, err
	}
	if ledger == nil {
		progresses.Store(c, c.progress())
	}
	if ledger.steps() {
		watermark = ledger.stepper.at
	} else {
		watermark = c.watermark(time.Now())
	}
	if rest.Past && !slices.ContainsFunc(c.parts, func(p *partitionReader) bool { return !p.done() }) {
		ledger.reach(watermark)
	}
	c.put(name)
	return false, watermark, nil
}

// read emits a bundle and hands it over when the bundle before is done. It reports
// whether the source has ended.
func (c *consumer) read(ctx context.Context, ledger *Ledger, rt *sdf.LockRTracker, emit func(beam.EventTime, Batch)) (ended bool, err error) {
	n, size := 0, 0
	var since time.Time
	pause := time.After(cmp.Or(c.src.Poll, breath))
	var stopped <-chan struct{}
	if ledger != nil {
		stopped = ledger.account.Stopped()
	}
	for n < bundleRecords && size < bundleBytes && !rt.IsDone() {
		select { // first, as otherwise a source that is never at rest would not come to it
		case <-stopped:
			if !ledger.Suspends() {
				rt.TryClaim(over{})
			} else if n == 0 {
				<-pause // until the run is cancelled
			}
			return rt.IsDone(), ledger.handOver(ctx, c.progress(), n, since)
		case found := <-c.known:
			if found.err != nil {
				return false, found.err
			}
			if rt.TryClaim(found.spans) {
				c.add(found.spans)
				c.log.Info("partitions were added", "partitions", len(found.spans), "first", found.spans[0].Log())
			}
			continue
		default:
		}
		if i, b := c.take(); i >= 0 {
			if b.err != nil {
				return false, b.err
			}
			p := c.parts[i]
			if err := ledger.allow(ctx, Position{p.at.Topic, p.at.Partition, b.next}); err != nil {
				return false, err
			}
			out := c.stamp(p, b)
			if !rt.TryClaim(taken{i, b.next, p.pace()}) {
				break // the runner has put the rest off; the next call opens a new consumer
			}
			if n == 0 {
				since = time.Now()
			}
			if b.deleted > 0 {
				account.From(ctx).Deleted(p.at.Topic, b.deleted)
			}
			p.next, p.quiet = b.next, time.Now()
			if len(out.Times) > 0 {
				emit(beam.EventTime(slices.Min(out.Times)), out)
			}
			n += len(b.records)
			size += b.bytes
			if !ledger.idle() {
				continue // the bundle before it is still worked on
			}
			break
		}
		// Hand over as soon as nothing is in flight. Without a ledger nobody knows when
		// that is, and a call gathers for a fixed time.
		var idle <-chan struct{}
		patience := pause
		if ledger != nil && n > 0 {
			idle, patience = ledger.account.Idle(), nil
		}
		select {
		case <-c.arrived:
			continue
		case <-stopped:
			continue
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-c.ctx.Done():
			return false, errClosed
		case <-idle:
		case <-patience:
		}
		break
	}
	return rt.IsDone(), ledger.handOver(ctx, c.progress(), n, since)
}

var errClosed = errors.New("the run is over: its ledger is closed")

// spans returns all partitions with their start and end. It waits for absent brokers as
// long as a Writer does. With a ledger, committed offsets
// are those that the ledger has read.
func (src Source) spans(ctx context.Context, ledger *Ledger) (all []span, err error) {
	client := NewClient(src.Cluster)
	if ledger != nil {
		client = ledger.cfg.Client
	} else {
		defer client.Close()
	}
	err = askPatiently(ctx, deliveryTime, ledger.logger(), func(ctx context.Context) (err error) {
		all, err = src.findSpans(ctx, client, ledger)
		return err
	})
	return all, err
}

func (src Source) findSpans(ctx context.Context, client *Client, ledger *Ledger) ([]span, error) {
	topics, err := client.describe(ctx, src.Topics)
	if err != nil {
		return nil, err
	}
	partitions := partitionsOf(topics)
	firsts, err := client.offsets(ctx, partitions, atFirst, true)
	if err != nil {
		return nil, err
	}
	ends, err := client.offsets(ctx, partitions, atEnd, true)
	if err != nil {
		return nil, err
	}
	var times map[string]int64
	var starts map[string]partitionProgress
	switch {
	case src.Start.At == AtTime:
		times, err = client.offsets(ctx, partitions, src.Start.Time.UnixMilli(), true)
	case src.Start.At == Committed && ledger != nil:
		starts = ledger.start
	case src.Start.At == Committed:
		starts, err = client.committed(ctx, src.Group, partitions)
	}
	if err != nil {
		return nil, err
	}
	var all []span
	for _, topic := range src.Topics {
		id := topics[topic].id
		if ledger != nil {
			id = cmp.Or(ledger.topics[topic].id, id) // the one whose offsets these are
		}
		for p := range topics[topic].partitions {
			s := span{Position: Position{Topic: topic, Partition: p}, End: -1, ID: id}
			log := s.Log()
			s.Offset = firsts[log]
			switch src.Start.At {
			case Latest:
				if !ledger.isPast() {
					s.Offset = ends[log]
				}
			case AtOffset:
				s.Offset = src.Start.Offset
			case AtTime:
				if s.Offset = times[log]; s.Offset < 0 {
					s.Offset = ends[log]
				}
			case Committed:
				if at, ok := starts[log]; ok {
					s.Offset = at.Offset
					s.setPace(at.pace)
				}
			}
			if ledger.isPast() {
				s.End = max(s.Offset, ledger.opening[log].Offset)
			} else if src.Bounded {
				if s.End = ends[log]; src.Start.At == Committed && s.Offset > s.End {
					return nil, fmt.Errorf("%s cannot be read at offset %d: %w", log, s.Offset, beyond(s.End))
				}
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// partitionsOf are the partitions of each topic.
func partitionsOf(topics map[string]topic) map[string][]int {
	all := map[string][]int{}
	for name, t := range topics {
		for p := range t.partitions {
			all[name] = append(all[name], p)
		}
	}
	return all
}
