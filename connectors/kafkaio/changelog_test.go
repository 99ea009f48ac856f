package kafkaio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

// TestPartKeys: the keys of parts are unique, and determine key and part.
func TestPartKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keyBytes := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 128, 'a'}), 1, 4)
		draw := func(n string) (string, int) {
			return string(keyBytes.Draw(t, "key"+n)), rapid.SampledFrom([]int{0, 1, 2, 127, 128, 300}).Draw(t, "part"+n)
		}
		key, part := draw("")
		b := partKey(key, part)
		if k, p, ok := parsePartKey(string(b)); k != key || p != part || !ok {
			t.Fatalf("%q, %d is %q, which is %q, %d", key, part, b, k, p)
		}
		if k, p := draw("2"); (k != key || p != part) && bytes.Equal(partKey(k, p), b) {
			t.Fatalf("%q is of %q, %d and %q, %d", b, key, part, k, p)
		}
	})
	for _, b := range []string{headKey, bottomKey, "\x00\x80", "\x00\x01"} {
		if key, part, ok := parsePartKey(b); ok {
			t.Errorf("%q is part %d of %q", b, part, key)
		}
	}
}

// filled returns a cluster with a changelog of 3 partitions, in which a run has stored the states of k and 20 other
// keys at offset 5.
func filled(t *testing.T) (*kfake.Cluster, Cluster) {
	t.Helper()
	k, c := fake(t, kfake.SeedTopics(1, "in"))
	changelogOf(t, c, 3)
	manual(c).Produce(t, ticking("in", 0, 9)...)
	commitStates(t, c, nil, 5)
	return k, c
}

func changelogOf(t *testing.T, c Cluster, partitions int) {
	t.Helper()
	kafkatest.Dial(c.Brokers).CreateTopic(t, "states", partitions, map[string]string{"cleanup.policy": "compact"})
}

// commitStates starts a run, commits the group's offset, stores it as the state of k and of 20 other keys, and ends
// the run.
func commitStates(t *testing.T, c Cluster, more func(*LedgerConfig), offset int64) {
	t.Helper()
	r := startRun(t, c, more)
	for i := range 20 {
		r.Rest(State{Key: fmt.Sprint("k", i), Bytes: fmt.Append(nil, offset)})
	}
	r.mustCommit(offset)
	expect.OK(t, r.Close(context30(t), true))
}

// checkAllRestored checks that all 21 states and the group's offset equal offset.
func checkAllRestored(t *testing.T, c Cluster, offset int64) {
	t.Helper()
	r := startRun(t, c, nil)
	want := map[string][]byte{"k": fmt.Append(nil, offset)}
	for i := range 20 {
		want[fmt.Sprint("k", i)] = fmt.Append(nil, offset)
	}
	if d := cmp.Diff(want, r.Restored()); d != "" || r.start["in-0"].Offset != offset {
		t.Errorf("at %v (-want +got):\n%s", r.start, d)
	}
	r.Close(context30(t), false)
}

// changelogRecords returns the records of the changelog, by partition.
func changelogRecords(t *testing.T, c Cluster) []*kgo.Record {
	t.Helper()
	var list []*kgo.Record
	for _, r := range kafkatest.Dial(c.Brokers).Consume(t, "states") {
		list = append(list, &kgo.Record{Topic: "states", Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers})
	}
	return list
}

