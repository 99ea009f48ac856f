//go:build unix

package kafka_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

var program e2e.Program

func TestMain(m *testing.M) { e2e.Main(m, &program) }

// TestKafka checks the program against one broker as an operator uses it.
func TestKafka(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Config{})
	t.Run("together", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *kafkatest.Broker){
			"many keys": manyKeys, "signals": signals, "bad records": badRecords, "mistakes": mistakes,
			"paused and replaced": pausedAndReplaced,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, b)
			})
		}
	})
	t.Run("a second signal", func(t *testing.T) { secondSignal(t, b) }) // ends the broker
}

// topicConfig writes a config that reads name and writes name-out, name-rejected and, with detect, name-alerts.
// source is added to the source, rest at the end.
func topicConfig(t testing.TB, brokers, name, source, rest string) string {
	t.Helper()
	text := fmt.Sprintf(`model: {family: normal}
source: {kafka: {brokers: ["%s"], topics: [%[2]s], %[3]s}}
sink: {kafka: {topic: %[2]s-out}}
dead_letter: {kafka: {topic: %[2]s-rejected}}
%[4]s`, brokers, name, source, rest)
	path := filepath.Join(t.TempDir(), name+".yaml")
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// committed returns a group's offsets by partition. It waits for open transactions on them.
func committed(t testing.TB, b *kafkatest.Broker, group, topic string) map[int]int64 {
	t.Helper()
	offsets := map[int]int64{}
	var partitions []int32
	_, ends := b.Offsets(t, topic)
	for p := range ends {
		partitions = append(partitions, int32(p))
	}
	read := func(resp *kmsg.OffsetFetchResponse) error {
		for _, g := range resp.Groups {
			if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
				return err
			}
			for _, found := range g.Topics {
				if found.Topic != topic {
					continue
				}
				for _, p := range found.Partitions {
					if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
						return err
					}
					if p.Offset >= 0 { // a negative offset means none
						offsets[int(p.Partition)] = p.Offset
					}
				}
			}
		}
		return nil
	}
	b.Do(t, "the offsets of "+group, func(ctx context.Context, cl *kgo.Client) error {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group = group
		req.RequireStable = true
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = group
		// If partitions are not listed, the broker leaves out a first commit that is still pending.
		topicRequest := kmsg.NewOffsetFetchRequestGroupTopic()
		topicRequest.Topic, topicRequest.Partitions = topic, partitions
		g.Topics = append(g.Topics, topicRequest)
		req.Groups = append(req.Groups, g)
		for {
			resp, err := req.RequestWith(ctx, cl)
			if err == nil {
				err = read(resp)
			}
			if !kerr.IsRetriable(err) { // retriable: the offset is unstable, or there is no coordinator yet
				return err
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return err
			}
		}
	})
	return offsets
}

// doneWith checks that all records before the group's offsets are in outputs, and no others. It returns their
// number.
func doneWith(t *testing.T, b *kafkatest.Broker, group, topic string) int {
	t.Helper()
	out, _ := e2e.ByID(t, b, topic+"-out")
	rejected, _ := e2e.ByID(t, b, topic+"-rejected")
	maps.Copy(out, rejected)
	total := 0
	for p, end := range committed(t, b, group, topic) {
		total += int(end)
		for o := range end {
			if _, ok := out[fmt.Sprintf("%s-%d-%d", topic, p, o)]; !ok {
				t.Fatalf("%s-%d is committed to %d, without a record for %d", topic, p, end, o)
			}
		}
	}
	if total != len(out) {
		t.Errorf("%d records are committed, %d are in outputs", total, len(out))
	}
	return total
}

