package kafkaio

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"hafvf/connectors/kafkaio/recordbatch"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

// A reading calls a source as a runner does, one call after the other.
type reading struct {
	t      testing.TB
	fn     *readFn
	ledger *Ledger
	rests  []restriction // by reader
	marks  []int64       // watermarks by reader
	got    []Record
	times  []mtime.Time
}

func startReading(t testing.TB, src Source, ledger *Ledger) *reading {
	t.Helper()
	r := &reading{t: t, fn: &readFn{Source: src, Run: t.Name()}, ledger: ledger}
	readers := max(1, len(src.Readers))
	for i := range readers {
		rest := expect.Get(src.deal(t.Context(), ledger, i, readers))(t)
		r.rests = append(r.rests, rest)
		r.marks = append(r.marks, r.fn.InitialWatermarkEstimatorState(0, rest, nil))
	}
	t.Cleanup(r.abandon)
	return r
}

// abandon closes the consumers, as after a restart.
func (r *reading) abandon() {
	for i := range r.rests {
		if v, ok := consumers.LoadAndDelete(fmt.Sprint(r.fn.Run, "/", i)); ok {
			v.(*consumer).close()
		}
	}
}

// call calls every reader that has input left, once. It reports whether any reader still has some.
func (r *reading) call(ctx context.Context) (more bool, err error) {
	if r.ledger != nil {
		ctx = r.ledger.Context(ctx)
	}
	for i, rest := range r.rests {
		if rest.Over {
			continue
		}
		rt, w := r.fn.CreateTracker(rest), r.fn.CreateWatermarkEstimator(r.marks[i])
		next, err := r.fn.ProcessElement(ctx, w, rt, nil, func(et beam.EventTime, b Batch) {
			if want := max(slices.Min(b.Times), r.marks[i]); int64(et) != want {
				r.t.Errorf("a batch of the times %v has the time %v, not %v", b.Times, et, mtime.Time(want))
			}
			(&recordsFn{}).ProcessElement(b, func(et beam.EventTime, rec Record) {
				r.got, r.times = append(r.got, rec), append(r.times, et)
			})
		})
		if err != nil {
			return false, err
		}
		if now := r.fn.WatermarkEstimatorState(w); now < r.marks[i] {
			r.t.Errorf("the watermark went back from %d to %d", r.marks[i], now)
		} else {
			r.marks[i] = now
		}
		if !next.ShouldResume() {
			if !rt.IsDone() {
				r.t.Error("a call has come to its end, and its tracker has not")
			}
			r.rests[i].Over = true
			continue
		}
		_, residual, err := rt.TrySplit(0)
		if err != nil || residual == nil {
			r.t.Fatalf("nothing is left of a call that is to go on: %v", err)
		}
		r.rests[i], more = residual.(restriction), true
	}
	return more, nil
}

// until calls the source until cond is true.
func (r *reading) until(cond func() bool) {
	r.t.Helper()
	ctx := context30(r.t)
	for !cond() {
		more, err := r.call(ctx)
		if err != nil {
			r.t.Fatalf("after %d records: %v", len(r.got), err)
		}
		if !more && !cond() {
			r.t.Fatalf("the source has ended after %d records", len(r.got))
		}
	}
}

// all reads a bounded source to its end.
func (r *reading) all() []Record {
	r.t.Helper()
	for ctx := context30(r.t); ; {
		more, err := r.call(ctx)
		if err != nil {
			r.t.Fatalf("after %d records: %v", len(r.got), err)
		}
		if !more {
			return r.got
		}
	}
}

func readAll(t testing.TB, src Source) []Record {
	t.Helper()
	src.Bounded = true
	return startReading(t, src, nil).all()
}

// positions returns the positions of records, sorted by partition. Within a partition, they keep their order.
func positions(records []Record) (list []Position) {
	for _, r := range records {
		list = append(list, r.Position)
	}
	slices.SortStableFunc(list, func(a, b Position) int { return strings.Compare(a.Log(), b.Log()) })
	return list
}

// stretch returns the positions from offset from up to to.
func stretch(topic string, partition int, from, to int64) (list []Position) {
	for o := from; o < to; o++ {
		list = append(list, Position{topic, partition, o})
	}
	return list
}

