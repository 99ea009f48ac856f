package flink_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/internal/testing/e2e"
	"hafvf/pipeline/flink"
)

// migrates stops a job and resumes it with a changed config, which is refused without --migrate. With --migrate,
// the outputs equal those of a run in one process whose states are migrated in a changelog. The states are not
// relearned: the topic has lost the old records. The next start needs no --migrate, not even for keys without
// records meanwhile. Alerts start with the second config and end with the third.
func (s *site) migrates(t *testing.T) {
	const n = 6_000
	partOf := func(record int) (part int) { return record * 3 / n }
	parts := make([][]*kgo.Record, 3)
	for i, r := range e2e.Observations("moved-in", n, 200, 23) {
		if part := partOf(i); part != 1 || string(r.Key) > "k15" { // otherwise the key is silent in this part
			parts[part] = append(parts[part], r)
		}
	}
	s.Broker.CreateTopic(t, "moved-in", 8, nil)
	const before = "levels: [{alpha: 0.9, beta: 0.1}]\ntop: 0.98\nkeys: [{match: 'k1*', levels: [], top: 0.9}]\n"
	after := "levels: [{alpha: 9, beta: 1}, {alpha: 1, beta: 1}]\ntop: 1\ntime_unit: 1m\nkeys: [{match: 'k2*', levels: [], top: 0.8}]\ndetect: true\n"
	written := int64(0)
	// estimated produces a part of the records and waits until the job and a direct run have estimated it.
	estimated := func(d *e2e.Daemon, part int, whole ...string) {
		t.Helper()
		s.Broker.Produce(t, parts[part]...)
		written += int64(len(parts[part]))
		for _, set := range []string{
			"runner={name: direct}", "source.kafka.bounded=true", "source.kafka.group=moved", "source.kafka.changelog=moved-states",
			"sink.kafka.topic=moved-whole-out", "dead_letter.kafka.topic=moved-whole-rejected",
		} {
			whole = append(whole, "--set", set)
		}
		direct := program.Start(t, nil, append([]string{"run"}, whole...)...)
		d.Eventually(t, "all of it is estimated", func() bool { return e2e.Held(t, s.Broker, "moved-out", "moved-rejected") >= written })
		direct.Ends(t, 0)
	}
	stop := func(cfg string, d *e2e.Daemon) (savepoint string) {
		t.Helper()
		code, stdout, stderr := program.Run(t, "", "", "stop", "--savepoint", cfg)
		if code != 0 {
			t.Fatal(stderr)
		}
		d.Ends(t, 0)
		return strings.TrimSpace(stdout)
	}
	start := func(cfg string, args ...string) *e2e.Daemon {
		t.Helper()
		d := program.Start(t, nil, append([]string{"run", cfg}, args...)...)
		s.Leaves(t, cfg)
		s.Await(t, d, "moved", "the job runs", func(status flink.Status) bool { return status.State == "RUNNING" })
		return d
	}

	cfg := s.Config(t, "moved", "", ", parallelism: 2", before)
	d := start(cfg)
	estimated(d, 0, cfg)
	savepoint := stop(cfg, d)
	_, ends := s.Broker.Offsets(t, "moved-in")
	for p, end := range ends {
		s.Broker.DeleteBefore(t, "moved-in", p, end)
	}

	cfg = s.Config(t, "moved", "", ", parallelism: 2", after+"alerts: {kafka: {topic: moved-alerts}}\n")
	s.Broker.Produce(t, parts[1][:100]...)
	log := s.fails(t, []string{"run", cfg, "--savepoint", savepoint}, "it was written with other levels, ")
	migrateHint := regexp.MustCompile(`--savepoint (\S+) --migrate`).FindStringSubmatch(log)
	if migrateHint == nil {
		t.Fatalf("does not say what to do:\n%s", log)
	}
	if status := s.Status(t, "moved"); status.State != "CANCELED" && status.State != "FAILED" {
		t.Errorf("the job is %s", status.State)
	}
	written = e2e.Held(t, s.Broker, "moved-out", "moved-rejected") + 100
	parts[1] = parts[1][100:]
	keptKeys := s.keys(t, "moved-out")
	counted := s.keptByWorkers()
	d = start(cfg, "--savepoint", migrateHint[1], "--migrate")
	s.keeps(t, d, counted+keptKeys)
	estimated(d, 1, cfg, "--migrate")
	savepoint = stop(cfg, d)
	cfg = s.Config(t, "moved", "", ", parallelism: 2", after)
	d = start(cfg, "--savepoint", savepoint)
	estimated(d, 2, cfg)

	for _, topic := range []string{"out", "rejected"} {
		want, _ := e2e.ByID(t, s.Broker, "moved-whole-"+topic)
		got, repeats := e2e.ByID(t, s.Broker, "moved-"+topic)
		e2e.Same(t, topic, want, got, repeats)
	}
	s.Halt(t, cfg, d)
}
