package flink_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/flinktest"
	"hafvf/internal/testing/javatest"
	"hafvf/internal/testing/kafkatest"
	"hafvf/pipeline/flink"
)

var program = e2e.Program{Tags: "flink"}

var flinkTime = flag.Duration("flink-time", 6*time.Second, "length of TestFlink/checkpoints")

func TestMain(m *testing.M) { e2e.MainOfMinutes(m, &program) }

type site struct{ *e2e.Site }

const detecting = "detect: true\nalerts: {kafka: {topic: %s-alerts}, beliefs: [outlier, change, revision]}\n"

// complete waits until a job has written an estimate or a reject for each record. It compares all outputs with a
// run in one process without faults.
func (s *site) complete(t *testing.T, d *e2e.Daemon, job, more string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "whole.yaml")
	text := fmt.Sprintf(`model: {family: normal}
source: {kafka: {brokers: ["%[1]s"], topics: [%[2]s-in], bounded: true}}
sink: {kafka: {topic: %[2]s-whole-out}}
dead_letter: {kafka: {topic: %[2]s-whole-rejected}}
%[3]s`, s.Broker.Addr(), job, strings.ReplaceAll(more, job+"-", job+"-whole-"))
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	if code, _, stderr := program.Run(t, "", "", "run", path); code != 0 {
		t.Fatal(stderr)
	}
	topics := []string{"out", "rejected"}
	if strings.Contains(more, "alerts") {
		topics = append(topics, "alerts")
	}
	for _, topic := range topics {
		want, _ := e2e.ByID(t, s.Broker, job+"-whole-"+topic)
		var got map[string]string
		var repeats int
		d.Eventually(t, "all of "+topic+" is written", func() bool {
			got, repeats = e2e.ByID(t, s.Broker, job+"-"+topic)
			return len(got) >= len(want)
		})
		e2e.Same(t, topic, want, got, repeats)
	}
}

// A receiver records the alerts posted to /killed-hook, by ID and kind.
type receiver struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var alerts []struct{ ID, Kind string }
	if json.NewDecoder(q.Body).Decode(&alerts) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range alerts {
		if q.URL.Path == "/killed-hook" {
			r.ids[a.ID+" "+a.Kind] = true
		}
	}
}

// lacks returns the alerts of a topic that the receiver has not received.
func (r *receiver) lacks(t *testing.T, b *kafkatest.Broker, topic string) (missing []string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range b.Consume(t, topic) {
		var a struct{ ID, Kind string }
		expect.OK(t, json.Unmarshal(record.Value, &a))
		if id := a.ID + " " + a.Kind; !r.ids[id] {
			missing = append(missing, id)
		}
	}
	return missing
}

// TestFlink checks a cluster with failures and stops. cmd/hafvf measures rates, with the build tag flink.
func TestFlink(t *testing.T) {
	t.Parallel()
	s := &site{e2e.StartSite(t, program, flinktest.Config{})}
	t.Run("kills", s.kills)
	t.Run("savepoints", s.savepoints)
	t.Run("migrates", s.migrates)
	t.Run("schemas", s.schemas)
	t.Run("quiet", s.quiet)
	t.Run("checkpoints", s.checkpoints)
	t.Run("errors", s.errors)
}

// TestFlinkTimers checks a cluster with late or missing records. Its jobs wait most of the time.
func TestFlinkTimers(t *testing.T) {
	t.Parallel()
	s := &site{e2e.StartSite(t, program, flinktest.Config{})}
	t.Run("lateness", s.lateness)
	t.Run("silences", s.silences)
	t.Run("incidents", s.incidents)
	t.Run("sessions", s.sessions)
}

var readingAt = regexp.MustCompile(`msg=reading reader=\d+ at="?([^"\n]+)`)

