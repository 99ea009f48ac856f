package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/connectors/kafkaio/kafkatest"
)

func init() {
	register.DoFn2x0[kafkaio.Record, func([]byte)](&countRecordsFn{})
}

// countRecordsFn counts what a source gives.
type countRecordsFn struct{}

var countedRecords atomic.Int64

func (*countRecordsFn) ProcessElement(kafkaio.Record, func([]byte)) { countedRecords.Add(1) }

// produceMany produces n observations of 10,000 keys.
func (b *bus) produceMany(t testing.TB, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	var records []*kgo.Record
	for i := range n {
		key := fmt.Sprintf("k%d", rng.IntN(10_000))
		value := fmt.Sprintf(`{"key":%q,"time":%q,"x":%.6g}`, key, start.Add(time.Duration(i)*time.Second).Format(time.RFC3339), rng.NormFloat64())
		records = append(records, &kgo.Record{Topic: "in", Key: []byte(key), Value: []byte(value)})
		if len(records) == 100_000 || i == n-1 {
			b.Produce(t, records...)
			records = records[:0]
		}
	}
}

// rawRead reads a topic of n records by kafka-go alone, a connection per
// partition.
func (b *bus) rawRead(t testing.TB, n int) {
	t.Helper()
	_, ends := b.Offsets(t, "in")
	var g sync.WaitGroup
	for p, end := range ends {
		g.Go(func() {
			conn, err := kafka.DialLeader(context.Background(), "tcp", b.brokers[0], "in", p)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			conn.Seek(0, kafka.SeekAbsolute)
			for at := int64(0); at < end; {
				conn.SetDeadline(time.Now().Add(10 * time.Second))
				batch := conn.ReadBatch(1, 1<<20)
				for {
					m, err := batch.ReadMessage()
					if err != nil {
						break
					}
					at = m.Offset + 1
				}
				if err := batch.Close(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	g.Wait()
}

// BenchmarkKafka measures records per second from a real broker: read by
// kafka-go alone, by the source and counted, and from Kafka through the filter
// (normal, two levels, 10,000 keys) to Kafka, without and with a changelog; and
// the memory of the last over its course. Run it with -benchtime 1x and -records
// for their number.
func BenchmarkKafka(b *testing.B) {
	n := *benchRecords
	broker := kafkatest.Start(b, kafkatest.Config{})
	bus := &bus{broker.Client, []string{broker.Addr()}, b.TempDir()}
	bus.CreateTopic(b, "in", 8, nil)
	bus.produceMany(b, n)
	report := func(b *testing.B) {
		b.ReportMetric(float64(b.N)*float64(n)/b.Elapsed().Seconds(), "records/s")
	}
	b.Run("kafka-go", func(b *testing.B) {
		for b.Loop() {
			bus.rawRead(b, n)
		}
		report(b)
	})
	b.Run("source", func(b *testing.B) {
		for b.Loop() {
			countedRecords.Store(0)
			p, s := beam.NewPipelineWithRoot()
			src := kafkaio.Source{Cluster: kafkaio.Cluster{Brokers: bus.brokers}, Topics: []string{"in"}, Start: kafkaio.Start{At: kafkaio.Earliest}, Bounded: true}
			connectors.End(s, beam.ParDo(s, &countRecordsFn{}, kafkaio.Read(s, src, "")))
			if err := execute(context.Background(), p); err != nil {
				b.Fatal(err)
			}
			if got := countedRecords.Load(); got != int64(n) {
				b.Fatalf("%d of %d records", got, n)
			}
		}
		report(b)
	})
	for _, more := range []string{"", ", changelog: states"} {
		b.Run("filter"+strings.ReplaceAll(more, ", changelog: states", " with changelog"), func(b *testing.B) {
			for b.Loop() {
				var at []string
				g := compose(b, bus.config("bounded: true, group: g"+strconv.Itoa(len(more))+more, "order: arrival"))
				every := max(int64(n/10), 1)
				next := every
				s, err := Run{Graph: g, Progress: func(p Progress) {
					if p.Read >= next {
						next += every
						at = append(at, fmt.Sprintf("%d MB", resident()>>20))
					}
				}}.Execute(context.Background(), nil)
				if err != nil || s.Records != int64(n) {
					b.Fatal(s.Records, err)
				}
				b.Log("memory at every tenth:", at)
			}
			report(b)
		})
	}
}

// resident is the process's resident memory in bytes, 0 where /proc does not
// tell.
func resident() int64 {
	text, _ := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
