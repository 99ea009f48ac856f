package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hafvf/connectors/kafkaio/kafkatest"
)

// TestKafkaLost: what a run would go on from is gone, or another's: the program says
// so and exits with 1, or its estimates are those of one run over everything.
func TestKafkaLost(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Config{})
	t.Run("two processes", func(t *testing.T) { twoProcesses(t, b) })
	t.Run("topic made again", func(t *testing.T) { topicMadeAgain(t, b) })
	t.Run("changelog lost", func(t *testing.T) { changelogLost(t, b) })
}

func deleteTopic(t *testing.T, b *kafkatest.Broker, name string) {
	t.Helper()
	b.Do(t, "topic "+name+" cannot be deleted", func(ctx context.Context, cl *kgo.Client) error {
		req := kmsg.NewPtrDeleteTopicsRequest()
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = &name
		req.Topics, req.TopicNames = append(req.Topics, topic), append(req.TopicNames, name)
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	})
}

// oneRun are the estimates of a single run over everything there is in a topic.
func oneRun(t *testing.T, b *kafkatest.Broker, name, as string) map[string]string {
	t.Helper()
	d := daemonize(t, nil, "run", topicConfig(t, b.Addr(), name, "bounded: true", "order: arrival\n"), "--set", "sink.kafka.topic="+as)
	d.ends(t, 0)
	values, repeats := byID(t, b.Client, as)
	if repeats > 0 || len(values) == 0 {
		t.Fatalf("%d estimates and %d repeats of one run", len(values), repeats)
	}
	return values
}

// says checks what a program that has ended had to say.
func (d *daemon) says(t *testing.T, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(d.log.String(), part) {
			t.Errorf("nothing of %q in\n%s", part, d.log.String())
		}
	}
	if sentence := parts[0]; strings.Count(d.log.String(), sentence) > 1 {
		t.Errorf("%q more than once in\n%s", sentence, d.log.String())
	}
}

// twoProcesses: of two of one group one ends and names the other, and together they
// write what one would have.
func twoProcesses(t *testing.T, b *kafkatest.Broker) {
	const n, name = 20_000, "pair"
	b.CreateTopic(t, name, 4, nil)
	b.CreateTopic(t, name+"-out", 4, nil)
	fed := feed(t, b, named(name, observations(n, 200, 3)), 8*time.Second)
	cfg := topicConfig(t, b.Addr(), name, "group: pair, changelog: pair-states", "order: arrival\n")
	first := daemonize(t, nil, "run", cfg)
	first.eventually(t, "an estimate", func() bool { return held(t, b, name+"-out") > 0 })
	second := daemonize(t, nil, "run", cfg)
	ended, other := first, second
	select {
	case <-first.Exited():
	case <-second.Exited():
		ended, other = second, first
	case <-time.After(patience):
		t.Fatalf("both go on\n%s\n%s", first.log.String(), second.log.String())
	}
	ended.ends(t, 1)
	ended.says(t, "another run commits the offsets of group pair: run ", fmt.Sprintf("process %d, since 2", other.cmd.Process.Pid), "stop one of them")
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	other.eventually(t, "all records", func() bool {
		done := int64(0)
		for _, at := range committed(t, b, "pair", name) {
			done += at
		}
		return done >= n
	})
	other.stop(t)
	got, repeats := byID(t, b.Client, "pair-out")
	same(t, "pair-out", oneRun(t, b, name, "pair-whole"), got, repeats)
}

func topicMadeAgain(t *testing.T, b *kafkatest.Broker) {
	const name = "remade"
	source := "bounded: true, group: remade, changelog: remade-states"
	cfg := topicConfig(t, b.Addr(), name, source, "order: arrival\n")
	b.CreateTopic(t, name, 2, nil)
	b.Produce(t, named(name, observations(2000, 20, 1))...)
	daemonize(t, nil, "run", cfg).ends(t, 0)
	deleteTopic(t, b, name)
	b.CreateTopic(t, name, 2, nil)
	b.Produce(t, named(name, observations(3000, 20, 2))...)
	for range 2 {
		d := daemonize(t, nil, "run", cfg)
		d.ends(t, 1)
		d.says(t, `hafvf: topic "remade" was deleted and created again`, "hafvf run CONFIG --begin-anew discards states and offsets and reads from the beginning")
	}
	d := daemonize(t, nil, "run", cfg, "--begin-anew", "--set", "sink.kafka.topic=remade-anew")
	d.ends(t, 0)
	d.says(t, "beginning anew: states were discarded", "keys=20")
	got, repeats := byID(t, b.Client, "remade-anew")
	same(t, "remade-anew", oneRun(t, b, name, "remade-whole"), got, repeats)

	// While a run goes on.
	d = daemonize(t, nil, "run", cfg, "--set", "source.kafka.bounded=false")
	d.eventually(t, "reading", func() bool { return strings.Contains(d.log.String(), "msg=reading reader=0 at=\"remade") })
	deleteTopic(t, b, name)
	b.CreateTopic(t, name, 2, nil)
	d.ends(t, 1)
	d.says(t, `topic "remade" was deleted and created again`)
}

func changelogLost(t *testing.T, b *kafkatest.Broker) {
	const name = "kept"
	source := "bounded: true, group: kept, changelog: kept-states"
	cfg := topicConfig(t, b.Addr(), name, source, "order: arrival\n")
	b.CreateTopic(t, name, 2, nil)
	b.Produce(t, named(name, observations(2000, 20, 1))...)
	daemonize(t, nil, "run", cfg).ends(t, 0)
	deleteTopic(t, b, "kept-states")
	b.Produce(t, named(name, observations(1000, 20, 2))...)
	for range 2 {
		d := daemonize(t, nil, "run", cfg)
		d.ends(t, 1)
		d.says(t, "hafvf: the changelog kept-states does not exist, and group kept has offsets", "every later estimate would differ", "--begin-anew")
	}
	d := daemonize(t, nil, "run", cfg, "--begin-anew", "--set", "sink.kafka.topic=kept-anew")
	d.ends(t, 0)
	got, repeats := byID(t, b.Client, "kept-anew")
	same(t, "kept-anew", oneRun(t, b, name, "kept-whole"), got, repeats)
	daemonize(t, nil, "run", cfg).ends(t, 0)
}