// TestChangelogCopied: a run resumes from a restored changelog if that is complete and as new as the offsets.
// Otherwise it is refused.
func TestChangelogCopied(t *testing.T) {
	t.Parallel()
	const backup, now = 0, 1
	without := func(p int32) func(*kgo.Record) bool { return func(r *kgo.Record) bool { return r.Partition != p } }
	whole := func(*kgo.Record) bool { return true }
	for _, test := range []struct {
		name       string
		from       int
		keeps      func(*kgo.Record) bool
		partitions int
		want       string // empty if a run resumes
	}{
		{"as it is", now, whole, 3, ""},
		{"to more partitions", now, whole, 4, ""},
		{"a backup", backup, whole, 3, "is older than the offsets (its last commit has the number 3, but the offsets belong to number 5)"},
		{"without partition 0", now, without(0), 3, "has no head"},
		{"without partition 1", now, without(1), 3, "the partition states-1 of the changelog has lost its first records"},
		{"without partition 2", now, without(2), 3, "the partition states-2 of the changelog has lost its first records"},
		{"without bottoms", now, func(r *kgo.Record) bool { return string(r.Key) != bottomKey }, 3, "has lost its first records"},
		{"to two partitions", now, func(r *kgo.Record) bool {
			p := r.Partition
			r.Partition %= 2
			return string(r.Key) != headKey || p != 2
		}, 2, "has 2 partitions, and its states are in 3"},
		{"mixed", now, func(r *kgo.Record) bool {
			if _, _, ok := parsePartKey(string(r.Key)); ok {
				r.Partition = (r.Partition + 1) % 3
			}
			return true
		}, 3, "where it does not belong"},
	} {
		t.Run(test.name, func(t *testing.T) {
			k, c := filled(t)
			versions := [][]*kgo.Record{changelogRecords(t, c), nil}
			commitStates(t, c, nil, 7)
			versions[now] = changelogRecords(t, c)
			k.DeleteTopic("states")
			changelogOf(t, c, test.partitions)
			restore(t, c, versions[test.from], test.keeps)
			if test.want == "" {
				checkAllRestored(t, c, 7)
				return
			}
			_, err := tryStartRun(t, c, nil)
			cannotResume(t, err, test.want, "or discard the states")
			startRun(t, c, func(cfg *LedgerConfig) { cfg.DiscardStates = true }).Close(context30(t), true)
			_, err = tryStartRun(t, c, nil)
			cannotResume(t, err, "the changelog states has the id ")
			commitStates(t, c, func(cfg *LedgerConfig) { cfg.DiscardStates = true }, 3)
			checkAllRestored(t, c, 3)
		})
	}
	t.Run("a partition of a backup", func(t *testing.T) {
		k, c := filled(t)
		old := changelogRecords(t, c)
		commitStates(t, c, nil, 7)
		now := changelogRecords(t, c)
		k.DeleteTopic("states")
		changelogOf(t, c, 3)
		restore(t, c, old, func(r *kgo.Record) bool { return r.Partition == 1 })
		restore(t, c, now, without(1))
		_, err := tryStartRun(t, c, nil)
		cannotResume(t, err, "the partition states-1 of the changelog has the commit 2, but the head expects 5")
	})
	t.Run("deleted from the front", func(t *testing.T) {
		_, c := filled(t)
		kafkatest.Dial(c.Brokers).DeleteBefore(t, "states", 1, 2)
		_, err := tryStartRun(t, c, nil)
		cannotResume(t, err, "has lost its first records")
	})
}

func restore(t *testing.T, c Cluster, records []*kgo.Record, keeps func(*kgo.Record) bool) {
	t.Helper()
	var selected []*kgo.Record
	for _, r := range records {
		if r := *r; keeps(&r) {
			selected = append(selected, &r)
		}
	}
	manual(c).Produce(t, selected...)
}

// TestChangelogOfAnotherConfig: a changelog of another config is refused, with the differences.
func TestChangelogOfAnotherConfig(t *testing.T) {
	_, c := fake(t, kfake.SeedTopics(1, "in"), kfake.SeedTopics(1, "more"))
	manual(c).Produce(t, ticking("in", 0, 9)...)
	with := func(group string, outputs map[string]string, topics ...string) func(*LedgerConfig) {
		return func(cfg *LedgerConfig) { cfg.Group, cfg.Outputs, cfg.Topics = group, outputs, topics }
	}
	out := map[string]string{"sink": "kafka out", "alerts": "a webhook"}
	a := completedRun(t, c, with("g", out, "in"), 5)
	for _, other := range []struct {
		config func(*LedgerConfig)
		want   string
	}{
		{with("h", out, "in"), "group was g and is h"},
		{with("", out, "in"), "group was g and is none"},
		{with("g", out, "in", "more"), "topics was [in] and is [in more]"},
		{with("g", map[string]string{"sink": "kafka two", "rejects": "jsonl r"}, "in"), "alerts was a webhook and is none, rejects was none and is jsonl r, sink was kafka out and is kafka two"},
		{with("g", nil, "in"), "alerts was a webhook and is none, sink was kafka out and is none"},
	} {
		_, err := tryStartRun(t, c, other.config)
		refuses(t, err, "the changelog states belongs to run "+a.run.Run, other.want+";", "name another changelog", "--migrate")
	}
	startRun(t, c, with("g", out, "in")).Close(context30(t), true)
	b := startRun(t, c, func(cfg *LedgerConfig) {
		with("g", out, "more", "in")(cfg)
		cfg.Migrate = true
	})
	b.mustCommit(6)
	b.Close(context30(t), true)
	startRun(t, c, with("g", out, "in", "more"))
}

