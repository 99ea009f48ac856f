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

// Values of Start.At.
const (
	Earliest  = "earliest"
	Latest    = "latest"
	Committed = "committed"
	AtOffset  = "offset"
	AtTime    = "time"
)

// Start is the place where reading starts, in partitions that exist when the source starts. Partitions that are added
// later are read from their beginning.
type Start struct {
	// At is Earliest, Latest, Committed, AtOffset or AtTime. Committed is the group's committed offset, or the
	// beginning of a partition without one.
	At     string
	Offset int64     // for AtOffset, in every partition
	Time   time.Time // for AtTime: reading starts at the first record at or after Time
}

// A Source describes what to read. It needs Kafka 2.1 or newer. Records of a transaction are read after its commit, in
// the order of their offsets; later records wait for it. Records of aborted transactions are skipped.
type Source struct {
	Cluster Cluster
	Topics  []string
	Group   string // group of the offsets for Committed
	Start   Start
	// Bounded ends the source at the offsets where the partitions end when it starts.
	Bounded bool
	// Disorder is the maximum delay of a record's time behind the latest time of its partition. The watermark is
	// Disorder behind the latest time. While a partition receives nothing, its watermark follows the clock at a
	// distance: the usual lag of the partition's records, at least Disorder.
	Disorder time.Duration
	// SubtractLag makes Record.LogTime earlier by the usual delay of the partition's records.
	SubtractLag bool `json:"Lags"`
	// Clock is the name of a registered Clock, and ClockSetting its setting. The default is the record's timestamp. A
	// time in the future counts as the present. Only sources with a Clock estimate the usual lag.
	Clock, ClockSetting string
	// Form is the format of the records in the topics. The Clock gets the converted records.
	Form Form
	// Readers are the names of readers that share the partitions. With readers, the source is a stateful function with
	// these names as keys, for runners with defects in splittable functions. The default is a splittable function
	// without readers.
	Readers []string
	// Poll is the time that a call waits for records. Without a ledger, a call also gathers records for this time. The
	// default is 100 ms.
	Poll time.Duration
}

// A Clock returns the event time of a record, and false if the record has none.
type Clock func(Record) (time.Time, bool)

// RegisterClock registers newClock under name. It is called with Source.ClockSetting. Call RegisterClock in an init
// function, so that workers that run the same program register the clock too. It panics if the name is already
// registered.
func RegisterClock(name string, newClock func(setting string) Clock) { clocks.register(name, newClock) }

func (src Source) clock() Clock {
	if src.Clock == "" {
		return func(r Record) (time.Time, bool) { return r.Time, true }
	}
	return clocks.make(src.Clock, src.ClockSetting)
}

const (
	// A source emits at most about bundleRecords and bundleBytes in one bundle.
	bundleRecords = 1 << 14
	bundleBytes   = 16 << 20
	// defaultPoll is the default of Source.Poll.
	defaultPoll = 100 * time.Millisecond
)

// Read reads src and returns a PCollection<Record>, in the order of the offsets within each partition, with the
// records' event times.
//
// With a ledger in this process, the source waits until the previous records are processed, and the ledger can stop
// it. Without one, a call emits the records that arrived while it polled.
func Read(s beam.Scope, src Source) beam.PCollection {
	s = s.Scope("kafkaio.Read")
	return beam.ParDo(s, &recordsFn{}, readBatches(s, src))
}

// ReadBatches returns a PCollection<Batch> instead of Read's single records. Each batch holds the records of one
// fetch. Its event time is the earliest time of its records, or the watermark if that is later.
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

// readFn reads all partitions. A call emits one bundle and defers the rest. Between calls the partitions are read
// ahead.
type readFn struct {
	inorder.Whole[restriction] // never split, see tracker
	inorder.Timed[restriction]
	Source Source
	Run    string // names the consumer between calls
}

func (fn *readFn) CreateInitialRestriction(ctx context.Context, _ []byte) (restriction, error) {
	return fn.Source.deal(ctx, ledgerOf(ctx), 0, 1)
}