// kills ends a TaskManager and its worker at a random time, like a machine that fails; in the long form, it first
// ends three TaskManagers alone. Flink restores the job from a checkpoint. Without repeats by ID, the outputs equal
// those of a run without faults.
func (s *site) kills(t *testing.T) {
	n, keys, faults, over, checkpoints, selected := 10_000, 300, 1, 4*time.Second, 1, ""
	if *e2e.Long {
		n, keys, faults, over, checkpoints = 400_000, 3_000, 4, 4*time.Minute, 3
		selected = `keys: "*7", ` // all keys would have more waiting alerts than the 10,000 of an outbox
	}
	// The receiver of alerts is unavailable until the faults are over: checkpoints store the waiting alerts.
	hook := &receiver{ids: map[string]bool{}}
	address := fmt.Sprint("127.0.0.1:", javatest.FreePorts(t, 1)[0])
	more := fmt.Sprintf("detect: true\nalerts:\n  - {kafka: {topic: killed-alerts}, %sbeliefs: [outlier, change, revision]}\n"+
		"  - {webhook: {url: \"http://%s/killed-hook\"}, %sbeliefs: [outlier, change, revision], max_age: none}\n", selected, address, selected)
	s.Broker.CreateTopic(t, "killed-in", 8, nil)
	cfg := s.Config(t, "killed", "", ", parallelism: 2", more)
	d := program.Start(t, nil, "run", cfg)
	s.Leaves(t, cfg)
	for i, w := range s.Workers {
		// The readers are distributed evenly.
		d.Eventually(t, fmt.Sprintf("worker %d reads", i), func() bool { return strings.Contains(w.Log(), "at=\"killed-in-") })
	}
	logOffsets := make([]int, len(s.Workers)) // lengths of the logs before the faults
	// After a fault, readers resume at their positions, not at the beginnings of partitions.
	resumed := 0
	resume := func(worker int) {
		for _, match := range readingAt.FindAllStringSubmatch(s.Workers[worker].Log()[logOffsets[worker]:], -1) {
			if regexp.MustCompile(`-0( |$)`).MatchString(match[1]) {
				t.Errorf("after a restart the source reads from the beginning of a partition: %s", match[1])
			}
			resumed++
		}
		logOffsets[worker] = 0
	}
	records := e2e.Observations("killed-in", n, keys, 11)
	s.Broker.Produce(t, records[:1000]...)
	d.Eventually(t, "records of every partition are out", func() bool { return e2e.Held(t, s.Broker, "killed-out", "killed-rejected") >= 1000 })
	i := 0
	for part := range slices.Chunk(records[1000:], (n-1000+faults-1)/faults) {
		seen := s.Status(t, "killed").Completed
		before := s.Await(t, d, "killed", fmt.Sprintf("%d more checkpoints are complete", checkpoints), func(status flink.Status) bool {
			return status.State == "RUNNING" && status.Completed >= seen+checkpoints
		})
		if i == 0 {
			for j, w := range s.Workers {
				logOffsets[j] = len(w.Log())
			}
		}
		duration := over / time.Duration(faults)
		fed := e2e.Feed(t, s.Broker, part, duration)
		time.Sleep(rand.N(duration * 3 / 4))
		victim := i % 2
		s.Kill(victim)
		if i++; i == faults {
			resume(victim)
			s.Workers[victim].Kill()
			s.StartWorker(victim)
		}
		s.StartTaskManager(t, victim)
		restored := s.Await(t, d, "killed", "the job is restored", func(status flink.Status) bool {
			return status.State == "RUNNING" && status.Restored > before.Restored
		})
		t.Logf("fault %d: restored %d times, after %d checkpoints; %s", i, restored.Restored, restored.Completed, restored.Cause)
		expect.OK(t, <-fed)
	}
	hook.mu.Lock()
	early := len(hook.ids)
	hook.mu.Unlock()
	listener := expect.Get(net.Listen("tcp", address))(t)
	server := &http.Server{Handler: hook}
	defer server.Close()
	go server.Serve(listener)
	s.complete(t, d, "killed", more)
	var lacks []string
	d.Eventually(t, "the receiver has all alerts", func() bool {
		lacks = hook.lacks(t, s.Broker, "killed-alerts")
		return len(lacks) == 0
	})
	if early > 0 || len(hook.ids) < 100 {
		t.Errorf("%d alerts came before the receiver, %d in all", early, len(hook.ids))
	}
	for i := range s.Workers {
		resume(i)
	}
	if resumed == 0 {
		t.Error("no reader says where it went on")
	}
	// Flink counts from the last restart on, and reports with a delay.
	d.Eventually(t, "the status has the counters", func() bool {
		code, stdout, _ := program.Run(t, "", "", "status", cfg)
		return code == 0 && strings.Contains(stdout, "RUNNING") && strings.Contains(stdout, "records")
	})
	s.Halt(t, cfg, d)
}

