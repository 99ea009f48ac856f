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
	topics := expect.Get(asks(t, c).describe(context30(t), []string{name}))(t)
	return topics[name]
}

// A run is a ledger of the topic in, as one process has it, that commits when it is
// told to.
type run struct {
	*Ledger
	t testing.TB
}

// Restored are the states that the run began with and has not taken.
func (r run) Restored() map[string][]byte {
	all := map[string][]byte{}
	r.Take(func(key string, state []byte) bool {
		all[key] = bytes.Clone(state)
		return false
	})
	return all
}

func begin(t testing.TB, c Cluster, more func(*LedgerConfig)) (run, error) {
	t.Helper()
	return beginIn(context30(t), t, c, more)
}

func beginIn(ctx context.Context, t testing.TB, c Cluster, more func(*LedgerConfig)) (run, error) {
	t.Helper()
	cfg := LedgerConfig{Client: asks(t, c), Topics: []string{"in"}, Group: "g", Changelog: "states", AtEnd: true, Log: quiet}
	if more != nil {
		more(&cfg)
	}
	l, err := OpenLedger(ctx, cfg)
	if err == nil {
		t.Cleanup(func() { l.Close(context.Background(), false) })
	}
	return run{l, t}, err
}

func begun(t testing.TB, c Cluster, more func(*LedgerConfig)) run {
	t.Helper()
	r := expect.Get(begin(t, c, more))(t)
	return r
}

// ran is a run that has worked in all records before the offset, and has ended.
func ran(t testing.TB, c Cluster, more func(*LedgerConfig), offset int64) run {
	t.Helper()
	r := begun(t, c, more)
	r.must(offset)
	expect.OK(t, r.Close(context30(t), true))
	return r
}

// to works in all records before the offset and commits.
func (r run) to(offset int64) error {
	r.t.Helper()
	if err := r.handOver(context30(r.t), []partitionProgress{{Position: Position{"in", 0, offset}, High: offset}}, 1, time.Now()); err != nil {
		r.t.Fatal(err)
	}
	r.Rest(State{Key: "k", Bytes: fmt.Append(nil, offset)})
	return r.commit(context30(r.t), commitRequest{})
}

func (r run) must(offset int64) {
	r.t.Helper()
	if err := r.to(offset); err != nil {
		r.t.Fatal(err)
	}
}

// A commit says whether records were read after the last step. A run that resumes has to know: what the
// step has passed fires with the step, or waits for the next one.
func TestBeyondStep(t *testing.T) {
	_, c := filled(t)
	beyond := func(r run, want bool) {
		t.Helper()
		if _, _, h := kept(t, c); h.Beyond != want {
			t.Errorf("the commit says that records were read after the step: %v", h.Beyond)
		}
		now := time.UnixMilli(1000)
		if waits := r.account.NextStep(now).After(now); waits != want {
			t.Errorf("a timer waits for the next step: %v", waits)
		}
	}
	r := begun(t, c, nil)
	r.must(6)
	expect.OK(t, r.commit(context30(t), commitRequest{watermark: 1000}))
	r.account.Advance(time.UnixMilli(1000), false)
	beyond(r, false)
	expect.OK(t, r.Close(context30(t), true))
	r = begun(t, c, nil)
	beyond(r, false)
	r.must(7)
	beyond(r, true)
	expect.OK(t, r.Close(context30(t), true))
	r = begun(t, c, nil)
	beyond(r, true)
	expect.OK(t, r.commit(context30(t), commitRequest{until: 8, log: "in-0"}))
	beyond(r, true)
	expect.OK(t, r.commit(context30(t), commitRequest{watermark: 2000}))
	if _, _, h := kept(t, c); h.Beyond {
		t.Error("a step is not beyond itself")
	}
	expect.OK(t, r.Close(context30(t), true))
}

