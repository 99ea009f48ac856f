package pipeline

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hafvf/connectors"
	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/records"
)

func TestMain(m *testing.M) {
	flag.Parse()
	quietPoll = 10 * time.Millisecond
	expect.Together(8)
	beam.Init()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the runner's log; its errors are returned by the run too
	os.Exit(m.Run())
}

// runConfig runs a config and returns the lines of its sink and its dead letter. If the run leaves its outputs
// unchanged, they come from the partial files.
func runConfig(t testing.TB, text string) (s Summary, estimates, rejected []string) {
	t.Helper()
	dir := t.TempDir()
	out, dead := filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "dead.jsonl")
	g := compose(t, text, "sink={jsonl: {path: "+out+"}}", "dead_letter={jsonl: {path: "+dead+"}}")
	s = expect.Get(Run{Graph: g}.Execute(context.Background(), nil))(t)
	if s.outputsKept {
		read := func(path string) []string {
			if path += ".partial"; !slices.Contains(s.Partial, path) {
				return []string{""}
			}
			return readLines(t, path)
		}
		return s, read(out), read(dead)
	}
	return s, readLines(t, out), readLines(t, dead)
}

func readLines(t testing.TB, path string) []string {
	t.Helper()
	text := expect.Get(os.ReadFile(path))(t)
	return strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
}

func write(t testing.TB, name string, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	save(t, path, lines...)
	return path
}

func save(t testing.TB, path string, lines ...string) {
	t.Helper()
	expect.OK(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600))
}

// unmarshalled reads a line of JSON.
func unmarshalled[T any](t testing.TB, line string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	return v
}

// parse reads lines of JSON.
func parse[T any](t testing.TB, lines []string) []T {
	t.Helper()
	parsed := make([]T, len(lines))
	for i, line := range lines {
		parsed[i] = unmarshalled[T](t, line)
	}
	return parsed
}

// plainLoop runs the filter without a pipeline, and returns the records that a run must equal.
func plainLoop(t testing.TB, cfg keyed.Config, lines []string, name string) map[string][]string {
	t.Helper()
	cfg.Order = keyed.EventTime
	loop := newLoop(t, cfg)
	for i, line := range lines {
		loop.estimate(observationOf(t, line, fmt.Sprintf("%s:%d", name, i+1)))
	}
	return loop.out
}

// A loop filters observations one by one, separately for each key.
type loop struct {
	layout records.Layout
	est    *keyed.Estimator
	tracks map[string]*keyed.Track
	out    map[string][]string // the records of each key
}

func newLoop(t testing.TB, cfg keyed.Config) *loop {
	t.Helper()
	layout, est := expect.Get(records.NewLayout(cfg.Filter))(t), expect.Get(keyed.NewEstimator(cfg))(t)
	return &loop{layout, est, map[string]*keyed.Track{}, map[string][]string{}}
}

func (l *loop) estimate(o input) keyed.Estimate {
	if l.tracks[o.key] == nil {
		l.tracks[o.key] = l.est.NewTrack(o.key)
	}
	e := l.est.Estimate(l.tracks[o.key], o.Observation)
	record := string(l.layout.AppendEstimate(nil, records.Object, o.key, &e))
	l.out[o.key] = append(l.out[o.key], strings.TrimSuffix(record, "\n"))
	return e
}

// byKey groups estimate records by key, in the order of the file.
func byKey(t testing.TB, lines []string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, line := range lines {
		key := unmarshalled[struct{ Key string }](t, line).Key
		out[key] = append(out[key], strings.TrimSuffix(line, "\n"))
	}
	return out
}

func equal(t *testing.T, want, got any) {
	t.Helper()
	if reflect.DeepEqual(want, got) { // cmp takes seconds for large values
		return
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// observations returns n lines for the given number of keys, in the order of time.
func observations(n, keys int) []string {
	rng := rand.New(rand.NewPCG(3, 4))
	lines := make([]string, n)
	for i := range lines {
		x := rng.NormFloat64()
		if i > n/2 {
			x += 5
		}
		lines[i] = fmt.Sprintf("{\"key\":\"k%d\",\"time\":%q,\"x\":%.17g}\n", rng.IntN(keys), start.Add(time.Duration(i)*time.Second).Format(time.RFC3339), x)
	}
	return lines
}

var normalConfig = hafvf.Config{Family: "normal", Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: .9, Beta: .1}, {Alpha: 1, Beta: 1}}, Top: 1}}

