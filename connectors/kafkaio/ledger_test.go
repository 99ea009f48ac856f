package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hafvf/internal/account"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

// A State is the state of a key, with the positions of its records that have no output yet.
type State struct {
	Key     string
	Bytes   []byte
	Waiting []Position
}

// Report reports states, as nodes do. They are settled once nothing is in flight.
func (l *Ledger) Report(states ...State) {
	var r account.Report
	for _, s := range states {
		k := account.EncodedState{Key: s.Key, State: s.Bytes}
		for _, w := range s.Waiting {
			k.Waiting = append(k.Waiting, account.Offset{Log: w.Log(), Seq: w.Offset})
		}
		r.States = append(r.States, k)
	}
	l.account.Report(r)
}

// Rest reports states, and then reports an idle runner.
func (l *Ledger) Rest(states ...State) {
	l.Report(states...)
	l.account.SetIdle("", false, time.Time{})
}

// openLedger opens a ledger that is closed when the test ends.
func openLedger(t testing.TB, cfg LedgerConfig) *Ledger {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = quiet
	}
	l := expect.Get(OpenLedger(context30(t), cfg))(t)
	t.Cleanup(func() { l.Close(context.Background(), false) })
	return l
}

// TestCommitWhenSettled: no offset is committed while records are in flight. Without a changelog, no offset after a
// waiting record is committed, because its state is not stored.
func TestCommitWhenSettled(t *testing.T) {
	_, c := fake(t, kfake.SeedTopics(1, "in"))
	l := openLedger(t, LedgerConfig{Client: openClient(t, c), Group: "g", CommitAtEnd: true}) // commits only when the test asks for it
	ctx := context30(t)
	check := func(when string, offset int64) {
		t.Helper()
		expect.OK(t, l.commit(ctx, commitRequest{}))
		want := map[string]int64{}
		if offset >= 0 {
			want["in-0"] = offset
		}
		expect.Same(t, want, offsetsOf(t, c, "g"), when, ", offsets")
	}
	hand := func(n int, offset int64) {
		t.Helper()
		expect.OK(t, l.handOver(ctx, []partitionProgress{{Position: Position{"in", 0, offset}, High: 100}}, n, time.Now()))
	}
	check("at first", -1)
	hand(3, 3)
	check("with three in flight", -1)
	l.Report(State{Key: "a"}, State{Key: "b"})
	check("with outputs to be stored", -1)
	hand(0, 4) // a marker
	check("with a marker", -1)
	l.Rest()
	check("with nothing in flight", 4)
	hand(2, 6)
	l.Report(State{Key: "a", Waiting: []Position{{"in", 0, 5}}}) // one of the records has no output yet
	check("in flight again", 4)
	l.Rest()
	check("with one that waits", 5)
	hand(1, 7)
	l.Report(State{Key: "a"})
	l.account.SetIdle("a grouping", false, time.Time{})
	check("with its output in a grouping", 5)
	l.Rest()
	check("when nothing waits", 7)
	lags, _ := l.Lag()
	expect.Same(t, map[string]int64{"in-0": 93}, lags, "lag")
	hand(1, 8)
	if l.account.Busy() <= 0 {
		t.Error("the account is not busy with a record in flight")
	}
	expect.OK(t, l.Close(ctx, true))
	expect.Same(t, map[string]int64{"in-0": 7}, offsetsOf(t, c, "g"), "at the end, offsets")
}

// TestRenewOffsets: unchanged offsets are committed once a day and at the start of a run, so that the brokers do not
// forget them.
func TestRenewOffsets(t *testing.T) {
	_, c := fake(t, kfake.SeedTopics(1, "in"))
	forget := func() {
		t.Helper()
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = "g"
		req.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "in", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
		if err := kerr.ErrorForCode(request[*kmsg.OffsetDeleteResponse](t, c, req).ErrorCode); err != nil && err != kerr.GroupIDNotFound {
			t.Fatal(err)
		}
	}
	cfg := LedgerConfig{Client: openClient(t, c), Topics: []string{"in"}, Group: "g", Changelog: "states", CommitAtEnd: true} // commits only when the test asks for it
	l := openLedger(t, cfg)
	commits := func(when string, offset int64) {
		t.Helper()
		forget()
		expect.OK(t, l.commit(t.Context(), commitRequest{}))
		want := map[string]int64{}
		if offset >= 0 {
			want["in-0"] = offset
		}
		expect.Same(t, want, offsetsOf(t, c, "g"), when, ", offsets")
	}
	expect.OK(t, l.handOver(t.Context(), []partitionProgress{{Position: Position{"in", 0, 4}, High: 100}}, 1, time.Now()))
	l.Rest()
	commits("at first", 4)
	commits("on the same day", -1)
	l.renewed = time.Now().Add(-renewEvery)
	commits("on the next day", 4)
	expect.OK(t, l.Close(t.Context(), true))
	l = openLedger(t, cfg)
	commits("after a start", 4)
	commits("on that day", -1)
}

