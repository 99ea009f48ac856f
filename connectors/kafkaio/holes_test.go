package kafkaio

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

// TestMissingOffsets reads topics of a real broker in which offsets are missing for all possible reasons.
func TestMissingOffsets(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t, kafkatest.Config{Properties: map[string]string{
		"log.cleaner.backoff.ms": "100", "log.cleaner.threads": "1", "log.initial.task.delay.ms": "100",
		"log.retention.check.interval.ms": "200", "message.max.bytes": fmt.Sprint(32 << 20), "replica.fetch.max.bytes": fmt.Sprint(32 << 20)}})
	c := Cluster{Brokers: []string{b.Addr()}}
	t.Run("compacted", func(t *testing.T) { compacted(t, b, c) })
	t.Run("transactions", func(t *testing.T) { transactions(t, c) })
	t.Run("deleted", func(t *testing.T) { deleted(t, c) })
}

func compacted(t *testing.T, b *kafkatest.Broker, c Cluster) {
	for _, test := range []struct {
		name string
		opts []kgo.Opt
	}{
		{"zstd", []kgo.Opt{kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.DisableIdempotentWrite()}},
		{"plain", []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.DisableIdempotentWrite()}},
		// The broker keeps the last batch of an idempotent producer when it removes its records.
		{"idempotent zstd", []kgo.Opt{kgo.ProducerBatchCompression(kgo.ZstdCompression())}},
		{"idempotent plain", []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // waiting for the broker's cleaner
			topic := strings.ReplaceAll(test.name, " ", "-")
			b.CreateTopic(t, topic, 1, map[string]string{"cleanup.policy": "compact", "segment.ms": "100",
				"min.cleanable.dirty.ratio": "0.001", "min.compaction.lag.ms": "0", "delete.retention.ms": "0"})
			p := kafkatest.Dial(c.Brokers, append(test.opts, kgo.ProducerBatchMaxBytes(8<<20))...)
			// Compaction removes the tail of the first batch and all of the second. The third does not fit into a
			// fetch after another batch. Of the fourth, compaction removes the head.
			sent := func(keys ...string) {
				var records []*kgo.Record
				for _, k := range keys {
					value := []byte("value of " + k)
					if k == "big" {
						value = bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
					}
					records = append(records, &kgo.Record{Topic: topic, Key: []byte(k), Value: value})
				}
				p.Produce(t, records...)
			}
			sent("a", "b", "b2", "c", "d", "d")
			sent("c", "d")
			sent("big")
			sent("e", "c", "d")
			sent("c")
			sent("f", "d")
			sent("d")
			_, end := b.Offsets(t, topic)
			want := map[string]bool{"a": true, "b": true, "b2": true, "big": true, "e": true, "c": true, "f": true, "d": true}
			// One record of each key remains. The broker cleans a segment after a later record has started a new
			// segment. The test ignores the records from here on.
			var offsets []Position
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(110 * time.Millisecond) { // segment.ms
				keys := map[string]bool{}
				offsets = nil
				for _, r := range b.Consume(t, topic) {
					if r.Offset < end[0] {
						offsets = append(offsets, Position{topic, 0, r.Offset})
						keys[string(r.Key)] = true
					}
				}
				d := cmp.Diff(want, keys)
				if d == "" && len(offsets) == len(want) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("the broker has not done what is to be tested: %v, %s", offsets, d)
				}
				sent("roll")
			}
			for from := int64(0); from <= end[0]; from++ {
				for to := from; to <= end[0]; to += 5 {
					checkStretch(t, c, topic, from, to, offsets)
				}
			}
			got := slices.DeleteFunc(positions(readAll(t, Source{Cluster: c, Topics: []string{topic}})), func(p Position) bool { return p.Offset >= end[0] })
			expect.Same(t, offsets, got)
		})
	}
}

// checkStretch reads the offsets from from to to, wherever these are in batches.
func checkStretch(t *testing.T, c Cluster, topic string, from, to int64, list []Position) {
	t.Helper()
	rest := restriction{Readers: 1, Bounded: true, Partitions: []span{{Position: Position{topic, 0, from}, End: to}}}
	got, next := drain(t, c, rest, quiet)
	var want []Position
	for _, p := range list {
		if p.Offset >= from && p.Offset < to {
			want = append(want, p)
		}
	}
	if d := cmp.Diff(want, positions(got)); d != "" || next != to {
		t.Fatalf("from %d up to %d the end is %d (-want +got):\n%s", from, to, next, d)
	}
}