// A run has more observations than fit into a bundle.
func TestRunOverManyBundles(t *testing.T) {
	expect.Waits(t, "more than a hundred thousand records")
	n := connectors.BundleRecords + 1_000
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("{\"key\":\"k%d\",\"time\":%q,\"x\":%d}\n", i%97, start.Add(time.Duration(i/1000)*time.Second).Format(time.RFC3339), i*i%2)
	}
	path := write(t, "in.jsonl", lines...)
	s, estimates, _ := runConfig(t, "model: {family: bernoulli}\nlevels: []\ntop: 0.99\nsource: {jsonl: {path: "+path+"}}\n")
	equal(t, int64(n), s.Records)
	cfg := keyed.Config{Filter: hafvf.Config{Family: "bernoulli", Prior: expfam.Params{"alpha": 1.0, "beta": 1.0}, Member: &hafvf.Member{Top: .99}}}
	equal(t, plainLoop(t, cfg, lines, "in.jsonl"), byKey(t, estimates))
}

// A run has an invalid record of each kind between two valid ones. It continues, and the dead letter has raw input,
// place and reason.
func TestRunRejects(t *testing.T) {
	for _, c := range []struct{ name, model, line, reason string }{
		{"text in a number", "{family: normal}", "k,2026-01-01T00:00:01Z,abc", `"abc" where a number is due`},
		{"infinite", "{family: normal}", "k,2026-01-01T00:00:01Z,inf", ""},
		{"below zero", "{family: poisson}", "k,2026-01-01T00:00:01Z,-1", "below zero"},
		{"fraction", "{family: poisson}", "k,2026-01-01T00:00:01Z,1.5", "not an integer"},
		{"not binary", "{family: bernoulli}", "k,2026-01-01T00:00:01Z,2", "neither 0 nor 1"},
		{"category", "{family: categorical, prior: {alpha: [1, 1]}}", "k,2026-01-01T00:00:01Z,2", "not one of the 2 categories"},
		{"no key", "{family: normal}", ",2026-01-01T00:00:01Z,1", "key"},
		{"time", "{family: normal}", "k,yesterday,1", "is in no known format"},
		{"no time", "{family: normal}", "k,,1", "no time"},
		{"late", "{family: normal}", "k,2025-01-01T00:00:01Z,1", "late: "},
		{"fields", "{family: normal}", "k,2026-01-01T00:00:01Z", "field"},
		{"encoding", "{family: normal}", "k,2026-01-01T00:00:01Z,\xff", "UTF-8"},
		{"quote", "{family: normal}", `k,2026-01-01T00:00:01Z,"1`, ""},
		{"no time", "{family: normal, season: [24h]}\norder: arrival", "k,,1", "no time; a season needs the time of every observation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, "in.csv", "key,time,x\n", "k,2026-01-01T00:00:00Z,1\n", c.line+"\n", "k,2026-01-01T00:00:02Z,1\n")
			s, estimates, rejected := runConfig(t, "model: "+c.model+"\nsource: {csv: {path: "+path+"}}\n")
			equal(t, int64(1), s.Rejected)
			equal(t, 2, len(estimates))
			r := unmarshalled[struct{ Reason, Place, Raw string }](t, rejected[0])
			equal(t, "in.csv:3", r.Place)
			equal(t, strings.ToValidUTF8(c.line, "\ufffd"), r.Raw)
			if !strings.Contains(r.Reason, c.reason) {
				t.Errorf("reason %q, want %q in it", r.Reason, c.reason)
			}
		})
	}
}

// The summary counts the lines that a source skips.
func TestRunPassesOver(t *testing.T) {
	path := write(t, "in.csv", "a note\n#\nkey,time,x\nk,2026-01-01T00:00:00Z,1\n#\n\nx,key,time\n2,k,2026-01-01T00:00:01Z\n")
	s, estimates, _ := runConfig(t, "model: {family: normal}\nsource: {csv: {path: "+path+", skip: 1, comment: \"#\"}}\n")
	equal(t, 2, len(estimates))
	if !strings.Contains(s.String(), "\n4 lines were skipped: ") {
		t.Error(s)
	}
}

