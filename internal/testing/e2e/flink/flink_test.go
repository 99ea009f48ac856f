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

func TestMain(m *testing.M) { e2e.Main(m, &program) }

type site struct{ *e2e.Site }

const detecting = "detect: true\nalerts: {kafka: {topic: %s-alerts}, beliefs: [outlier, change, revision]}\n"

// complete waits until a job has written an estimate or a reject of every record,
// and compares all that it wrote with a run in one process without faults.
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

// A receiver notes the alerts that it gets at /killed-hook, by id and kind.
type receiver struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var all []struct{ ID, Kind string }
	if json.NewDecoder(q.Body).Decode(&all) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range all {
		if q.URL.Path == "/killed-hook" {
			r.ids[a.ID+" "+a.Kind] = true
		}
	}
}

// lacks are the alerts of a topic that the receiver has not got.
func (r *receiver) lacks(t *testing.T, b *kafkatest.Broker, topic string) (all []string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range b.Consume(t, topic) {
		var a struct{ ID, Kind string }
		expect.OK(t, json.Unmarshal(record.Value, &a))
		if id := a.ID + " " + a.Kind; !r.ids[id] {
			all = append(all, id)
		}
	}
	return all
}

// TestFlink is what has to hold on a cluster when something fails or stops.
// cmd/hafvf measures rates, with the build tag flink.
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

// TestFlinkTimers is what has to hold on a cluster when something is late, or does not come: its
// jobs wait most of the time.
func TestFlinkTimers(t *testing.T) {
	t.Parallel()
	s := &site{e2e.StartSite(t, program, flinktest.Config{})}
	t.Run("lateness", s.lateness)
	t.Run("silences", s.silences)
	t.Run("incidents", s.incidents)
	t.Run("sessions", s.sessions)
}

var readingAt = regexp.MustCompile(`msg=reading reader=\d+ at="?([^"\n]+)`)

