package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
	"hafvf/testdata"
)

var update = flag.Bool("update", false, "write the golden files")

const backtestYAML = `model: {family: normal, prior: auto}
detect: true
source: {csv: {path: in.csv}}
sink: {jsonl: {path: records.jsonl}}
alerts: {jsonl: {path: alerts.jsonl}}
dead_letter: {jsonl: {path: rejected.jsonl}}
state: states.bin
`

// threeWeeks returns three weeks of hourly values of two keys. pump-1 rises permanently in the second week, and
// pump-2 has one extreme value in the third. One value is missing, and one is not a number.
func threeWeeks() string {
	noise := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString("key,time,x\n")
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for i := range 3 * 168 {
		timeText := start.Add(time.Duration(i) * time.Hour).Format(time.RFC3339)
		first, second := 10+noise.NormFloat64(), fmt.Sprintf("%.3f", 50+3*noise.NormFloat64())
		if i >= 250 {
			first += 8
		}
		switch i {
		case 100:
			second = ""
		case 101:
			second = "oops"
		case 400:
			second = "95"
		}
		fmt.Fprintf(&b, "pump-1,%s,%.3f\npump-2,%s,%s\n", timeText, first, timeText, second)
	}
	return b.String()
}

// The golden file is the report on threeWeeks, without speeds. Its figures match the alerts of a run; see
// TestBacktestMatchesRun.
func TestBacktestReport(t *testing.T) {
	dir := e2e.Folder(t, map[string]string{
		"in.csv":    threeWeeks(),
		"pump.yaml": backtestYAML,
		"labels.csv": "key,start,end\npump-1,2026-01-15 09:00,2026-01-16\npump-2,2026-01-21T00:00:00Z,2026-01-22T00:00:00Z\n" +
			"pump-1,2026-01-23,2026-01-24\npump-1,2025-01-01,2025-01-02\npump-3,2026-01-10,2026-01-11\n",
	})
	got, _ := program.Well(t, dir, "backtest", "pump.yaml", "--set", "detect={min_change: 10}", "--labels", "labels.csv", "--against", "pump.yaml")
	compareGolden(t, filepath.Join("testdata", "backtest.txt"), withoutSpeeds(got))
	for _, name := range []string{"records.jsonl", "alerts.jsonl", "rejected.jsonl", "states.bin"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("a backtest wrote %s: %v", name, err)
		}
	}
}

func withoutSpeeds(report string) string {
	report = regexp.MustCompile(`; [0-9.]+ s, [0-9]+ records/s\n`).ReplaceAllString(report, "; (speed)\n")
	return regexp.MustCompile(`(?m)^  records/s .*$`).ReplaceAllString(report, "  records/s (speeds)")
}

// The bundled series with NAB's own windows, as text and as a page.
func TestBacktestOfBundled(t *testing.T) {
	expect.Long(t, "the bundled series")
	t.Parallel()
	nab := expect.Get(filepath.Abs("../../testdata/nab"))(t)
	page := filepath.Join(t.TempDir(), "nab.html")
	var output strings.Builder
	for _, args := range [][]string{
		{"cloud.yaml"},
		{"tweets.yaml", "--set", "model={family: normal, scale: log1p, prior: auto}", "--set", "detect=true"},
	} {
		stdout, _ := program.Well(t, nab, append([]string{"backtest", "--labels", "windows.json", "-o", page}, args...)...)
		output.WriteString(withoutSpeeds(stdout) + "\n")
		tested := bytes.ReplaceAll(expect.Get(os.ReadFile(page))(t), []byte(".yaml with --set"), []byte(".yaml"))
		program.Well(t, nab, append([]string{"report", "-o", page}, args...)...)
		if reported := expect.Get(os.ReadFile(page))(t); !bytes.Equal(tested, reported) {
			t.Errorf("%v: the pages of backtest and of report differ, %d and %d bytes", args, len(tested), len(reported))
		}
	}
	compareGolden(t, filepath.Join("testdata", "backtest-nab.txt"), output.String())
}

// mutedRecord has the fields of muted alarms that the tests read.
type mutedRecord struct {
	Count, N int
	Key      string
	Score    *float64
	Time     time.Time
}