// savepoints stops a running job and resumes it with another parallelism; in the long form also with the same one,
// and from the last checkpoint after the JobManager was killed.
func (s *site) savepoints(t *testing.T) {
	more := fmt.Sprintf(detecting, "saved")
	n, parallelisms := 8_000, []int{2, 1}
	if *e2e.Long {
		n, parallelisms = 40_000, []int{2, 2, 1, 2}
	}
	s.Broker.CreateTopic(t, "saved-in", 8, nil)
	parts := slices.Collect(slices.Chunk(e2e.Observations("saved-in", n, 300, 11), n/len(parallelisms)))
	var savepoint string
	keptKeys := 0
	for i, parallelism := range parallelisms {
		cfg := s.Config(t, "saved", "", fmt.Sprintf(", parallelism: %d", parallelism), more)
		args := []string{"run", cfg}
		if savepoint != "" {
			args = append(args, "--savepoint", savepoint)
		}
		before := s.keptByWorkers()
		d := program.Start(t, nil, args...)
		s.Leaves(t, cfg)
		s.Await(t, d, "saved", "the job runs", func(status flink.Status) bool { return status.State == "RUNNING" && status.Completed > 1 })
		if savepoint != "" {
			s.keeps(t, d, before+keptKeys)
		}
		written := e2e.Held(t, s.Broker, "saved-out")
		fed := e2e.Feed(t, s.Broker, parts[i], 4*time.Second)
		d.Eventually(t, "estimates of what is being written", func() bool { return e2e.Held(t, s.Broker, "saved-out") > written })
		last := i == len(parallelisms)-1
		if i == 2 && !last {
			d.Eventually(t, "the job is followed", func() bool { return strings.Contains(d.Log(), "the job's state") })
			s.LoseJobManager(t)
			d.Ends(t, 1)
			resumeHint := regexp.MustCompile(`resume from the last known checkpoint, (\S+)`).FindStringSubmatch(d.Log())
			if resumeHint == nil {
				t.Fatalf("does not say where to go on:\n%s", d.Log())
			}
			savepoint, keptKeys = resumeHint[1], s.keys(t, "saved-out")
			expect.OK(t, <-fed)
			continue
		}
		if last {
			expect.OK(t, <-fed)
			s.complete(t, d, "saved", more)
		}
		// Otherwise records are still being written.
		code, stdout, stderr := program.Run(t, "", "", "stop", "--savepoint", cfg)
		if savepoint = strings.TrimSpace(stdout); code != 0 || savepoint == "" {
			t.Fatalf("exit %d: %s", code, stderr)
		}
		d.Ends(t, 0)
		keptKeys = s.keys(t, "saved-out")
		if !last {
			expect.OK(t, <-fed)
		}
	}
	// A state of another family is refused.
	cfg := s.Config(t, "saved", "", "", more)
	s.fails(t, []string{"run", cfg, "--savepoint", savepoint, "--set", "model.family=poisson"}, "the savepoint belongs to another job")
	s.fails(t, []string{"run", cfg, "--savepoint", savepoint + "-none"}, "there is no savepoint at this path")
}

