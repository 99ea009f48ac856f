package pipeline

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

// If the previous run commits between a new run's requests for offsets and states, no observation is lost.
func TestKafkaOffsetsBeforeStates(t *testing.T) {
	t.Parallel()
	k := kafkatest.Fake(t, kfake.NumBrokers(1)) // each question is one request
	b := &bus{kafkatest.Dial(k.ListenAddrs()), k.ListenAddrs(), t.TempDir()}
	b.CreateTopic(t, "in", 4, nil)
	b.CreateTopic(t, "out", 4, nil)
	lines := observations(3_000, 100)
	cfg := b.config("group: g, changelog: states", "")
	b.put(t, lines[:1000]...)
	before := launch(t, compose(t, cfg))
	b.await(t, "out", 1000, before)
	b.committed(t, "g", before, func(lag int64) bool { return lag == 0 })

	var asked [2]atomic.Bool
	second, goOn := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	// The new run is the only one that requests the ends of the changelog, several times at once. Offsets are also
	// requested by commits of the previous run.
	question := func(i int) {
		asked[i].Store(true)
		first := asked[1-i].Load() && once.CompareAndSwap(false, true)
		if first {
			close(second)
		}
		if first || i == 1 && asked[0].Load() {
			k.SleepControl(func() { <-goOn })
		}
	}
	k.ControlKey(int16(kmsg.OffsetFetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		question(0)
		return nil, nil, false
	})
	k.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		for _, topic := range req.(*kmsg.ListOffsetsRequest).Topics {
			if topic.Topic == "states" {
				question(1)
			}
		}
		return nil, nil, false
	})
	r := launch(t, compose(t, cfg))
	select {
	case <-second:
	case <-r.done:
		t.Fatal(r.err)
	}
	b.put(t, lines[1000:2000]...)
	b.await(t, "out", 2000, before)
	before.halt(t) // commits states and offsets
	close(goOn)
	b.put(t, lines[2000:]...)
	b.await(t, "out", 3000, r)
	r.halt(t)
	equal(t, b.loop(t, keyed.Config{Filter: normalConfig}), byKey(t, b.values(t, "out")))
}

// An unreadable state resets only its own key. Log, summary and dead letter report it.
func TestKafkaBadState(t *testing.T) {
	b := fakeBus(t, 1)
	b.CreateTopic(t, "states", 1, map[string]string{"cleanup.policy": "compact"})
	b.CreateTopic(t, "rejected", 1, nil)
	lines := observations(400, 4)
	cfg := compose(t, b.config("group: g, changelog: states, bounded: true", ""))
	b.put(t, lines[:200]...)
	expect.Get(Run{Graph: cfg, Log: quiet}.Execute(t.Context(), nil))(t)
	whole := map[string][]byte{}
	for _, r := range b.Consume(t, "states") {
		whole[string(r.Key)] = r.Value
	}
	b.Produce(t, &kgo.Record{Topic: "states", Key: []byte("k1"), Value: whole["k1"][:len(whole["k1"])-1]})
	b.put(t, lines[200:]...)
	var log strings.Builder
	s := expect.Get(Run{Graph: cfg, Log: slog.New(slog.NewTextHandler(&log, nil))}.Execute(t.Context(), nil))(t)
	if s.Reset != 1 || s.Rejected != 0 || !strings.Contains(s.String(), "1 key was reset") {
		t.Error(s)
	}
	if text := log.String(); !strings.Contains(text, "cannot read a state: its key starts without it") || !strings.Contains(text, "key=k1") {
		t.Error(text)
	}
	if rejected := b.values(t, "rejected"); len(rejected) != 1 || !strings.Contains(rejected[0], `the state of the key \"k1\" cannot be read, so the key is reset: it is damaged`) {
		t.Errorf("%q", rejected)
	}
	if s, err := (Run{Graph: cfg, Log: quiet}).Execute(t.Context(), nil); err != nil || s.Reset != 0 {
		t.Error(s, err)
	}
	// All other keys are unaffected. k1 restarts with the second half.
	got := byKey(t, b.values(t, "out"))
	for key, wanted := range b.loop(t, keyed.Config{Filter: normalConfig}) {
		if key != "k1" {
			equal(t, wanted, got[key])
			continue
		}
		if len(got[key]) != len(wanted) {
			t.Errorf("%d estimates of k1, of %d", len(got[key]), len(wanted))
		}
		n := 0
		for _, line := range got[key] {
			if strings.Contains(line, `"n":1,`) {
				n++
			}
		}
		equal(t, 2, n) // it started twice
	}
}

// The error for a replaced topic or lost offsets names --begin-anew.
func TestAdviceOfResuming(t *testing.T) {
	err := withAdvice(fmt.Errorf("read: %w", &kafkaio.ResumeError{Err: io.EOF}))
	if !strings.HasSuffix(err.Error(), "; hafvf run CONFIG --begin-anew discards states and offsets and reads from the beginning") {
		t.Error(err)
	}
}

// A stopped run does not wait long for a sink on a Kafka cluster that is gone or does not answer. It ends with an error
// that says what was not written.
func TestStopWithoutKafka(t *testing.T) {
	expect.Waits(t, "clocks")
	for _, source := range []string{"group: g, changelog: states", "group: g", "start: earliest", "start: earliest, group: silent"} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			b, lost := fakeBus(t, 1), kafkatest.Fake(t)
			sink := expect.Get(json.Marshal(lost.ListenAddrs()))(t)
			text := strings.Replace(b.config(source, ""), "sink: {kafka: {topic: out}}", fmt.Sprintf("sink: {kafka: {brokers: %s, topic: out}}", sink), 1)
			r := launch(t, compose(t, text))
			lines := jumps(2000, 4)
			b.put(t, lines[:10]...)
			expect.Soon(t, "the run reads", func() bool { return r.read.Load() > 0 })
			remote := &bus{Client: kafkatest.Dial(lost.ListenAddrs())}
			remote.await(t, "out", 10, r)
			if strings.HasSuffix(source, "silent") {
				over := make(chan struct{})
				t.Cleanup(func() { close(over) })
				lost.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
					<-over // blocks all other requests too
					return nil, nil, false
				})
			} else {
				lost.Close()
			}
			b.put(t, lines[10:]...)
			expect.Soon(t, "more is read", func() bool { return r.read.Load() > 10 })
			close(r.stop)
			r.ends(t)
			if r.err == nil || !strings.Contains(r.err.Error(), "the run was stopped, and Kafka did not take the messages within 6s") || !strings.Contains(r.err.Error(), "are written, and none after them") {
				t.Error(r.err)
			}
		})
	}
}
