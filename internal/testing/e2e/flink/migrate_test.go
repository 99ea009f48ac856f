package flink_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/flink"
)

// migrates stops a job and goes on under a changed config, which is refused without
// --migrate. With it, what follows is what a plain loop estimates whose states a Migrator has
// carried over. One more start needs --migrate no longer, also for the keys that had no
// record meanwhile. Alerts come with the second config and go with the third.
func (s *site) migrates(t *testing.T) {
	const n = 6_000
	of := func(record int) (part int) { return record * 3 / n }
	parts := make([][]*kgo.Record, 3)
	for i, r := range e2e.Observations("moved-in", n, 200, 23) {
		if part := of(i); part != 1 || string(r.Key) > "k15" { // else the key is quiet
			parts[part] = append(parts[part], r)
		}
	}
	s.Broker.CreateTopic(t, "moved-in", 8, nil)
	const before = "levels: [{alpha: 0.9, beta: 0.1}]\ntop: 0.98\nkeys: [{match: 'k1*', levels: [], top: 0.9}]\n"
	after := "levels: [{alpha: 9, beta: 1}, {alpha: 1, beta: 1}]\ntop: 1\ntime_unit: 1m\nkeys: [{match: 'k2*', levels: [], top: 0.8}]\ndetect: true\n"
	written := int64(0)
	estimated := func(d *e2e.Daemon, part int) {
		t.Helper()
		s.Broker.Produce(t, parts[part]...)
		written += int64(len(parts[part]))
		d.Eventually(t, "all of it is estimated", func() bool { return e2e.Held(t, s.Broker, "moved-out", "moved-rejected") >= written })
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
		s.Await(t, d, "moved", "the job runs", func(is flink.Status) bool { return is.State == "RUNNING" })
		return d
	}

	cfg := s.Config(t, "moved", "", ", parallelism: 2", before)
	d := start(cfg)
	estimated(d, 0)
	savepoint := stop(cfg, d)

	cfg = s.Config(t, "moved", "", ", parallelism: 2", after+"alerts: {kafka: {topic: moved-alerts}}\n")
	s.Broker.Produce(t, parts[1][:100]...)
	log := s.fails(t, []string{"run", cfg, "--savepoint", savepoint}, "it was written with other levels, ")
	said := regexp.MustCompile(`--savepoint (\S+) --migrate`).FindStringSubmatch(log)
	if said == nil {
		t.Fatalf("does not say what to do:\n%s", log)
	}
	if is := s.Status(t, "moved"); is.State != "CANCELED" && is.State != "FAILED" {
		t.Errorf("the job is %s", is.State)
	}
	written = e2e.Held(t, s.Broker, "moved-out", "moved-rejected") + 100
	parts[1] = parts[1][100:]
	d = start(cfg, "--savepoint", said[1], "--migrate")
	estimated(d, 1)
	savepoint = stop(cfg, d)
	cfg = s.Config(t, "moved", "", ", parallelism: 2", after)
	d = start(cfg, "--savepoint", savepoint)
	estimated(d, 2)

	of1 := hafvf.Config{Family: "normal", Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: .9, Beta: .1}}, Top: .98}}
	of2 := hafvf.Config{Family: "normal", Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 1, Beta: 1}}, Top: 1}, Detect: &hafvf.Detect{}}
	rule1 := hafvf.Config{Family: "normal", Member: &hafvf.Member{Top: .9}}
	rule2 := hafvf.Config{Family: "normal", Member: &hafvf.Member{Top: .8}, Detect: &hafvf.Detect{}}
	from := keyed.Config{Filter: of1, Keys: []keyed.Rule{{Match: "k1*", Filter: rule1}}}
	to := keyed.Config{Filter: of2, Keys: []keyed.Rule{{Match: "k2*", Filter: rule2}}, TimeUnit: time.Minute}
	want := s.loop(t, from, to, func(at time.Time) bool { return of(int(at.Sub(begin)/time.Second)) > 0 })
	got, repeats := e2e.ByID(t, s.Broker, "moved-out")
	for id, text := range got {
		var r result
		expect.OK(t, json.Unmarshal([]byte(text), &r))
		got[id] = fmt.Sprint(r)
	}
	e2e.Same(t, "moved-out", want, got, repeats)
	s.Halt(t, cfg, d)
}

// begin is the time of the first of e2e.Observations.
var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// A result is what of a record is compared: numbers of which the rest are made.
type result struct {
	Key           string
	N             int64
	LogPredictive float64 `json:"log_predictive"`
	Weight        float64
	Memory        float64
	Estimate      struct{ Mean, SD float64 }
}

// loop returns the results of a plain loop over each key's records in moved-in, by id. It
// carries a key's state over at the first record that comes after the change.
func (s *site) loop(t *testing.T, from, to keyed.Config, changed func(time.Time) bool) map[string]string {
	t.Helper()
	before, after, settings := expect.Get(keyed.NewEstimator(from))(t), expect.Get(keyed.NewEstimator(to))(t), from.Settings()
	migrator := expect.Get(keyed.NewMigrator(to))(t)
	type of struct {
		*keyed.Track
		carried bool
	}
	keys, all := map[string]*of{}, map[string]string{}
	for _, r := range s.Broker.Consume(t, "moved-in") { // partition by partition, or at least in the order of each
		var in struct {
			Key  string
			Time time.Time
			X    float64
		}
		if json.Unmarshal(r.Value, &in) != nil {
			continue // one of those for the dead letter
		}
		id := fmt.Sprintf("%s-%d-%d", r.Topic, r.Partition, r.Offset)
		late := changed(in.Time)
		key := keys[in.Key]
		switch {
		case key == nil && late:
			key = &of{after.NewTrack(in.Key), true}
		case key == nil:
			key = &of{before.NewTrack(in.Key), false}
		case late && !key.carried:
			b := expect.Get(key.AppendBinary(nil))(t)
			_, written := settings(in.Key)
			b, _, err := migrator.Migrate(in.Key, b, written)
			expect.OK(t, err)
			key = &of{expect.Get(after.RestoreTrack(in.Key, b))(t), true}
		}
		keys[in.Key] = key
		est := before
		if key.carried {
			est = after
		}
		e := est.Estimate(key.Track, keyed.Value(in.Time, id, in.X))
		out := result{Key: in.Key, N: e.N, LogPredictive: e.LogPredictive, Weight: e.Weight, Memory: e.Memory}
		out.Estimate.Mean, out.Estimate.SD = e.Estimate.Mean[0], e.Estimate.SD[0]
		all[id] = fmt.Sprint(out)
	}
	return all
}
