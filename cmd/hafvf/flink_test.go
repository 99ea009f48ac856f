package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/connectors/kafkaio/kafkatest"
	"hafvf/pipeline/flink"
	"hafvf/pipeline/flink/flinktest"
)

var flinkBackend = flag.String("flink-backend", "hashmap", "state backend of Flink in the tests: hashmap or rocksdb")

// A site is a Kafka broker and a Flink cluster with the program as its workers.
type site struct {
	*flinktest.Cluster
	t       *testing.T // whose end ends everything
	flink   flink.Cluster
	broker  *kafkatest.Broker
	workers []*daemon
}

func startSite(t *testing.T, cfg flinktest.Config) *site {
	t.Helper()
	cfg.Properties = map[string]string{"state.backend.type": *flinkBackend, "state.backend.incremental": "true", "state.checkpoints.num-retained": "3"}
	s := &site{t: t, broker: kafkatest.Start(t, kafkatest.Config{}), Cluster: flinktest.Start(t, cfg)}
	s.flink = flink.Cluster{Endpoint: s.Endpoint(), REST: s.REST()}
	for i := range s.Workers() {
		s.workers = append(s.workers, nil)
		s.startWorker(i)
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

// startWorker starts the worker beside TaskManager i, as what supervises it would.
func (s *site) startWorker(i int) {
	s.t.Helper()
	w := daemonize(s.t, nil, "worker", "--address", s.Workers()[i])
	w.eventually(s.t, "the worker listens", func() bool { return strings.Contains(w.log.String(), "listens") })
	s.workers[i] = w
}

// config writes a config of a job, named as its topics; settings of the source and
// the runner are added, and more at its end.
func (s *site) config(t *testing.T, job, source, runner, more string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), job+".yaml")
	text := fmt.Sprintf(`model: {family: normal}
source: {kafka: {brokers: ["%s"], topics: [%[3]s-in]%[2]s}}
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

const detecting = "detect: true\nalerts: {kafka: {topic: %s-alerts}}\n"

// feed writes observations to a job's topic, a thousand at a time, over some time.
func (s *site) feed(t *testing.T, job string, n, keys int, over time.Duration) (fed <-chan error) {
	t.Helper()
	s.broker.CreateTopic(t, job+"-in", 8, nil)
	return feed(t, s.broker, named(job+"-in", observations(n, keys, 11)), over)
}

// leaves makes sure that a failed test leaves no job to those after it.
func (s *site) leaves(t *testing.T, cfg string) {
	t.Cleanup(func() {
		if t.Failed() {
			program(t, "", "", "stop", cfg)
		}
	})
}

// halt stops a job, which the program that follows it has to say.
func halt(t *testing.T, cfg string, d *daemon) {
	t.Helper()
	if code, _, stderr := program(t, "", "", "stop", cfg); code != 0 {
		t.Fatal(stderr)
	}
	d.ends(t, 1)
	if !strings.Contains(d.log.String(), "was cancelled") {
		t.Error(d.log.String())
	}
}

// status asks after a job.
func (s *site) status(t *testing.T, name string) flink.Status {
	t.Helper()
	job, err := s.flink.Find(t.Context(), name)
	if err != nil {
		return flink.Status{State: err.Error()}
	}
	status, err := job.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// await waits until the job's state is as it has to be.
func (s *site) await(t *testing.T, d *daemon, name, what string, holds func(flink.Status) bool) (is flink.Status) {
	t.Helper()
	d.eventually(t, what, func() bool {
		is = s.status(t, name)
		return holds(is)
	})
	return is
}

// complete waits until a job has written an estimate or a reject of every record,
// and compares all that it wrote with a run of the embedded runner without faults.
func (s *site) complete(t *testing.T, d *daemon, job, more string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "whole.yaml")
	text := fmt.Sprintf(`model: {family: normal}
source: {kafka: {brokers: ["%[1]s"], topics: [%[2]s-in], bounded: true}}
sink: {kafka: {topic: %[2]s-whole-out}}
dead_letter: {kafka: {topic: %[2]s-whole-rejected}}
%[3]s`, s.broker.Addr(), job, strings.ReplaceAll(more, job+"-", job+"-whole-"))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := program(t, "", "", "run", path); code != 0 {
		t.Fatal(stderr)
	}
	topics := []string{"out", "rejected"}
	if strings.Contains(more, "alerts") {
		topics = append(topics, "alerts")
	}
	for _, topic := range topics {
		want, _ := byID(t, s.broker.Client, job+"-whole-"+topic)
		var got map[string]string
		var repeats int
		d.eventually(t, "all of "+topic+" is written", func() bool {
			got, repeats = byID(t, s.broker.Client, job+"-"+topic)
			return len(got) >= len(want)
		})
		same(t, topic, want, got, repeats)
	}
}

func TestFlink(t *testing.T) {
	s := startSite(t, flinktest.Config{})
	t.Run("kills", s.kills)
	t.Run("savepoints", s.savepoints)
	t.Run("lateness", s.lateness)
	t.Run("sessions", s.sessions)
	t.Run("checkpoints", s.checkpoints)
	t.Run("errors", s.errors)
}

var readingAt = regexp.MustCompile(`msg=reading reader=\d+ at="?([^"\n]+)`)

// kills ends TaskManagers and a worker at random moments: Flink restores the job
// from a checkpoint, and with repeats dropped by id the outputs are those of a run
// without faults.
func (s *site) kills(t *testing.T) {
	n, keys, faults, over := 30_000, 300, 2, 20*time.Second
	if *long {
		n, keys, faults, over = 400_000, 3_000, 4, 4*time.Minute
	}
	more := fmt.Sprintf(detecting, "killed")
	s.broker.CreateTopic(t, "killed-in", 8, nil)
	cfg := s.config(t, "killed", "", ", parallelism: 2", more)
	d := daemonize(t, nil, "run", cfg)
	s.leaves(t, cfg)
	for i, w := range s.workers {
		// The readers are dealt out evenly.
		d.eventually(t, fmt.Sprintf("worker %d reads", i), func() bool { return strings.Contains(w.log.String(), "at=\"killed-in-") })
	}
	marks := make([]int, len(s.workers)) // where in the logs the faults begin
	// After a fault readers begin where they were, beyond the partitions' beginnings.
	resumed := 0
	resume := func(worker int) {
		for _, at := range readingAt.FindAllStringSubmatch(s.workers[worker].log.String()[marks[worker]:], -1) {
			if regexp.MustCompile(`-0( |$)`).MatchString(at[1]) {
				t.Errorf("after a restart the source reads from the beginning of a partition: %s", at[1])
			}
			resumed++
		}
		marks[worker] = 0
	}
	records := named("killed-in", observations(n, keys, 11))
	s.broker.Produce(t, records[:1000]...)
	d.eventually(t, "records of every partition are out", func() bool { return held(t, s.broker, "killed-out", "killed-rejected") >= 1000 })
	i := 0
	for part := range slices.Chunk(records[1000:], (n-1000+faults-1)/faults) {
		seen := s.status(t, "killed").Completed
		before := s.await(t, d, "killed", "three checkpoints are complete", func(is flink.Status) bool {
			return is.State == "RUNNING" && is.Completed >= seen+3
		})
		if i == 0 {
			for j, w := range s.workers {
				marks[j] = len(w.log.String())
			}
		}
		each := over / time.Duration(faults)
		fed := feed(t, s.broker, part, each)
		time.Sleep(rand.N(each * 3 / 4))
		if i++; i == faults {
			resume(1)
			s.workers[1].Kill()
			s.startWorker(1)
		} else {
			s.Kill(i % 2)
			s.StartTaskManager(t, i%2)
		}
		restored := s.await(t, d, "killed", "the job is restored", func(is flink.Status) bool {
			return is.State == "RUNNING" && is.Restored > before.Restored
		})
		t.Logf("fault %d: restored %d times, after %d checkpoints; %s", i, restored.Restored, restored.Completed, restored.Cause)
		if err := <-fed; err != nil {
			t.Fatal(err)
		}
	}
	s.complete(t, d, "killed", more)
	for i := range s.workers {
		resume(i)
	}
	if resumed == 0 {
		t.Error("no reader says where it went on")
	}
	code, stdout, stderr := program(t, "", "", "status", cfg)
	if code != 0 || !strings.Contains(stdout, "RUNNING") || !strings.Contains(stdout, "changes") {
		t.Errorf("status: exit %d\n%s%s", code, stdout, stderr)
	}
	halt(t, cfg, d)
}

// savepoints stops a job twice in mid-run, and resumes it at the same and at another
// parallelism; in the long form also from the last checkpoint after the JobManager
// was lost.
func (s *site) savepoints(t *testing.T) {
	more := fmt.Sprintf(detecting, "saved")
	fed := s.feed(t, "saved", 30_000, 300, 20*time.Second)
	parallelisms := []int{2, 2, 1}
	if *long {
		parallelisms = append(parallelisms, 2)
	}
	var savepoint string
	for i, parallelism := range parallelisms {
		cfg := s.config(t, "saved", "", fmt.Sprintf(", parallelism: %d", parallelism), more)
		args := []string{"run", cfg}
		if savepoint != "" {
			args = append(args, "--savepoint", savepoint)
		}
		d := daemonize(t, nil, args...)
		s.leaves(t, cfg)
		s.await(t, d, "saved", "the job runs", func(is flink.Status) bool { return is.State == "RUNNING" && is.Completed > 1 })
		last := i == len(parallelisms)-1
		if i == 2 && !last {
			d.eventually(t, "the job is followed", func() bool { return strings.Contains(d.log.String(), "the job's state") })
			s.LoseJobManager(t)
			d.ends(t, exitFailed)
			said := regexp.MustCompile(`go on from the last checkpoint that was seen, (\S+)`).FindStringSubmatch(d.log.String())
			if said == nil {
				t.Fatalf("does not say where to go on:\n%s", d.log.String())
			}
			savepoint = said[1]
			continue
		}
		if last {
			if err := <-fed; err != nil {
				t.Fatal(err)
			}
			s.complete(t, d, "saved", more)
		}
		code, stdout, stderr := program(t, "", "", "stop", "--savepoint", cfg)
		if savepoint = strings.TrimSpace(stdout); code != 0 || savepoint == "" {
			t.Fatalf("exit %d: %s", code, stderr)
		}
		d.ends(t, 0)
	}
	// A state of another filter is not read.
	other := s.config(t, "saved", "", "", "levels: []\ntop: 0.5\n")
	s.fails(t, []string{"run", other, "--savepoint", savepoint}, "the savepoint is of another config")
	s.fails(t, []string{"run", other, "--savepoint", savepoint + "-none"}, "there is no savepoint there")
}

// lateness: records that are out of order wait for their turn, in states and timers
// that outlast a worker, until the watermark passes, which no idle partition holds
// back.
func (s *site) lateness(t *testing.T) {
	const more = "lateness: 1m\n"
	records := named("late-in", observations(40_000, 300, 17))
	rng := rand.New(rand.NewPCG(17, 2))
	for part := range slices.Chunk(records, 40) { // 40 seconds
		rng.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
	}
	s.broker.CreateTopic(t, "late-in", 8, nil)
	s.broker.Produce(t, records...)
	cfg := s.config(t, "late", "", ", parallelism: 2", more)
	d := daemonize(t, nil, "run", cfg)
	s.leaves(t, cfg)
	d.eventually(t, "the job runs", func() bool { return strings.Contains(d.log.String(), "the job runs") })
	s.workers[0].Kill()
	s.startWorker(0)
	s.complete(t, d, "late", more)
	halt(t, cfg, d)
}

// sessions smoothed on Flink from a topic, with an end and without, equal those from
// a file on the embedded runner, by id.
func (s *site) sessions(t *testing.T) {
	const settings = "transform: smooth\nsession: {gap: 2m}\n"
	dir := t.TempDir()
	var lines strings.Builder
	records := observations(6_000, 40, 5)
	for _, r := range records {
		lines.Write(append(r.Value, '\n'))
	}
	if err := os.WriteFile(filepath.Join(dir, "in.jsonl"), []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := filepath.Join(dir, "file.yaml")
	if err := os.WriteFile(cfg, []byte(settings+"model: {family: normal}\nsource: {jsonl: {path: in.jsonl}}\nsink: {jsonl: {path: out.jsonl}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := program(t, dir, "", "run", cfg); code != 0 {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile(filepath.Join(dir, "out.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		var record struct{ ID string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		want[record.ID] = strings.TrimSuffix(line, "\n")
	}
	for _, test := range []struct{ job, end string }{{"bounded", ", bounded: true"}, {"endless", ""}} {
		s.broker.CreateTopic(t, test.job+"-in", 4, nil)
		var these []*kgo.Record
		for _, r := range records {
			these = append(these, &kgo.Record{Topic: test.job + "-in", Key: r.Key, Value: r.Value})
		}
		s.broker.Produce(t, these...)
		onFlink := s.config(t, test.job, test.end, ", parallelism: 2", settings)
		d := daemonize(t, nil, "run", onFlink)
		s.leaves(t, onFlink)
		if test.end != "" {
			d.ends(t, 0)
		} else {
			s.await(t, d, test.job, "the job runs", func(is flink.Status) bool { return is.State == "RUNNING" })
			d.eventually(t, "all sessions are over", func() bool {
				got, _ := byID(t, s.broker.Client, test.job+"-out")
				return len(got) >= len(want)
			})
			halt(t, onFlink, d)
		}
		got, _ := byID(t, s.broker.Client, test.job+"-out")
		if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 {
			t.Errorf("%s: %d smoothed in place of %d (-want +got):\n%.2000s", test.job, len(got), len(want), diff)
		}
		t.Logf("%s: %d smoothed estimates", test.job, len(got))
	}
}

// fails runs the program, which has to exit with 1, within half a minute, and say
// why.
func (s *site) fails(t *testing.T, args []string, why string) (log string) {
	t.Helper()
	begin := time.Now()
	d := daemonize(t, nil, args...)
	d.ends(t, exitFailed)
	t.Logf("%.1f s: %s", time.Since(begin).Seconds(), d.log.String())
	if !strings.Contains(d.log.String(), why) {
		t.Errorf("does not say %q:\n%s", why, d.log.String())
	}
	if strings.Contains(d.log.String(), "\tat ") || strings.Count(d.log.String(), "hafvf: ") != 1 {
		t.Errorf("a stack trace instead of words:\n%s", d.log.String())
	}
	return d.log.String()
}

// errors: what is wrong with a cluster is said in words.
func (s *site) errors(t *testing.T) {
	s.broker.CreateTopic(t, "wrong-in", 1, nil)
	run := func(set ...string) []string {
		args := []string{"run", s.config(t, "wrong", "", "", "")}
		for _, v := range set {
			args = append(args, "--set", v)
		}
		return args
	}
	s.fails(t, run("runner.endpoint=127.0.0.1:1"), "no job server of Beam answers at 127.0.0.1:1")
	s.fails(t, run("runner.endpoint="+strings.TrimPrefix(s.REST(), "http://")), "no job server of Beam")
	s.fails(t, run("runner.rest=http://127.0.0.1:1"), "no JobManager of Flink answers at http://127.0.0.1:1")
	s.fails(t, run("runner.rest=http://"+s.Endpoint()), "JobManager of Flink")
	log := s.fails(t, run("runner.parallelism=5"), "2 free slots of 2")
	if strings.Contains(log, "the topic was created") {
		t.Errorf("topics were created for a job that cannot run:\n%s", log)
	}
	s.fails(t, run("runner.worker=127.0.0.1:1"), "no worker answers")
	for _, w := range s.workers {
		w.Kill()
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for _, addr := range s.Workers() {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		go (&flink.Worker{Version: "0.0.1", Log: slog.New(slog.DiscardHandler)}).Serve(ctx, l)
	}
	s.fails(t, run(), "and the worker is hafvf 0.0.1: run the same on both sides")
	for i := range s.workers {
		s.StartBareTaskManager(t, i)
	}
	s.fails(t, run(), "put those of Beam's runner into their lib")
}