// manyKeys checks that each estimate is written once, with consistent metrics, and that the estimates equal those
// of a bounded run.
func manyKeys(t *testing.T, b *kafkatest.Broker) {
	const n, keys, name = 10_000, 2_500, "many"
	b.CreateTopic(t, name, 8, nil)
	b.CreateTopic(t, name+"-out", 8, nil)
	records := e2e.Observations(name, n, keys, 11)
	seen := map[string]bool{}
	for _, r := range records {
		seen[string(r.Key)] = true
	}

	b.Produce(t, records[:n/2]...)
	d := program.Start(t, nil, "run", topicConfig(t, b.Addr(), name, "group: many, changelog: many-states", "detect: true\norder: arrival\n"), "--listen", "127.0.0.1:0")
	d.Eventually(t, "the first estimate", func() bool { return e2e.Held(t, b, name+"-out") > 0 })
	b.Produce(t, records[n/2:]...)
	d.Eventually(t, "all records", func() bool { return e2e.Held(t, b, name+"-out", name+"-rejected") >= n })

	address := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(d.Log())
	if address == nil {
		t.Fatal(d.Log())
	}
	if got := get(t, "http://"+address[1]+"/healthz"); got != "ok\n" {
		t.Errorf("/healthz: %q", got)
	}
	var families map[string]*dto.MetricFamily
	d.Eventually(t, "a commit in the metrics", func() bool {
		families = scrape(t, "http://"+address[1]+"/metrics")
		return stages(families)["commit"] > 0
	})
	out, repeats := e2e.ByID(t, b, name+"-out")
	rejected, _ := e2e.ByID(t, b, name+"-rejected")
	if len(out)+len(rejected) != n || repeats > 0 {
		t.Errorf("%d estimates and %d rejects of %d records, %d repeats", len(out), len(rejected), n, repeats)
	}
	kinds := map[string]int{}
	for _, value := range out {
		var e struct{ Detect struct{ Kind string } }
		expect.OK(t, json.Unmarshal([]byte(value), &e))
		kinds[e.Detect.Kind]++
	}
	for metric, want := range map[string]int{
		"hafvf_records_in_total":       n,
		"hafvf_records_out_total":      len(out),
		"hafvf_records_rejected_total": len(rejected),
		"hafvf_records_late_total":     0,
		"hafvf_records_missing_total":  0,
		"hafvf_changes_total":          kinds["change"] + kinds["revision"],
		"hafvf_outliers_total":         kinds["outlier"],
	} {
		if got := value(t, families, metric); got != float64(want) {
			t.Errorf("%s is %g instead of %d", metric, got, want)
		}
	}
	if got := value(t, families, "hafvf_keys"); got < float64(len(seen))*0.99 || got > float64(len(seen)) {
		t.Errorf("hafvf_keys is %g, of %d", got, len(seen)) // some keys have only a malformed record
	}
	lag := families["hafvf_lag_records"].GetMetric()
	if len(lag) != 8 {
		t.Errorf("the lag is that of %d partitions", len(lag))
	}
	for _, m := range lag {
		if m.GetGauge().GetValue() != 0 {
			t.Errorf("lag %v", m)
		}
	}
	for _, name := range []string{"read", "process", "commit"} {
		if stages(families)[name] == 0 {
			t.Errorf("no stage %s in %v", name, stages(families))
		}
	}

	d.Stop(t)
	if got := doneWith(t, b, "many", name); got != n {
		t.Errorf("%d of %d are committed", got, n)
	}
	// A bounded run without states has the same estimates.
	e2e.Same(t, name, oneRun(t, b, name, "many-whole", "detect=true"), out, 0)
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp := expect.Get(http.Get(url))(t)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v, %s", url, resp.Status, err, body)
	}
	return string(body)
}

func scrape(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families := expect.Get(parser.TextToMetricFamilies(strings.NewReader(get(t, url))))(t)
	return families
}

func value(t *testing.T, families map[string]*dto.MetricFamily, name string) float64 {
	t.Helper()
	f := families[name]
	if f == nil || len(f.Metric) != 1 {
		t.Fatalf("%s is missing", name)
	}
	if f.GetType() == dto.MetricType_COUNTER {
		return f.Metric[0].GetCounter().GetValue()
	}
	return f.Metric[0].GetGauge().GetValue()
}

// stages returns how often each stage was observed.
func stages(families map[string]*dto.MetricFamily) map[string]uint64 {
	counts := map[string]uint64{}
	for _, m := range families["hafvf_stage_seconds"].GetMetric() {
		counts[m.Label[0].GetValue()] = m.GetHistogram().GetSampleCount()
	}
	return counts
}

