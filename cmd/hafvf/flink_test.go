package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"hafvf/connectors/kafkaio/kafkatest"
	"hafvf/pipeline/flink/flinktest"
)

// A site is a Kafka broker and a Flink cluster with the program as its workers.
type site struct {
	*flinktest.Cluster
	broker  *kafkatest.Broker
	workers []*daemon
}

func startSite(t *testing.T, cfg flinktest.Config) *site {
	t.Helper()
	s := &site{broker: kafkatest.Start(t, kafkatest.Config{}), Cluster: flinktest.Start(t, cfg)}
	for _, addr := range s.Workers() {
		s.workers = append(s.workers, daemonize(t, nil, "worker", "--address", addr))
	}
	t.Cleanup(func() {
		if t.Failed() {
			for i, w := range s.workers {
				t.Logf("worker %d:\n%s", i, w.log.String())
			}
		}
	})
	return s
}

// config writes a config of a job that reads the topic in; more stands at its end.
func (s *site) config(t *testing.T, job, source, runner, more string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), job+".yaml")
	text := fmt.Sprintf(`model: {family: normal}
source: {kafka: {brokers: ["%s"], topics: [in]%s}}
sink: {kafka: {topic: %[3]s-out}}
dead_letter: {kafka: {topic: %[3]s-rejected}}
runner: {name: flink, endpoint: "%[4]s", rest: "%[5]s", worker: "%[6]s", job: %[3]s, checkpoint_interval: 1s%[7]s}
%[8]s
`, s.broker.Addr(), source, job, s.Endpoint(), s.REST(), s.Worker(), runner, more)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFlink(t *testing.T) {
	s := startSite(t, flinktest.Config{})
	s.broker.CreateTopic(t, "in", 8, nil)
	s.broker.Produce(t, observations(20_000, 100, 3)...)
	d := daemonize(t, nil, "run", s.config(t, "first", "", ", parallelism: 2", "detect: true\nalerts: {kafka: {topic: first-alerts}}"))
	time.Sleep(30 * time.Second)
	out, repeats := byID(t, s.broker.Client, "first-out")
	t.Log(len(out), repeats)
	code, stdout, stderr := program(t, "", "", "status", s.config(t, "first", "", "", ""))
	t.Log(code, stdout, stderr)
	t.Log(d.log.String())
	dump, _ := exec.Command("sh", "-c", fmt.Sprintf("cd /tmp; J=$(curl -s %[1]s/jobs/overview | grep -o '\"jid\":\"[0-9a-f]*' | cut -d'\"' -f4); for V in $(curl -s %[1]s/jobs/$J | grep -o '\"id\":\"[0-9a-f]*' | cut -d'\"' -f4 | sort -u); do curl -s %[1]s/jobs/$J/vertices/$V/subtasks/metrics; echo; curl -s %[1]s/jobs/$J/vertices/$V/metrics; echo; done; curl -s %[1]s/jobs/$J; curl -s %[1]s/jobs/$J/accumulators", s.REST())).CombinedOutput()
	os.WriteFile("/tmp/flink-metrics.txt", dump, 0o600)
	code, stdout, stderr = program(t, "", "", "stop", "--savepoint", s.config(t, "first", "", "", ""))
	t.Log(code, stdout, stderr)
	t.Fail()
}
