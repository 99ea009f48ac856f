//go:build flink

package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/internal/dofn"
	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/flinktest"
	"hafvf/pipeline/config"
	"hafvf/pipeline/flink"
	"hafvf/transforms"
)

var (
	flinkRecords = flag.Int("flink-records", 0, "records of TestFlinkRates; use millions to measure")
	flinkKeys    = flag.Int("flink-keys", 1000, "keys of TestFlinkRates, in turn")
	flinkCells   = flag.Int("flink-cells", config.DefaultCells, "runner.cells of TestFlinkRates")
)

// filters are the filters whose rates are measured.
var filters = []struct {
	name, yaml string
	config     hafvf.Config
}{
	{"no level", "levels: []\ntop: 0.99\n", hafvf.Config{Family: "normal", Member: &hafvf.Member{Top: .99}}},
	{"two levels", "", hafvf.Config{Family: "normal", Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: .9, Beta: .1}, {Alpha: 1, Beta: 1}}, Top: 1}}},
	{"detect", "detect: true\n", hafvf.Config{Family: "normal", Bank: hafvf.DefaultBankFor("normal"), Detect: &hafvf.Detect{}}},
}

type site struct{ *e2e.Site }

func startSite(t *testing.T) *site {
	t.Helper()
	return &site{e2e.StartSite(t, program, flinktest.Config{TaskManagers: 1, Slots: 2, Measured: *flinkRecords > 0})}
}

// TestFlinkRates measures records per second; -v shows the rates.
func TestFlinkRates(t *testing.T) {
	if *flinkRecords == 0 {
		t.Skip("measures, with -flink-records N")
	}
	startSite(t).rates(t, *flinkRecords)
}

// rates measures records per second from topic to topic: on Flink at parallelism 1 and 2, in this process, and in a
// plain loop over decoded observations. It also measures the node alone, in blocks. The rates are those of the last
// four fifths of the records, and need millions of records to be meaningful.
func (s *site) rates(t *testing.T, n int) {
	keys := *flinkKeys
	s.Broker.CreateTopic(t, "in", 8, nil)
	rng := rand.New(rand.NewPCG(3, 4))
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var records []*kgo.Record
	for i := range n {
		key := fmt.Sprintf("k%d", i%keys)
		value := fmt.Sprintf(`{"key":%q,"time":%q,"x":%.6g}`, key, begin.Add(time.Duration(i)*time.Second).Format(time.RFC3339), rng.NormFloat64())
		records = append(records, &kgo.Record{Topic: "in", Key: []byte(key), Value: []byte(value)})
		if len(records) == 100_000 || i == n-1 {
			s.Broker.Produce(t, records...)
			records = records[:0]
		}
	}
	for _, f := range filters {
		t.Run(f.name, func(t *testing.T) {
			t.Run("plain loop", func(t *testing.T) { t.Logf("%.0f records/s", plainLoop(t, f.config, keys, n)) })
			for _, runner := range []string{"embedded", "flink 1", "flink 2"} {
				t.Run(runner, func(t *testing.T) {
					out := strings.ReplaceAll(f.name+"-"+runner, " ", "-")
					s.Broker.CreateTopic(t, out, 8, nil)
					text := fmt.Sprintf("model: {family: normal}\norder: arrival\nsource: {kafka: {brokers: [%q], topics: [in]}}\nsink: {kafka: {topic: %s}}\ndead_letter: {kafka: {topic: rejected}}\n%s",
						s.Broker.Addr(), out, f.yaml)
					if parallelism, ok := strings.CutPrefix(runner, "flink "); ok {
						text += fmt.Sprintf("runner: {name: flink, endpoint: %q, rest: %q, worker: %q, parallelism: %s, cells: %d}\n", s.Endpoint(), s.REST(), s.Worker(), parallelism, *flinkCells)
					}
					cfg := filepath.Join(t.TempDir(), "rates.yaml")
					expect.OK(t, os.WriteFile(cfg, []byte(text), 0o600))
					d := program.Start(t, nil, "run", cfg)
					t.Logf("%.0f records/s", s.rate(t, d, out, n))
					if strings.HasPrefix(runner, "flink") {
						s.size(t, d, keys)
						s.Halt(t, cfg, d)
					} else {
						d.Stop(t)
					}
				})
			}
			for parallelism := 1; parallelism <= 2; parallelism++ {
				t.Run(fmt.Sprintf("blocks %d", parallelism), func(t *testing.T) {
					t.Logf("%.0f records/s, without Kafka", s.inBlocks(t, f.config, keys, n, parallelism))
				})
			}
		})
	}
}