// backtestReport has the fields of a JSON report that the tests read.
type backtestReport struct {
	Units                   map[string]string
	Keys, Records, Rejected int
	Told                    map[string]int
	Budget                  struct {
		Allowed float64
		Spent   int
	}
	Muted mutedRecord
	ByKey []struct {
		Key     string
		Records int
		Muted   mutedRecord
		Told    map[string]int
		Weeks   []struct {
			Monday time.Time
			Told   map[string]int
		}
	} `json:"by_key"`
	Largest []alertRecord
	Labels  *score
	Against *struct {
		Both int
		Only struct{ This, Other []alertRecord }
		Keys []any
	}
}

type score struct {
	Windows, Hit int
	FalseAlarms  int      `json:"false_alarms"`
	MedianDelay  *float64 `json:"median_delay"`
	Missed       []struct {
		Key   string
		Start time.Time
	}
	Unknown []string
}

type alertRecord struct {
	Key, ID, Kind, Message string
	Time                   time.Time
	Size                   float64
	Episode                struct{ State string }
}

// isWorse reports whether the alert reports an episode again. Such an alert is no further alarm.
func (a *alertRecord) isWorse() bool { return a.Episode.State == "worse" }

func backtestJSON(t *testing.T, dir string, args ...string) (r backtestReport) {
	t.Helper()
	stdout, _ := program.Well(t, dir, append([]string{"backtest", "--json"}, args...)...)
	expect.OK(t, json.Unmarshal([]byte(stdout), &r))
	return r
}

