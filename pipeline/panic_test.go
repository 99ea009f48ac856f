package pipeline

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"hafvf/hafvf/expfam"
)

// brittle is a normal whose samples panic at values above 1000.
type brittle struct{ expfam.Model }

func init() {
	expfam.Register("brittle", func(p expfam.Prior, _ int) (expfam.Model, error) {
		m, err := expfam.New("normal", nil, 0)
		if err != nil {
			return nil, err
		}
		return brittle{m}, p.Done()
	})
}

func (m brittle) Observe(d, x []float64, weight float64) {
	if x[0] > 1000 {
		panic("it breaks")
	}
	m.Model.Observe(d, x, weight)
}

// A panic of one key's mathematics sends its records to the dead letter, and the run goes on with
// all others. The log has the place once for each key, and summary and metrics the number.
func TestRunOfPanics(t *testing.T) {
	for _, transform := range []string{"filter", "smooth"} {
		t.Run(transform, func(t *testing.T) {
			var lines []string
			for i := range 90 {
				x := i % 3
				if i%20 == 5 {
					x = 5000
				}
				lines = append(lines, fmt.Sprintf("{\"key\": \"bad\", \"time\": %q, \"x\": %d}\n", stampOf(i, 100*(i/30)), x), fmt.Sprintf("{\"key\": \"good\", \"time\": %q, \"x\": %d}\n", stampOf(i, 0), i%3))
			}
			path := write(t, "in.jsonl", lines...)
			dir := t.TempDir()
			out, dead := filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "dead.jsonl")
			more := ""
			if transform == "smooth" {
				more = "\nsession: {gap: 10m}"
			}
			g := compose(t, "transform: "+transform+more+"\nmodel: {family: brittle}\nsource: {jsonl: {path: "+path+"}}\n", "sink={jsonl: {path: "+out+"}}", "dead_letter={jsonl: {path: "+dead+"}}")
			var log strings.Builder
			m := NewMetrics()
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(m)
			s, err := Run{Graph: g, Log: slog.New(slog.NewTextHandler(&log, nil)), Metrics: m}.Execute(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			rejected := readLines(t, dead)
			broken := map[string]int{"filter": 5, "smooth": 90}[transform] // a session goes as a whole
			if s.Rejected != int64(broken) || len(rejected) != broken || len(readLines(t, out)) != 180-broken {
				t.Errorf("%d rejected, %d of them in the dead letter; %d records", s.Rejected, len(rejected), len(readLines(t, out)))
			}
			for _, r := range rejected {
				if !strings.Contains(r, "it breaks") {
					t.Fatal(r)
				}
			}
			if n := strings.Count(log.String(), "the mathematics of a key panicked"); n != 1 || !strings.Contains(log.String(), "brittle") || !strings.Contains(log.String(), "key=bad") {
				t.Errorf("%d lines about it: %s", n, log.String())
			}
			panics := map[string]int64{"filter": 5, "smooth": 3}[transform]
			if s.Panics != panics || !strings.Contains(s.String(), fmt.Sprintf("panicked %d times", panics)) {
				t.Error(s)
			}
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "hafvf_panics_total" })
			if i < 0 || families[i].GetMetric()[0].GetCounter().GetValue() != float64(panics) {
				t.Errorf("metric %v, want %d", families, panics)
			}
		})
	}
}

func stampOf(minutes, more int) string {
	return time.Date(2026, 1, 1, 0, minutes+more, 0, 0, time.UTC).Format(time.RFC3339)
}
