package kafkaio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

func described(t testing.TB, c Cluster, name string) topic {
	t.Helper()
	topics := expect.Get(openClient(t, c).describe(context30(t), []string{name}))(t)
	return topics[name]
}

// A run is a ledger of the topic in, as in one process. It commits only when the test asks for it.
type run struct {
	*Ledger
	t testing.TB
}

// Restored returns the states that the run restored and that were not taken.
func (r run) Restored() map[string][]byte {
	states := map[string][]byte{}
	r.TakeStates(func(key string, state []byte) bool {
		states[key] = bytes.Clone(state)
		return false
	})
	return states
}

func tryStartRun(t testing.TB, c Cluster, more func(*LedgerConfig)) (run, error) {
	t.Helper()
	return tryStartRunIn(context30(t), t, c, more)
}

func tryStartRunIn(ctx context.Context, t testing.TB, c Cluster, more func(*LedgerConfig)) (run, error) {
	t.Helper()
	cfg := LedgerConfig{Client: openClient(t, c), Topics: []string{"in"}, Group: "g", Changelog: "states", CommitAtEnd: true, Log: quiet}
	if more != nil {
		more(&cfg)
	}
	l, err := OpenLedger(ctx, cfg)
	if err == nil {
		t.Cleanup(func() { l.Close(context.Background(), false) })
	}
	return run{l, t}, err
}

func startRun(t testing.TB, c Cluster, more func(*LedgerConfig)) run {
	t.Helper()
	r := expect.Get(tryStartRun(t, c, more))(t)
	return r
}

// completedRun starts a run, processes all records before offset, and ends the run.
func completedRun(t testing.TB, c Cluster, more func(*LedgerConfig), offset int64) run {
	t.Helper()
	r := startRun(t, c, more)
	r.mustCommit(offset)
	expect.OK(t, r.Close(context30(t), true))
	return r
}

// commitUpTo processes all records before offset and commits.
func (r run) commitUpTo(offset int64) error {
	r.t.Helper()
	if err := r.handOver(context30(r.t), []partitionProgress{{Position: Position{"in", 0, offset}, High: offset}}, 1, time.Now()); err != nil {
		r.t.Fatal(err)
	}
	r.Rest(State{Key: "k", Bytes: fmt.Append(nil, offset)})
	return r.commit(context30(r.t), commitRequest{})
}

func (r run) mustCommit(offset int64) {
	r.t.Helper()
	if err := r.commitUpTo(offset); err != nil {
		r.t.Fatal(err)
	}
}

// A commit stores whether records were handed over after the last step. A run that resumes needs this: timers before
// the step fire with it, or wait for the next step.
func TestBeyondStep(t *testing.T) {
	_, c := filled(t)
	beyond := func(r run, want bool) {
		t.Helper()
		if _, _, h := stored(t, c); h.Beyond != want {
			t.Errorf("the commit says that records were read after the step: %v", h.Beyond)
		}
		now := time.UnixMilli(1000)
		if waits := r.account.NextStep(now).After(now); waits != want {
			t.Errorf("a timer waits for the next step: %v", waits)
		}
	}
	r := startRun(t, c, nil)
	r.mustCommit(6)
	expect.OK(t, r.commit(context30(t), commitRequest{watermark: 1000}))
	r.account.Advance(time.UnixMilli(1000), false)
	beyond(r, false)
	expect.OK(t, r.Close(context30(t), true))
	r = startRun(t, c, nil)
	beyond(r, false)
	r.mustCommit(7)
	beyond(r, true)
	expect.OK(t, r.Close(context30(t), true))
	r = startRun(t, c, nil)
	beyond(r, true)
	expect.OK(t, r.commit(context30(t), commitRequest{until: 8, log: "in-0"}))
	beyond(r, true)
	expect.OK(t, r.commit(context30(t), commitRequest{watermark: 2000}))
	if _, _, h := stored(t, c); h.Beyond {
		t.Error("the head reports records after a new step")
	}
	expect.OK(t, r.Close(context30(t), true))
}