// size measures a checkpoint of all keys, and the time that a job with a killed worker needs to resume from it.
func (s *site) size(t *testing.T, d *e2e.Daemon, keys int) {
	const job = "hafvf"
	first := s.Status(t, job)
	last := s.Await(t, d, job, "a checkpoint of all", func(now flink.Status) bool { return now.Completed >= first.Completed+2 })
	t.Logf("checkpoint: %d bytes, %d for each key, in %v", last.Checkpoint.Bytes, last.Checkpoint.Bytes/int64(keys), last.Checkpoint.Took)
	begin := time.Now()
	s.Workers[0].Kill()
	s.StartWorker(0)
	s.Await(t, d, job, "the job resumes", func(now flink.Status) bool {
		return now.Restored > last.Restored && now.State == "RUNNING" && now.Completed > last.Completed
	})
	t.Logf("restored, with another checkpoint: %v", time.Since(begin))
}

func init() {
	register.Function2x0((&seedFn{}).ProcessElement)
	dofn.Register(func(f *seedFn) any { return f.ProcessElement })
	register.Function2x0((&drawFn{}).ProcessElement)
	dofn.Register(func(f *drawFn) any { return f.ProcessElement })
	register.Function2x0((&dropFn{}).ProcessElement)
	dofn.Register(func(f *dropFn) any { return f.ProcessElement })
	register.Emitter1[int]()
	register.Emitter1[draw]()
	register.Function1x2(observeDraw)
}

// drawn is the number of observations per seed.
const drawn = 10_000

type seedFn struct{ N int }

func (fn *seedFn) ProcessElement(_ []byte, emit func(int)) {
	for i := range fn.N {
		emit(i)
	}
}

type drawFn struct{ Keys int }

// draw is a value of a key.
type draw struct {
	Key string
	X   float64
}

func observeDraw(d draw) (string, keyed.Observation) {
	return d.Key, keyed.Observation{X: [][]float64{{d.X}}}
}

func (fn *drawFn) ProcessElement(seed int, emit func(draw)) {
	rng := rand.New(rand.NewPCG(5, uint64(seed)))
	for range drawn {
		emit(draw{fmt.Sprint("k", rng.IntN(fn.Keys)), rng.NormFloat64()})
	}
}

type dropFn struct{}

func (*dropFn) ProcessElement(string, keyed.Estimate) {}

// inBlocks returns the rate of a job that draws observations, filters them, and drops the estimates, including its
// start.
func (s *site) inBlocks(t *testing.T, cfg hafvf.Config, keys, n, parallelism int) float64 {
	t.Helper()
	p, root := beam.NewPipelineWithRoot()
	seeds := beam.Reshuffle(root, beam.ParDo(root, &seedFn{max(n/drawn, 1)}, beam.Impulse(root)))
	out := transforms.Filter(root, keyed.Config{Filter: cfg, Order: keyed.Arrival}, observeDraw, beam.ParDo(root, &drawFn{keys}, seeds))
	beam.ParDo0(root, &dropFn{}, out.Estimates)
	version, _ := versions()
	job, err := s.Jobs.Submit(t.Context(), func() (*beam.Pipeline, error) { return p, nil }, flink.Options{
		Name: "blocks", Parallelism: parallelism, MaxParallelism: 128, CheckpointInterval: 10 * time.Second,
		Worker: s.Worker(), Version: version,
	})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	expect.OK(t, job.Start(t.Context()))
	total, got := int64(max(n/drawn, 1)*drawn), int64(0)
	for deadline := time.Now().Add(20 * time.Minute); got < total; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d observations", got, total)
		}
		counts := expect.Get(job.Counters(t.Context(), "hafvf"))(t)
		got = counts["records"]
	}
	rate := float64(total) / time.Since(begin).Seconds()
	expect.OK(t, job.Cancel(t.Context()))
	return rate
}

// rate waits until a topic has n records, and returns the rate of the last four fifths.
func (s *site) rate(t *testing.T, d *e2e.Daemon, topic string, n int) float64 {
	t.Helper()
	var start time.Time
	first, got := 0, 0
	deadline := time.Now().Add(40 * time.Minute)
	for got < n {
		got = int(e2e.Held(t, s.Broker, topic))
		if start.IsZero() && got >= n/5 {
			start, first = time.Now(), got
		}
		select {
		case <-d.Exited():
			t.Fatalf("the program has ended\n%s", d.Log())
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d records\n%s", got, n, d.Log())
		}
	}
	return float64(got-first) / time.Since(start).Seconds()
}

func plainLoop(t *testing.T, cfg hafvf.Config, keys, n int) float64 {
	t.Helper()
	est := expect.Get(keyed.NewEstimator(keyed.Config{Filter: cfg, Order: keyed.Arrival}))(t)
	tracks := make([]*keyed.Track, keys)
	for k := range tracks {
		tracks[k] = est.NewTrack(fmt.Sprintf("k%d", k))
	}
	rng := rand.New(rand.NewPCG(3, 4))
	n = min(n, 500_000)
	begin := time.Now()
	for range n {
		est.Estimate(tracks[rng.IntN(keys)], keyed.Observation{X: [][]float64{{rng.NormFloat64()}}})
	}
	return float64(n) / time.Since(begin).Seconds()
}