// keys returns the number of keys with estimates in a topic.
func (s *site) keys(t *testing.T, topic string) int {
	t.Helper()
	keys := map[string]bool{}
	for _, r := range s.Broker.Consume(t, topic) {
		keys[string(r.Key)] = true
	}
	return len(keys)
}

var keptByWorker = regexp.MustCompile(`msg="resumed keys of the previous job" kept=(\d+) reset=0`)

// keptByWorkers returns the number of keys that the jobs keep, according to the workers' logs.
func (s *site) keptByWorkers() (n int) {
	for _, w := range s.Workers {
		for _, match := range keptByWorker.FindAllStringSubmatch(w.Log(), -1) {
			k, _ := strconv.Atoi(match[1])
			n += k
		}
	}
	return n
}

// keeps waits until the workers report that their jobs keep that number of keys in total. The line of hafvf run
// depends on Flink's metrics, which a job without records may never send.
func (s *site) keeps(t *testing.T, d *e2e.Daemon, keys int) {
	t.Helper()
	d.Eventually(t, fmt.Sprintf("%d keys are kept", keys), func() bool { return s.keptByWorkers() == keys })
}

// quiet checks that the workers receive quiet times, those of a file as of the submission of the job, and the rules
// of keys. Estimates and alerts equal those of a run in one process.
func (s *site) quiet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "maintenance.jsonl")
	expect.OK(t, os.WriteFile(file, []byte(`{"match":"k2*","from":"2026-01-02T03:20:00Z","to":"2026-01-02T03:50:00Z"}`), 0o600))
	more := "quiet: [{match: 'k1*', weekly: Fri 04:30/20m, zone: Europe/Berlin}, {file: " + file + "}]\n" +
		"keys: [{match: 'k3*', detect: {budget: 50, rest: 0, direction: up}}, {match: 'k4*', levels: [], top: 0.9, alerts: false}, {match: 'k*', detect: {settling: 0}}]\n" + fmt.Sprintf(detecting, "quiet")
	s.Broker.CreateTopic(t, "quiet-in", 8, nil)
	s.Broker.Produce(t, e2e.Observations("quiet-in", 5_000, 50, 11)...)
	cfg := s.Config(t, "quiet", "", ", parallelism: 2", more)
	d := program.Start(t, nil, "run", cfg)
	s.Leaves(t, cfg)
	s.complete(t, d, "quiet", more)
	quiet := map[string]int{} // by the first two characters of the key
	estimates, _ := e2e.ByID(t, s.Broker, "quiet-out")
	for _, line := range estimates {
		var e struct {
			Key   string
			Time  time.Time
			Quiet bool
		}
		expect.OK(t, json.Unmarshal([]byte(line), &e))
		start, end := time.Date(2026, 1, 2, 3, 30, 0, 0, time.UTC), time.Date(2026, 1, 2, 3, 50, 0, 0, time.UTC)
		if e.Key[1] == '2' {
			start = start.Add(-10 * time.Minute)
		}
		in := (e.Key[1] == '1' || e.Key[1] == '2') && !e.Time.Before(start) && e.Time.Before(end)
		if e.Quiet != in {
			t.Errorf("%s at %v: quiet %v", e.Key, e.Time, e.Quiet)
		} else if in {
			quiet[e.Key[:2]]++
		}
	}
	if quiet["k1"] < 100 || quiet["k2"] < 100 {
		t.Errorf("quiet: %v", quiet)
	}
	s.Halt(t, cfg, d)
}