// A step whose commit has failed is not in the changelog, even though the run then records its end there.
func TestFailedStep(t *testing.T) {
	_, c := filled(t)
	r := startRun(t, c, nil)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.commit(cancelled, commitRequest{watermark: 1000}); err == nil {
		t.Error("a commit of a cancelled run does not fail")
	}
	expect.OK(t, r.Close(context30(t), true))
	if _, _, h := stored(t, c); h.Watermark != 0 || !h.Ended {
		t.Errorf("the head has the watermark %d, and ended is %v", h.Watermark, h.Ended)
	}
}

// A run with History starts without states, reads up to the group's offsets, and stores nothing. Learned states
// replace the states of the same keys, unless the group's offsets have changed.
func TestHistory(t *testing.T) {
	_, c := filled(t)
	completedRun(t, c, nil, 6)
	state, offset, h := stored(t, c)
	kafkatest.Dial(c.Brokers).DeleteBefore(t, "in", 0, 2)
	past := startRun(t, c, func(cfg *LedgerConfig) { cfg.History = true })
	if b, err := past.Restore("k"); b != nil || err != nil {
		t.Errorf("the run starts with %q, %v", b, err)
	}
	available, deleted, err := past.HistoryLen(t.Context())
	if available != 4 || deleted != 2 || err != nil {
		t.Errorf("%d offsets, %d deleted, %v", available, deleted, err)
	}
	expect.OK(t, past.commit(context30(t), commitRequest{watermark: 1000}))
	expect.OK(t, past.Close(context30(t), true))
	if s, o, after := stored(t, c); s != state || o != offset || after.Commit != h.Commit {
		t.Errorf("after it %q at %d in the commit %d, was %q at %d in %d", s, o, after.Commit, state, offset, h.Commit)
	}
	learned := func(offset int64) func(cfg *LedgerConfig) {
		return func(cfg *LedgerConfig) {
			cfg.ReplayedStates, cfg.ReplayedTo = map[string][]byte{"k": []byte("learned")}, map[string]int64{"in-0": offset}
			cfg.Open = func(states iter.Seq[*StoredState], _, _ int) (map[string]int64, error) {
				for s := range states {
					s.Claimed = true
				}
				return nil, nil
			}
		}
	}
	if _, err := tryStartRun(t, c, learned(5)); err == nil || !strings.Contains(err.Error(), "another run of group g committed offsets while this one learned") {
		t.Errorf("with other offsets: %v", err)
	}
	expect.OK(t, startRun(t, c, learned(6)).Close(context30(t), true))
	if s, o, _ := stored(t, c); s != "learned" || o != 6 {
		t.Errorf("%q at %d is in the changelog", s, o)
	}
}

// stored returns the state of k in the changelog, the group's offset, and the head.
func stored(t testing.TB, c Cluster) (state string, offset int64, h changelogHead) {
	t.Helper()
	for _, r := range kafkatest.Dial(c.Brokers).Consume(t, "states") {
		switch {
		case string(r.Key) == "k":
			if state = ""; r.Value == nil {
				continue // deleted
			}
			state = string(r.Value)
		case string(r.Key) == headKey && r.Partition == 0:
			h = changelogHead{}
			if err := json.Unmarshal(r.Value, &h); err != nil {
				t.Logf("the head %s: %v", r.Value, err)
			}
		}
	}
	return state, offsetsOf(t, c, "g")["in-0"], h
}

func refuses(t testing.TB, err error, want ...string) {
	t.Helper()
	for _, w := range want {
		expect.Error(t, err, w)
	}
}

// cannotResume is refuses for a ResumeError.
func cannotResume(t testing.TB, err error, want ...string) {
	t.Helper()
	refuses(t, err, want...)
	if !errors.As(err, new(*ResumeError)) {
		t.Errorf("%v is not a ResumeError", err)
	}
}