// TestOwnerCommits: each transaction of an owner ends, including the first. The records of a new topic can be stored
// before franz-go knows its partitions. On a busy machine, it then considered 1 to 10 of 1,000 first transactions
// empty, and reported them as committed.
func TestOwnerCommits(t *testing.T) {
	k, c := fake(t, kfake.SeedTopics(1, "states"))
	ends := 0
	k.Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		if r, ok := r.(*kmsg.EndTxnRequest); ok && r.Commit {
			ends++
		}
		return nil, nil, false
	})
	o := expect.Get(takeOwnership(context30(t), c, "states", "", batchBytes))(t)
	defer o.close()
	for range 3 {
		expect.OK(t, o.commit(context30(t), puts(entry{key: []byte("k"), value: []byte("1")}), nil))
	}
	expect.Same(t, 3, ends, "commits")

	entered, released := make(chan bool), make(chan bool)
	slow := kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		return func(*kgo.Record, int) int { entered <- true; <-released; return 0 }
	})
	client := expect.Get(kgo.NewClient(kgo.SeedBrokers(c.Brokers...), kgo.RecordPartitioner(slow)))(t)
	defer client.Close()
	client.Produce(t.Context(), &kgo.Record{Topic: "states"}, nil)
	<-entered
	starting := owner{client: client, changelog: "states"}
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := starting.awaitPartitions(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the partitions are known before the records of the topic are handed over: %v", err)
	}
	close(released)
	expect.OK(t, starting.awaitPartitions(context30(t)))
}

// TestLagOfAStuckRun: the lag grows with the topic while a run processes nothing, and keeps its last known value while
// brokers do not answer.
func TestLagOfAStuckRun(t *testing.T) {
	k, c := fake(t, kfake.SeedTopics(1, "in"))
	l := openLedger(t, LedgerConfig{Client: openClient(t, c), Topics: []string{"in"}, CommitAtEnd: true})
	expect.OK(t, l.handOver(t.Context(), []partitionProgress{{Position: Position{"in", 0, 3}, High: 3}}, 3, time.Now()))
	check := func(when string, want int64) time.Duration {
		t.Helper()
		l.cfg.Client.ends.asked = time.Time{} // outdated
		lags, age := l.Lag()
		expect.Same(t, map[string]int64{"in-0": want}, lags, when)
		return age
	}
	manual(c).Produce(t, ticking("in", 0, 10)...)
	check("with ten records", 7)
	manual(c).Produce(t, ticking("in", 0, 10)...)
	check("with twenty", 17)
	k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.UnknownServerError})
	l.cfg.Client.ends.answered = time.Now().Add(-time.Hour)
	if age := check("when no broker answers", 17); age < time.Hour {
		t.Errorf("an answer of an hour ago has the age %v", age)
	}
}

func TestChangelogPolicy(t *testing.T) {
	_, c := fake(t)
	for _, policy := range []string{"delete", "compact,delete"} {
		name := "states-" + strings.ReplaceAll(policy, ",", "-")
		kafkatest.Dial(c.Brokers).CreateTopic(t, name, 1, map[string]string{"cleanup.policy": policy})
		_, err := OpenLedger(context30(t), LedgerConfig{Client: openClient(t, c), Changelog: name, Log: quiet})
		says(t, err, fmt.Sprintf("the changelog %s has cleanup.policy %q: states would be lost; set it to compact", name, policy))
	}
}

// TestLeadersOfANewChangelog: a run that creates its changelog waits until the leaders know it.
func TestLeadersOfANewChangelog(t *testing.T) {
	t.Parallel()
	k, c := fake(t, kfake.SeedTopics(1, "in"))
	k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.NotLeaderForPartition, Count: 3})
	l := openLedger(t, LedgerConfig{Client: openClient(t, c), Topics: []string{"in"}, Group: "g", Changelog: "states", CommitAtEnd: true})
	l.Rest(State{Key: "k", Bytes: []byte("1")})
	expect.OK(t, l.Close(context30(t), true))
}

// TestSync: no offset is committed if Sync fails, because the outputs may not be on the disk.
func TestSync(t *testing.T) {
	_, c := fake(t, kfake.SeedTopics(1, "in"))
	full := errors.New("no space left on the disk")
	l := openLedger(t, LedgerConfig{Client: openClient(t, c), Group: "g", CommitAtEnd: true, Sync: func() error { return full }})
	expect.OK(t, l.handOver(context30(t), []partitionProgress{{Position: Position{"in", 0, 5}, High: 5}}, 0, time.Time{}))
	if err := l.commit(context30(t), commitRequest{}); !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
	if got := offsetsOf(t, c, "g"); len(got) > 0 {
		t.Errorf("%v are committed", got)
	}
}