// lateness checks that records out of order wait in states and timers that survive a worker, until the watermark
// passes them; an idle partition does not delay the watermark. Meanwhile keys expire. In the end all have expired,
// by the clock, and no state is left. One worker has memory for few of its states.
func (s *site) lateness(t *testing.T) {
	const more = "lateness: 1m\nexpire: 15m\n"
	const keys = 300
	records := e2e.Observations("late-in", 100_000, keys, 17)
	for i := range keys { // in the end all keys report, and then expire together
		text := fmt.Sprintf(`{"key":"k%d","time":"2026-01-03T07:00:00Z","x":1}`, i)
		records = append(records, &kgo.Record{Topic: "late-in", Key: fmt.Append(nil, "k", i), Value: []byte(text)})
	}
	for _, r := range records { // as from devices: the timestamps do not show that the records are written now
		var e struct{ Time time.Time }
		if json.Unmarshal(r.Value, &e) == nil {
			r.Timestamp = e.Time
		}
	}
	rng := rand.New(rand.NewPCG(17, 2))
	for part := range slices.Chunk(records, 40) { // 40 seconds
		rng.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
	}
	s.Broker.CreateTopic(t, "late-in", 8, nil)
	s.Broker.Produce(t, records...) // at once: partitions that pause follow the clock
	// Few cells, so that each is larger than the part that is rewritten, and two on each worker.
	cfg := s.Config(t, "late", "", ", parallelism: 2, max_parallelism: 2, cells: 4", more)
	d := program.Start(t, nil, "run", cfg)
	s.Leaves(t, cfg)
	// hafvf gives up on a job that fails shortly after its start. If a worker ends before the first checkpoint, the
	// job ends; if it ends before it connects, the TaskManager waits forever.
	d.Eventually(t, "the job runs", func() bool { return strings.Contains(d.Log(), "the job runs") })
	s.Await(t, d, "late", "a checkpoint is complete", func(status flink.Status) bool { return status.State == "RUNNING" && status.Completed > 0 })
	s.Workers[0].Kill()
	s.StartWorker(0, "GOMEMLIMIT=48KiB")
	s.complete(t, d, "late", more)
	if log := s.Workers[0].Log(); !strings.Contains(log, "to a temporary file") || strings.Contains(log, "a temporary file cannot store") {
		t.Errorf("the worker has all copies in memory, or not even in a file:\n%s", log)
	}
	// Each time at which a cell checks for expired keys waits for another watermark.
	completed := s.Status(t, "late").Completed
	s.Await(t, d, "late", "the watermark follows the clock", func(status flink.Status) bool { return status.Completed >= completed+5 })
	code, savepoint, stderr := program.Run(t, "", "", "stop", "--savepoint", cfg)
	if code != 0 {
		t.Fatal(stderr)
	}
	d.Ends(t, 0)
	d = program.Start(t, nil, "run", cfg, "--savepoint", strings.TrimSpace(savepoint))
	d.Eventually(t, "the job is restored", func() bool { return strings.Contains(d.Log(), "the job was restored") })
	s.Halt(t, cfg, d)
}

