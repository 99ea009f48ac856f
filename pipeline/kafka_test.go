package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
	"hafvf/pipeline/config"
)

// A bus is a cluster with a topic of observations.
type bus struct {
	*kafkatest.Client
	brokers []string
	dir     string
}

// fakeBus returns a bus with the given number of partitions of the topic in, and one partition of each further topic.
func fakeBus(t testing.TB, partitions int, topics ...string) *bus {
	t.Helper()
	brokers := kafkatest.Fake(t).ListenAddrs()
	b := &bus{kafkatest.Dial(brokers), brokers, t.TempDir()}
	b.CreateTopic(t, "in", partitions, nil)
	for _, topic := range topics {
		b.CreateTopic(t, topic, 1, nil)
	}
	return b
}

// put produces lines of JSON to the topic in, with their keys.
func (b *bus) put(t testing.TB, lines ...string) {
	t.Helper()
	b.Produce(t, b.records(t, lines...)...)
}

func (b *bus) records(t testing.TB, lines ...string) []*kgo.Record {
	t.Helper()
	records := make([]*kgo.Record, len(lines))
	for i, line := range lines {
		var o struct{ Key string }
		_ = json.Unmarshal([]byte(line), &o) // invalid JSON has no key
		records[i] = &kgo.Record{Topic: "in", Key: []byte(o.Key), Value: []byte(line)}
	}
	return records
}

// config returns a config that reads the topic in, and writes out and rejected.
func (b *bus) config(source, rest string) string {
	brokers, _ := json.Marshal(b.brokers)
	return fmt.Sprintf("model: {family: normal}\nsource: {kafka: {brokers: %s, topics: [in], %s}}\nsink: {kafka: {topic: out}}\ndead_letter: {kafka: {topic: rejected}}\n%s", brokers, source, rest)
}

func compose(t testing.TB, text string, set ...string) *Graph {
	t.Helper()
	cfg := expect.Get(config.Parse("test.yaml", []byte(text), append([]string{"records=full"}, set...)))(t)
	g := expect.Get(Compose(cfg))(t)
	return g
}

// quiet discards the log of a run.
var quiet = slog.New(slog.DiscardHandler)

// values returns the values in a topic by partition and offset, each with a line feed.
func (b *bus) values(t testing.TB, topic string) (lines []string) {
	t.Helper()
	for _, r := range b.Consume(t, topic) {
		lines = append(lines, string(r.Value)+"\n")
	}
	return lines
}

// learned has the key and number of an estimate.
type learned struct {
	Key string
	N   int
}

// learned returns the keys and numbers of a topic's estimates, in their order.
func (b *bus) learned(t testing.TB, topic string) []learned {
	t.Helper()
	return parse[learned](t, b.values(t, topic))
}

// loop runs a plain loop over each key's records in the topic in, in the order of their offsets.
func (b *bus) loop(t testing.TB, cfg keyed.Config) map[string][]string {
	t.Helper()
	cfg.Order = cmp.Or(cfg.Order, keyed.EventTime)
	loop := newLoop(t, cfg)
	for _, r := range b.Consume(t, "in") {
		loop.estimate(observationOf(t, string(r.Value), fmt.Sprintf("in-%d-%d", r.Partition, r.Offset)))
	}
	return loop.out
}

// running is a run in the background.
type running struct {
	stop chan struct{}
	done chan struct{}
	sum  Summary
	err  error
	read atomic.Int64 // records so far
}

func launch(t testing.TB, g *Graph) *running { return launchRun(t, Run{Graph: g}) }

func launchRun(t testing.TB, run Run) *running {
	r := &running{stop: make(chan struct{}), done: make(chan struct{})}
	run.Log, run.Progress = cmp.Or(run.Log, quiet), func(p Progress) { r.read.Store(p.Read) }
	go func() {
		defer close(r.done)
		r.sum, r.err = run.Execute(context.Background(), r.stop)
	}()
	return r
}