// signals checks that after SIGINT and SIGTERM all records that were read are in outputs and committed, and no
// others. Together the runs read each record once.
func signals(t *testing.T, b *kafkatest.Broker) {
	const n, name = 150_000, "signals"
	b.CreateTopic(t, name, 4, nil)
	b.CreateTopic(t, name+"-out", 4, nil)
	b.CreateTopic(t, name+"-rejected", 4, nil)
	b.Produce(t, e2e.Observations(name, n, 300, 13)...)
	config := topicConfig(t, b.Addr(), name, "group: signals, changelog: signals-states", "")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		before := e2e.Held(t, b, name+"-out")
		d := program.Start(t, nil, "run", config)
		d.Eventually(t, "an estimate", func() bool { return e2e.Held(t, b, name+"-out") > before })
		d.Signal(sig)
		d.Ends(t, 0)
		t.Logf("%v: %d of %d done", sig, doneWith(t, b, "signals", name), n)
		if !strings.Contains(d.Log(), "stopping") {
			t.Error(d.Log())
		}
	}
	d := program.Start(t, nil, "run", config)
	d.Eventually(t, "all records", func() bool { return e2e.Held(t, b, name+"-out", name+"-rejected") >= n })
	d.Stop(t)
	if got := doneWith(t, b, "signals", name); got != n {
		t.Errorf("%d of %d are committed", got, n)
	}
	if _, repeats := e2e.ByID(t, b, name+"-out"); repeats > 0 {
		t.Errorf("%d repeats", repeats)
	}
}

// secondSignal checks that a second signal gives up the run while the broker is down and records that were read
// cannot be stored.
func secondSignal(t *testing.T, b *kafkatest.Broker) {
	const name = "impatient"
	b.CreateTopic(t, name, 4, nil)
	b.CreateTopic(t, name+"-out", 4, nil)
	b.Produce(t, e2e.Observations(name, 60_000, 1000, 14)...)
	d := program.Start(t, nil, "run", topicConfig(t, b.Addr(), name, "group: impatient", "detect: true\n"))
	d.Eventually(t, "an estimate", func() bool { return e2e.Held(t, b, name+"-out") > 0 })
	b.Kill()
	d.Signal(syscall.SIGTERM)
	d.Eventually(t, "the first signal", func() bool { return strings.Contains(d.Log(), "stopping") })
	d.Eventually(t, "a warning", func() bool { return strings.Contains(d.Log(), "level=WARN") })
	d.Signal(syscall.SIGTERM)
	d.Ends(t, 1)
	if !strings.Contains(d.Log(), "hafvf: aborted: records in flight are not written") {
		t.Error(d.Log())
	}
}

// badRecords checks that each bad record is in the dead letter with its position and the reason.
func badRecords(t *testing.T, b *kafkatest.Broker) {
	const name = "bad"
	const time = `"time":"2026-01-02T03:04:05Z"`
	b.CreateTopic(t, name, 1, nil)
	type badRecord struct {
		record *kgo.Record
		reason string
	}
	var bad []badRecord
	for _, c := range []struct{ reason, key, value string }{
		{"", "a", `{` + time + `,"x":1}`},
		{"a tombstone", "a", "-"},
		{"the key is empty", "a", `{"key":"",` + time + `,"x":1}`},
		{"no key", "", `{` + time + `,"x":1}`},
		{"no key", "-", `{` + time + `,"x":1}`},
		{"bytes; at most 262144 are read", "a", `{"x":"` + strings.Repeat("x", 300<<10) + `"}`},
		{"JSON", "a", "x=1"},
		{"the value is empty", "a", ""},
		{"JSON", "a", `{"key":"a",` + time},
		{`the text "one" where a number is due`, "a", `{"key":"a",` + time + `,"x":"one"}`},
		{"x has 2 values, want 1", "a", `{"key":"a",` + time + `,"x":[1,2]}`},
		{"framed by a schema registry (schema 258)", "a", "\x00\x00\x00\x01\x02{}"},
		{"UTF-8", "\xff\xfe", `{` + time + `,"x":1}`},
		{"UTF-8", "a", "{\"key\":\"\xff\"," + time + `,"x":1}`},
		{"time", "a", `{"key":"a","x":1}`},
	} {
		r := &kgo.Record{Topic: name, Key: []byte(c.key), Value: []byte(c.value)}
		if c.key == "-" {
			r.Key = nil
		}
		if c.value == "-" {
			r.Value = nil
		}
		b.Produce(t, r)
		bad = append(bad, badRecord{r, c.reason})
	}
	d := program.Start(t, nil, "run", topicConfig(t, b.Addr(), name, "bounded: true", ""))
	d.Ends(t, 1) // more than half of the records are rejected
	rejected, _ := e2e.ByID(t, b, name+"-rejected")
	out, _ := e2e.ByID(t, b, name+"-out")
	for _, c := range bad {
		id := fmt.Sprintf("bad-0-%d", c.record.Offset)
		if c.reason == "" {
			if out[id] == "" {
				t.Errorf("%s is not in the estimates", id)
			}
			continue
		}
		var got struct {
			Reason, Place, Topic, Raw string
			Partition                 *int
			Offset                    int64
		}
		if err := json.Unmarshal([]byte(rejected[id]), &got); err != nil {
			t.Errorf("%s (%s): %q: %v", id, c.reason, rejected[id], err)
			continue
		}
		t.Logf("%s: %s", id, got.Reason)
		if !strings.Contains(got.Reason, c.reason) || got.Place != id || got.Topic != name || got.Partition == nil || *got.Partition != 0 || got.Offset != c.record.Offset {
			t.Errorf("want %q, got %.300s", c.reason, rejected[id])
		}
	}
	if len(out)+len(rejected) != len(bad) {
		t.Errorf("%d estimates and %d rejects of %d records", len(out), len(rejected), len(bad))
	}
}