// incidents checks that incidents of intervals equal those of one process: events of a key come from any partition
// and out of order, one task has the alarms of all keys, and a checkpoint stores waiting alarms when a worker is
// killed.
func (s *site) incidents(t *testing.T) {
	const (
		more  = "aggregate: {every: 10m, value: mean}\ndetect: true\nincidents: true\nalerts: {kafka: {topic: fleet-alerts}}\n"
		keys  = 24
		steps = 200
	)
	rng := rand.New(rand.NewPCG(19, 4))
	start := time.Now().UTC().Truncate(time.Hour).Add(-10 * 24 * time.Hour)
	var records []*kgo.Record
	for i := range 2 * steps {
		if i >= 2*(steps-8) && i < 2*(steps-1) { // alarms wait for more than an hour
			continue
		}
		eventTime := start.Add(time.Duration(i)*5*time.Minute + time.Duration(i%2)*299*time.Second) // the second event ends an interval
		for k := range keys {
			x := rng.NormFloat64()
			switch {
			case k/6 == 2 && i >= 300 && i < 308:
				x += 7
			case i >= 2*(steps-1):
				x = 0
			}
			text := fmt.Sprintf(`{"key":"r%d/m%d","time":%q,"x":%.6g}`, k/6, k, eventTime.Format(time.RFC3339), x)
			records = append(records, &kgo.Record{Topic: "fleet-in", Key: fmt.Append(nil, rng.Int()), Value: []byte(text)})
		}
	}
	const interval, nFirst = 2 * keys, 2 * 151 * keys
	for part := range slices.Chunk(records, interval) {
		rng.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
	}
	records = append(records, &kgo.Record{Topic: "fleet-in", Value: []byte("no object")})
	for _, topic := range []string{"in", "out", "alerts", "rejected"} {
		s.Broker.CreateTopic(t, "fleet-"+topic, 4, nil)
	}
	s.Broker.Produce(t, records[:nFirst]...)
	cfg := s.Config(t, "fleet", ", disorder: 20m", ", parallelism: 2", more)
	d := program.Start(t, nil, "run", cfg)
	s.Leaves(t, cfg)
	d.Eventually(t, "the job runs", func() bool { return strings.Contains(d.Log(), "the job runs") })
	d.Eventually(t, "all intervals are written", func() bool { return e2e.Held(t, s.Broker, "fleet-out") >= nFirst/2 })
	completed := s.Status(t, "fleet").Completed
	s.Await(t, d, "fleet", "a checkpoint has the fleet", func(status flink.Status) bool { return status.Completed >= completed+2 })
	s.Workers[0].Kill()
	s.StartWorker(0)
	s.Broker.Produce(t, records[nFirst:]...)
	s.complete(t, d, "fleet", more)
	opened := 0
	for _, r := range s.Broker.Consume(t, "fleet-whole-alerts") {
		if strings.Contains(string(r.Value), `"state":"opened"`) && strings.Contains(string(r.Value), `"group":"r2"`) {
			opened++
		}
	}
	if opened != 1 {
		t.Errorf("%d incidents of the rack opened", opened)
	}
	s.Halt(t, cfg, d)
}

// silences checks that silences are reported while they last, on a topic without new records, by timers that
// survive a worker. A repeated report has the same ID.
func (s *site) silences(t *testing.T) {
	const more = "silence: {after: 2s}\nalerts: {kafka: {topic: quiet-alerts}}\n"
	for _, topic := range []string{"in", "out", "alerts"} {
		s.Broker.CreateTopic(t, "quiet-"+topic, 4, nil)
	}
	cfg := s.Config(t, "quiet", ", max_ahead: none", ", parallelism: 2", more)
	d := program.Start(t, nil, "run", cfg)
	s.Leaves(t, cfg)
	d.Eventually(t, "the job runs", func() bool { return strings.Contains(d.Log(), "the job runs") })
	now := time.Now().UTC().Truncate(time.Second)
	const far = 10 * time.Hour // a key that has reported for that hour is not silent before it
	put := func(key string, d time.Duration) {
		text := fmt.Sprintf("{\"key\":%q,\"time\":%q,\"x\":1}", key, now.Add(d).Format(time.RFC3339))
		s.Broker.Produce(t, &kgo.Record{Topic: "quiet-in", Key: []byte(key), Value: []byte(text)})
	}
	// Each reader learns from its records how far they are behind the clock.
	const others = 16
	for i := range others {
		put(fmt.Sprint("other", i), 0)
	}
	put("a", 0)
	put("b", far)
	alerts := func() (lines []string) {
		for _, r := range s.Broker.Consume(t, "quiet-alerts") {
			var a struct{ Key, Kind, ID string }
			expect.OK(t, json.Unmarshal(r.Value, &a))
			if line := a.Key + " " + a.Kind; !slices.Contains(lines, line) && !strings.HasPrefix(a.Key, "other") {
				lines = append(lines, line)
			}
			if deadline := now.Add(2 * time.Second).Format(time.RFC3339); a.Key == "a" && a.Kind == "silent" && a.ID != "a/"+deadline {
				t.Errorf("id %s", a.ID)
			}
		}
		slices.Sort(lines)
		return lines
	}
	await := func(want ...string) {
		t.Helper()
		d.Eventually(t, strings.Join(want, ", "), func() bool { return slices.Equal(alerts(), want) })
	}
	await("a silent")
	// The deadline is far enough in the future that the timer usually survives the worker.
	put("c", time.Since(now)+10*time.Second)
	d.Eventually(t, "its estimate is written", func() bool { return len(s.Broker.Consume(t, "quiet-out")) >= others+3 })
	completed := s.Status(t, "quiet").Completed
	s.Await(t, d, "quiet", "a checkpoint has its timer", func(status flink.Status) bool { return status.Completed >= completed+2 })
	s.Workers[0].Kill()
	s.StartWorker(0)
	put("a", far)
	await("a recovered", "a silent", "c silent")
	put("c", far)
	await("a recovered", "a silent", "c recovered", "c silent")
	s.Halt(t, cfg, d)
}