// TestGroupWithMembers: the source ends with an explanation.
func TestGroupWithMembers(t *testing.T) {
	t.Parallel()
	_, c := fake(t, kfake.SeedTopics(1, "in"))
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("in"), kgo.DisableAutoCommit())
	expect.OK(t, err)
	defer cl.Close()
	manual(c).Produce(t, ticking("in", 0, 1)...)
	expect.OK(t, cl.PollFetches(context30(t)).Err())
	l := openLedger(t, LedgerConfig{Client: openClient(t, c), Group: "g"})
	r := startReading(t, Source{Cluster: c, Topics: []string{"in"}}, l)
	for err == nil {
		_, err = r.call(context30(t))
		l.Rest()
	}
	const want = "the offsets of group g cannot be committed: other consumers are members of it; use a separate group"
	if !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v\nwant %s", err, want)
	}
	if err := l.Close(context30(t), true); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("closing it: %v\nwant %s", err, want)
	}
}

// TestInFlight: an unbounded source hands over one bundle while another is processed, and stops after Stop.
func TestInFlight(t *testing.T) {
	_, c := fake(t, kfake.SeedTopics(2, "in"))
	m := manual(c)
	for range 40 {
		m.Produce(t, ticking("in", 0, 5000)...)
	}
	t.Run("two bundles", func(t *testing.T) {
		l := openLedger(t, LedgerConfig{Client: openClient(t, c), CommitAtEnd: true})
		r := startReading(t, Source{Cluster: c, Topics: []string{"in"}}, l)
		r.until(func() bool { return len(r.got) > 0 })
		first := len(r.got)
		ctx, cancel := context.WithCancel(context30(t))
		held := make(chan error)
		go func() {
			for {
				if _, err := r.call(ctx); err != nil {
					held <- err
					return
				}
			}
		}()
		select {
		case err := <-held:
			t.Fatal(err)
		case <-time.After(300 * time.Millisecond):
		}
		cancel()
		if err := <-held; err != context.Canceled {
			t.Errorf("the waiting call ended with %v", err)
		}
		// One fetch may bring more than the limit of a bundle.
		if n := len(r.got) - first; n > 2*max(bundleRecords, first) {
			t.Errorf("%d records were read while %d were in flight", n, first)
		}
		lags, _ := l.Lag()
		if lag := lags["in-0"]; lag != int64(200_000-first) {
			t.Errorf("the lag is %d with %d handed over", lag, first)
		}
	})
	t.Run("stop", func(t *testing.T) {
		l := openLedger(t, LedgerConfig{Client: openClient(t, c), CommitAtEnd: true})
		r := startReading(t, Source{Cluster: c, Topics: []string{"in"}}, l)
		stopped := false
		for more := true; more; {
			var err error
			if more, err = r.call(context30(t)); err != nil {
				t.Fatal(err)
			}
			l.Rest()
			if stopped && more {
				t.Fatal("the source continues after Stop")
			}
			if !stopped && len(r.got) > 0 {
				stopped = true
				l.Stop()
			}
		}
		if len(r.got) == 200_000 {
			t.Error("the source has stopped only at the end")
		}
	})
}

// TestCloseWithoutKafka: a stopped run waits for its last commit as long as brokers answer, and otherwise reports that
// work is not committed.
func TestCloseWithoutKafka(t *testing.T) {
	expect.Waits(t, "the pauses between requests")
	for name, changelog := range map[string]string{"changelog": "states", "group": "", "silent changelog": "states", "silent group": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, c := fake(t, kfake.SeedTopics(1, "in"))
			l := openLedger(t, LedgerConfig{Client: openClient(t, c), Topics: []string{"in"}, Group: "g", Changelog: changelog, CommitAtEnd: true})
			expect.OK(t, l.handOver(t.Context(), []partitionProgress{{Position: Position{"in", 0, 4}, High: 4}}, 1, time.Now()))
			l.Rest()
			if strings.HasPrefix(name, "silent") {
				over := make(chan struct{})
				t.Cleanup(func() { close(over) })
				k.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
					<-over
					return nil, nil, false
				})
			} else {
				k.Close()
			}
			l.Stop()
			closed := make(chan error, 1)
			go func() { closed <- l.Close(context.Background(), true) }()
			select {
			case err := <-closed:
				expect.Error(t, err, "its work since the last commit is not committed: the next run repeats it: ")
			case <-time.After(time.Minute):
				t.Error("Close does not return")
			}
		})
	}
}