// TestOtherRuns: if two runs use one changelog, the later one continues, and only its states are stored.
func TestOtherRuns(t *testing.T) {
	two := func(t *testing.T) Cluster {
		_, c := withRecords(t, 50)
		return c
	}
	host, _ := os.Hostname()
	names := func(r run) []string {
		return []string{"another run has taken over the changelog states: run " + r.run.Run, fmt.Sprintf("(host %s, process %d, since ", host, os.Getpid()), "stop one of them"}
	}
	keeps := func(t *testing.T, c Cluster, want int64) {
		t.Helper()
		if state, offset, _ := stored(t, c); state != fmt.Sprint(want) || offset != want {
			t.Errorf("state %s and offset %d are stored", state, offset)
		}
		if got := startRun(t, c, nil); string(got.Restored()["k"]) != fmt.Sprint(want) || got.start["in-0"].Offset != want {
			t.Errorf("%s is restored, at %v", got.Restored()["k"], got.start)
		}
	}
	t.Run("before the other commits", func(t *testing.T) {
		c := two(t)
		a := startRun(t, c, nil)
		a.mustCommit(5)
		b := startRun(t, c, nil)
		refuses(t, a.commitUpTo(6), names(b)...)
		refuses(t, a.Close(context30(t), true), names(b)...)
		b.mustCommit(9)
		keeps(t, c, 9)
	})
	t.Run("without a group", func(t *testing.T) {
		c := two(t)
		alone := func(cfg *LedgerConfig) { cfg.Group = "" }
		a := startRun(t, c, alone)
		a.mustCommit(5)
		b := startRun(t, c, alone)
		refuses(t, a.commitUpTo(6), names(b)...)
		b.mustCommit(7)
	})
	t.Run("that cannot start", func(t *testing.T) {
		c := two(t)
		a := startRun(t, c, nil)
		a.mustCommit(5)
		_, err := tryStartRun(t, c, func(cfg *LedgerConfig) {
			cfg.Open = func(_ iter.Seq[*StoredState], _, _ int) (map[string]int64, error) {
				return nil, errors.New("another config")
			}
		})
		refuses(t, err, "another config")
		a.mustCommit(6)
	})
	t.Run("that commits meanwhile", func(t *testing.T) {
		c := two(t)
		a := startRun(t, c, nil)
		a.mustCommit(5)
		checks := 0
		b := startRun(t, c, func(cfg *LedgerConfig) {
			cfg.Open = func(states iter.Seq[*StoredState], _, _ int) (map[string]int64, error) {
				for range states {
				}
				if checks++; checks == 1 {
					a.mustCommit(8)
				}
				return nil, nil
			}
		})
		if got := string(b.Restored()["k"]); got != "8" || b.start["in-0"].Offset != 8 || checks != 2 {
			t.Errorf("%s is restored, at %v, after %d checks", got, b.start, checks)
		}
	})
	t.Run("without an id", func(t *testing.T) {
		c := two(t)
		completedRun(t, c, nil, 2)
		commitAs(t, c, "g", Position{"in", 0, 2})
		a := startRun(t, c, nil) // starts from offsets that were set by hand
		commitAs(t, c, "g", Position{"in", 0, 4})
		refuses(t, a.commitUpTo(5), "another consumer, without a run id, moved the offset of group g in in-0 from 2 to 4: stop it")
		b := startRun(t, c, nil)
		b.mustCommit(5)
		commitAs(t, c, "g", Position{"in", 0, 1})
		refuses(t, b.commitUpTo(6), "moved the offset of group g in in-0 from 5 to 1")
	})
	t.Run("the first offset", func(t *testing.T) {
		c := two(t)
		a := startRun(t, c, nil)
		commitAs(t, c, "g", Position{"in", 0, 4})
		refuses(t, a.commitUpTo(5), "moved the offset of group g in in-0 from none to 4")
	})
}