// A step whose commit has failed is not in the changelog, although the run writes there that it has ended.
func TestFailedStep(t *testing.T) {
	_, c := filled(t)
	r := begun(t, c, nil)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.commit(cancelled, commitRequest{watermark: 1000}); err == nil {
		t.Error("a commit of a cancelled run does not fail")
	}
	expect.OK(t, r.Close(context30(t), true))
	if _, _, h := kept(t, c); h.Watermark != 0 || !h.Ended {
		t.Errorf("the head has the watermark %d, and ended is %v", h.Watermark, h.Ended)
	}
}

// A run of the past begins without states, reads up to the group's offsets, and stores nothing. What was
// learned takes the place of the states that it names, unless the group has gone on meanwhile.
func TestPast(t *testing.T) {
	_, c := filled(t)
	ran(t, c, nil, 6)
	state, offset, h := kept(t, c)
	kafkatest.Dial(c.Brokers).DeleteBefore(t, "in", 0, 2)
	past := begun(t, c, func(cfg *LedgerConfig) { cfg.History = true })
	if b, err := past.Restore("k"); b != nil || err != nil {
		t.Errorf("it begins with %q, %v", b, err)
	}
	there, deleted, err := past.HistoryLen(t.Context())
	if there != 4 || deleted != 2 || err != nil {
		t.Errorf("%d offsets, %d deleted, %v", there, deleted, err)
	}
	expect.OK(t, past.commit(context30(t), commitRequest{watermark: 1000}))
	expect.OK(t, past.Close(context30(t), true))
	if s, o, after := kept(t, c); s != state || o != offset || after.Commit != h.Commit {
		t.Errorf("after it %q at %d in the commit %d, was %q at %d in %d", s, o, after.Commit, state, offset, h.Commit)
	}
	learned := func(to int64) func(cfg *LedgerConfig) {
		return func(cfg *LedgerConfig) {
			cfg.Learned, cfg.LearnedTo = map[string][]byte{"k": []byte("learned")}, map[string]int64{"in-0": to}
			cfg.Open = func(all iter.Seq[*StoredState], _, _ int) (map[string]int64, error) {
				for s := range all {
					s.Taken = true
				}
				return nil, nil
			}
		}
	}
	if _, err := begin(t, c, learned(5)); err == nil || !strings.Contains(err.Error(), "another run of group g committed offsets while this one learned") {
		t.Errorf("with other offsets: %v", err)
	}
	expect.OK(t, begun(t, c, learned(6)).Close(context30(t), true))
	if s, o, _ := kept(t, c); s != "learned" || o != 6 {
		t.Errorf("%q at %d is in the changelog", s, o)
	}
}