// mistakes checks that the program reports each mistake in one sentence without secrets.
func mistakes(t *testing.T, b *kafkatest.Broker) {
	const password, wrong = "kittens-and-puppies", "wolves-and-bears"
	b.CreateTopic(t, "temperature", 1, nil)
	fake := kafkatest.Fake(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "me", password), kfake.SeedTopics(1, "in"))
	login := func(secret string) string {
		return "bounded: true, sasl: {mechanism: scram-sha-256, username: me, password: " + secret + "}"
	}
	for _, c := range []struct {
		name, brokers, topic, source string
		set                          []string
		env                          string
		code                         int
		say                          string
	}{
		{name: "nobody listens", brokers: "127.0.0.1:1", topic: "in", code: 1, say: "broker 127.0.0.1:1 refuses the connection: nothing listens there"},
		{name: "unknown host", brokers: "no-such-host.invalid:9092", topic: "in", code: 1, say: "broker no-such-host.invalid:9092 cannot be"},
		{name: "unknown topic", brokers: b.Addr(), topic: "pressure-of-oil", code: 1, say: `topic "pressure-of-oil" does not exist: create it, or correct its name`},
		{name: "near topic", brokers: b.Addr(), topic: "temprature", code: 1, say: `topic "temprature" (did you mean "temperature"?) does not exist`},
		{name: "TLS of none", brokers: b.Addr(), topic: "in", source: "tls: {}", code: 1, say: "TLS"},
		{name: "no CA file", brokers: b.Addr(), topic: "in", source: "tls: {ca: /no/ca.pem}", code: 1, say: "tls.ca: /no/ca.pem cannot be read: no such file or directory"},
		{name: "wrong password", brokers: fake.ListenAddrs()[0], topic: "in", source: login("{env: HAFVF_SECRET}"), env: wrong, code: 1, say: `refuses the login of user "me" by SCRAM-SHA-256`},
		{name: "right password", brokers: fake.ListenAddrs()[0], topic: "in", source: login("{env: HAFVF_SECRET}"), env: password, code: 0, say: "0 records"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.source == "" {
				c.source = "bounded: true"
			}
			args := append([]string{"run", topicConfig(t, c.brokers, c.topic, c.source, ""), "--log-level", "debug"}, c.set...)
			d := program.Start(t, []string{"HAFVF_SECRET=" + c.env}, args...)
			d.Ends(t, c.code)
			log := d.Log()
			if !strings.Contains(log, c.say) || strings.Contains(log, password) || strings.Contains(log, wrong) {
				t.Errorf("want %q: %s", c.say, log)
			}
			if c.code == 0 {
				return
			}
			lines := strings.Split(strings.TrimSuffix(log, "\n"), "\n")
			if len(lines) != 1 || !strings.HasPrefix(lines[0], "hafvf: ") {
				t.Errorf("more than a sentence: %s", log)
			}
		})
	}
}