// TestHead checks the contents of the changelog's head.
func TestHead(t *testing.T) {
	_, c := fake(t, kfake.SeedTopics(1, "in"), kfake.SeedTopics(1, "more"))
	a := startRun(t, c, nil)
	if _, _, h := stored(t, c); h.ID != described(t, c, "states").id || !cmp.Equal(h.Topics, map[string]string{"in": described(t, c, "in").id}) {
		t.Errorf("the head %+v before any state", h)
	}
	manual(c).Produce(t, ticking("in", 0, 9)...)
	a.mustCommit(5)
	_, _, prev := stored(t, c)
	expect.OK(t, a.Close(context30(t), true))
	b := startRun(t, c, func(cfg *LedgerConfig) { cfg.Topics, cfg.Migrate = []string{"more", "in"}, true })
	if got := b.Restored(); len(got) != 1 || string(got["k"]) != "5" {
		t.Errorf("%d states are restored", len(got))
	}
	if _, _, h := stored(t, c); h.ID != prev.ID || len(h.Topics) != 2 {
		t.Errorf("with another topic the head is %+v", h)
	}
	b.mustCommit(6)
	n := readNote(b.foundNow(t)["in-0"].metadata)
	if want := (note{b.run, described(t, c, "in").id, 0, prev.ID, b.head.Commit, pace{}}); n != want {
		t.Errorf("the offset's metadata is %+v instead of %+v", n, want)
	}
	manual(c).Produce(t, &kgo.Record{Topic: "states", Key: []byte{}, Value: []byte("{")})
	_, err := tryStartRun(t, c, nil)
	refuses(t, err, "the head of the changelog, at states-", "is damaged")
	startRun(t, c, func(cfg *LedgerConfig) { cfg.DiscardStates = true })
	// Without a group, the run is in the head.
	alone := func(cfg *LedgerConfig) { cfg.Group, cfg.Migrate = "", true }
	d := startRun(t, c, alone)
	if _, _, h := stored(t, c); h.Run == nil || *h.Run != d.run {
		t.Errorf("without a group the head is %+v", h)
	}
}

func (r run) foundNow(t testing.TB) map[string]partitionProgress {
	t.Helper()
	found := expect.Get(r.groupOffsets(context30(t), partitionsOf(r.topics)))(t)
	return found
}

// TestChangelogLost: offsets are refused if their states are missing. Nothing changes until the user decides.
func TestChangelogLost(t *testing.T) {
	compact := map[string]string{"cleanup.policy": "compact"}
	for _, test := range []struct {
		name   string
		lose   func(t *testing.T, k *kfake.Cluster, c Cluster)
		config func(*LedgerConfig)
		want   string // empty if the run starts
	}{
		{name: "as it was", lose: func(*testing.T, *kfake.Cluster, Cluster) {}},
		{name: "deleted", want: "the changelog states does not exist", lose: func(t *testing.T, k *kfake.Cluster, c Cluster) { k.DeleteTopic("states") }},
		{name: "emptied", want: "the changelog states is empty", lose: func(t *testing.T, k *kfake.Cluster, c Cluster) {
			k.DeleteTopic("states")
			kafkatest.Dial(c.Brokers).CreateTopic(t, "states", 2, compact)
		}},
		{name: "another", want: "the changelog other has the id ", config: func(cfg *LedgerConfig) { cfg.Changelog = "other" }, lose: func(t *testing.T, k *kfake.Cluster, c Cluster) {
			startRun(t, c, func(cfg *LedgerConfig) { cfg.Group, cfg.Changelog = "h", "other" }).mustCommit(3)
		}},
		{name: "offsets of another consumer", want: "the changelog other has no states", config: func(cfg *LedgerConfig) { cfg.Group, cfg.Changelog = "h", "other" }, lose: func(t *testing.T, k *kfake.Cluster, c Cluster) {
			startRun(t, c, func(cfg *LedgerConfig) { cfg.Group, cfg.Changelog = "h", "other" })
			commitAs(t, c, "h", Position{"in", 0, 3})
		}},
		{name: "none was kept", config: func(cfg *LedgerConfig) { cfg.Group, cfg.Changelog = "h", "other" }, lose: func(t *testing.T, k *kfake.Cluster, c Cluster) {
			startRun(t, c, func(cfg *LedgerConfig) { cfg.Group, cfg.Changelog = "h", "" }).mustCommit(3)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			k, c := withRecords(t, 9)
			completedRun(t, c, nil, 5)
			test.lose(t, k, c)
			for range 2 { // the first attempt must not leave anything that the second accepts as a changelog
				r, err := tryStartRun(t, c, test.config)
				if test.want == "" {
					expect.OK(t, err)
					r.mustCommit(6)
					return
				}
				cannotResume(t, err, test.want, "every later estimate would differ", "or discard the states")
			}
			r := startRun(t, c, func(cfg *LedgerConfig) {
				if cfg.DiscardStates = true; test.config != nil {
					test.config(cfg)
				}
			})
			if len(r.start) > 0 || len(r.Restored()) > 0 {
				t.Errorf("with DiscardStates the run starts at %v with %d states", r.start, len(r.Restored()))
			}
			r.mustCommit(2)
			expect.OK(t, r.Close(context30(t), true))
			expect.Same(t, "2", string(startRun(t, c, test.config).Restored()["k"]), "restored by the run after that")
		})
	}
}