// Errors before or during a run name the cause and the place, and no output file appears.
func TestRunFails(t *testing.T) {
	good := write(t, "in.csv", "key,time,x\n", "k,2026-01-01T00:00:00Z,1\n")
	folder := t.TempDir()
	for _, c := range []struct{ name, source, sink, want string }{
		{"missing file", "csv: {path: /no/such.csv}", "jsonl: {path: " + folder + "/o.jsonl}", "/no/such.csv"},
		{"missing column", "csv: {path: " + good + ", values: [y]}", "jsonl: {path: " + folder + "/o.jsonl}", `"y"`},
		{"empty file", "csv: {path: " + write(t, "empty.csv") + "}", "jsonl: {path: " + folder + "/o.jsonl}", "empty.csv"},
		{"folder of the sink", "csv: {path: " + good + "}", "jsonl: {path: /no/such/folder/o.jsonl}", "/no/such/folder"},
		{"full disk", "csv: {path: " + good + "}", "jsonl: {path: /dev/full}", "/dev/full"},
		{"sink under a file", "csv: {path: " + good + "}", "jsonl: {path: " + good + "/o.jsonl}", "o.jsonl"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Run{Graph: compose(t, "model: {family: normal}\nsource: {"+c.source+"}\nsink: {"+c.sink+"}\n")}.Execute(context.Background(), nil)
			expect.Error(t, err, c.want)
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has several lines: %v", err)
			}
			entries, _ := os.ReadDir(folder)
			equal(t, 0, len(entries))
		})
	}
}

// stopEarly runs a config, and stops it when it has written something.
func stopEarly(t *testing.T, text string) Summary {
	t.Helper()
	stop := make(chan struct{})
	once := sync.OnceFunc(func() { close(stop) })
	s, err := Run{Graph: compose(t, text), Progress: func(p Progress) {
		if p.Records > 0 {
			once()
		}
	}}.Execute(context.Background(), stop)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Stopped {
		t.Skip("the run was too fast to stop it")
	}
	return s
}

// A stopped run processes all records that it has read. Outputs and states stay unchanged until a run reaches its end.
func TestRunStops(t *testing.T) {
	expect.Long(t, "files that take seconds")
	t.Parallel()
	dir := t.TempDir()
	in, out, state := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out"), filepath.Join(dir, "state")
	lines := observations(600_000, 3)
	put := func(path string, lines ...string) {
		save(t, path, lines...)
	}
	for _, sink := range []struct{ format, ext string }{{"jsonl", ".jsonl"}, {"jsonl", ".jsonl.gz"}, {"parquet", ".parquet"}} {
		t.Run(sink.ext, func(t *testing.T) {
			os.Remove(state)
			path := out + sink.ext
			text := "model: {family: normal}\nlevels: []\ntop: 0.99\nstate: " + state + "\nsource: {jsonl: {path: " + in + "}}\nsink: {" + sink.format + ": {path: " + path + "}}\n"
			put(in, lines[:10]...)
			runWell(t, text)
			before, stateBefore := readFile(t, path), readFile(t, state)

			put(in, lines...)
			s := stopEarly(t, text)
			equal(t, []string{path + ".partial"}, s.Partial)
			if !strings.Contains(s.String(), "outputs and state are unchanged; the output of this run is in "+path+".partial") {
				t.Errorf("the summary is %s", s)
			}
			if readFile(t, path) != before || readFile(t, state) != stateBefore {
				t.Error("the output or the state was replaced")
			}
			whole := filepath.Join(dir, "part"+sink.ext) // the extension determines the format
			expect.OK(t, os.Rename(path+".partial", whole))
			rd := expect.Get(connectors.Open(connectors.Source{Format: sink.format, Path: whole, Key: []string{"key"}, Values: []string{"n"}}))(t)
			defer rd.Close()
			n := int64(0)
			_, err := rd.Next()
			for ; err == nil; n++ {
				_, err = rd.Next()
			}
			equal(t, io.EOF, err)
			equal(t, s.Records, n)

			put(path+".partial", "of a run before")
			put(in, lines[:20]...)
			runWell(t, text)
			if readFile(t, path) == before || readFile(t, state) == stateBefore {
				t.Error("a whole run replaced nothing")
			}
			if _, err := os.Stat(path + ".partial"); err == nil {
				t.Error("the part is still there")
			}
		})
	}
}