// sessions checks that sessions smoothed on Flink from an unbounded topic equal the sessions of a file in one
// process, by ID.
func (s *site) sessions(t *testing.T) {
	// In an unbounded topic the last sessions end one gap after the last record, by the clock.
	const settings = "transform: smooth\nsession: {gap: 8s}\n"
	dir := t.TempDir()
	var lines strings.Builder
	records := e2e.Observations("", 6_000, 5, 5)
	for _, r := range records {
		lines.Write(append(r.Value, '\n'))
	}
	expect.OK(t, os.WriteFile(filepath.Join(dir, "in.jsonl"), []byte(lines.String()), 0o600))
	cfg := filepath.Join(dir, "file.yaml")
	expect.OK(t, os.WriteFile(cfg, []byte(settings+"model: {family: normal}\nsource: {jsonl: {path: in.jsonl}}\nsink: {jsonl: {path: out.jsonl}}\n"), 0o600))
	if code, _, stderr := program.Run(t, dir, "", "run", cfg); code != 0 {
		t.Fatal(stderr)
	}
	text := expect.Get(os.ReadFile(filepath.Join(dir, "out.jsonl")))(t)
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		var record struct{ ID string }
		expect.OK(t, json.Unmarshal([]byte(line), &record))
		want[record.ID] = strings.TrimSuffix(line, "\n")
	}
	s.Broker.CreateTopic(t, "endless-in", 4, nil)
	for _, r := range records {
		r.Topic = "endless-in"
	}
	s.Broker.Produce(t, records...)
	onFlink := s.Config(t, "endless", "", ", parallelism: 2", settings)
	d := program.Start(t, nil, "run", onFlink)
	s.Leaves(t, onFlink)
	s.Await(t, d, "endless", "the job runs", func(status flink.Status) bool { return status.State == "RUNNING" })
	var got map[string]string
	d.Eventually(t, "all sessions are over", func() bool {
		got, _ = e2e.ByID(t, s.Broker, "endless-out")
		return len(got) >= len(want)
	})
	s.Halt(t, onFlink, d)
	e2e.Same(t, "endless-out", want, got, 0)
}

// fails runs the program, which must exit with 1 and print why.
func (s *site) fails(t *testing.T, args []string, why string) (log string) {
	t.Helper()
	begin := time.Now()
	d := program.Start(t, nil, args...)
	d.Ends(t, 1)
	t.Logf("%.1f s: %s", time.Since(begin).Seconds(), d.Log())
	if !strings.Contains(d.Log(), why) {
		t.Errorf("does not say %q:\n%s", why, d.Log())
	}
	if strings.Contains(d.Log(), "\tat ") || strings.Count(d.Log(), "hafvf: ") != 1 {
		t.Errorf("a stack trace instead of words:\n%s", d.Log())
	}
	return d.Log()
}