func manual(c Cluster) *kafkatest.Client {
	return kafkatest.Dial(c.Brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// base is the time of the first record of ticking.
var base = time.UnixMilli(1_700_000_000_000).UTC()

func ticking(topic string, partition int32, n int) (list []*kgo.Record) {
	for i := range n {
		list = append(list, &kgo.Record{Topic: topic, Partition: partition, Key: fmt.Appendf(nil, "k%d", i%3), Value: fmt.Append(nil, i), Timestamp: base.Add(time.Duration(i) * time.Second)})
	}
	return list
}

// withRecords returns a cluster with n records of ticking in the topic in.
func withRecords(t testing.TB, n int) (*kfake.Cluster, Cluster) {
	t.Helper()
	k, c := fake(t, kfake.SeedTopics(1, "in"))
	manual(c).Produce(t, ticking("in", 0, n)...)
	return k, c
}

// request sends a request with franz-go, which is independent of the code under test.
func request[R kmsg.Response](t testing.TB, c Cluster, req kmsg.Request) R {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...), kgo.MaxVersions(kversion.V3_5_0())) // topics have names instead of ids
	expect.OK(t, err)
	defer cl.Close()
	res, err := cl.Request(context30(t), req)
	expect.OK(t, err)
	return res.(R)
}

func commitAs(t testing.TB, c Cluster, group string, positions ...Position) {
	t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = group
	for _, p := range positions {
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic = p.Topic
		partition := kmsg.NewOffsetCommitRequestTopicPartition()
		partition.Partition, partition.Offset = int32(p.Partition), p.Offset
		topic.Partitions = append(topic.Partitions, partition)
		req.Topics = append(req.Topics, topic)
	}
	for _, topic := range request[*kmsg.OffsetCommitResponse](t, c, req).Topics {
		for _, p := range topic.Partitions {
			expect.OK(t, kerr.ErrorForCode(p.ErrorCode))
		}
	}
}

// offsetsOf returns a group's offsets.
func offsetsOf(t testing.TB, c Cluster, group string) map[string]int64 {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	req.Groups = append(req.Groups, g)
	res := request[*kmsg.OffsetFetchResponse](t, c, req)
	offsets := map[string]int64{}
	for _, g := range res.Groups {
		for _, topic := range g.Topics {
			for _, p := range topic.Partitions {
				offsets[Position{Topic: topic.Topic, Partition: int(p.Partition)}.Log()] = p.Offset
			}
		}
	}
	return offsets
}

func TestStart(t *testing.T) {
	_, c := fake(t, kfake.SeedTopics(4, "in"), kfake.SeedTopics(1, "empty"))
	m := manual(c)
	m.Produce(t, ticking("in", 0, 10)...)
	m.Produce(t, ticking("in", 1, 5)...)
	m.Produce(t, ticking("in", 3, 1)...)
	commitAs(t, c, "whole", Position{"in", 0, 3}, Position{"in", 1, 5}, Position{"in", 2, 0}, Position{"in", 3, 0})
	commitAs(t, c, "part", Position{"in", 0, 9})
	everything := slices.Concat(stretch("in", 0, 0, 10), stretch("in", 1, 0, 5), stretch("in", 3, 0, 1))
	for _, test := range []struct {
		name  string
		start Start
		group string
		want  []Position
	}{
		{name: "earliest", start: Start{At: Earliest}, want: everything},
		{name: "latest", start: Start{At: Latest}},
		{name: "committed", start: Start{At: Committed}, group: "whole", want: slices.Concat(stretch("in", 0, 3, 10), stretch("in", 3, 0, 1))},
		{name: "partly committed", start: Start{At: Committed}, group: "part", want: slices.Concat(stretch("in", 0, 9, 10), stretch("in", 1, 0, 5), stretch("in", 3, 0, 1))},
		{name: "not committed", start: Start{At: Committed}, group: "new", want: everything},
		{name: "offset", start: Start{At: AtOffset, Offset: 4}, want: slices.Concat(stretch("in", 0, 4, 10), stretch("in", 1, 4, 5))},
		{name: "time", start: Start{At: AtTime, Time: base.Add(3500 * time.Millisecond)}, want: slices.Concat(stretch("in", 0, 4, 10), stretch("in", 1, 4, 5))},
		{name: "time of the first", start: Start{At: AtTime, Time: base}, want: everything},
		{name: "time past the end", start: Start{At: AtTime, Time: base.Add(time.Hour)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, readers := range [][]string{nil, {"a", "b", "c"}} {
				got := readAll(t, Source{Cluster: c, Topics: []string{"in", "empty"}, Group: test.group, Start: test.start, Readers: readers})
				expect.Same(t, test.want, positions(got), "with the readers ", readers)
			}
		})
	}
}

