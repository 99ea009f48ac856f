package brittle

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"hafvf/internal/testing/expect"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
)

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	os.Exit(m.Run())
}

// If the mathematics of one key panics, its records go to the dead letter, and the run continues with the other
// keys. The log has one line per key with the stack; summary and metrics have the number of panics.
func TestRunOfPanics(t *testing.T) {
	for _, transform := range []string{"filter", "smooth"} {
		t.Run(transform, func(t *testing.T) {
			var lines []string
			for i := range 90 {
				x := i % 3
				if i%20 == 5 {
					x = 5000
				}
				lines = append(lines, fmt.Sprintf("{\"key\": \"bad\", \"time\": %q, \"x\": %d}\n", timestamp(i, 100*(i/30)), x), fmt.Sprintf("{\"key\": \"good\", \"time\": %q, \"x\": %d}\n", timestamp(i, 0), i%3))
			}
			dir := t.TempDir()
			path, out, dead := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "dead.jsonl")
			expect.OK(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600))
			session := ""
			if transform == "smooth" {
				session = "\nsession: {gap: 10m}"
			}
			text := "transform: " + transform + session + "\nmodel: {family: brittle}\nsource: {jsonl: {path: " + path + "}}\nsink: {jsonl: {path: " + out + "}}\ndead_letter: {jsonl: {path: " + dead + "}}\n"
			cfg := expect.Get(config.Parse("test.yaml", []byte(text), nil))(t)
			g := expect.Get(pipeline.Compose(cfg))(t)
			var log strings.Builder
			m := pipeline.NewMetrics()
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(m)
			s := expect.Get(pipeline.Run{Graph: g, Log: slog.New(slog.NewTextHandler(&log, nil)), Metrics: m}.Execute(t.Context(), nil))(t)
			rejected := readLines(t, dead)
			nRejected := map[string]int{"filter": 5, "smooth": 90}[transform] // a session is rejected as a whole
			if s.Rejected != int64(nRejected) || len(rejected) != nRejected || len(readLines(t, out)) != 180-nRejected {
				t.Errorf("%d rejected, %d of them in the dead letter; %d records", s.Rejected, len(rejected), len(readLines(t, out)))
			}
			for _, r := range rejected {
				if !strings.Contains(r, "it breaks") {
					t.Fatal(r)
				}
			}
			if n := strings.Count(log.String(), "the computation of a key panicked"); n != 1 || !strings.Contains(log.String(), "brittle") || !strings.Contains(log.String(), "key=bad") {
				t.Errorf("%d lines about it: %s", n, log.String())
			}
			panics := map[string]int64{"filter": 5, "smooth": 3}[transform]
			if s.Panics != panics || !strings.Contains(s.String(), fmt.Sprintf("panicked %d times", panics)) {
				t.Error(s)
			}
			families := expect.Get(registry.Gather())(t)
			i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "hafvf_panics_total" })
			if i < 0 || families[i].GetMetric()[0].GetCounter().GetValue() != float64(panics) {
				t.Errorf("metric %v, want %d", families, panics)
			}
		})
	}
}

func timestamp(minutes, extra int) string {
	return time.Date(2026, 1, 1, 0, minutes+extra, 0, 0, time.UTC).Format(time.RFC3339)
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	text := expect.Get(os.ReadFile(path))(t)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}