// kept are the state of k in the changelog, the group's offset, and the head.
func kept(t testing.TB, c Cluster) (state string, offset int64, h changelogHead) {
	t.Helper()
	for _, r := range kafkatest.Dial(c.Brokers).Consume(t, "states") {
		switch {
		case string(r.Key) == "k":
			if state = ""; r.Value == nil {
				continue // discarded
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

// cannotResume is refuses for an error that is a ResumeError.
func cannotResume(t testing.TB, err error, want ...string) {
	t.Helper()
	refuses(t, err, want...)
	if !errors.As(err, new(*ResumeError)) {
		t.Errorf("%v is no ResumeError", err)
	}
}

// TestOtherRuns: of two runs of one changelog the later one goes on, and what is kept is
// its own.
func TestOtherRuns(t *testing.T) {
	two := func(t *testing.T) Cluster {
		_, c := fed(t, 50)
		return c
	}
	host, _ := os.Hostname()
	names := func(r run) []string {
		return []string{"another run has taken over the changelog states: run " + r.run.Run, fmt.Sprintf("(host %s, process %d, since ", host, os.Getpid()), "stop one of them"}
	}
	keeps := func(t *testing.T, c Cluster, want int64) {
		t.Helper()
		if state, offset, _ := kept(t, c); state != fmt.Sprint(want) || offset != want {
			t.Errorf("state %s and offset %d are kept", state, offset)
		}
		if got := begun(t, c, nil); string(got.Restored()["k"]) != fmt.Sprint(want) || got.start["in-0"].Offset != want {
			t.Errorf("%s is restored, at %v", got.Restored()["k"], got.start)
		}
	}
	t.Run("before the other commits", func(t *testing.T) {
		c := two(t)
		a := begun(t, c, nil)
		a.must(5)
		b := begun(t, c, nil)
		refuses(t, a.to(6), names(b)...)
		refuses(t, a.Close(context30(t), true), names(b)...)
		b.must(9)
		keeps(t, c, 9)
	})
	t.Run("without a group", func(t *testing.T) {
		c := two(t)
		alone := func(cfg *LedgerConfig) { cfg.Group = "" }
		a := begun(t, c, alone)
		a.must(5)
		b := begun(t, c, alone)
		refuses(t, a.to(6), names(b)...)
		b.must(7)
	})
	t.Run("that cannot start", func(t *testing.T) {
		c := two(t)
		a := begun(t, c, nil)
		a.must(5)
		_, err := begin(t, c, func(cfg *LedgerConfig) {
			cfg.Open = func(_ iter.Seq[*StoredState], _, _ int) (map[string]int64, error) {
				return nil, errors.New("another config")
			}
		})
		refuses(t, err, "another config")
		a.must(6)
	})
	t.Run("that commits meanwhile", func(t *testing.T) {
		c := two(t)
		a := begun(t, c, nil)
		a.must(5)
		checks := 0
		b := begun(t, c, func(cfg *LedgerConfig) {
			cfg.Open = func(states iter.Seq[*StoredState], _, _ int) (map[string]int64, error) {
				for range states {
				}
				if checks++; checks == 1 {
					a.must(8)
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
		ran(t, c, nil, 2)
		commitAs(t, c, "g", Position{"in", 0, 2})
		a := begun(t, c, nil) // from offsets that were set by hand
		commitAs(t, c, "g", Position{"in", 0, 4})
		refuses(t, a.to(5), "another consumer, without a run id, moved the offset of group g in in-0 from 2 to 4: stop it")
		b := begun(t, c, nil)
		b.must(5)
		commitAs(t, c, "g", Position{"in", 0, 1})
		refuses(t, b.to(6), "moved the offset of group g in in-0 from 5 to 1")
	})
	t.Run("the first offset", func(t *testing.T) {
		c := two(t)
		a := begun(t, c, nil)
		commitAs(t, c, "g", Position{"in", 0, 4})
		refuses(t, a.to(5), "moved the offset of group g in in-0 from none to 4")
	})
}

// TestHead: what is written of the changelog, and when.
func TestHead(t *testing.T) {
	_, c := fake(t, kfake.SeedTopics(1, "in"), kfake.SeedTopics(1, "more"))
	a := begun(t, c, nil)
	if _, _, h := kept(t, c); h.ID != described(t, c, "states").id || !cmp.Equal(h.Topics, map[string]string{"in": described(t, c, "in").id}) {
		t.Errorf("the head %+v before any state", h)
	}
	manual(c).Produce(t, ticking("in", 0, 9)...)
	a.must(5)
	_, _, was := kept(t, c)
	expect.OK(t, a.Close(context30(t), true))
	b := begun(t, c, func(cfg *LedgerConfig) { cfg.Topics, cfg.Migrate = []string{"more", "in"}, true })
	if got := b.Restored(); len(got) != 1 || string(got["k"]) != "5" {
		t.Errorf("%d states are restored", len(got))
	}
	if _, _, h := kept(t, c); h.ID != was.ID || len(h.Topics) != 2 {
		t.Errorf("with another topic the head is %+v", h)
	}
	b.must(6)
	n := readNote(b.foundNow(t)["in-0"].metadata)
	if want := (note{b.run, described(t, c, "in").id, 0, was.ID, b.head.Commit, pace{}}); n != want {
		t.Errorf("the offset's metadata is %+v instead of %+v", n, want)
	}
	manual(c).Produce(t, &kgo.Record{Topic: "states", Key: []byte{}, Value: []byte("{")})
	_, err := begin(t, c, nil)
	refuses(t, err, "the head of the changelog, at states-", "is damaged")
	begun(t, c, func(cfg *LedgerConfig) { cfg.BeginAnew = true })
	// Without a group the run is in the head.
	alone := func(cfg *LedgerConfig) { cfg.Group, cfg.Migrate = "", true }
	d := begun(t, c, alone)
	if _, _, h := kept(t, c); h.Run == nil || *h.Run != d.run {
		t.Errorf("without a group the head is %+v", h)
	}
}

func (r run) foundNow(t testing.TB) map[string]partitionProgress {
	t.Helper()
	found := expect.Get(r.groupOffsets(context30(t), partitionsOf(r.topics)))(t)
	return found
}

// TestChangelogLost: offsets without the states that go with them are refused, and
// what is wrong stays as it is until the user decides.
func TestChangelogLost(t *testing.T) {
	compact := map[string]string{"cleanup.policy": "compact"}
	for _, test := range []struct {
		name   string
		lose   func(t *testing.T, k *kfake.Cluster, c Cluster)
		config func(*LedgerConfig)
		want   string // "" where it is none
	}{
		{name: "as it was", lose: func(*testing.T, *kfake.Cluster, Cluster) {}},
		{name: "deleted", want: "the changelog states does not exist", lose: func(t *testing.T, k *kfake.Cluster, c Cluster) { k.DeleteTopic("states") }},
		{name: "emptied", want: "the changelog states is empty", lose: func(t *testing.T, k *kfake.Cluster, c Cluster) {
			k.DeleteTopic("states")
			kafkatest.Dial(c.Brokers).CreateTopic(t, "states", 2, compact)
		}},
		{name: "another", want: "the changelog other has the id ", config: func(cfg *LedgerConfig) { cfg.Changelog = "other" }, lose: func(t *testing.T, k *kfake.Cluster, c Cluster) {
			begun(t, c, func(cfg *LedgerConfig) { cfg.Group, cfg.Changelog = "h", "other" }).must(3)
		}},
		{name: "offsets of another consumer", want: "the changelog other has no states", config: func(cfg *LedgerConfig) { cfg.Group, cfg.Changelog = "h", "other" }, lose: func(t *testing.T, k *kfake.Cluster, c Cluster) {
			begun(t, c, func(cfg *LedgerConfig) { cfg.Group, cfg.Changelog = "h", "other" })
			commitAs(t, c, "h", Position{"in", 0, 3})
		}},
		{name: "none was kept", config: func(cfg *LedgerConfig) { cfg.Group, cfg.Changelog = "h", "other" }, lose: func(t *testing.T, k *kfake.Cluster, c Cluster) {
			begun(t, c, func(cfg *LedgerConfig) { cfg.Group, cfg.Changelog = "h", "" }).must(3)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			k, c := fed(t, 9)
			ran(t, c, nil, 5)
			test.lose(t, k, c)
			for range 2 { // the first attempt leaves nothing that the second would take for a changelog
				r, err := begin(t, c, test.config)
				if test.want == "" {
					expect.OK(t, err)
					r.must(6)
					return
				}
				cannotResume(t, err, test.want, "every later estimate would differ", "or discard the states")
			}
			r := begun(t, c, func(cfg *LedgerConfig) {
				if cfg.BeginAnew = true; test.config != nil {
					test.config(cfg)
				}
			})
			if len(r.start) > 0 || len(r.Restored()) > 0 {
				t.Errorf("anew it begins at %v with %d states", r.start, len(r.Restored()))
			}
			r.must(2)
			expect.OK(t, r.Close(context30(t), true))
			expect.Same(t, "2", string(begun(t, c, test.config).Restored()["k"]), "restored by the run after that")
		})
	}
}

// TestForeignPace: a record that no run has written is refused, and a run that begins anew deletes it.
func TestForeignPace(t *testing.T) {
	_, c := fed(t, 9)
	ran(t, c, nil, 5)
	manual(c).Produce(t, &kgo.Record{Topic: "states", Partition: 0, Key: []byte(paceKey + "nowhere"), Value: []byte("{}")})
	_, err := begin(t, c, nil)
	cannotResume(t, err, "the changelog states: the pace of nowhere cannot be read: this is not a partition")
	r := begun(t, c, func(cfg *LedgerConfig) { cfg.BeginAnew = true })
	r.must(2)
	expect.OK(t, r.Close(context30(t), true))
	begun(t, c, nil).must(3)
}

// TestTopicMadeAgain: records of a topic that took another's place are not taken for
// those that were worked in.
func TestTopicMadeAgain(t *testing.T) {
	const again = `topic "in" was deleted and created again`
	group := func(cfg *LedgerConfig) { cfg.Changelog = "" }
	changelog := func(cfg *LedgerConfig) { cfg.Group = "" }
	for _, test := range []struct {
		name    string
		options []kfake.Opt
		records int // of the new topic; 5 were committed of the old
		config  func(*LedgerConfig)
		prepare func(t *testing.T, k *kfake.Cluster)
		late    bool // a run commits its offsets after the deletion, which takes the group's away
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
			ran(t, c, test.config, 5)
			b := begun(t, c, test.config) // nothing has happened
			b.Close(context30(t), true)
			found := b.foundNow(t)
			k.DeleteTopic("in")
			kafkatest.Dial(c.Brokers).CreateTopic(t, "in", 1, nil)
			manual(c).Produce(t, ticking("in", 0, test.records)...)
			if test.late {
				expect.OK(t, asks(t, c).commit(context30(t), "g", found))
			}
			_, err := begin(t, c, test.config)
			cannotResume(t, err, test.want)
			r := begun(t, c, func(cfg *LedgerConfig) {
				if cfg.BeginAnew = true; test.config != nil {
					test.config(cfg)
				}
			})
			r.must(2)
			r.Close(context30(t), true)
			begun(t, c, test.config).must(3)
		})
	}
}

// TestTopicMadeAgainMeanwhile: the source ends in words, on whatever runner.
func TestTopicMadeAgainMeanwhile(t *testing.T) {
	for _, ledger := range []bool{true, false} {
		k, c := fed(t, 9)
		var l *Ledger
		want := "belong to the deleted records; start the job without the savepoint"
		if ledger {
			l = openLedger(t, LedgerConfig{Client: asks(t, c), Topics: []string{"in"}, Group: "g"})
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
		// A restriction of a savepoint is refused, too; one without an id goes on.
		r.abandon()
		if _, err = r.call(context30(t)); err == nil {
			for ctx := context30(t); err == nil; {
				_, err = r.call(ctx)
			}
		}
		refuses(t, err, "was deleted and created again")
	}
}

// TestSpanOfASavepoint: what was written before spans had ids is read.
func TestSpanOfASavepoint(t *testing.T) {
	var r restriction
	expect.OK(t, json.Unmarshal([]byte(`{"Reader":0,"Readers":1,"Partitions":[{"Topic":"in","Partition":2,"Offset":7,"End":-1}],"Bounded":false,"Over":false}`), &r))
	expect.Same(t, []span{{Position: Position{"in", 2, 7}, End: -1}}, r.Partitions)
	if text, err := json.Marshal(r); err != nil || strings.Contains(string(text), "ID") {
		t.Errorf("%s, %v", text, err)
	}
}

// TestUnreadableState: a state that Open says cannot be read is the error of its key alone, and
// stays where it is.
func TestUnreadableState(t *testing.T) {
	_, c := fed(t, 9)
	a := begun(t, c, nil)
	a.Rest(State{Key: "bad", Bytes: []byte("?")})
	a.must(5)
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
		b := begun(t, c, checking)
		if got := b.Restored(); len(got) != 1 || string(got["k"]) != "5" {
			t.Errorf("%d states are restored", len(got))
		}
		if _, err := b.Restore("bad"); err != bad {
			t.Error(err)
		}
		expect.OK(t, b.Close(context30(t), true))
	}
}