// TestForeignPace: an invalid record in the changelog is refused, and deleted with DiscardStates.
func TestForeignPace(t *testing.T) {
	_, c := withRecords(t, 9)
	completedRun(t, c, nil, 5)
	manual(c).Produce(t, &kgo.Record{Topic: "states", Partition: 0, Key: []byte(paceKey + "nowhere"), Value: []byte("{}")})
	_, err := tryStartRun(t, c, nil)
	cannotResume(t, err, "the changelog states: the pace of nowhere cannot be read: this is not a partition")
	r := startRun(t, c, func(cfg *LedgerConfig) { cfg.DiscardStates = true })
	r.mustCommit(2)
	expect.OK(t, r.Close(context30(t), true))
	startRun(t, c, nil).mustCommit(3)
}

// TestTopicRecreated: records of a topic that was created again are not mistaken for those that were processed.
func TestTopicRecreated(t *testing.T) {
	const again = `topic "in" was deleted and created again`
	group := func(cfg *LedgerConfig) { cfg.Changelog = "" }
	changelog := func(cfg *LedgerConfig) { cfg.Group = "" }
	for _, test := range []struct {
		name    string
		options []kfake.Opt
		records int // of the new topic; 5 were committed of the old one
		config  func(*LedgerConfig)
		prepare func(t *testing.T, k *kfake.Cluster)
		late    bool // the offsets are committed after the deletion of the topic, which deletes the group's offsets
		want    string
	}{
		{name: "by id", records: 9, want: again},
		{name: "by the id in the offsets", late: true, records: 9, config: group, want: again},
		{name: "by the id in the head", records: 9, config: changelog, want: again},
		{name: "by the records that states include", records: 4, options: []kfake.Opt{kfake.MaxVersions(kversion.V2_7_0())}, want: "states in the changelog states include the record in-0-4: its end is 4", config: func(cfg *LedgerConfig) {
			cfg.Open = func(states iter.Seq[*StoredState], _, _ int) (map[string]int64, error) {
				for s := range states {
					after, err := strconv.ParseInt(string(s.Bytes), 10, 64)
					return map[string]int64{"in-0": after - 1}, err
				}
				return nil, nil
			}
		}},
		{name: "by the end", late: true, records: 4, options: []kfake.Opt{kfake.MaxVersions(kversion.V2_7_0())}, want: "in-0 cannot be read at offset 5: its end is 4"},
		{name: "by the epoch", late: true, records: 9, options: []kfake.Opt{kfake.MaxVersions(kversion.V2_7_0())}, want: again + " (the leader of in-0 had the epoch", prepare: func(t *testing.T, k *kfake.Cluster) {
			for i := range 3 {
				if err := k.MoveTopicPartition("in", 0, (k.LeaderFor("in", 0)+1)%3); err != nil {
					t.Fatal(i, err)
				}
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			k, c := fake(t, append(test.options, kfake.SeedTopics(1, "in"))...)
			if test.prepare != nil {
				test.prepare(t, k)
			}
			manual(c).Produce(t, ticking("in", 0, 9)...)
			completedRun(t, c, test.config, 5)
			b := startRun(t, c, test.config) // accepted before the deletion
			b.Close(context30(t), true)
			found := b.foundNow(t)
			k.DeleteTopic("in")
			kafkatest.Dial(c.Brokers).CreateTopic(t, "in", 1, nil)
			manual(c).Produce(t, ticking("in", 0, test.records)...)
			if test.late {
				expect.OK(t, openClient(t, c).commit(context30(t), "g", found))
			}
			_, err := tryStartRun(t, c, test.config)
			cannotResume(t, err, test.want)
			r := startRun(t, c, func(cfg *LedgerConfig) {
				if cfg.DiscardStates = true; test.config != nil {
					test.config(cfg)
				}
			})
			r.mustCommit(2)
			r.Close(context30(t), true)
			startRun(t, c, test.config).mustCommit(3)
		})
	}
}

// TestTopicRecreatedWhileReading: the source ends with an explanation, with and without a ledger.
func TestTopicRecreatedWhileReading(t *testing.T) {
	for _, ledger := range []bool{true, false} {
		k, c := withRecords(t, 9)
		var l *Ledger
		want := "belong to the deleted records; start the job without the savepoint"
		if ledger {
			l = openLedger(t, LedgerConfig{Client: openClient(t, c), Topics: []string{"in"}, Group: "g"})
			want = "belong to the deleted records"
		}
		r := startReading(t, Source{Cluster: c, Topics: []string{"in"}}, l)
		r.until(func() bool { return len(r.got) == 9 })
		if ledger {
			l.Rest()
		}
		k.DeleteTopic("in")
		kafkatest.Dial(c.Brokers).CreateTopic(t, "in", 1, nil)
		manual(c).Produce(t, ticking("in", 0, 20)...)
		var err error
		for ctx := context30(t); err == nil; {
			_, err = r.call(ctx)
		}
		cannotResume(t, err, `topic "in" was deleted and created again (its id was `, want)
		if ledger && strings.Contains(err.Error(), "savepoint") {
			t.Errorf("a run without savepoints fails with %v", err)
		}
		if len(r.got) != 9 {
			t.Errorf("%d records of the new topic were read as the old one's", len(r.got)-9)
		}
		// The restriction of a savepoint is refused too.
		r.abandon()
		if _, err = r.call(context30(t)); err == nil {
			for ctx := context30(t); err == nil; {
				_, err = r.call(ctx)
			}
		}
		refuses(t, err, "was deleted and created again")
	}
}

// TestSpanWithoutID: a restriction that was stored before spans had ids can be read.
func TestSpanWithoutID(t *testing.T) {
	var r restriction
	expect.OK(t, json.Unmarshal([]byte(`{"Reader":0,"Readers":1,"Partitions":[{"Topic":"in","Partition":2,"Offset":7,"End":-1}],"Bounded":false,"Over":false}`), &r))
	expect.Same(t, []span{{Position: Position{"in", 2, 7}, End: -1}}, r.Partitions)
	if text, err := json.Marshal(r); err != nil || strings.Contains(string(text), "ID") {
		t.Errorf("%s, %v", text, err)
	}
}

// TestUnreadableState: if Open sets the error of a state, only its key fails, and the stored state stays unchanged.
func TestUnreadableState(t *testing.T) {
	_, c := withRecords(t, 9)
	a := startRun(t, c, nil)
	a.Rest(State{Key: "bad", Bytes: []byte("?")})
	a.mustCommit(5)
	a.Close(context30(t), true)
	bad := errors.New("bad")
	checking := func(cfg *LedgerConfig) {
		cfg.Open = func(states iter.Seq[*StoredState], _, _ int) (map[string]int64, error) {
			for s := range states {
				if string(s.Bytes) == "?" {
					s.Err = bad
				}
			}
			return nil, nil
		}
	}
	for range 2 {
		b := startRun(t, c, checking)
		if got := b.Restored(); len(got) != 1 || string(got["k"]) != "5" {
			t.Errorf("%d states are restored", len(got))
		}
		if _, err := b.Restore("bad"); err != bad {
			t.Error(err)
		}
		expect.OK(t, b.Close(context30(t), true))
	}
}