// halt stops the run and waits for its end.
func (r *running) halt(t testing.TB) Summary {
	t.Helper()
	close(r.stop)
	r.ends(t)
	expect.OK(t, r.err)
	return r.sum
}

// ends waits for the end of the run.
func (r *running) ends(t testing.TB) {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(time.Minute):
		t.Fatal("the run does not end")
	}
}

// await waits until the topic holds n records.
func (b *bus) await(t testing.TB, topic string, n int, r *running) {
	t.Helper()
	expect.Soon(t, fmt.Sprintf("%d records in %s", n, topic), func() bool {
		select {
		case <-r.done:
			t.Fatalf("the run has ended: %v", r.err)
		default:
		}
		have := 0
		_, end := b.Offsets(t, topic)
		for _, e := range end {
			have += int(e)
		}
		return have >= n
	})
}

// Observations that wait for earlier ones survive a restart: they are in the changelog or, without one, their offsets
// are not committed. They are released when the watermark has passed them.
func TestKafkaWaits(t *testing.T) {
	expect.Waits(t, "clocks")
	for _, changelog := range []string{"", ", changelog: states"} {
		t.Run("changelog="+strconv.FormatBool(changelog != ""), func(t *testing.T) {
			t.Parallel()
			b := fakeBus(t, 2, "out")
			lines := observations(400, 5)
			for i := 0; i+3 < len(lines); i += 4 {
				lines[i], lines[i+3] = lines[i+3], lines[i]
			}
			cfg := b.config("group: g, disorder: 4s"+changelog, "lateness: 4s")
			b.put(t, lines...)
			r := launch(t, compose(t, cfg))
			// The partitions are drained, and the present is far after these times.
			b.await(t, "out", 400, r)
			s := r.halt(t)
			equal(t, int64(0), s.Rejected)

			// These times are after any watermark: the records wait.
			future := time.Now().Add(30 * time.Minute).UTC()
			line := func(i int) string {
				return fmt.Sprintf("{\"key\":\"k1\",\"time\":%q,\"x\":%d}\n", future.Add(time.Duration(i)*time.Second).Format(time.RFC3339), i)
			}
			b.put(t, line(2), line(1))
			r = launch(t, compose(t, cfg))
			b.committed(t, "g", r, func(lag int64) bool { return lag == map[bool]int64{true: 0, false: 2}[changelog != ""] })
			r.halt(t)
			equal(t, 400, len(b.values(t, "out")))
			// The end of a bounded run releases them.
			s = expect.Get(Run{Graph: compose(t, cfg, "source.kafka.bounded=true")}.Execute(t.Context(), nil))(t)
			equal(t, int64(2), s.Records)
			out := byKey(t, b.values(t, "out"))["k1"]
			last := out[len(out)-2:]
			if !strings.Contains(last[0], `"x":1,`) || !strings.Contains(last[1], `"x":2,`) {
				t.Error(last)
			}
		})
	}
}

// The source waits for records that wait for the watermark, and the watermark waits for the source. A partition that
// lags behind another must not block the run.
func TestKafkaLaggingPartition(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]string{"lateness": "lateness: 10s", "silence": "silence: {after: 10s}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := fakeBus(t, 2)
			b.Client = kafkatest.Dial(b.brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
			b.CreateTopic(t, "out", 1, nil)
			now := time.Now().UTC().Truncate(time.Second)
			put := func(partition int32, hours float64) {
				text := fmt.Sprintf("{\"key\":\"k%d\",\"time\":%q,\"x\":1}", partition, now.Add(time.Duration(hours*float64(time.Hour))).Format(time.RFC3339))
				b.Produce(t, &kgo.Record{Topic: "in", Partition: partition, Value: []byte(text)})
			}
			put(0, -10)
			put(1, -20)
			r := launch(t, compose(t, b.config("group: g", waits)))
			for i := range 20 {
				put(0, -9+float64(i)/10)
				put(1, -19+float64(i)/10)
				b.await(t, "out", 2*i, r)
			}
			r.halt(t)
		})
	}
}