// errors checks that faults of a cluster have readable messages.
func (s *site) errors(t *testing.T) {
	s.Broker.CreateTopic(t, "wrong-in", 1, nil)
	run := func(set ...string) []string {
		args := []string{"run", s.Config(t, "wrong", "", "", "")}
		for _, v := range set {
			args = append(args, "--set", v)
		}
		return args
	}
	s.fails(t, run("runner.endpoint=127.0.0.1:1"), "no Beam job server answers at 127.0.0.1:1")
	s.fails(t, run("runner.endpoint="+strings.TrimPrefix(s.REST(), "http://")), "Beam job server")
	s.fails(t, run("runner.rest=http://127.0.0.1:1"), "no Flink JobManager answers at http://127.0.0.1:1")
	s.fails(t, run("runner.rest=http://"+s.Endpoint()), "Flink JobManager")
	log := s.fails(t, run("runner.parallelism=5"), "2 free slots of 2")
	if strings.Contains(log, "topic created") {
		t.Errorf("topics were created for a job that cannot run:\n%s", log)
	}
	s.fails(t, run("runner.worker=127.0.0.1:1"), "no worker answers")
	for _, w := range s.Workers {
		w.Kill()
	}
	other := e2e.Program{Path: filepath.Join(t.TempDir(), "hafvf"), Tags: program.Tags}
	expect.OK(t, other.Build("-ldflags=-X main.source=other"))
	for _, addr := range s.Cluster.Workers() {
		other.Start(t, nil, "worker", "--address", addr)
	}
	s.fails(t, run(), " other: run the same version on both sides")
	s.Kill(1) // one TaskManager is enough
	s.StartBareTaskManager(t, 0)
	s.fails(t, run(), "put the jars of Beam's runner into their lib")
}

// checkpoints checks that checkpoints do not grow with a constant number of keys. With a splittable source they
// would, since Beam's runner stores something for each of its calls (5.4 kB in release 2.62).
func (s *site) checkpoints(t *testing.T) {
	n := int(flinkTime.Seconds()) * 500
	keys := min(1000, n/8)
	fed := s.Feed(t, "constant", n, keys, *flinkTime)
	cfg := s.Config(t, "constant", "", "", "")
	d := program.Start(t, nil, "run", cfg)
	s.Leaves(t, cfg)
	d.Eventually(t, "half is written, of nearly all keys", func() bool {
		if !strings.Contains(d.Log(), "the job runs") {
			return false
		}
		return e2e.Held(t, s.Broker, "constant-out") >= int64(n/2)
	})
	// A checkpoint may have begun before.
	complete := s.Status(t, "constant").Completed + 2
	first := s.Await(t, d, "constant", "a checkpoint of them is complete", func(status flink.Status) bool { return status.Completed >= complete })
	begin := time.Now()
	tick := time.NewTicker(max(*flinkTime/20, time.Second))
	defer tick.Stop()
	var sizes []string
	for fed != nil {
		now := s.Status(t, "constant")
		select {
		case err := <-fed:
			if err != nil {
				t.Fatal(err)
			}
			fed = nil
			now = s.Await(t, d, "constant", "a checkpoint of all is complete", func(status flink.Status) bool { return status.Completed >= now.Completed+2 })
		case <-tick.C:
			now = s.Status(t, "constant")
		}
		checkpoint := now.Checkpoint
		sizes = append(sizes, fmt.Sprintf("%.0f s: %d in %v", time.Since(begin).Seconds(), checkpoint.Bytes, checkpoint.Took))
		if checkpoint.Bytes > first.Checkpoint.Bytes*6/5 {
			t.Errorf("%d bytes in place of %d", checkpoint.Bytes, first.Checkpoint.Bytes)
		}
	}
	t.Logf("bytes of checkpoints with %d keys at 500 records/s, from %d: %s", keys, first.Checkpoint.Bytes, strings.Join(sizes, "; "))
	s.Halt(t, cfg, d)
}
