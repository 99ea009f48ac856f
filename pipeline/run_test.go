package pipeline

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf"
	"hafvf/transforms"
)

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	os.Exit(m.Run())
}

// runConfig runs a config and returns the lines of its sink and its dead letter.
func runConfig(t testing.TB, text string) (s Summary, estimates, rejected []string) {
	t.Helper()
	dir := t.TempDir()
	out, dead := filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "dead.jsonl")
	cfg, err := Parse("test.yaml", []byte(text), []string{"sink={jsonl: {path: " + out + "}}", "dead_letter={jsonl: {path: " + dead + "}}"})
	if err != nil {
		t.Fatal(err)
	}
	g, err := cfg.Graph()
	if err != nil {
		t.Fatal(err)
	}
	s, err = Run{Graph: g}.Execute(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, readLines(t, out), readLines(t, dead)
}

func readLines(t testing.TB, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
}

func write(t testing.TB, name string, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// plainLoop is the filter without a pipeline: the records that it must equal.
func plainLoop(t testing.TB, cfg hafvf.Config, lines []string, name string) map[string][]string {
	t.Helper()
	l, err := newLayout(cfg)
	if err != nil {
		t.Fatal(err)
	}
	est, err := transforms.NewEstimator(cfg)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	states := map[string]hafvf.State{}
	for i, line := range lines {
		key, o, err := decodeJSON([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if states[key] == nil {
			states[key] = est.Filter().NewState()
		}
		o.ID = fmt.Sprintf("%s:%d", name, i+1)
		e := est.Estimate(states[key], int64(len(out[key])+1), o)
		out[key] = append(out[key], string(l.appendEstimate(nil, key, &e)))
	}
	return out
}

// byKey are estimate records by key, in the order of the file.
func byKey(t testing.TB, lines []string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, line := range lines {
		var r struct{ Key string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		out[r.Key] = append(out[r.Key], strings.TrimSuffix(line, "\n"))
	}
	return out
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// observations are n lines over the given number of keys, in order.
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

var normalConfig = hafvf.Config{Family: "normal", Levels: []hafvf.Beta{{Alpha: .9, Beta: .1}, {Alpha: 1, Beta: 1}}, Top: 1}

// TestRunEqualsPlainLoop compares the records of the pipeline with those of the
// plain loop, byte for byte, with many keys in one bundle.
func TestRunEqualsPlainLoop(t *testing.T) {
	lines := observations(20_000, 1000)
	path := write(t, "in.jsonl", lines...)
	s, estimates, rejected := runConfig(t, "model: {family: normal}\nsource: {jsonl: {path: "+path+"}}\n")
	equal(t, []string{""}, rejected)
	equal(t, int64(1000), s.Keys)
	equal(t, int64(20_000), s.Records)
	want := plainLoop(t, normalConfig, lines, "in.jsonl")
	for key := range want {
		for i := range want[key] {
			want[key][i] = strings.TrimSuffix(want[key][i], "\n")
		}
	}
	equal(t, want, byKey(t, estimates))
}
