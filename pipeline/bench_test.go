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

	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
)

var benchRecords = flag.Int("records", 1_000_000, "records of the benchmark")

// BenchmarkRun measures records per second through the whole pipeline, file to file. Run it with -benchtime 1x. The
// resident memory is the peak of the process so far.
func BenchmarkRun(b *testing.B) {
	n := *benchRecords
	for _, keys := range []int{1, 100, 100_000} {
		lines := observations(n, keys)
		path := write(b, "in.jsonl", lines...)
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
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

// peakMB returns the peak resident memory of the process, 0 if the system does not report it.
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