// kills ends a TaskManager with its worker at a random moment, as a machine that dies
// does, and in the long form three TaskManagers alone before: Flink restores the job
// from a checkpoint, and with repeats dropped by id the outputs are those of a run
// without faults.
func (s *site) kills(t *testing.T) {
	n, keys, faults, over, checkpoints, told := 10_000, 300, 1, 4*time.Second, 1, ""
	if *e2e.Long {
		n, keys, faults, over, checkpoints = 400_000, 3_000, 4, 4*time.Minute, 3
		told = `keys: "*7", ` // of all keys more than the 10,000 alerts would wait that an outbox holds
	}
	// The receiver of alerts is away until the faults are over: checkpoints hold what waits.
	hook := &receiver{ids: map[string]bool{}}
	address := fmt.Sprint("127.0.0.1:", javatest.FreePorts(t, 1)[0])
	more := fmt.Sprintf("detect: true\nalerts:\n  - {kafka: {topic: killed-alerts}, %sbeliefs: [outlier, change, revision]}\n"+
		"  - {webhook: {url: \"http://%s/killed-hook\"}, %sbeliefs: [outlier, change, revision], max_age: none}\n", told, address, told)
	s.Broker.CreateTopic(t, "killed-in", 8, nil)
	cfg := s.Config(t, "killed", "", ", parallelism: 2", more)
	d := program.Start(t, nil, "run", cfg)
	s.Leaves(t, cfg)
	for i, w := range s.Workers {
		// The readers are dealt out evenly.
		d.Eventually(t, fmt.Sprintf("worker %d reads", i), func() bool { return strings.Contains(w.Log(), "at=\"killed-in-") })
	}
	marks := make([]int, len(s.Workers)) // where in the logs the faults begin
	// After a fault readers begin where they were, beyond the partitions' beginnings.
	resumed := 0
	resume := func(worker int) {
		for _, at := range readingAt.FindAllStringSubmatch(s.Workers[worker].Log()[marks[worker]:], -1) {
			if regexp.MustCompile(`-0( |$)`).MatchString(at[1]) {
				t.Errorf("after a restart the source reads from the beginning of a partition: %s", at[1])
			}
			resumed++
		}
		marks[worker] = 0
	}
	records := e2e.Observations("killed-in", n, keys, 11)
	s.Broker.Produce(t, records[:1000]...)
	d.Eventually(t, "records of every partition are out", func() bool { return e2e.Held(t, s.Broker, "killed-out", "killed-rejected") >= 1000 })
	i := 0
	for part := range slices.Chunk(records[1000:], (n-1000+faults-1)/faults) {
		seen := s.Status(t, "killed").Completed
		before := s.Await(t, d, "killed", fmt.Sprintf("%d more checkpoints are complete", checkpoints), func(is flink.Status) bool {
			return is.State == "RUNNING" && is.Completed >= seen+checkpoints
		})
		if i == 0 {
			for j, w := range s.Workers {
				marks[j] = len(w.Log())
			}
		}
		each := over / time.Duration(faults)
		fed := e2e.Feed(t, s.Broker, part, each)
		time.Sleep(rand.N(each * 3 / 4))
		victim := i % 2
		s.Kill(victim)
		if i++; i == faults {
			resume(victim)
			s.Workers[victim].Kill()
			s.StartWorker(victim)
		}
		s.StartTaskManager(t, victim)
		restored := s.Await(t, d, "killed", "the job is restored", func(is flink.Status) bool {
			return is.State == "RUNNING" && is.Restored > before.Restored
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
	// Flink counts from the last restart on, and tells it after a while.
	d.Eventually(t, "the status has the counters", func() bool {
		code, stdout, _ := program.Run(t, "", "", "status", cfg)
		return code == 0 && strings.Contains(stdout, "RUNNING") && strings.Contains(stdout, "records")
	})
	s.Halt(t, cfg, d)
}

// savepoints stops a job in mid-run and resumes it at another parallelism; in the long
// form also at the same, and from the last checkpoint after the JobManager was lost.
func (s *site) savepoints(t *testing.T) {
	more := fmt.Sprintf(detecting, "saved")
	n, parallelisms := 8_000, []int{2, 1}
	if *e2e.Long {
		n, parallelisms = 40_000, []int{2, 2, 1, 2}
	}
	s.Broker.CreateTopic(t, "saved-in", 8, nil)
	parts := slices.Collect(slices.Chunk(e2e.Observations("saved-in", n, 300, 11), n/len(parallelisms)))
	var savepoint string
	kept := 0
	for i, parallelism := range parallelisms {
		cfg := s.Config(t, "saved", "", fmt.Sprintf(", parallelism: %d", parallelism), more)
		args := []string{"run", cfg}
		if savepoint != "" {
			args = append(args, "--savepoint", savepoint)
		}
		before := s.keptByWorkers()
		d := program.Start(t, nil, args...)
		s.Leaves(t, cfg)
		s.Await(t, d, "saved", "the job runs", func(is flink.Status) bool { return is.State == "RUNNING" && is.Completed > 1 })
		if savepoint != "" {
			s.keeps(t, d, before+kept)
		}
		written := e2e.Held(t, s.Broker, "saved-out")
		fed := e2e.Feed(t, s.Broker, parts[i], 4*time.Second)
		d.Eventually(t, "estimates of what is being written", func() bool { return e2e.Held(t, s.Broker, "saved-out") > written })
		last := i == len(parallelisms)-1
		if i == 2 && !last {
			d.Eventually(t, "the job is followed", func() bool { return strings.Contains(d.Log(), "the job's state") })
			s.LoseJobManager(t)
			d.Ends(t, 1)
			said := regexp.MustCompile(`resume from the last known checkpoint, (\S+)`).FindStringSubmatch(d.Log())
			if said == nil {
				t.Fatalf("does not say where to go on:\n%s", d.Log())
			}
			savepoint, kept = said[1], s.keys(t, "saved-out")
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
		kept = s.keys(t, "saved-out")
		if !last {
			expect.OK(t, <-fed)
		}
	}
	// A state of another family is not read.
	cfg := s.Config(t, "saved", "", "", more)
	s.fails(t, []string{"run", cfg, "--savepoint", savepoint, "--set", "model.family=poisson"}, "the savepoint belongs to another job")
	s.fails(t, []string{"run", cfg, "--savepoint", savepoint + "-none"}, "there is no savepoint at this path")
}

// keys are those of which a topic has estimates.
func (s *site) keys(t *testing.T, topic string) int {
	t.Helper()
	all := map[string]bool{}
	for _, r := range s.Broker.Consume(t, topic) {
		all[string(r.Key)] = true
	}
	return len(all)
}

var keptByWorker = regexp.MustCompile(`msg="resumed keys of the previous job" kept=(\d+) reset=0`)

// keptByWorkers is how many keys the workers have said that their jobs keep.
func (s *site) keptByWorkers() (n int) {
	for _, w := range s.Workers {
		for _, kept := range keptByWorker.FindAllStringSubmatch(w.Log(), -1) {
			k, _ := strconv.Atoi(kept[1])
			n += k
		}
	}
	return n
}

// keeps waits until the workers have said that their jobs keep so many keys in all. The line of hafvf run
// comes by Flink's metrics, which a job without records may never pass on.
func (s *site) keeps(t *testing.T, d *e2e.Daemon, keys int) {
	t.Helper()
	d.Eventually(t, fmt.Sprintf("%d keys are kept", keys), func() bool { return s.keptByWorkers() == keys })
}

// quiet: quiet times travel to the workers, those of a file as it was when the job was submitted, and rules of keys do. Estimates
// and alerts are those of a run in one process.
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
	quiet := map[string]int{} // by the first digit of the key
	all, _ := e2e.ByID(t, s.Broker, "quiet-out")
	for _, line := range all {
		var e struct {
			Key   string
			Time  time.Time
			Quiet bool
		}
		expect.OK(t, json.Unmarshal([]byte(line), &e))
		from, to := time.Date(2026, 1, 2, 3, 30, 0, 0, time.UTC), time.Date(2026, 1, 2, 3, 50, 0, 0, time.UTC)
		if e.Key[1] == '2' {
			from = from.Add(-10 * time.Minute)
		}
		in := (e.Key[1] == '1' || e.Key[1] == '2') && !e.Time.Before(from) && e.Time.Before(to)
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

// lateness: records that are out of order wait for their turn, in states and timers
// that outlast a worker, until the watermark passes, which no idle partition holds
// back. Meanwhile keys expire. At last all have, by the clock, and no state is left. One
// worker has memory for few of its states.
func (s *site) lateness(t *testing.T) {
	const more = "lateness: 1m\nexpire: 15m\n"
	const keys = 300
	records := e2e.Observations("late-in", 100_000, keys, 17)
	for i := range keys { // at last all keys speak, and then expire at once
		text := fmt.Sprintf(`{"key":"k%d","time":"2026-01-03T07:00:00Z","x":1}`, i)
		records = append(records, &kgo.Record{Topic: "late-in", Key: fmt.Append(nil, "k", i), Value: []byte(text)})
	}
	for _, r := range records { // as the devices have it: nothing shows that they are written now
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
	// Few cells, so that each is more than is rewritten whole, and two on each worker.
	cfg := s.Config(t, "late", "", ", parallelism: 2, max_parallelism: 2, cells: 4", more)
	d := program.Start(t, nil, "run", cfg)
	s.Leaves(t, cfg)
	// hafvf gives up a job that fails before it has run for a moment. Before the first checkpoint
	// a worker that ends is the job's end, and if it ends before it connects, the TaskManager waits
	// for it for ever.
	d.Eventually(t, "the job runs", func() bool { return strings.Contains(d.Log(), "the job runs") })
	s.Await(t, d, "late", "a checkpoint is complete", func(is flink.Status) bool { return is.State == "RUNNING" && is.Completed > 0 })
	s.Workers[0].Kill()
	s.StartWorker(0, "GOMEMLIMIT=48KiB")
	s.complete(t, d, "late", more)
	if log := s.Workers[0].Log(); !strings.Contains(log, "to a temporary file") || strings.Contains(log, "a temporary file cannot store") {
		t.Errorf("the worker has all copies in memory, or not even in a file:\n%s", log)
	}
	// Each time at which a cell looks for keys that have expired waits for another watermark.
	completed := s.Status(t, "late").Completed
	s.Await(t, d, "late", "the watermark follows the clock", func(is flink.Status) bool { return is.Completed >= completed+5 })
	code, savepoint, stderr := program.Run(t, "", "", "stop", "--savepoint", cfg)
	if code != 0 {
		t.Fatal(stderr)
	}
	d.Ends(t, 0)
	d = program.Start(t, nil, "run", cfg, "--savepoint", strings.TrimSpace(savepoint))
	d.Eventually(t, "the job is restored", func() bool { return strings.Contains(d.Log(), "the job was restored") })
	s.Halt(t, cfg, d)
}

// incidents of intervals are those of one process: events of a key come from any partition and out of
// order, one task has the alarms of all keys, and a checkpoint holds what waits when a worker is killed.
func (s *site) incidents(t *testing.T) {
	const (
		more  = "aggregate: {every: 10m, value: mean}\ndetect: true\nincidents: true\nalerts: {kafka: {topic: fleet-alerts}}\n"
		keys  = 24
		steps = 200
	)
	rng := rand.New(rand.NewPCG(19, 4))
	from := time.Now().UTC().Truncate(time.Hour).Add(-10 * 24 * time.Hour)
	var records []*kgo.Record
	for i := range 2 * steps {
		if i >= 2*(steps-8) && i < 2*(steps-1) { // alarms wait for longer than an hour
			continue
		}
		at := from.Add(time.Duration(i)*5*time.Minute + time.Duration(i%2)*299*time.Second) // an interval is over with its second event
		for k := range keys {
			x := rng.NormFloat64()
			switch {
			case k/6 == 2 && i >= 300 && i < 308:
				x += 7
			case i >= 2*(steps-1):
				x = 0
			}
			text := fmt.Sprintf(`{"key":"r%d/m%d","time":%q,"x":%.6g}`, k/6, k, at.Format(time.RFC3339), x)
			records = append(records, &kgo.Record{Topic: "fleet-in", Key: fmt.Append(nil, rng.Int()), Value: []byte(text)})
		}
	}
	const interval, within = 2 * keys, 2 * 151 * keys
	for part := range slices.Chunk(records, interval) {
		rng.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
	}
	records = append(records, &kgo.Record{Topic: "fleet-in", Value: []byte("no object")})
	for _, topic := range []string{"in", "out", "alerts", "rejected"} {
		s.Broker.CreateTopic(t, "fleet-"+topic, 4, nil)
	}
	s.Broker.Produce(t, records[:within]...)
	cfg := s.Config(t, "fleet", ", disorder: 20m", ", parallelism: 2", more)
	d := program.Start(t, nil, "run", cfg)
	s.Leaves(t, cfg)
	d.Eventually(t, "the job runs", func() bool { return strings.Contains(d.Log(), "the job runs") })
	d.Eventually(t, "all intervals are written", func() bool { return e2e.Held(t, s.Broker, "fleet-out") >= within/2 })
	completed := s.Status(t, "fleet").Completed
	s.Await(t, d, "fleet", "a checkpoint has the fleet", func(is flink.Status) bool { return is.Completed >= completed+2 })
	s.Workers[0].Kill()
	s.StartWorker(0)
	s.Broker.Produce(t, records[within:]...)
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

// silences are told while they last, on a topic in which nothing comes, by timers that
// outlast a worker; the same one is told again with the same id at most.
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
	const far = 10 * time.Hour // a key that has spoken of that hour is not silent before
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
	told := func() (all []string) {
		for _, r := range s.Broker.Consume(t, "quiet-alerts") {
			var a struct{ Key, Kind, ID string }
			expect.OK(t, json.Unmarshal(r.Value, &a))
			if line := a.Key + " " + a.Kind; !slices.Contains(all, line) && !strings.HasPrefix(a.Key, "other") {
				all = append(all, line)
			}
			if at := now.Add(2 * time.Second).Format(time.RFC3339); a.Key == "a" && a.Kind == "silent" && a.ID != "a/"+at {
				t.Errorf("id %s", a.ID)
			}
		}
		slices.Sort(all)
		return all
	}
	await := func(want ...string) {
		t.Helper()
		d.Eventually(t, strings.Join(want, ", "), func() bool { return slices.Equal(told(), want) })
	}
	await("a silent")
	// Its deadline is far enough from now that its timer mostly outlasts the worker.
	put("c", time.Since(now)+10*time.Second)
	d.Eventually(t, "its estimate is written", func() bool { return len(s.Broker.Consume(t, "quiet-out")) >= others+3 })
	completed := s.Status(t, "quiet").Completed
	s.Await(t, d, "quiet", "a checkpoint has its timer", func(is flink.Status) bool { return is.Completed >= completed+2 })
	s.Workers[0].Kill()
	s.StartWorker(0)
	put("a", far)
	await("a recovered", "a silent", "c silent")
	put("c", far)
	await("a recovered", "a silent", "c recovered", "c silent")
	s.Halt(t, cfg, d)
}

// sessions smoothed on Flink from a topic without an end equal those from a file in one process, by id.
func (s *site) sessions(t *testing.T) {
	// Of a topic without an end the last sessions are over a gap after the last record, by the clock.
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
	s.Await(t, d, "endless", "the job runs", func(is flink.Status) bool { return is.State == "RUNNING" })
	var got map[string]string
	d.Eventually(t, "all sessions are over", func() bool {
		got, _ = e2e.ByID(t, s.Broker, "endless-out")
		return len(got) >= len(want)
	})
	s.Halt(t, onFlink, d)
	e2e.Same(t, "endless-out", want, got, 0)
}

// fails runs the program, which has to exit with 1 and say why.
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

// errors: what is wrong with a cluster is said in words.
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

// checkpoints do not grow with a constant number of keys. With a splittable source
// they would, by what Beam's runner keeps of each of its calls (5.4 kB in its release
// 2.62).
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
	// One may have begun before.
	complete := s.Status(t, "constant").Completed + 2
	first := s.Await(t, d, "constant", "a checkpoint of them is complete", func(is flink.Status) bool { return is.Completed >= complete })
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
			now = s.Await(t, d, "constant", "a checkpoint of all is complete", func(is flink.Status) bool { return is.Completed >= now.Completed+2 })
		case <-tick.C:
			now = s.Status(t, "constant")
		}
		is := now.Checkpoint
		sizes = append(sizes, fmt.Sprintf("%.0f s: %d in %v", time.Since(begin).Seconds(), is.Bytes, is.Took))
		if is.Bytes > first.Checkpoint.Bytes*6/5 {
			t.Errorf("%d bytes in place of %d", is.Bytes, first.Checkpoint.Bytes)
		}
	}
	t.Logf("bytes of checkpoints with %d keys at 500 records/s, from %d: %s", keys, first.Checkpoint.Bytes, strings.Join(sizes, "; "))
	s.Halt(t, cfg, d)
}