// committed waits until the lag of the group in the topic in meets the condition. It fails if the lag stays the same
// for three minutes.
func (b *bus) committed(t testing.TB, group string, r *running, condition func(lag int64) bool) {
	t.Helper()
	client := &kafka.Client{Addr: kafka.TCP(b.brokers...)}
	lag, start := int64(-1), time.Now()
	for ; time.Since(start) < 3*time.Minute; time.Sleep(50 * time.Millisecond) {
		before := lag
		select {
		case <-r.done:
			t.Fatalf("the run has ended, and the lag of %s is %d: %v", group, lag, r.err)
		default:
		}
		_, ends := b.Offsets(t, "in")
		var partitions []int
		lag = 0
		for p, end := range ends {
			partitions = append(partitions, p)
			lag += end
		}
		res := expect.Get(client.OffsetFetch(t.Context(), &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{"in": partitions}}))(t)
		for _, p := range res.Topics["in"] { // none if the group has no offsets
			lag -= max(0, p.CommittedOffset)
		}
		if condition(lag) && r.read.Load() >= 2 {
			return
		}
		if lag != before {
			start = time.Now()
		}
	}
	t.Fatalf("the lag of %s is %d", group, lag)
}

// If a topic pauses for longer than a gap, its sessions are written. Records read later join the same session or are
// late, as in a run that reads the topic without a pause.
func TestSessionsOfAPause(t *testing.T) {
	expect.Waits(t, "clocks")
	b := fakeBus(t, 1, "out", "rejected", "again", "again-rejected")
	line := func(key string, second float64) string {
		return fmt.Sprintf(`{"key":%q,"time":%q,"x":%g}`, key, start.Add(time.Duration(second*1e9)).Format(time.RFC3339Nano), second)
	}
	smooth := "transform: smooth\nsession: {gap: 1s}"
	r := launch(t, compose(t, b.config("group: g", smooth)))
	b.put(t, line("a", 0), line("b", .1), line("a", .2), line("b", .3))
	b.await(t, "out", 4, r)
	b.put(t, line("a", 1.1), line("b", 1.2), line("a", 1.9))
	b.await(t, "out", 4+5+2, r)
	b.put(t, line("c", 5000), line("d", 5000), line("a", 1.8))
	b.await(t, "rejected", 1, r)
	r.halt(t)
	expect.Get(Run{Graph: compose(t, b.config("bounded: true, group: again", smooth), "sink.kafka.topic=again", "dead_letter.kafka.topic=again-rejected")}.Execute(t.Context(), nil))(t)
	// last returns the records of the last revision, sorted by ID.
	last := func(topic string) (result []string) {
		revisions, lines := map[string]int{}, map[string]string{}
		for _, line := range b.values(t, topic) {
			type record struct {
				ID       string
				Revision int
			}
			s := unmarshalled[record](t, line)
			if prev, ok := revisions[s.ID]; !ok || s.Revision > prev {
				revisions[s.ID], lines[s.ID] = s.Revision, revision.ReplaceAllString(line, "")
			}
		}
		return slices.Sorted(maps.Values(lines))
	}
	equal(t, last("again"), last("out"))
	equal(t, b.values(t, "again-rejected"), b.values(t, "rejected"))
	if n := len(last("again")); n != 9 || len(b.values(t, "again")) != n {
		t.Errorf("%d records of %d observations in one revision", len(b.values(t, "again")), n)
	}
}