// The report of a backtest of the bundled series, and its score against NAB's windows, match the alerts that a run of
// the same config writes. The windows are those of labels/combined_windows.json (numenta/NAB, commit ea702d7) for
// ec2_cpu_utilization_77c1ca, _825cc2 and _ac20cd.
func TestBacktestMatchesRun(t *testing.T) {
	expect.Long(t, "a back-test of each data set")
	t.Parallel()
	const nab = `{"realAWSCloudwatch/ec2_cpu_77c1ca.csv": [["2014-04-08 17:30:00.000000", "2014-04-10 03:00:00.000000"]],
		"realAWSCloudwatch/ec2_cpu_825cc2.csv": [["2014-04-15 07:24:00.000000", "2014-04-16 11:54:00.000000"]],
		"realAWSCloudwatch/ec2_cpu_ac20cd.csv": [["2014-04-14 07:49:00.000000", "2014-04-15 17:34:00.000000"]],
		"realAWSCloudwatch/ec2_cpu_c6585a.csv": []}`
	windows := map[string][2]time.Time{
		"ec2_cpu_77c1ca": {time.Date(2014, 4, 8, 17, 30, 0, 0, time.UTC), time.Date(2014, 4, 10, 3, 0, 0, 0, time.UTC)},
		"ec2_cpu_825cc2": {time.Date(2014, 4, 15, 7, 24, 0, 0, time.UTC), time.Date(2014, 4, 16, 11, 54, 0, 0, time.UTC)},
		"ec2_cpu_ac20cd": {time.Date(2014, 4, 14, 7, 49, 0, 0, time.UTC), time.Date(2014, 4, 15, 17, 34, 0, 0, time.UTC)},
	}
	labels := "key,start,end\n"
	for key, w := range windows {
		labels += fmt.Sprintf("%s,%s,%s\n", key, w[0].Format(time.RFC3339), w[1].Format(time.RFC3339))
	}
	dir := e2e.Folder(t, map[string]string{"in.csv": string(testdata.CloudCSV), "cloud.yaml": backtestYAML, "nab.json": nab, "labels.csv": labels})
	r := backtestJSON(t, dir, "cloud.yaml", "--labels", "nab.json")
	written, _ := program.Well(t, dir, "backtest", "--json", "cloud.yaml", "--labels", "nab.json")
	for name := range r.Units {
		if !strings.Contains(written, `"`+name+`": `) {
			t.Errorf("a unit of %s, which is not in the report", name)
		}
	}
	if len(r.Units) < 5 {
		t.Errorf("units: %v", r.Units)
	}

	program.Well(t, dir, "run", "cloud.yaml")
	text := expect.Get(os.ReadFile(filepath.Join(dir, "alerts.jsonl")))(t)
	warned, byKey := map[string]int{}, map[string]map[string]int{}
	hit, falseAlarms := map[string]time.Duration{}, 0
	var alerts []alertRecord
	for line := range strings.Lines(string(text)) {
		var a alertRecord
		expect.OK(t, json.Unmarshal([]byte(line), &a))
		if a.isWorse() {
			continue
		}
		a.Episode.State = "" // the report has none
		alerts = append(alerts, a)
		warned[a.Kind]++
		if byKey[a.Key] == nil {
			byKey[a.Key] = map[string]int{}
		}
		byKey[a.Key][a.Kind]++
		w, labelled := windows[a.Key]
		if !labelled || a.Time.Before(w[0]) || a.Time.After(w[1]) {
			falseAlarms++
			continue
		}
		if _, before := hit[a.Key]; !before {
			hit[a.Key] = a.Time.Sub(w[0])
		}
	}
	if len(alerts) < 10 || len(hit) == 0 || falseAlarms == 0 {
		t.Fatalf("%d alerts, %d windows hit, %d false alarms: nothing is tested", len(alerts), len(hit), falseAlarms)
	}
	if r.Keys != 8 || r.Records != 22174 || r.Rejected != 0 || r.Budget.Spent != len(alerts) {
		t.Errorf("%+v", r)
	}
	// Nine days of each key and fourteen of ec2_cpu_ac20cd, without the warm-up of 50 observations.
	if n := float64(22174-8*50) / 2016; r.Budget.Allowed < n-.01 || r.Budget.Allowed > n+.01 {
		t.Errorf("%g alarms are allowed, want %g", r.Budget.Allowed, n)
	}
	if diff := cmp.Diff(warned, r.Told); diff != "" {
		t.Error(diff)
	}
	muted := 0
	for _, k := range r.ByKey {
		muted += k.Muted.Count
		if m := k.Muted; m.Count > 0 && (m.Key != k.Key || m.N == 0 || m.Time.IsZero() || *m.Score > *r.Muted.Score) {
			t.Errorf("%s: muted %+v, total %+v", k.Key, m, r.Muted)
		}
	}
	if muted == 0 || r.Muted.Count != muted {
		t.Errorf("%+v, by key %d", r.Muted, muted)
	}
	last := len(alerts)
	for _, k := range r.ByKey {
		if diff := cmp.Diff(byKey[k.Key], k.Told); diff != "" {
			t.Errorf("%s: %s", k.Key, diff)
		}
		weeks, n := map[string]int{}, 0
		for _, w := range k.Weeks {
			if w.Monday.Weekday() != time.Monday {
				t.Errorf("%s: a week begins on %v", k.Key, w.Monday)
			}
			for kind, v := range w.Told {
				weeks[kind] += v
				n += v
			}
		}
		if diff := cmp.Diff(k.Told, weeks); diff != "" {
			t.Errorf("%s by week: %s", k.Key, diff)
		}
		if n > last {
			t.Errorf("%s has %d alerts and follows a key with %d", k.Key, n, last)
		}
		last = n
	}
	slices.SortStableFunc(alerts, func(a, b alertRecord) int {
		switch x, y := max(a.Size, -a.Size), max(b.Size, -b.Size); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	if diff := cmp.Diff(alerts[:10], r.Largest); diff != "" {
		t.Error(diff)
	}
	if s := r.Labels; s.Windows != 3 || s.Hit != len(hit) || s.FalseAlarms != falseAlarms || len(s.Missed) != 3-len(hit) || !slices.Equal(s.Unknown, []string{"ec2_cpu_c6585a"}) {
		t.Errorf("%+v; %d windows were hit, and %d alerts are outside", s, len(hit), falseAlarms)
	}
	var delays []float64
	for _, d := range hit {
		delays = append(delays, d.Seconds())
	}
	slices.Sort(delays)
	n := len(delays)
	if want := (delays[(n-1)/2] + delays[n/2]) / 2; *r.Labels.MedianDelay != want {
		t.Errorf("median delay %g, want %g", *r.Labels.MedianDelay, want)
	}

	// A backtest ignores the states that the run has written.
	other := backtestJSON(t, dir, "cloud.yaml", "--labels", "labels.csv", "--against", "cloud.yaml")
	r.Labels.Unknown = []string{}
	if diff := cmp.Diff(r.Labels, other.Labels); diff != "" {
		t.Errorf("CSV and JSON score differently: %s", diff)
	}
	if a := other.Against; a.Both != len(alerts) || len(a.Only.This)+len(a.Only.Other)+len(a.Keys) != 0 {
		t.Errorf("a config differs from itself: %+v", a)
	}
	if a := backtestJSON(t, dir, "cloud.yaml", "--set", "alerts.kinds=[change]", "--against", "cloud.yaml").Against; a.Both != warned["change"] || len(a.Only.This) != 0 || len(a.Only.Other) != warned["novelty"] {
		t.Errorf("without novelties: %d in both, %d and %d in one; want %v", a.Both, len(a.Only.This), len(a.Only.Other), warned)
	}
}

func TestBacktestExitCodes(t *testing.T) {
	t.Parallel()
	dir := e2e.Folder(t, map[string]string{
		"in.csv":     goodCSV,
		"plain.yaml": goodYAML,
		"ok.yaml":    goodYAML + "detect: true\n",
		"topics.yaml": "model: {family: normal}\ndetect: true\nsource: {kafka: {brokers: [b], topics: [in], group: g}}\n" +
			"sink: {kafka: {topic: out}}\n",
		"labels.csv":  "key,start\na,2026-01-01\n",
		"labels2.csv": "key,start,end\na,2026-01-02,2026-01-01\n",
		"labels.json": `{"a/b.csv": [["2026-01-01"]]}`,
		"twice.json":  `{"a/b.csv": [], "c/b.csv": []}`,
		"no-time.csv": "key,time,x\na,,1\na,,2\n",
		"good.csv":    "key,start,end\na,2026-01-01,2026-01-02\n",
	})
	exits(t, dir, "", "backtest", []exit{
		{"done with a reject", "ok.yaml", 0, "1 rejected"},
		{"without a config", "", 2, "accepts 1 arg"},
		{"no such config", "no.yaml", 2, "no.yaml"},
		{"without detect", "plain.yaml", 2, "add detect: true"},
		{"detect by override", "plain.yaml --set detect=true", 0, "1 rejected"},
		{"smooth", "plain.yaml --set transform=smooth --set session.gap=1h", 2, "add detect: true"},
		{"topics", "topics.yaml", 2, "not Kafka"},
		{"flink", "topics.yaml --set runner.name=flink --set runner.endpoint=a:1", 2, "not on Flink"},
		{"other config", "ok.yaml --against plain.yaml", 2, "plain.yaml: there are no alarms without detect"},
		{"input missing", "ok.yaml --set source.csv.path=no.csv", 1, "no.csv"},
		{"mostly rejected", "ok.yaml --set source.csv.decimal=','", 1, "more than half"},
		{"no labels", "ok.yaml --labels no.csv", 2, "no.csv"},
		{"labels without an end", "ok.yaml --labels labels.csv", 2, `no column "end"`},
		{"labels backwards", "ok.yaml --labels labels2.csv", 2, "row 1 after the header: the end 2026-01-01 is before the start 2026-01-02"},
		{"half a window", "ok.yaml --labels labels.json", 2, "a/b.csv, window 1 has 1 entries"},
		{"two paths of one key", "ok.yaml --labels twice.json", 2, "a/b.csv and c/b.csv have the same base name"},
		{"labels without times", "ok.yaml --set order=arrival --set source.csv.path=no-time.csv --labels good.csv", 1, "the records have no times"},
		{"picture", "ok.yaml --plot p.svg", 2, "backtest has no --plot: write a page of its alarms with -o FILE.html"},
		{"page", "ok.yaml -o p.html --against ok.yaml", 0, "0 alarms of 0 keys: p.html"},
		{"page of another kind", "ok.yaml -o p.svg", 2, "a page must be an .html file"},
		{"page in place of the input", "ok.yaml -o in.csv", 2, "in.csv is an input"},
		{"without times", "ok.yaml --set order=arrival --set source.csv.path=no-time.csv", 0, "0 rejected"},
	})
}