// drain reads a restriction of one partition.
func drain(t testing.TB, c Cluster, rest restriction, log *slog.Logger) (got []Record, next int64) {
	t.Helper()
	ctx := context30(t)
	cons := newConsumer(ctx, openClient(t, c), Source{Cluster: c}, rest, readLimits, log)
	defer cons.close()
	next = rest.Partitions[0].Offset
	for end := rest.Partitions[0].End; next < end; {
		i, b := cons.take()
		if i < 0 {
			select {
			case <-cons.arrived:
				continue
			case <-ctx.Done():
				t.Fatalf("nothing comes after offset %d of %v", next, rest)
			}
		}
		if b.err != nil {
			t.Fatal(b.err)
		}
		got, next = append(got, b.records...), b.next
	}
	return got, next
}

// transactions checks that records of committed transactions are read, and that their markers are not.
func transactions(t *testing.T, c Cluster) {
	dial := kafkatest.Dial(c.Brokers)
	dial.CreateTopic(t, "tx", 1, nil)
	transact := func(id string) *kgo.Client {
		cl := expect.Get(kgo.NewClient(kgo.SeedBrokers(c.Brokers...), kgo.TransactionalID(id), kgo.DefaultProduceTopic("tx"), kgo.MaxVersions(kversion.V3_5_0())))(t)
		t.Cleanup(cl.Close)
		return cl
	}
	one, other := transact("one"), transact("other")
	begin := func(cl *kgo.Client) {
		expect.OK(t, cl.BeginTransaction())
	}
	send := func(cl *kgo.Client, values ...string) {
		for _, v := range values {
			expect.OK(t, cl.ProduceSync(context30(t), kgo.StringRecord(v)).FirstErr())
		}
	}
	end := func(cl *kgo.Client, commit kgo.TransactionEndTry) {
		expect.OK(t, cl.EndTransaction(context30(t), commit))
	}
	read := func() (values []string) {
		for _, r := range readAll(t, Source{Cluster: c, Topics: []string{"tx"}}) {
			values = append(values, string(r.Value))
		}
		return values
	}
	begin(one)
	begin(other)
	send(one, "a", "b")
	send(other, "no", "never")
	send(one, "c")
	end(one, kgo.TryCommit)
	arrive := func(want ...string) { // the marker is written some time after the end
		t.Helper()
		got := read()
		for deadline := time.Now().Add(20 * time.Second); !slices.Equal(got, want) && time.Now().Before(deadline); {
			got = read()
		}
		expect.Same(t, want, got)
	}
	arrive("a", "b") // c follows when the earlier transaction has ended
	begin(one)
	send(one, "d")
	end(other, kgo.TryAbort)
	end(one, kgo.TryCommit) // its marker is the end of the partition
	arrive("a", "b", "c", "d")
	begin(other)
	send(other, "nor this")
	end(other, kgo.TryAbort)
	// A record that looks like a marker.
	dial.Produce(t, &kgo.Record{Topic: "tx", Key: []byte{0, 0, 0, 1}, Value: []byte{0, 0, 0, 0, 0, 0}})
	arrive("a", "b", "c", "d", "\x00\x00\x00\x00\x00\x00")
	// Start at every offset, also within the transactions.
	var list []Position
	for _, r := range readAll(t, Source{Cluster: c, Topics: []string{"tx"}}) {
		list = append(list, r.Position)
	}
	_, last := dial.Offsets(t, "tx")
	for from := range last[0] + 1 {
		checkStretch(t, c, "tx", from, last[0], list)
	}
}

// deleted checks that the source continues after records that retention has deleted, and that the log reports them as
// lost.
func deleted(t *testing.T, c Cluster) {
	kafkatest.Dial(c.Brokers).CreateTopic(t, "del", 1, nil)
	m := manual(c)
	m.Produce(t, ticking("del", 0, 10)...)
	kafkatest.Dial(c.Brokers).DeleteBefore(t, "del", 0, 4)
	log := &logged{warned: make(chan struct{}, 10)}
	read := func(from, to int64) []Position {
		got, _ := drain(t, c, restriction{Readers: 1, Bounded: true, Partitions: []span{{Position: Position{"del", 0, from}, End: to}}}, slog.New(log))
		return positions(got)
	}
	expect.Same(t, stretch("del", 0, 4, 10), read(1, 10))
	if got := log.String(); strings.Count(got, "WARN") != 1 || !strings.Contains(got, "lost=3") || !strings.Contains(got, "partition=del-0") {
		t.Errorf("log:\n%s", got)
	}
	kafkatest.Dial(c.Brokers).DeleteBefore(t, "del", 0, 10)
	if got := read(5, 10); got != nil {
		t.Errorf("%v were read of what was deleted", got)
	}
	if got := log.String(); !strings.Contains(got, "lost=5") {
		t.Errorf("log:\n%s", got)
	}
}
