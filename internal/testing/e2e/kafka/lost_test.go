//go:build unix

package kafka_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

// oneRun returns the estimates of a single run over all records of a topic.
func oneRun(t *testing.T, b *kafkatest.Broker, name, output string, set ...string) map[string]string {
	t.Helper()
	args := []string{"run", topicConfig(t, b.Addr(), name, "bounded: true", "order: arrival\n")}
	for _, s := range append(set, "sink.kafka.topic="+output) {
		args = append(args, "--set", s)
	}
	program.Start(t, nil, args...).Ends(t, 0)
	values, repeats := e2e.ByID(t, b, output)
	if repeats > 0 || len(values) == 0 {
		t.Fatalf("%d estimates and %d repeats of one run", len(values), repeats)
	}
	return values
}

// says checks that the log of a program that has ended contains all parts, and the first only once.
func says(t *testing.T, d *e2e.Daemon, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(d.Log(), part) {
			t.Errorf("nothing of %q in\n%s", part, d.Log())
		}
	}
	if sentence := parts[0]; strings.Count(d.Log(), sentence) > 1 {
		t.Errorf("%q more than once in\n%s", sentence, d.Log())
	}
}

// replacedBy checks that a process ends because another one has replaced it.
func replacedBy(t *testing.T, d, other *e2e.Daemon) {
	t.Helper()
	d.Ends(t, 1)
	says(t, d, anotherRun, fmt.Sprintf("process %d, since 2", other.PID()), "stop one of them")
}

// anotherRun begins the message of a process that was replaced. The evidence follows: the changelog, or the
// offsets.
const anotherRun = "hafvf: another run "

// done returns the number of records of a topic that a group has committed.
func done(t *testing.T, b *kafkatest.Broker, group, topic string) (sum int64) {
	t.Helper()
	for _, offset := range committed(t, b, group, topic) {
		sum += max(offset, 0)
	}
	return sum
}

// reads waits until a process reads: before that it may not handle signals yet.
func reads(t *testing.T, d *e2e.Daemon) {
	t.Helper()
	d.Eventually(t, "reading", func() bool { return strings.Contains(d.Log(), "msg=reading") })
}

// pausedAndReplaced checks that a process that resumes after it was replaced ends and names the other, and that no
// later run resumes from its writes, even if both are killed right after it resumed.
func pausedAndReplaced(t *testing.T, b *kafkatest.Broker) {
	const n, rounds, name = 16_000, 4, "paused"
	b.CreateTopic(t, name, 4, nil)
	b.CreateTopic(t, name+"-out", 4, nil)
	observations := e2e.Observations(name, n, 200, 8)
	cfg := topicConfig(t, b.Addr(), name, "group: paused, changelog: paused-states", "order: arrival\n")
	for round := range rounds {
		old := program.Start(t, nil, "run", cfg)
		reads(t, old)
		end := (round + 1) * n / rounds
		fed := e2e.Feed(t, b, observations[round*n/rounds:end], 4*time.Second)
		// If the pause follows the growth of the changelog closely, it is within a commit, otherwise between two
		// commits.
		written := e2e.Held(t, b, "paused-states")
		for deadline := time.Now().Add(e2e.Patience); e2e.Held(t, b, "paused-states") == written; {
			if time.Now().After(deadline) {
				t.Fatalf("no state is written\n%s", old.Log())
			}
		}
		old.Signal(syscall.SIGSTOP)
		next := program.Start(t, nil, "run", cfg)
		reads(t, next)
		before := done(t, b, "paused", name) // after a commit that the pause interrupted is aborted
		next.Eventually(t, "a commit of the next process", func() bool {
			now := done(t, b, "paused", name)
			return now > before || now == int64(end)
		})
		old.Signal(syscall.SIGCONT)
		if round%2 == 0 {
			replacedBy(t, old, next)
		} else {
			time.Sleep(time.Duration(round) * 200 * time.Millisecond)
		}
		old.Kill()
		next.Kill()
		expect.OK(t, <-fed)
	}
	last := program.Start(t, nil, "run", cfg)
	reads(t, last)
	last.Eventually(t, "all records", func() bool { return done(t, b, "paused", name) >= n })
	last.Stop(t)
	got, repeats := e2e.ByID(t, b, "paused-out")
	e2e.Same(t, "paused-out", oneRun(t, b, name, "paused-whole"), got, repeats)
}
