package kafka_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

var (
	keysFlag = flag.Int("keys", 1_000, "keys of TestKeys")
	aliveOf  = flag.Int("alive", 0, "keys of TestKeys that are alive at a time; 0: all")
	keysWith = flag.String("with", "detect: true", "what the config of TestKeys has beside model and expire; ; begins a new line")
)

// TestKeys reads a few records of many keys, in random order, and restarts with their states. It measures the
// memory of both runs and the start time of the second. With -alive, keys start at different times and expire after
// a tenth of the time.
func TestKeys(t *testing.T) {
	const each = 3
	b := kafkatest.Start(t, kafkatest.Config{Measured: *keysFlag >= 100_000})
	b.CreateTopic(t, "keys", 8, nil)
	rng := rand.New(rand.NewPCG(36, 3))
	order := make([]int, each**keysFlag)
	for i := range order {
		order[i] = i / each
	}
	within := len(order)
	if *aliveOf > 0 {
		within = each * *aliveOf
	}
	for i := 0; i < len(order); i += within / 2 {
		part := order[i:min(len(order), i+within)]
		rng.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
	}
	const span = 100 * 24 * time.Hour
	begin := time.Now().UTC().Add(-span - 30*time.Hour) // so old that the records show no lag
	expire := "never"
	if *aliveOf > 0 {
		expire = fmt.Sprint(span / 10)
	}
	more := strings.ReplaceAll(*keysWith, ";", "\n") + "\nexpire: " + expire + "\n"
	started := time.Now()
	const batch = 100_000
	records := make([]*kgo.Record, 0, batch)
	for i, k := range order {
		records = append(records, observationOf(k, begin.Add(time.Duration(i)*(span/time.Duration(len(order)))), rng.NormFloat64()))
		if len(records) == batch || i == len(order)-1 {
			b.Produce(t, records...)
			records = records[:0]
		}
	}
	t.Logf("%d records of %d keys were produced in %v", len(order), *keysFlag, time.Since(started).Round(time.Second))
	cfg := topicConfig(t, b.Addr(), "keys", "group: keys, changelog: keys-states", more)
	started = time.Now()
	d := program.Start(t, nil, "run", cfg, "--set", "sink=none", "--listen", "127.0.0.1:0")
	maxMB := 0.
	for total, end := 0, time.Now().Add(time.Hour); total < len(order); time.Sleep(time.Second) {
		if err := d.Err(); err != nil || time.Now().After(end) {
			t.Fatalf("%v\n%s", err, d.Log())
		}
		total = 0
		for _, end := range committed(t, b, "keys", "keys") {
			total += int(end)
		}
		if now := resident(t, d.PID(), "VmRSS"); *aliveOf > 0 && now > maxMB {
			maxMB = now
			t.Logf("%d records: %.0f MB", total, now)
		}
	}
	t.Logf("they were read in %v, with at most %.0f MB", time.Since(started).Round(time.Second), resident(t, d.PID(), "VmHWM"))
	d.Stop(t)
	restart(t, cfg)
}

// observationOf returns a record of the key with that number.
func observationOf(key int, t time.Time, x float64) *kgo.Record {
	keyName := fmt.Sprint("key-", key)
	return &kgo.Record{Topic: "keys", Key: []byte(keyName), Value: fmt.Appendf(nil, `{"key":%q,"time":%q,"x":%.4f}`, keyName, t.Format(time.RFC3339), x)}
}

// restart measures the start time of a run with states.
func restart(t testing.TB, cfg string) {
	started := time.Now()
	d := program.Start(t, nil, "run", cfg, "--set", "sink=none", "--listen", "127.0.0.1:0")
	reads := regexp.MustCompile(`(?s)(states were restored[^\n]*).*msg=reading reader`)
	d.Eventually(t, "it reads", func() bool { return reads.MatchString(d.Log()) })
	t.Logf("the next run began after %v, with at most %.0f MB; %s", time.Since(started).Round(100*time.Millisecond), resident(t, d.PID(), "VmHWM"), reads.FindStringSubmatch(d.Log())[1])
	d.Stop(t)
}

// BenchmarkStart measures the start time of a run with the states of many keys, each after a thousand observations.
// 200 keys have learned them; the others have copies.
func BenchmarkStart(b *testing.B) {
	const few, each = 200, 1000
	broker := kafkatest.Start(b, kafkatest.Config{Measured: true})
	broker.CreateTopic(b, "keys", 8, nil)
	rng := rand.New(rand.NewPCG(36, 4))
	begin := time.Now().UTC().Add(-50 * 24 * time.Hour)
	var records []*kgo.Record
	for i := range few * each {
		records = append(records, observationOf(i%few, begin.Add(time.Duration(i/few)*time.Minute), rng.NormFloat64()))
	}
	broker.Produce(b, records...)
	cfg := topicConfig(b, broker.Addr(), "keys", "group: keys, changelog: keys-states", "detect: true\nexpire: never\n")
	d := program.Start(b, nil, "run", cfg, "--set", "sink=none")
	d.Eventually(b, "it has read all", func() bool {
		var total int64
		for _, end := range committed(b, broker, "keys", "keys") {
			total += end
		}
		return total == few*each
	})
	d.Stop(b)
	last, size := map[string]statestore.State{}, 0
	for _, r := range broker.Consume(b, "keys-states") {
		if strings.HasPrefix(string(r.Key), "key-") {
			last[string(r.Key)] = statestore.Open(string(r.Key), r.Value)
		}
	}
	for _, s := range last {
		if size += len(s.Bytes); s.Err != nil {
			b.Fatal(s.Err)
		}
	}
	b.Logf("%d states of %d bytes", len(last), size/len(last))
	const batch = 20_000
	records = records[:0]
	for i := few; i < *keysFlag; i++ {
		s := last[fmt.Sprint("key-", i%few)]
		s.Key = fmt.Sprint("key-", i)
		records = append(records, &kgo.Record{Topic: "keys-states", Key: []byte(s.Key), Value: s.Seal()})
		if len(records) == batch || i == *keysFlag-1 {
			broker.Produce(b, records...)
			records = records[:0]
		}
	}
	for b.Loop() {
		restart(b, cfg)
	}
}

// resident returns a line of the process's status, in MB.
func resident(t testing.TB, pid int, line string) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("not on this system: ", err)
	}
	found := regexp.MustCompile(line + `:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("no %s of %d", line, pid)
	}
	kB := expect.Get(strconv.ParseFloat(string(found[1]), 64))(t)
	return kB / 1024
}
