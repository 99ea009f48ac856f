//go:build unix

package prometheus_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/promtest"
)

var program e2e.Program

func TestMain(m *testing.M) { e2e.Main(m, &program) }

// exporter serves the pressure of pumps, which changes with each scrape.
func exporter(t *testing.T, pumps int) (address string, jump func()) {
	var scrapes, jumped atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := scrapes.Add(1)
		fmt.Fprintln(w, "# TYPE pressure gauge")
		for i := range int64(pumps) {
			x := 20 + math.Mod(float64(n*(i+3))*.6180339887, 1)
			if i == 0 {
				x += 50 * float64(jumped.Load())
			}
			fmt.Fprintf(w, "pressure{pump=\"p%d\",hall=\"a \\\"b\\\"\"} %v\n", i, x)
		}
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), func() { jumped.Store(1) }
}

// TestPrometheus has the program watch a real Prometheus while the program is stopped, killed and restarted. The
// samples that it writes equal those of a plain loop over Prometheus's samples: none is lost or doubled. Alerts
// reach a real Alertmanager with the labels of the series.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	const pumps = 5
	target, jump := exporter(t, pumps)
	server := promtest.Prometheus(t, fmt.Sprintf(`global: {scrape_interval: 250ms}
storage: {tsdb: {out_of_order_time_window: 1h}}
scrape_configs: [{job_name: pumps, static_configs: [{targets: ["%s"]}]}]
`, target))
	manager := promtest.Alertmanager(t, promtest.Nowhere)
	client := expect.Get(api.NewClient(api.Config{Address: server.URL}))(t)
	ask := v1.NewAPI(client)

	dir := t.TempDir()
	config := filepath.Join(dir, "pumps.yaml")
	state := filepath.Join(dir, "pumps.states")
	text := fmt.Sprintf(`model: {family: normal, prior: auto}
detect: true
state: %s
source: {prometheus: {url: "%s", query: pressure, step: 250ms, start: -5s, delay: 2s}}
sink: {prometheus: {url: "%[2]s"}}
alerts: {alertmanager: {url: "%[3]s"}}
dead_letter: {jsonl: {path: %[4]s}}
`, state, server.URL, manager.URL, filepath.Join(dir, "dead.jsonl"))
	expect.OK(t, os.WriteFile(config, []byte(text), 0o600))

	// points are the raw samples of a metric, by series and time.
	points := func(metric string) map[string]map[int64]float64 {
		value, _, _, err := ask.Query(t.Context(), metric+"[1h]", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		samples := map[string]map[int64]float64{}
		for _, stream := range value.(model.Matrix) {
			pump := string(stream.Metric["pump"])
			samples[pump] = map[int64]float64{}
			for _, p := range stream.Values {
				samples[pump][int64(p.Timestamp)] = float64(p.Value)
			}
		}
		return samples
	}
	alarms := func() int { return len(points("hafvf_alarm")["p0"]) }
	beyond := func(n int) func() bool { return func() bool { return alarms() >= n } }

	// A run that is killed before it stores states restarts from its first start time. Otherwise the server would
	// refuse its samples as duplicates with other values.
	early := program.Start(t, nil, "run", config)
	early.Eventually(t, "the first samples", beyond(5))
	early.Signal(syscall.SIGKILL)
	<-early.Exited()
	first := program.Start(t, nil, "run", config)
	first.Eventually(t, "some samples", beyond(10))
	first.Stop(t)
	stopped := expect.Get(os.ReadFile(state))(t)
	second := program.Start(t, nil, "run", config)
	second.Eventually(t, "more samples", beyond(20))
	second.Signal(syscall.SIGKILL)
	<-second.Exited()
	if left, err := os.ReadFile(state); err != nil || string(left) != string(stopped) {
		t.Fatalf("the killed program has changed the states after seconds: %v", err)
	}
	third := program.Start(t, nil, "run", config)
	third.Eventually(t, "samples after the warm-up", beyond(60))
	third.Signal(syscall.SIGKILL)
	<-third.Exited()
	jump()
	fourth := program.Start(t, nil, "run", config)
	n := alarms()
	var alert struct{ Labels map[string]string }
	fourth.Eventually(t, "an alert", func() bool {
		answer := expect.Get(http.Get(manager.URL + "/api/v2/alerts"))(t)
		defer answer.Body.Close()
		var all []struct{ Labels map[string]string }
		expect.OK(t, json.NewDecoder(answer.Body).Decode(&all))
		for _, a := range all {
			if a.Labels["pump"] == "p0" {
				alert = a
			}
		}
		return alert.Labels != nil
	})
	fourth.Eventually(t, "the last samples", beyond(n+5))
	fourth.Stop(t)
	for label, want := range map[string]string{"alertname": "hafvf", "metric": "pressure", "hall": `a "b"`, "job": "pumps", "instance": target} {
		if alert.Labels[label] != want {
			t.Errorf("the alert has %s=%q instead of %q", label, alert.Labels[label], want)
		}
	}
	if dead, err := os.ReadFile(filepath.Join(dir, "dead.jsonl")); err != nil || len(dead) > 0 {
		t.Errorf("the dead letter has %s: %v", dead, err)
	}

	score, threshold, usual, lower, upper, alarm := points("hafvf_score"), points("hafvf_threshold"), points("hafvf_usual"), points("hafvf_usual_lower"), points("hafvf_usual_upper"), points("hafvf_alarm")
	begin, end := int64(math.MaxInt64), int64(0)
	for timestamp := range alarm["p0"] {
		begin, end = min(begin, timestamp), max(end, timestamp)
	}
	value, _, _, err := ask.QueryRange(t.Context(), "pressure", v1.Range{Start: time.UnixMilli(begin), End: time.UnixMilli(end), Step: 250 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	matrix := value.(model.Matrix)
	if len(matrix) != pumps || len(alarm) != pumps {
		t.Fatalf("%d series of the exporter and %d of the program, instead of %d", len(matrix), len(alarm), pumps)
	}
	cfg := keyed.Recommended("normal")
	cfg.Lookback = 5 * time.Minute
	est := expect.Get(keyed.NewEstimator(cfg))(t)
	raised := 0
	for _, stream := range matrix {
		pump := string(stream.Metric["pump"])
		track := est.NewTrack(pump)
		want := map[string]map[int64]float64{"score": {}, "threshold": {}, "usual": {}, "lower": {}, "upper": {}, "alarm": {}}
		note := func(name string, timestamp int64, v float64) {
			if !math.IsNaN(v) {
				want[name][timestamp] = v
			}
		}
		for _, p := range stream.Values {
			timestamp := int64(p.Timestamp)
			e := est.Estimate(track, keyed.Value(p.Timestamp.Time(), "", float64(p.Value)))
			usual := e.Detection.Usual
			note("score", timestamp, e.Detection.Score)
			note("threshold", timestamp, e.Detection.Threshold)
			note("usual", timestamp, usual.Mean[0])
			note("lower", timestamp, usual.Mean[0]-2*usual.SD[0])
			note("upper", timestamp, usual.Mean[0]+2*usual.SD[0])
			note("alarm", timestamp, 0)
			if e.Alarm != nil {
				note("alarm", timestamp, 1)
				raised++
			}
		}
		for name, got := range map[string]map[int64]float64{"score": score[pump], "threshold": threshold[pump], "usual": usual[pump], "lower": lower[pump], "upper": upper[pump], "alarm": alarm[pump]} {
			compare(t, pump+" "+name, got, want[name])
		}
	}
	if raised == 0 {
		t.Error("the plain loop raises no alarm")
	}
	t.Logf("%d samples of each series, %d alarms", len(alarm["p0"]), raised)
}

// compare compares two series of samples.
func compare(t *testing.T, name string, got, want map[int64]float64) {
	t.Helper()
	for timestamp, v := range want {
		if g, ok := got[timestamp]; !ok {
			t.Errorf("%s: nothing at %d", name, timestamp)
		} else if g != v {
			t.Errorf("%s at %d: %v instead of %v", name, timestamp, g, v)
		}
	}
	for timestamp := range got {
		if _, ok := want[timestamp]; !ok {
			t.Errorf("%s: something at %d", name, timestamp)
		}
	}
}

// TestRefusedSamples checks a Prometheus without an out-of-order window, which refuses old samples. They are
// counted and go to the dead letter with the server's reason, the others are stored, and the run succeeds.
func TestRefusedSamples(t *testing.T) {
	server := promtest.Prometheus(t, "")
	dir := t.TempDir()
	const n = 600
	var in strings.Builder
	in.WriteString("key,time,x\n")
	now := time.Now().UTC().Truncate(time.Second)
	for i := range n {
		fmt.Fprintf(&in, "pump %d,%s,%d\n", i%3, now.Add(time.Duration(i-n)*time.Minute).Format(time.RFC3339), i*7919%101)
	}
	dead, stats := filepath.Join(dir, "dead.jsonl"), filepath.Join(dir, "pumps.csv")
	config := filepath.Join(dir, "pumps.yaml")
	text := fmt.Sprintf("model: {family: normal, prior: auto}\ndetect: true\nsource: {csv: {path: %s}}\nsink: {prometheus: {url: %q}}\ndead_letter: {jsonl: {path: %s}}\n", stats, server.URL, dead)
	for path, text := range map[string]string{stats: in.String(), config: text} {
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	code, _, said := program.Run(t, dir, "", "run", config)
	if code != 0 {
		t.Fatalf("exit %d\n%s", code, said)
	}
	b := expect.Get(os.ReadFile(dead))(t)
	refused := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		var r struct {
			Reason, Raw string
		}
		expect.OK(t, json.Unmarshal([]byte(line), &r))
		var record struct{ Key, Time string }
		expect.OK(t, json.Unmarshal([]byte(r.Raw), &record))
		if !strings.Contains(r.Reason, "400 Bad Request: out of") {
			t.Errorf("the reason is %q", r.Reason)
		}
		refused[record.Key+" "+record.Time] = true
	}
	client := expect.Get(api.NewClient(api.Config{Address: server.URL}))(t)
	value, _, _, err := v1.NewAPI(client).Query(t.Context(), "hafvf_alarm[1d]", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	stored := 0
	for _, stream := range value.(model.Matrix) {
		for _, p := range stream.Values {
			stored++
			if place := string(stream.Metric["key"]) + " " + p.Timestamp.Time().UTC().Format(time.RFC3339); refused[place] {
				t.Errorf("%s is stored and refused", place)
			}
		}
	}
	if len(refused) == 0 || stored == 0 || len(refused)+stored != n {
		t.Errorf("%d refused and %d stored of %d", len(refused), stored, n)
	}
	if want := fmt.Sprintf("the sink refused %d records", len(refused)); !strings.Contains(said, want) {
		t.Errorf("%q is not in\n%s", want, said)
	}
	t.Logf("%d refused, %d stored", len(refused), stored)
}
