package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/flinktest"
	"hafvf/internal/testing/kafkatest"
	"hafvf/pipeline/flink"
)

var flinkBackend = flag.String("flink-backend", "hashmap", "state backend of Flink in the tests: hashmap or rocksdb")

// A Site is a Kafka broker and a Flink cluster whose workers run the program.
type Site struct {
	*flinktest.Cluster
	Broker  *kafkatest.Broker
	Workers []*Daemon // by TaskManager
	Jobs    flink.Cluster

	t       *testing.T // everything ends with this test
	program Program
}

// StartSite starts a site that ends with the test.
func StartSite(t *testing.T, p Program, cfg flinktest.Config) *Site {
	t.Helper()
	cfg.Properties = map[string]string{"state.backend.type": *flinkBackend, "state.backend.incremental": "true", "state.checkpoints.num-retained": "3"}
	s := &Site{t: t, program: p, Broker: kafkatest.Start(t, kafkatest.Config{Measured: cfg.Measured}), Cluster: flinktest.Start(t, cfg)}
	s.Jobs = flink.Cluster{Endpoint: s.Endpoint(), REST: s.REST()}
	for i := range s.Cluster.Workers() {
		s.Workers = append(s.Workers, nil)
		s.StartWorker(i)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for i, w := range s.Workers {
				t.Logf("worker %d:\n%s", i, w.Log())
			}
		}
	})
	return s
}

// StartWorker starts the worker of TaskManager i, as its supervisor would. env is added to its environment.
func (s *Site) StartWorker(i int, env ...string) {
	s.t.Helper()
	w := s.program.Start(s.t, env, "worker", "--address", s.Cluster.Workers()[i])
	w.Eventually(s.t, "the worker is listening", func() bool { return strings.Contains(w.Log(), "worker listening") })
	s.Workers[i] = w
}

// Config writes the config of a job named like its topics, and returns its path. source and runner are added to
// these sections, more at the end. Keys do not expire unless more sets expire: the observations are old, and the
// watermark follows the clock.
func (s *Site) Config(t testing.TB, job, source, runner, more string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), job+".yaml")
	if !strings.Contains(more, "expire") && !strings.Contains(more, "smooth") {
		more += "expire: never\n"
	}
	text := fmt.Sprintf(`model: {family: normal}
source: {kafka: {brokers: ["%s"], topics: [%[3]s-in]%[2]s}}
sink: {kafka: {topic: %[3]s-out}}
dead_letter: {kafka: {topic: %[3]s-rejected}}
runner: {name: flink, endpoint: "%[4]s", rest: "%[5]s", worker: "%[6]s", job: %[3]s, checkpoint_interval: 1s%[7]s}
%[8]s
`, s.Broker.Addr(), source, job, s.Endpoint(), s.REST(), s.Worker(), runner, more)
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Feed creates a job's input topic and writes observations to it during the given time.
func (s *Site) Feed(t testing.TB, job string, n, keys int, over time.Duration) (fed <-chan error) {
	t.Helper()
	s.Broker.CreateTopic(t, job+"-in", 8, nil)
	return Feed(t, s.Broker, Observations(job+"-in", n, keys, 11), over)
}

// Leaves stops the job of a failed test, so that later tests have free slots.
func (s *Site) Leaves(t testing.TB, cfg string) {
	t.Cleanup(func() {
		if t.Failed() {
			s.program.Run(t, "", "", "stop", cfg)
		}
	})
}

// Halt stops a job. The program that follows the job must report it.
func (s *Site) Halt(t testing.TB, cfg string, d *Daemon) {
	t.Helper()
	if code, _, stderr := s.program.Run(t, "", "", "stop", cfg); code != 0 {
		t.Fatal(stderr)
	}
	d.Ends(t, 1)
	if !strings.Contains(d.Log(), "was cancelled") {
		t.Error(d.Log())
	}
}

// Status returns the status of a job. If the job is not found, State is the error.
func (s *Site) Status(t testing.TB, name string) flink.Status {
	t.Helper()
	job, err := s.Jobs.Find(t.Context(), name)
	if err != nil {
		return flink.Status{State: err.Error()}
	}
	status := expect.Get(job.Status(t.Context()))(t)
	return status
}

// Await waits until holds is true for the job's status, and returns that status.
func (s *Site) Await(t testing.TB, d *Daemon, name, what string, holds func(flink.Status) bool) (status flink.Status) {
	t.Helper()
	d.Eventually(t, what, func() bool {
		status = s.Status(t, name)
		return holds(status)
	})
	return status
}
