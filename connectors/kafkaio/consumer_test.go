package kafkaio

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/twmb/franz-go/pkg/kfake"

	"hafvf/connectors/kafkaio/recordbatch"
	"hafvf/internal/reminder"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

func TestAddedPartitions(t *testing.T) {
	expect.Long(t, "pauses between requests")
	t.Parallel()
	_, c := fake(t, kfake.SeedTopics(2, "in"))
	m := manual(c)
	m.Produce(t, ticking("in", 0, 3)...)
	r := startReading(t, Source{Cluster: c, Topics: []string{"in"}, Start: Start{At: Latest}, Readers: []string{"a", "b"}}, nil)
	m.AddPartitions(t, "in", 5)
	for p := range 5 {
		m.Produce(t, ticking("in", int32(p), 4)...)
	}
	r.until(func() bool { return len(r.got) >= 20 })
	var want []Position
	for p := range 5 {
		first := int64(0)
		if p == 0 {
			first = 3
		}
		want = append(want, stretch("in", p, first, first+4)...)
	}
	expect.Same(t, want, positions(r.got))
}

// TestRestart: another worker continues with the residual restriction.
func TestRestart(t *testing.T) {
	_, c := fake(t, kfake.SeedTopics(2, "in"))
	manual(c).Produce(t, slices.Concat(ticking("in", 0, 1000), ticking("in", 1, 1000))...)
	r := startReading(t, Source{Cluster: c, Topics: []string{"in"}, Bounded: true}, nil)
	for more := true; more; {
		var err error
		if more, err = r.call(context30(t)); err != nil {
			t.Fatal(err)
		}
		r.abandon()
	}
	expect.Same(t, slices.Concat(stretch("in", 0, 0, 1000), stretch("in", 1, 0, 1000)), positions(r.got))
}

func lags() map[string]int64 {
	records, _ := (*Ledger)(nil).Lag()
	return records
}

// TestLag: without a ledger, the lag is available between calls while the consumer exists.
func TestLag(t *testing.T) {
	_, c := fake(t, kfake.SeedTopics(1, "lagging"))
	const n = 20_000
	manual(c).Produce(t, ticking("lagging", 0, n)...)
	r := startReading(t, Source{Cluster: c, Topics: []string{"lagging"}, Poll: time.Nanosecond}, nil)
	for len(r.got) < n {
		expect.Get(r.call(context30(t)))(t)
		if lag := lags()["lagging-0"]; len(r.got) > 0 && lag != int64(n-len(r.got)) {
			t.Fatalf("%d of %d records taken, lag %d", len(r.got), n, lag)
		}
	}
	r.abandon()
	for len(lags()) > 0 {
		time.Sleep(time.Millisecond)
	}
}

// TestFetcherPermanentError: errors that do not go away end the source, with an explanation.
func TestFetcherPermanentError(t *testing.T) {
	t.Parallel()
	_, c := withRecords(t, 3)
	id := described(t, c, "in").id
	for _, test := range []struct {
		position Position
		topic    string
		want     string
	}{
		{Position{"in", 0, 7}, "", "in-0 cannot be read at offset 7: its end is 3: records were lost, or the topic was deleted and created again"},
		{Position{"gone", 0, 0}, "", "gone-0 cannot be read at offset 0: it does not exist any more"},
		{Position{"in", 4, 0}, "", "in-4 cannot be read at offset 0: it does not exist any more"},
		{Position{"in", 0, 0}, "another", `in-0 cannot be read at offset 0: topic "in" was deleted and created again (its id was another and is ` + id + "): offsets and states belong to the deleted records"},
	} {
		f := &fetcher{client: openClient(t, c), position: test.position, topic: test.topic, end: -1, staleTimeout: 50 * time.Millisecond, log: quiet, ahead: &budgetShare{budget: processBudget}, batches: make(chan batch, 1)}
		f.run(context30(t))
		select {
		case b := <-f.batches:
			says(t, b.err, test.want)
			if resume := strings.Contains(test.want, "created again"); errors.As(b.err, new(*ResumeError)) != resume {
				t.Errorf("%v: a ResumeError is %t", b.err, !resume)
			}
		default:
			t.Errorf("%s: nothing came", test.want)
		}
	}
}

// TestOutageStaleFor: only consecutive errors from stale metadata count, not earlier errors of the outage.
func TestOutageStaleFor(t *testing.T) {
	o := outage{Reminder: reminder.Reminder{Since: time.Now().Add(-time.Hour)}}
	if d := o.staleFor(staleMetadataError{errors.New("x")}); d > time.Minute {
		t.Errorf("after the first error from stale metadata: %s", d)
	}
	o.staleSince = time.Now().Add(-time.Hour)
	if d := o.staleFor(fmt.Errorf("y: %w", staleMetadataError{errors.New("x")})); d < time.Hour {
		t.Errorf("after an hour of stale metadata: %s", d)
	}
	if o.staleFor(errors.New("the broker is away")); o.staleFor(staleMetadataError{errors.New("x")}) > time.Minute {
		t.Error("another error does not reset staleFor")
	}
}