// This also holds for a bounded topic with an output file.
func TestBoundedTopicStops(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.csv")
	const before = "of the run before"
	expect.OK(t, os.WriteFile(path, []byte(before), 0o600))
	b := fakeBus(t, 1)
	b.put(t, observations(10_000, 3)...)
	brokers, _ := json.Marshal(b.brokers)
	text := fmt.Sprintf("model: {family: normal}\nsource: {kafka: {brokers: %s, topics: [in], bounded: true}}\nsink: {csv: {path: %s}}\n", brokers, path)
	s := stopEarly(t, text)
	equal(t, []string{path + ".partial"}, s.Partial)
	equal(t, before, readFile(t, path))
	equal(t, int(s.Records)+1, len(readLines(t, path+".partial"))) // includes the header
	whole := runWell(t, text)
	equal(t, 10_000, int(whole.Records))
	equal(t, 10_001, len(readLines(t, path)))
	if _, err := os.Stat(path + ".partial"); err == nil {
		t.Error("the part is still there")
	}
}

// A run that fails keeps its output in a separate file, and leaves the output of the previous run.
func TestRunFailsInTheMiddle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, state := filepath.Join(dir, "out.csv"), filepath.Join(dir, "state")
	in := filepath.Join(dir, "in.jsonl.gz")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for _, line := range observations(100_000, 3) {
		z.Write([]byte(line))
	}
	z.Close()
	expect.OK(t, os.WriteFile(in, packed.Bytes()[:packed.Len()/2], 0o600))
	expect.OK(t, os.WriteFile(out, []byte("of the run before"), 0o600))
	s, err := Run{Graph: compose(t, "model: {family: normal}\nlevels: []\nstate: "+state+"\nsource: {jsonl: {path: "+in+"}}\nsink: {csv: {path: "+out+"}}\n")}.Execute(context.Background(), nil)
	expect.Error(t, err, "cut off")
	if !strings.Contains(s.UnchangedOutputs(), out+".partial") {
		t.Errorf("kept: %s", s.UnchangedOutputs())
	}
	if got := readFile(t, out); got != "of the run before" {
		t.Errorf("the output is %q", got)
	}
	if part := readFile(t, out+".partial"); !strings.HasPrefix(part, "key,time,id,") || !strings.HasSuffix(part, "\n") {
		t.Errorf("the part is %.100q", part)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}