// A bounded topic has sessions of trials.
func TestTrialsOfATopic(t *testing.T) {
	b := fakeBus(t, 1, "out", "rejected")
	for _, trial := range []int{3, 1, 2, 2} {
		b.put(t, fmt.Sprintf(`{"key":"s","at":{"block":1},"time":%d,"x":%[1]d}`, trial))
	}
	expect.Get(Run{Graph: compose(t, b.config("bounded: true, group: g, time_format: trial", "transform: smooth\nsession: {by: at.block}"))}.Execute(t.Context(), nil))(t)
	var got []string
	for _, line := range b.values(t, "out") {
		r := unmarshalled[struct {
			ID   string
			Time any
			X    float64
		}](t, line)
		got = append(got, fmt.Sprint(r.ID, r.Time, r.X))
	}
	equal(t, []string{"s/1/1<nil> 1", "s/1/2<nil> 2", "s/1/3<nil> 3"}, got)
	if rejected := b.values(t, "rejected"); len(rejected) != 1 || !strings.Contains(rejected[0], "trial 2 of the session s/1 occurs twice: the first is in-0-2") {
		t.Errorf("%q", rejected)
	}
}

// revision matches the fields of a record that differ between revisions.
var revision = regexp.MustCompile(`"(revision|changed)":[^,}]*,?`)

// Files of a source without an end contain the records read so far. After a restart they continue after the last
// complete line.
func TestFilesGrow(t *testing.T) {
	t.Parallel()
	b := fakeBus(t, 4)
	lines := observations(2_000, 50)
	csv, rejected := filepath.Join(b.dir, "out.csv"), filepath.Join(b.dir, "rejected.jsonl")
	brokers, _ := json.Marshal(b.brokers)
	g := compose(t, fmt.Sprintf("model: {family: normal}\nsource: {kafka: {brokers: %s, topics: [in], group: g, changelog: states}}\nsink: {csv: {path: %s}}\ndead_letter: {jsonl: {path: %s}}\n", brokers, csv, rejected))
	rows := func(path string) int {
		text, _ := os.ReadFile(path)
		return strings.Count(string(text), "\n")
	}
	for i := range 2 {
		b.put(t, lines[1000*i:1000*(i+1)]...)
		b.Produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("oops")})
		r := launch(t, g)
		expect.Soon(t, "rows and rejects", func() bool { return rows(csv) > 1000*(i+1) && rows(rejected) > i })
		r.halt(t)
		if i == 0 { // as if the run had been killed
			for _, path := range []string{csv, rejected} {
				f := expect.Get(os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0))(t)
				expect.Get(f.WriteString(`torn,"[`))(t)
				f.Close()
			}
		}
	}
	text := expect.Get(os.ReadFile(csv))(t)
	equal(t, [2]int{2001, 2}, [2]int{rows(csv), rows(rejected)})
	if strings.Contains(string(text), "torn") || strings.Count(string(text), "key,time,") != 1 {
		t.Errorf("%.500s", text)
	}
}

// A run with an embedded broker filters its example.
func TestEmbedded(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.jsonl")
	g := compose(t, "model: {family: normal}\nsource: {kafka: {embedded: true, topics: [in], bounded: true, group: g, changelog: states}}\ndead_letter: {kafka: {topic: rejected}}\nsink: {jsonl: {path: "+out+"}}\n")
	lines := observations(500, 20)
	example := func(ctx context.Context, sink kafkaio.Sink) error {
		w, err := kafkaio.NewWriter(ctx, sink, quiet)
		if err != nil {
			return err
		}
		defer w.Close()
		var messages []kafkaio.Message
		for _, line := range lines {
			messages = append(messages, kafkaio.Message{Key: []byte(line[:12]), Value: []byte(line)})
		}
		return w.Write(ctx, messages)
	}
	s := expect.Get(Run{Graph: g, Example: example}.Execute(t.Context(), nil))(t)
	equal(t, [3]int64{500, 20, 0}, [3]int64{s.Records, s.Keys, s.Rejected})
	equal(t, 500, len(readLines(t, out)))
}

// A job on Flink has a reader for each slot.
func TestFlinkReaders(t *testing.T) {
	g := compose(t, "model: {family: normal}\nsource: {kafka: {brokers: [a:1], topics: [in]}}\nsink: {kafka: {topic: out}}\nrunner: {name: flink, endpoint: jobs:8099, parallelism: 3}\n")
	if readers := g.source.(topicSource).Readers; len(readers) != 3 {
		t.Errorf("readers %q", readers)
	}
}
