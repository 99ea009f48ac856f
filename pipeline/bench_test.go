package pipeline

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
)

var benchRecords = flag.Int("records", 1_000_000, "records of the benchmark")

// BenchmarkRun measures records per second through the whole pipeline, file to
// file, beside the plain loop over the same decoded lines. Run it with
// -benchtime 1x; resident memory is the process's peak so far.
func BenchmarkRun(b *testing.B) {
	n := *benchRecords
	for _, keys := range []int{1, 100, 100_000} {
		lines := observations(n, keys)
		b.Run(fmt.Sprintf("keys=%d/loop", keys), func(b *testing.B) {
			for b.Loop() {
				est := expect.Get(keyed.NewEstimator(keyed.Config{Filter: normalConfig, Order: keyed.EventTime}))(b)
				l := expect.Get(records.NewLayout(normalConfig))(b)
				tracks := map[string]*keyed.Track{}
				var out []byte
				for _, line := range lines {
					key, o, err := decodeJSON([]byte(line))
					if err != nil {
						b.Fatal(err)
					}
					if tracks[key] == nil {
						tracks[key] = est.NewTrack(key)
					}
					e := est.Estimate(tracks[key], o)
					out = l.AppendEstimate(out[:0], records.Object, key, &e)
				}
			}
			b.ReportMetric(float64(b.N)*float64(n)/b.Elapsed().Seconds(), "records/s")
		})
		path := write(b, "in.jsonl", lines...)
		b.Run(fmt.Sprintf("keys=%d/direct", keys), func(b *testing.B) {
			out := filepath.Join(b.TempDir(), "out.jsonl")
			cfg := expect.Get(config.Parse("bench.yaml", []byte("model: {family: normal}\nsource: {jsonl: {path: "+path+"}}\nsink: {jsonl: {path: "+out+"}}\n"), nil))(b)
			g := expect.Get(Compose(cfg))(b)
			for b.Loop() {
				expect.Get(Run{Graph: g}.Execute(context.Background(), nil))(b)
			}
			b.ReportMetric(float64(b.N)*float64(n)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(peakMB(), "peak-MB")
		})
	}
}

// peakMB is the process's peak resident memory, 0 where the system does not say.
func peakMB() float64 {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024
		}
	}
	return 0
}
