package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

var kills = flag.Int("kills", 24, "kills of the long form of TestKafkaKills")

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
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestKafkaKills kills the program and the broker at random times. Without repeated IDs, estimates, alerts and
// rejects equal those of a run without faults.
func TestKafkaKills(t *testing.T) {
	expect.Waits(t, "a broker in Java")
	n, keys, faults, pause := 10_000, 200, 2, time.Second
	if *e2e.Long {
		n, keys, faults, pause = 600_000, 3_000, *kills, 4*time.Second
	}
	b := kafkatest.Start(t, kafkatest.Config{})
	b.CreateTopic(t, "in", 8, nil)
	b.CreateTopic(t, "killed-out", 8, nil)
	cfg := kafkaConfig(t, b, "killed", "")
	d := program.Start(t, nil, "run", cfg)
	i := 0
	for part := range slices.Chunk(e2e.Observations("in", n, keys, 7), (n+faults-1)/faults) {
		// The killed program is reading and writing, so it has records in flight.
		written := e2e.Held(t, b, "killed-out")
		fed := e2e.Feed(t, b, part, pause)
		d.Eventually(t, "estimates of the records being written", func() bool { return e2e.Held(t, b, "killed-out") > written })
		time.Sleep(rand.N(pause))
		if i%4 == 3 || faults < 4 && i == 1 {
			b.Kill()
			time.Sleep(rand.N(pause / 2))
			b.Restart(t)
		} else {
			d.Kill()
			d = program.Start(t, nil, "run", cfg)
		}
		expect.OK(t, <-fed)
		i++
	}
	want := noFaults(t, b)
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if got, _ := e2e.ByID(t, b, "killed-out"); len(got) >= len(want["out"]) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("estimates are missing\n%s", d.Log())
		}
	}
	d.Stop(t)
	for _, topic := range []string{"out", "alerts", "rejected"} {
		got, repeats := e2e.ByID(t, b, "killed-"+topic)
		e2e.Same(t, topic, want[topic], got, repeats)
	}
}

// noFaults returns the results of a run over all records without faults.
func noFaults(t *testing.T, b *kafkatest.Broker) map[string]map[string]string {
	t.Helper()
	d := program.Start(t, nil, "run", kafkaConfig(t, b, "whole", ", bounded: true"))
	d.Ends(t, 0)
	if !strings.Contains(d.Log(), "changes") {
		t.Error(d.Log())
	}
	results := map[string]map[string]string{}
	for _, topic := range []string{"out", "alerts", "rejected"} {
		values, repeats := e2e.ByID(t, b, "whole-"+topic)
		if repeats > 0 || len(values) == 0 {
			t.Errorf("without faults %s has %d records and %d repeats", topic, len(values), repeats)
		}
		results[topic] = values
	}
	return results
}