// TestLease: a consumer without further calls is closed. If two consumers are put under one name, the first is closed.
func TestLease(t *testing.T) {
	_, c := fake(t, kfake.SeedTopics(1, "in"))
	newOne := func() *consumer {
		return newConsumer(context30(t), openClient(t, c), Source{Cluster: c, Topics: []string{"in"}}, restriction{Readers: 1, Partitions: []span{{Position: Position{"in", 0, 0}, End: -1}}}, recordbatch.Limits{}, quiet)
	}
	one, other := newOne(), newOne()
	one.put("lease")
	other.put("lease")
	if one.ctx.Err() == nil || other.ctx.Err() != nil {
		t.Errorf("the first is %v, the second %v", one.ctx.Err(), other.ctx.Err())
	}
	other.lease.Reset(0)
	select {
	case <-other.ctx.Done():
	case <-context30(t).Done():
		t.Error("the consumer is not closed")
	}
	if _, ok := consumers.Load("lease"); ok {
		t.Error("a closed consumer is still registered")
	}
}

func TestWatermark(t *testing.T) {
	now := base.Add(time.Hour)
	type state struct {
		next, high, end            int64
		latest, lastTaken, drained time.Duration // before now; 0 for never
	}
	min := time.UnixMilli(mtime.MinTimestamp.Milliseconds())
	for _, test := range []struct {
		name  string
		parts []state
		want  time.Time
	}{
		{"least", []state{{5, 10, -1, 40 * time.Minute, time.Second, 0}, {5, 10, -1, 50 * time.Minute, time.Second, 0}}, base.Add(9 * time.Minute)},
		{"nothing seen yet", []state{{5, 10, -1, 40 * time.Minute, time.Second, 0}, {0, 10, -1, 0, time.Minute, 0}}, min},
		{"not asked yet", []state{{0, -1, -1, 0, time.Minute, 0}}, min},
		{"drained for long", []state{{5, 10, -1, 40 * time.Minute, time.Second, 0}, {9, 9, -1, 50 * time.Minute, time.Minute, time.Second}}, base.Add(19 * time.Minute)},
		{"empty", []state{{0, 0, -1, 0, time.Minute, time.Second}}, base.Add(59*time.Minute - time.Second)},
		{"just drained", []state{{9, 9, -1, 50 * time.Minute, 1500 * time.Millisecond, time.Second}}, base.Add(9 * time.Minute)},
		{"drained and not heard of since", []state{{9, 9, -1, 50 * time.Minute, 40 * time.Minute, 30 * time.Minute}}, base.Add(29 * time.Minute)},
		{"at its end", []state{{5, 10, 20, 40 * time.Minute, time.Second, 0}, {9, 9, 9, 50 * time.Minute, time.Second, 0}}, base.Add(19 * time.Minute)},
		{"from the future", []state{{5, 10, -1, -time.Hour, time.Second, 0}}, base.Add(59 * time.Minute)},
	} {
		c := &consumer{src: Source{Disorder: time.Minute}}
		before := func(d time.Duration) (t time.Time) {
			if d != 0 {
				t = now.Add(-d)
			}
			return t
		}
		for _, s := range test.parts {
			f := &fetcher{end: s.end}
			f.high.Store(s.high)
			if s.drained != 0 {
				t := before(s.drained)
				f.drained.Store(&t)
			}
			c.parts = append(c.parts, &partitionReader{fetcher: f, next: s.next, lastTaken: before(s.lastTaken), reach: timeReach{Latest: max(0, before(s.latest).UnixMilli())}})
		}
		want := test.want
		if want.Equal(min) && c.watermark(now).Equal(min) {
			continue
		}
		if got := c.watermark(now); !got.Equal(want) {
			t.Errorf("%s: %s, want %s", test.name, got.UTC(), want)
		}
	}
}

func init() {
	RegisterClock("test", func(layout string) Clock {
		return func(r Record) (time.Time, bool) {
			t, err := time.Parse(layout, string(r.Value))
			return t, err == nil
		}
	})
}

// TestDeletedRecords: records that were deleted before they were read are counted once, by topic.
func TestDeletedRecords(t *testing.T) {
	_, c := fake(t, kfake.SeedTopics(2, "in"))
	manual(c).Produce(t, append(ticking("in", 0, 9), ticking("in", 1, 9)...)...)
	commitAs(t, c, "g", Position{"in", 0, 2}, Position{"in", 1, 7})
	kafkatest.Dial(c.Brokers).DeleteBefore(t, "in", 0, 5)
	l := openLedger(t, LedgerConfig{Client: openClient(t, c), Topics: []string{"in"}, Group: "g", CommitAtEnd: true})
	r := startReading(t, Source{Cluster: c, Topics: []string{"in"}, Group: "g", Start: Start{At: Committed}}, l)
	r.until(func() bool {
		l.Rest()
		return len(r.got) == 6
	})
	expect.Same(t, map[string]int64{"in": 3}, l.account.DeletedByTopic())
}