// TestLargeStates: a state that does not fit into one record is stored in several parts, and replaced or deleted with
// all its parts.
func TestLargeStates(t *testing.T) {
	const maxBatch = 4096
	_, c := fake(t, kfake.SeedTopics(1, "in"))
	kafkatest.Dial(c.Brokers).CreateTopic(t, "states", 2, map[string]string{"cleanup.policy": "compact", "max.message.bytes": fmt.Sprint(maxBatch)})
	want := map[string][]byte{}
	put := func(r run, key string, size int) {
		want[key] = bytes.Repeat([]byte{byte(size), 'x'}, size/2)
		r.Rest(State{Key: key, Bytes: want[key]})
	}
	sizes := []int{10, 5 * maxBatch, maxBatch, 40, 3 * maxBatch, 70 * maxBatch, 0, 2 * maxBatch}
	for i, size := range sizes {
		r := startRun(t, c, nil)
		put(r, "k", size)
		put(r, "\x00k", sizes[len(sizes)-1-i])
		expect.OK(t, r.Close(context30(t), true))
		next := startRun(t, c, nil)
		if got := next.Restored(); !maps.EqualFunc(want, got, bytes.Equal) {
			t.Fatalf("after %v: %d states, k of %d bytes, the other of %d", sizes[:i+1], len(got), len(got["k"]), len(got["\x00k"]))
		}
		stored, err := openClient(t, c).ReadStates(context30(t), "states", quiet)
		if err != nil || len(stored) != 2 || !bytes.Equal(stored[0].Bytes, want[stored[0].Key]) {
			t.Fatalf("%d stored, %v", len(stored), err)
		}
		for _, want := range [][]byte{want["k"], nil} { // a second call returns nil
			if got, err := next.Restore("k"); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("k is restored with %d bytes, %v", len(got), err)
			}
		}
		next.Close(context30(t), false)
	}
	put(startRun(t, c, nil), "k", 10)
	a := startRun(t, c, nil)
	a.Rest(State{Key: "k"}, State{Key: "\x00k"}) // deletes them
	expect.OK(t, a.Close(context30(t), true))
	left := map[string]bool{}
	for _, r := range kafkatest.Dial(c.Brokers).Consume(t, "states") {
		left[string(r.Key)] = r.Value != nil
	}
	maps.DeleteFunc(left, func(key string, there bool) bool {
		_, _, ok := parsePartKey(key)
		return !ok || !there
	})
	if len(left) > 0 {
		t.Errorf("%d records of deleted states are left", len(left))
	}
}

// smallPortions limits the transactions of portions to few states. crash returns a context that ends at the n-th
// commit after the call; the broker does not end that transaction. commits counts the commits.
func smallPortions(t *testing.T, k *kfake.Cluster) (crash func(n int) context.Context, commits *int) {
	t.Helper()
	prev := portionBytes
	portionBytes = 5 * (recordOverhead + 10)
	t.Cleanup(func() { portionBytes = prev })
	commits = new(int)
	var left int
	var end context.CancelFunc
	k.ControlKey(int16(kmsg.EndTxn), func(r kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		*commits++
		if left--; left >= 0 || end == nil || !r.(*kmsg.EndTxnRequest).Commit {
			return nil, nil, false
		}
		end()
		res := r.ResponseKind().(*kmsg.EndTxnResponse)
		res.ErrorCode = kerr.ConcurrentTransactions.Code
		return res, nil, true
	})
	return func(n int) (ctx context.Context) {
		left = n
		ctx, end = context.WithCancel(context30(t))
		return ctx
	}, commits
}