func TestRecords(t *testing.T) {
	_, c := fake(t, kfake.SeedTopics(1, "in"))
	headers := []kgo.RecordHeader{{Key: "id", Value: []byte("a")}, {Key: "id", Value: []byte{}}, {Key: "", Value: nil}}
	long := bytes.Repeat([]byte("long "), 10_000)
	var want []Record
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		sent := []*kgo.Record{
			{},
			{Key: []byte{}, Value: []byte{}},
			{Key: []byte("k"), Value: []byte("v"), Headers: headers, Timestamp: base},
			{Key: []byte("tombstone"), Timestamp: time.UnixMilli(1)},
			{Value: long, Timestamp: base.Add(-time.Hour)},
		}
		for _, r := range sent {
			r.Topic = "in"
			if r.Timestamp.IsZero() {
				r.Timestamp = base
			}
		}
		kafkatest.Dial(c.Brokers, kgo.ProducerBatchCompression(codec)).Produce(t, sent...)
		for _, r := range sent {
			rec := Record{Position: Position{"in", 0, r.Offset}, Time: r.Timestamp.UTC(), Key: r.Key, Value: r.Value}
			for _, h := range r.Headers {
				rec.Headers = append(rec.Headers, Header(h))
			}
			want = append(want, rec)
		}
	}
	r := startReading(t, Source{Cluster: c, Topics: []string{"in"}, Bounded: true}, nil)
	got := r.all()
	for i := range got {
		got[i].LogTime = time.Time{} // see TestTimeReach
	}
	if d := cmp.Diff(want, got); d != "" { // distinguishes nil and empty
		t.Errorf("(-want +got):\n%s", d)
	}
	for i, et := range r.times {
		expect.Same(t, mtime.FromTime(got[i].Time), et, "event time of record ", i)
	}
}

// TestOversized: records next to oversized ones are unchanged.
func TestOversized(t *testing.T) {
	_, c := fake(t, kfake.SeedTopics(1, "in"), kfake.BrokerConfigs(map[string]string{"message.max.bytes": fmt.Sprint(64 << 20)}))
	type seen struct{ Key, Value, Headers, Oversized int }
	var want, got []seen
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.ZstdCompression()} {
		client := kafkatest.Dial(c.Brokers, kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(32<<20))
		for _, size := range []int{MaxRecord - 2, MaxRecord - 1, 300_000, 6 << 20} {
			client.Produce(t,
				&kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("before")},
				&kgo.Record{Topic: "in", Key: []byte("k"), Value: bytes.Repeat([]byte("v"), size), Headers: []kgo.RecordHeader{{Key: "h"}}},
				&kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("after")})
			large := seen{1, size, 1, 0}
			if total := size + 2; total > MaxRecord {
				large = seen{1, recordbatch.Kept, 0, total}
			}
			want = append(want, seen{1, 6, 0, 0}, large, seen{1, 5, 0, 0})
		}
	}
	for _, r := range readAll(t, Source{Cluster: c, Topics: []string{"in"}}) {
		got = append(got, seen{len(r.Key), len(r.Value), len(r.Headers), r.Oversized})
	}
	expect.Same(t, want, got)
}

// TestAddedWhileSplit: if a partition is found when the rest already belongs to another call, that call finds it
// again.
func TestAddedWhileSplit(t *testing.T) {
	expect.Long(t, "pauses between requests")
	t.Parallel()
	_, c := fake(t, kfake.SeedTopics(2, "in"))
	r := startReading(t, Source{Cluster: c, Topics: []string{"in"}, Poll: time.Nanosecond}, nil)
	expect.Get(r.call(context30(t)))(t)
	name := t.Name() + "/0"
	v, _ := consumers.Load(name)
	before := v.(*consumer)
	before.discoveries <- discovered{spans: []span{{Position: Position{"in", 2, 0}, End: -1}}}
	rt := r.fn.CreateTracker(r.rests[0])
	if _, rest, err := rt.TrySplit(0); rest == nil || err != nil {
		t.Fatalf("a split leaves %v, %v", rest, err)
	}
	ended, _, err := r.fn.Source.call(context30(t), r.fn.Run, nil, rt, mtime.MinTimestamp, nil)
	if _, found := consumers.Load(name); !ended || found || err != nil || before.ctx.Err() == nil {
		t.Fatalf("after the split: ended %v, kept %v, %v", ended, found, err)
	}
	m := manual(c)
	m.AddPartitions(t, "in", 3)
	m.Produce(t, ticking("in", 2, 4)...)
	r.until(func() bool { return len(r.got) >= 4 })
	expect.Same(t, stretch("in", 2, 0, 4), positions(r.got))
}
