package pipeline

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
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

	"hafvf/connectors/kafkaio"
	"hafvf/internal/dofn"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
	"hafvf/pipeline/direct"
)

func init() {
	register.Function1x0((&countRecordsFn{}).ProcessElement)
	dofn.Register(func(f *countRecordsFn) any { return f.ProcessElement })
}

// countRecordsFn counts the records of a source.
type countRecordsFn struct{}

var countedRecords atomic.Int64

func (*countRecordsFn) ProcessElement(kafkaio.Record) { countedRecords.Add(1) }

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

// rawRead reads a topic of n records with kafka-go, using one connection per partition.
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
			for offset := int64(0); offset < end; {
				conn.SetDeadline(time.Now().Add(10 * time.Second))
				batch := conn.ReadBatch(1, 1<<20)
				for {
					m, err := batch.ReadMessage()
					if err != nil {
						break
					}
					offset = m.Offset + 1
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

const fewRecords = 20_000

var (
	rateRecords = flag.Int("kafka-records", fewRecords, "records of TestKafkaRates")
	rateSeconds = flag.Int("kafka-seconds", 1, "length of TestKafkaLatency")
)

// rateBus returns a bus with a broker in Java if rates are measured, and otherwise with one in the process. The topic in
// has 8 partitions.
func rateBus(t *testing.T, measured bool) *bus {
	t.Helper()
	if !measured {
		return fakeBus(t, 8)
	}
	broker := kafkatest.Start(t, kafkatest.Config{Measured: true})
	broker.CreateTopic(t, "in", 8, nil)
	return &bus{broker.Client, []string{broker.Addr()}, t.TempDir()}
}

// TestKafkaRates measures records per second: read by kafka-go, read and counted by the source, and from Kafka through
// the filter (normal, two levels, 10,000 keys) to Kafka, without and with a changelog. For the last two it also measures
// the memory of the process during the run. The rates, which -v shows, are meaningful with -kafka-records in the
// millions. With more than the default, the broker is one in Java.
func TestKafkaRates(t *testing.T) {
	expect.Waits(t, "a broker")
	n := *rateRecords
	bus := rateBus(t, n > fewRecords)
	bus.produceMany(t, n)
	begin := time.Now()
	measured := func(label string) {
		took := time.Since(begin)
		t.Logf("%s: %.0f records/s", label, float64(n)/took.Seconds())
	}
	bus.rawRead(t, n)
	measured("kafka-go alone")

	begin = time.Now()
	countedRecords.Store(0)
	p, s := beam.NewPipelineWithRoot()
	src := kafkaio.Source{Cluster: kafkaio.Cluster{Brokers: bus.brokers}, Topics: []string{"in"}, Start: kafkaio.Start{At: kafkaio.Earliest}, Bounded: true}
	beam.ParDo0(s, &countRecordsFn{}, kafkaio.Read(s, src))
	expect.Get(direct.Execute(t.Context(), p))(t)
	equal(t, int64(n), countedRecords.Load())
	measured("source to count")

	for _, settings := range []string{"", ", changelog: states"} {
		begin = time.Now()
		var megabytes []string
		every := max(int64(n/10), 1)
		next := every
		g := compose(t, bus.config("bounded: true, group: g"+strconv.Itoa(len(settings))+settings, "order: arrival"))
		s, err := Run{Graph: g, Progress: func(p Progress) {
			if p.Read >= next {
				next += every
				megabytes = append(megabytes, strconv.FormatInt(resident()>>20, 10))
			}
		}}.Execute(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, int64(n), s.Records)
		measured("Kafka to filter to Kafka" + settings)
		t.Log("resident MB at every tenth:", strings.Join(megabytes, " "))
	}
}

// TestKafkaLatency measures the time from a record to its estimate, by the broker's clock, at 2,000 records/s of 10,000
// keys with two levels. The figures, which -v shows, are meaningful with -kafka-seconds of 60. With more than one
// second, the broker is one in Java.
func TestKafkaLatency(t *testing.T) {
	expect.Waits(t, "a broker")
	const rate = 2000
	b := rateBus(t, *rateSeconds > 1)
	for _, changelog := range []string{"", "states"} {
		in, out := "timed"+changelog, "out"+changelog
		for _, topic := range []string{in, out} {
			b.CreateTopic(t, topic, 8, map[string]string{"message.timestamp.type": "LogAppendTime"})
		}
		set := []string{"source.kafka.topics=[" + in + "]", "sink.kafka.topic=" + out}
		if changelog != "" {
			set = append(set, "source.kafka.changelog="+changelog)
		}
		r := launch(t, compose(t, b.config("group: g"+changelog, "order: arrival"), set...))
		producer := expect.Get(kgo.NewClient(kgo.SeedBrokers(b.brokers...)))(t)
		defer producer.Close()
		lines := observations(rate**rateSeconds, 10_000)
		begin := time.Now()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		var mem []string
		for i := 0; i < len(lines); i += rate / 100 {
			if len(lines)/10*len(mem) <= i {
				mem = append(mem, strconv.FormatInt(resident()>>20, 10))
			}
			<-tick.C
			for _, r := range b.records(t, lines[i:i+rate/100]...) {
				r.Topic = in
				producer.Produce(context.Background(), r, nil)
			}
		}
		fed := time.Since(begin)
		b.await(t, out, len(lines), r)
		r.halt(t)
		sent := map[string]time.Time{}
		for _, r := range b.Consume(t, in) {
			sent[fmt.Sprintf("%s-%d-%d", in, r.Partition, r.Offset)] = r.Timestamp
		}
		var took []time.Duration
		for _, r := range b.Consume(t, out) {
			took = append(took, r.Timestamp.Sub(sent[string(r.Headers[0].Value)]))
		}
		slices.Sort(took)
		p := func(percent int) time.Duration { return took[(len(took)-1)*percent/100] }
		t.Logf("changelog %q, %.0f records/s: p50 %v, p99 %v, most %v; resident MB at every tenth: %s", changelog, float64(len(lines))/fed.Seconds(), p(50), p(99), p(100), strings.Join(mem, " "))
	}
}

// resident returns the resident memory of the process in bytes, 0 without /proc.
func resident() int64 {
	text, _ := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