func given(text string) map[string][]byte {
	states := map[string][]byte{}
	for i := range 100 {
		states[fmt.Sprint("k", i)] = []byte(text)
	}
	return states
}

// TestAllStatesDeleted: a changelog whose states were all deleted counts as having had states, and a new run does not
// start from LedgerConfig.InitialStates.
func TestAllStatesDeleted(t *testing.T) {
	_, c := withRecords(t, 9)
	giving := func(cfg *LedgerConfig) { cfg.InitialStates = map[string][]byte{"k": []byte("old")} }
	a := startRun(t, c, giving)
	a.mustCommit(5)
	a.Rest(State{Key: "k"})
	expect.OK(t, a.Close(context30(t), true))
	commitAs(t, c, "g", Position{"in", 0, 3})
	if r := startRun(t, c, giving); r.start["in-0"].Offset != 3 || len(r.Restored()) > 0 {
		t.Errorf("the run starts at %v with %d states", r.start, len(r.Restored()))
	}
}

// TestStatesInPortions: the states of First, replaced and discarded states are stored in several transactions. After a
// crash, a part of them is never mistaken for all.
func TestStatesInPortions(t *testing.T) {
	migrating := func(cfg *LedgerConfig) {
		cfg.Open = func(states iter.Seq[*StoredState], _, _ int) (map[string]int64, error) {
			for s := range states {
				if string(s.Bytes) == "old" {
					s.Bytes, s.Replaced = []byte("new"), true
				}
			}
			return nil, nil
		}
	}
	giving := func(cfg *LedgerConfig) { cfg.InitialStates = given("old") }
	anew := func(cfg *LedgerConfig) { cfg.DiscardStates = true }
	for _, test := range []struct {
		name   string
		begun  bool // after a run with the given states
		config func(*LedgerConfig)
		after  string // error of a run without test.config after a crash
		want   map[string][]byte
	}{
		{"given", false, giving, "a run ended before it had stored all given states in the changelog states", given("old")},
		{"replaced", true, migrating, "", given("new")},
		{"discarded", true, anew, "has the id ", map[string][]byte{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			k, c := fake(t, kfake.SeedTopics(1, "in"))
			changelogOf(t, c, 2)
			manual(c).Produce(t, ticking("in", 0, 9)...)
			if test.begun {
				a := startRun(t, c, giving)
				a.Rest(State{Key: "k0", Bytes: []byte("old")})
				expect.OK(t, a.handOver(context30(t), []partitionProgress{{Position: Position{"in", 0, 1}, High: 9}}, 0, base))
				expect.OK(t, a.Close(context30(t), true))
			}
			crash, commits := smallPortions(t, k)
			for n := 1; n < 5; n++ {
				ctx := crash(n)
				r, err := tryStartRunIn(ctx, t, c, test.config)
				if err == nil {
					err = r.commit(ctx, commitRequest{})
				}
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("the crash is %v", err)
				}
				crash(1000)
				// Otherwise the run below waits for the end of the transaction.
				o, err := takeOwnership(context30(t), c, "states", "g", batchBytes)
				expect.OK(t, err)
				o.close()
				_, err = tryStartRun(t, c, nil)
				if test.after != "" {
					cannotResume(t, err, test.after)
				} else if err != nil {
					t.Error(err)
				}
			}
			*commits = 0
			r := startRun(t, c, test.config)
			expect.OK(t, r.Close(context30(t), true))
			if *commits < 4 {
				t.Errorf("all in %d transactions", *commits)
			}
			stored, err := openClient(t, c).ReadStates(context30(t), "states", quiet)
			got := map[string][]byte{}
			for _, s := range stored {
				got[s.Key] = s.Bytes
			}
			expect.OK(t, err)
			expect.Same(t, test.want, got)
		})
	}
}
