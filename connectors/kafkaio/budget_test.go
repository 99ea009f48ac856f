package kafkaio

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/connectors/kafkaio/recordbatch"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

// TestBudget: sixty partitions share a budget, and all are read to their ends. Their records are tiny when compressed,
// and take ten times the budget in memory.
func TestBudget(t *testing.T) {
	const partitions, each, value = 60, 8, 50_000
	limits := recordbatch.Limits{Record: 1 << 20, Fetch: 2 * value, Batch: 1 << 20}
	b := &budget{bytes: 8 * limits.Fetch}
	_, c := fake(t, kfake.SeedTopics(partitions, "in"))
	p := kafkatest.Dial(c.Brokers, kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(value*3/2))
	var records []*kgo.Record
	rest := restriction{Readers: 1, Bounded: true}
	for n := range int32(partitions) {
		for range each {
			records = append(records, &kgo.Record{Topic: "in", Partition: n, Value: bytes.Repeat([]byte("y"), value)})
		}
		rest.Partitions = append(rest.Partitions, span{Position: Position{"in", int(n), 0}, End: each})
	}
	p.Produce(t, records...)
	cons := newBudgetConsumer(t, openClient(t, c), rest, limits, b)
	maxHeld := 0
	for done := 0; done < partitions*each; {
		select {
		case <-cons.arrived:
		case <-context30(t).Done():
			t.Fatalf("%d of %d records came", done, partitions*each)
		}
		for i, batch := cons.take(); i >= 0; i, batch = cons.take() {
			if batch.err != nil {
				t.Fatal(batch.err)
			}
			done += len(batch.records)
			b.mu.Lock()
			maxHeld = max(maxHeld, b.used+batch.memory())
			b.mu.Unlock()
		}
	}
	if maxHeld > b.bytes*3/2 { // the last record of a batch can make it larger than the fetch asked for
		t.Errorf("%d bytes were held at once, with a budget of %d", maxHeld, b.bytes)
	}
	if b.used != 0 || len(b.waiting) != 0 {
		t.Errorf("at the end %d bytes are held, %d claims wait", b.used, len(b.waiting))
	}
}

// newBudgetConsumer returns a consumer with its own budget.
func newBudgetConsumer(t *testing.T, client *Client, rest restriction, limits recordbatch.Limits, b *budget) *consumer {
	t.Helper()
	spans := rest.Partitions
	rest.Partitions = nil
	cons := newConsumer(context30(t), client, Source{}, rest, limits, quiet)
	t.Cleanup(cons.close)
	cons.ahead.budget = b
	cons.add(spans)
	return cons
}

// TestBudgetOrder: claims are granted in their order. But a reader that holds nothing does not wait for others, and a
// reader that ends returns what it held.
func TestBudgetOrder(t *testing.T) {
	b := &budget{bytes: 10}
	one, other := &budgetShare{budget: b}, &budgetShare{budget: b}
	if !one.claim(t.Context(), 8) || !other.claim(t.Context(), 8) {
		t.Fatal("the first claim of a reader waits")
	}
	var granted []string
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	// A context that has ended leaves the claim in the queue.
	for _, c := range []struct {
		share *budgetShare
		n     int
	}{{one, 5}, {other, 1}, {one, 1}} {
		c.share.claim(ended, c.n)
	}
	claims := slices.Clone(b.waiting)
	see := func() []string {
		granted = nil
		for i, c := range claims {
			select {
			case <-c.granted:
				granted = append(granted, string(rune('a'+i)))
			default:
			}
		}
		return granted
	}
	if len(claims) != 3 {
		t.Fatalf("%d claims wait", len(claims))
	}
	one.add(-7) // 9 of 10 are held, and the first in the queue wants 5
	if got := see(); len(got) > 0 {
		t.Errorf("%v were granted", got)
	}
	other.end() // one holds 1
	expect.Same(t, []string{"a", "b", "c"}, see(), "granted, of ", b.used, " used")
	expect.Same(t, 7, b.used, "bytes used")
	one.end()
	one.add(5)
	expect.Same(t, 0, b.used, "bytes used at the end")
}
