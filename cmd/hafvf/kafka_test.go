package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/connectors/javatest"
	"hafvf/connectors/kafkaio/kafkatest"
)

var (
	long  = flag.Bool("long", false, "run the long form of the tests of faults")
	kills = flag.Int("kills", 24, "kills of the long form")
)

// A daemon is the program running in the background.
type daemon struct {
	*javatest.Process
	cmd *exec.Cmd
	log journal
}

// A journal is what a daemon has said so far.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// daemonize starts the program.
func daemonize(t *testing.T, env []string, args ...string) *daemon {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{cmd: exec.Command(self, args...)}
	d.cmd.Env = append(append(os.Environ(), asProgram+"=1"), env...)
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	if d.Process, err = javatest.Spawn(d.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Kill)
	return d
}

// stop is SIGTERM, after which the program has to end well.
func (d *daemon) stop(t *testing.T) {
	t.Helper()
	d.cmd.Process.Signal(syscall.SIGTERM)
	d.ends(t, 0)
}

// ends waits for the program's end and checks its exit code.
func (d *daemon) ends(t *testing.T, code int) {
	t.Helper()
	select {
	case <-d.Exited():
		if got := d.cmd.ProcessState.ExitCode(); got != code {
			t.Fatalf("exit %d instead of %d: %v\n%s", got, code, d.Err(), d.log.String())
		}
	case <-time.After(time.Minute):
		t.Fatalf("the program does not end\n%s", d.log.String())
	}
}

// patience is how long a condition may take to hold.
const patience = 3 * time.Minute

// eventually waits for a condition, and fails if the program ends before it holds.
func (d *daemon) eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		select {
		case <-d.Exited():
			if !holds() {
				t.Fatalf("%s: the program has ended: %v\n%s", what, d.Err(), d.log.String())
			}
			return
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v\n%s", what, patience, d.log.String())
		}
	}
}

// observations are n records of some keys, at random, with changes of level.
func observations(n, keys int, seed uint64) []*kgo.Record {
	rng := rand.New(rand.NewPCG(seed, 1))
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	records := make([]*kgo.Record, n)
	for i := range records {
		k := rng.IntN(keys)
		x := rng.NormFloat64() + 4*float64((i*5/n+k)%3)
		key := fmt.Sprintf("k%d", k)
		value := fmt.Sprintf(`{"key":%q,"time":%q,"x":%.9g}`, key, begin.Add(time.Duration(i)*time.Second).Format(time.RFC3339), x)
		if rng.IntN(500) == 0 {
			value = value[:len(value)/2] // for the dead letter
		}
		records[i] = &kgo.Record{Topic: "in", Key: []byte(key), Value: []byte(value)}
	}
	return records
}

// feed writes records to their topics, a thousand at a time, over some time.
func feed(t *testing.T, b *kafkatest.Broker, records []*kgo.Record, over time.Duration) (fed <-chan error) {
	t.Helper()
	producer, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	done := make(chan error, 1)
	go func() {
		for part := range slices.Chunk(records, 1000) {
			// A dead broker is tried again, for as long as it takes.
			if err := producer.ProduceSync(context.Background(), part...).FirstErr(); err != nil {
				done <- err
				return
			}
			time.Sleep(over * 1000 / time.Duration(len(records)))
		}
		done <- nil
	}()
	return done
}

// byID are a topic's values by the header "id". Repeats have to be equal.
func byID(t *testing.T, c *kafkatest.Client, topic string) (values map[string]string, repeats int) {
	t.Helper()
	values = map[string]string{}
	for _, r := range c.Consume(t, topic) {
		if len(r.Headers) != 1 || r.Headers[0].Key != "id" {
			t.Fatalf("headers %v of %s", r.Headers, r.Value)
		}
		id := string(r.Headers[0].Value)
		if old, ok := values[id]; ok {
			repeats++
			if old != string(r.Value) {
				t.Fatalf("%s: %s came as %s and as %s", topic, id, old, r.Value)
			}
		}
		values[id] = string(r.Value)
	}
	return values, repeats
}

func kafkaConfig(t *testing.T, b *kafkatest.Broker, run, more string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), run+".yaml")
	text := fmt.Sprintf(`model: {family: normal}
detect: true
source: {kafka: {brokers: ["%s"], topics: [in], group: %[2]s, changelog: %[2]s-states%[3]s}}
sink: {kafka: {topic: %[2]s-out}}
dead_letter: {kafka: {topic: %[2]s-rejected}}
alerts: {kafka: {topic: %[2]s-alerts}}
`, b.Addr(), run, more)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestKafkaKills kills the program and the broker at random moments: with repeats
// dropped by id, estimates, alerts and rejects are those of a run without faults.
func TestKafkaKills(t *testing.T) {
	n, keys, faults, pause := 40_000, 300, 3, time.Second
	if *long {
		n, keys, faults, pause = 600_000, 3_000, *kills, 4*time.Second
	}
	b := kafkatest.Start(t, kafkatest.Config{})
	b.CreateTopic(t, "in", 8, nil)
	records := observations(n, keys, 7)
	fed := feed(t, b, records, pause*time.Duration(faults))
	cfg := kafkaConfig(t, b, "killed", "")
	d := daemonize(t, nil, "run", cfg)
	for i := range faults {
		time.Sleep(pause/4 + rand.N(pause)*3/2)
		if i%4 == 3 || faults < 4 && i == 1 {
			b.Kill()
			time.Sleep(rand.N(pause / 2))
			b.Restart(t)
		} else {
			d.Kill()
			d = daemonize(t, nil, "run", cfg)
		}
	}
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	want := noFaults(t, b)
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if got, _ := byID(t, b.Client, "killed-out"); len(got) >= len(want["out"]) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("estimates are missing\n%s", d.log.String())
		}
	}
	d.stop(t)
	for _, topic := range []string{"out", "alerts", "rejected"} {
		got, repeats := byID(t, b.Client, "killed-"+topic)
		same(t, topic, want[topic], got, repeats)
	}
}

// same checks that the outputs of a run with faults are, by id, those of one without.
func same(t *testing.T, topic string, want, got map[string]string, repeats int) {
	t.Helper()
	lost, different := 0, 0
	for id, value := range want {
		switch g, ok := got[id]; {
		case !ok:
			lost++
		case g != value:
			different++
		}
	}
	t.Logf("%s: %d by id, %d repeats, %d lost, %d different", topic, len(got), repeats, lost, different)
	if lost > 0 || different > 0 || len(got) != len(want) || len(got) == 0 {
		t.Errorf("%s: %d lost, %d different, %d in place of %d", topic, lost, different, len(got), len(want))
	}
}

// noFaults is what one run over everything gives.
func noFaults(t *testing.T, b *kafkatest.Broker) map[string]map[string]string {
	t.Helper()
	d := daemonize(t, nil, "run", kafkaConfig(t, b, "whole", ", bounded: true"))
	if <-d.Exited(); !d.cmd.ProcessState.Success() {
		t.Fatalf("%v\n%s", d.Err(), d.log.String())
	}
	if !strings.Contains(d.log.String(), "changes") {
		t.Error(d.log.String())
	}
	all := map[string]map[string]string{}
	for _, topic := range []string{"out", "alerts", "rejected"} {
		values, repeats := byID(t, b.Client, "whole-"+topic)
		if repeats > 0 || len(values) == 0 {
			t.Errorf("without faults %s has %d records and %d repeats", topic, len(values), repeats)
		}
		all[topic] = values
	}
	return all
}