// deal returns the partitions of one of several readers.
func (src Source) deal(ctx context.Context, ledger *Ledger, reader, readers int) (restriction, error) {
	rest := restriction{Reader: reader, Readers: readers, Bounded: src.Bounded, Past: ledger.isHistory()}
	spans, err := src.spans(ctx, ledger)
	if ledger == nil {
		err = withRunnerHint(err)
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
	ended, watermark, err := fn.Source.call(ctx, fn.Run, ledgerOf(ctx), rt, mtime.Time(w.MS), emit)
	if err != nil || ended {
		return sdf.StopProcessing(), err
	}
	w.MS = max(w.MS, watermark.UnixMilli())
	return sdf.ResumeProcessingIn(0), nil
}

// call emits a bundle from the consumer of the restriction's reader. current is the watermark so far. It reports
// whether the source has ended and, if not, the next watermark.
func (src Source) call(ctx context.Context, run string, ledger *Ledger, rt *sdf.LockRTracker, current mtime.Time, emit func(beam.EventTime, Batch)) (ended bool, watermark time.Time, err error) {
	rest := rt.GetRestriction().(restriction)
	name := fmt.Sprint(run, "/", rest.Reader)
	c := resume(name, src, rest, ledger)
	stepped, err := ledger.step(ctx, c)
	if err == nil && !stepped {
		// The watermark follows the clock while a partition pauses. Records that arrive later must not be late for a
		// window because of that.
		ended, err = c.read(ctx, ledger, rt, func(t beam.EventTime, b Batch) { emit(max(t, current), b) })
	}
	if err != nil || ended {
		c.close()
		if ledger == nil {
			err = withRunnerHint(err)
		}
		return ended, watermark, err
	}
	if ledger == nil {
		progresses.Store(c, c.progress())
	}
	if ledger.stepsWatermark() {
		watermark = ledger.stepper.watermark
	} else {
		watermark = c.watermark(time.Now())
	}
	if rest.Past && !slices.ContainsFunc(c.parts, func(p *partitionReader) bool { return !p.done() }) {
		ledger.setFinalWatermark(watermark)
	}
	c.put(name)
	return false, watermark, nil
}

// read emits a bundle, and hands it over when the previous bundle is processed. It reports whether the source has
// ended.
func (c *consumer) read(ctx context.Context, ledger *Ledger, rt *sdf.LockRTracker, emit func(beam.EventTime, Batch)) (ended bool, err error) {
	n, size := 0, 0
	var start time.Time
	pause := time.After(cmp.Or(c.src.Poll, defaultPoll))
	var stopped <-chan struct{}
	if ledger != nil {
		stopped = ledger.account.Stopped()
	}
	for n < bundleRecords && size < bundleBytes && !rt.IsDone() {
		select { // checked first: a source that is never idle would not reach the select below
		case <-stopped:
			if !ledger.Suspends() {
				rt.TryClaim(claimRest{})
			} else if n == 0 {
				<-pause // wait until the run is cancelled
			}
			return rt.IsDone(), ledger.handOver(ctx, c.progress(), n, start)
		case found := <-c.discoveries:
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
			if err := ledger.allow(ctx, Position{p.position.Topic, p.position.Partition, b.next}); err != nil {
				return false, err
			}
			out := c.stamp(p, b)
			if !rt.TryClaim(claimRecords{i, b.next, p.pace()}) {
				break // the runner has deferred the rest; the next call opens a new consumer
			}
			if n == 0 {
				start = time.Now()
			}
			if b.deleted > 0 {
				account.From(ctx).Deleted(p.position.Topic, b.deleted)
			}
			p.next, p.lastTaken = b.next, time.Now()
			if len(out.Times) > 0 {
				emit(beam.EventTime(slices.Min(out.Times)), out)
			}
			n += len(b.records)
			size += b.bytes
			if !ledger.idle() {
				continue // the previous bundle is still being processed
			}
			break
		}
		// Hand over as soon as nothing is in flight. Without a ledger that moment is unknown, and a call gathers for a
		// fixed time.
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
	return rt.IsDone(), ledger.handOver(ctx, c.progress(), n, start)
}

var errClosed = errors.New("the run is over: its ledger is closed")

// spans returns all partitions with start and end. It waits for absent brokers as long as a Writer does. With a
// ledger, the committed offsets are those that the ledger has read.
func (src Source) spans(ctx context.Context, ledger *Ledger) (list []span, err error) {
	client := NewClient(src.Cluster)
	if ledger != nil {
		client = ledger.cfg.Client
	} else {
		defer client.Close()
	}
	err = askPatiently(ctx, deliveryTime, ledger.logger(), func(ctx context.Context) (err error) {
		list, err = src.findSpans(ctx, client, ledger)
		return err
	})
	return list, err
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
	var list []span
	for _, topic := range src.Topics {
		id := topics[topic].id
		if ledger != nil {
			id = cmp.Or(ledger.topics[topic].id, id) // the ID of the topic to which the offsets belong
		}
		for p := range topics[topic].partitions {
			s := span{Position: Position{Topic: topic, Partition: p}, End: -1, ID: id}
			log := s.Log()
			s.Offset = firsts[log]
			switch src.Start.At {
			case Latest:
				if !ledger.isHistory() {
					s.Offset = ends[log]
				}
			case AtOffset:
				s.Offset = src.Start.Offset
			case AtTime:
				if s.Offset = times[log]; s.Offset < 0 {
					s.Offset = ends[log]
				}
			case Committed:
				if progress, ok := starts[log]; ok {
					s.Offset = progress.Offset
					s.setPace(progress.pace)
				}
			}
			if ledger.isHistory() {
				s.End = max(s.Offset, ledger.opening[log].Offset)
			} else if src.Bounded {
				if s.End = ends[log]; src.Start.At == Committed && s.Offset > s.End {
					return nil, fmt.Errorf("%s cannot be read at offset %d: %w", log, s.Offset, beyondEndError(s.End))
				}
			}
			list = append(list, s)
		}
	}
	return list, nil
}

// partitionsOf returns the partition numbers of each topic.
func partitionsOf(topics map[string]topic) map[string][]int {
	byTopic := map[string][]int{}
	for name, t := range topics {
		for p := range t.partitions {
			byTopic[name] = append(byTopic[name], p)
		}
	}
	return byTopic
}