// runWell runs a config to its end.
func runWell(t *testing.T, text string) Summary {
	t.Helper()
	s, err := Run{Graph: compose(t, text)}.Execute(context.Background(), nil)
	if err == nil {
		err = s.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text := expect.Get(os.ReadFile(path))(t)
	return string(text)
}

// detected returns n lines of each of two keys: "steady" with an outlier, and "jumps" with a change of 6 standard
// deviations in the middle. No prior has their scale and location.
func detected(n int) []string {
	rng := rand.New(rand.NewPCG(5, 6))
	var lines []string
	for i := range n {
		steady, jumps := rng.NormFloat64(), rng.NormFloat64()
		if i == n/2+7 {
			steady += 30
		}
		if i >= n/2 {
			jumps += 6
		}
		stamp := start.Add(time.Duration(i) * time.Minute).Format(time.RFC3339)
		lines = append(lines, fmt.Sprintf("{\"key\":\"steady\",\"time\":%q,\"x\":%.17g}\n", stamp, 5000+100*steady),
			fmt.Sprintf("{\"key\":\"jumps\",\"time\":%q,\"x\":%.17g}\n", stamp, -1e-3*jumps))
	}
	return lines
}

type alertRecord struct {
	Key, Kind, ID            string
	Time, Start              time.Time
	Corrects                 *string
	Delay                    int
	Odds                     float64
	Score, X, Size           float64
	Predicted, Before, After struct{ Mean, SD float64 }
	Message                  string
}

// With priors from the data, an outlier in one key and a change in the other, there are alerts of alarms and of
// beliefs.
func TestRunDetects(t *testing.T) {
	const n = 400
	lines := detected(n)
	path := write(t, "in.jsonl", lines...)
	alerts := filepath.Join(t.TempDir(), "alerts.jsonl")
	s, estimates, _ := runConfig(t, "model: {family: normal, prior: auto}\ndetect: true\nalerts: {jsonl: {path: "+alerts+"}, beliefs: [outlier, change, revision]}\nsource: {jsonl: {path: "+path+"}}\n")
	type record struct {
		Key    string
		Detect struct {
			Kind  string
			Alarm *string
		}
	}
	kinds, alarms := map[string]int{}, map[string]int{}
	for _, r := range parse[record](t, estimates) {
		kinds[r.Key+" "+r.Detect.Kind]++
		if a := r.Detect.Alarm; a != nil {
			alarms[r.Key+" "+*a]++
		}
	}
	if kinds["steady outlier"] != 1 || kinds["steady change"] != 0 || kinds["jumps change"] != 1 {
		t.Errorf("kinds %v", kinds)
	}
	equal(t, [...]int64{1, int64(kinds["steady outlier"] + kinds["jumps outlier"])}, [...]int64{s.Changes, s.Outliers})
	// The change is first a novelty; when it is detected, it belongs to the same incident.
	if len(alarms) != 2 || alarms["steady novelty"] != 1 || alarms["jumps novelty"] != 1 {
		t.Errorf("alarms %v", alarms)
	}
	equal(t, [...]int64{2, 0}, [...]int64{s.NoveltyAlarms, s.ChangeAlarms})
	if len(s.Largest) != 2 || s.Largest[0].Key != "steady" || !s.Largest[0].Time.Equal(start.Add((n/2+7)*time.Minute)) {
		t.Errorf("summary %v", s.Largest)
	}
	got := map[string]alertRecord{}
	for _, a := range parse[alertRecord](t, readLines(t, alerts)) {
		got[a.Key+" "+a.Kind] = a
	}
	equal(t, 2+kinds["steady outlier"]+kinds["jumps outlier"]+1, len(readLines(t, alerts)))
	if a := got["jumps novelty"]; a.Size > -3 || a.Score < 4 || a.X > -3e-3 || math.Abs(a.Predicted.Mean) > 5e-3 ||
		!strings.HasPrefix(a.Message, "jumps is 0.0062 (5.4 sd) below usual since 2026-01-02 06:24 (1 min): -0.0065, usual") {
		t.Errorf("alert %+v", a)
	}
	// It starts at the previous value, in the alert and in the record.
	equal(t, start.Add(n/2*time.Minute), got["jumps novelty"].Start)
	equal(t, 1, got["jumps novelty"].Delay)
	o, c := got["steady outlier"], got["jumps change"]
	equal(t, start.Add((n/2+7)*time.Minute), o.Start)
	equal(t, fmt.Sprintf("in.jsonl:%d", 2*(n/2+7)+1), o.ID)
	equal(t, start.Add(n/2*time.Minute), c.Start)
	equal(t, c.Time, c.Start.Add(time.Duration(c.Delay)*time.Minute))
	if math.Abs(c.Before.Mean) > 1e-3 || math.Abs(c.After.Mean+6e-3) > 1.5e-3 || c.Odds < 2 || c.Corrects != nil {
		t.Errorf("alert %+v", c)
	}
}

// Beam panics if there is no temporary folder, as in some containers. Beam's own way to run a pipeline leaves an empty
// file in TMPDIR.
func TestRunLeavesTheTemporaryFolderAlone(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.jsonl")
	graph := compose(t, "model: {family: normal}\nsource: {csv: {path: ../testdata/nab/cloud.csv}}\nsink: {jsonl: {path: "+out+"}}\n")
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if _, err := (Run{Graph: graph}).Execute(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// In a column of Unix times, a number with the digits of a date is a Unix time too.
func TestRunOfUnixTimes(t *testing.T) {
	in, out := filepath.Join(t.TempDir(), "in.csv"), filepath.Join(t.TempDir(), "out.jsonl")
	save(t, in, "key,time,x\n", "a,19991201,1\n", "a,19999999,1\n", "a,20000000,1\n", "a,20000101,1\n", "a,20000200,1\n", "a,20000300,1\n")
	g := compose(t, "model: {family: normal}\nsource: {csv: {path: "+in+"}}\nsink: {jsonl: {path: "+out+"}}\n")
	summary := expect.Get(Run{Graph: g}.Execute(t.Context(), nil))(t)
	if records := string(expect.Get(os.ReadFile(out))(t)); strings.Count(records, `"time":"1970-08-20T`) != 6 || summary.Rejected > 0 {
		t.Error(summary, records)
	}
}
