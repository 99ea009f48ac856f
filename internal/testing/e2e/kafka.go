package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

// Observations returns n random records for a topic, with changes of level. Some are malformed.
func Observations(topic string, n, keys int, seed uint64) []*kgo.Record {
	rng := rand.New(rand.NewPCG(seed, 1))
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	records := make([]*kgo.Record, n)
	for i := range records {
		k := rng.IntN(keys)
		x := rng.NormFloat64() + 4*float64((i*5/n+k)%3)
		if i%47 == 0 {
			x += 100 // an alarm, even in the first days of a key
		}
		key := fmt.Sprintf("k%d", k)
		value := fmt.Sprintf(`{"key":%q,"time":%q,"x":%.9g}`, key, begin.Add(time.Duration(i)*time.Second).Format(time.RFC3339), x)
		if rng.IntN(500) == 0 {
			value = value[:len(value)/2] // for the dead letter
		}
		records[i] = &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}
	}
	return records
}

// Feed writes records to their topics during the given time. Each batch has a hundredth of the records, at most
// 1,000.
func Feed(t testing.TB, b *kafkatest.Broker, records []*kgo.Record, over time.Duration) (fed <-chan error) {
	t.Helper()
	producer := expect.Get(kgo.NewClient(kgo.SeedBrokers(b.Addr())))(t)
	t.Cleanup(producer.Close)
	done := make(chan error, 1)
	go func() {
		size := min(1000, (len(records)+99)/100)
		for part := range slices.Chunk(records, size) {
			// While a broker is down, the producer retries without limit.
			if err := producer.ProduceSync(context.Background(), part...).FirstErr(); err != nil {
				done <- err
				return
			}
			time.Sleep(over * time.Duration(size) / time.Duration(len(records)))
		}
		done <- nil
	}()
	return done
}

// Held returns the number of records in the topics.
func Held(t testing.TB, b *kafkatest.Broker, topics ...string) (n int64) {
	t.Helper()
	for _, topic := range topics {
		_, end := b.Offsets(t, topic)
		for _, e := range end {
			n += e
		}
	}
	return n
}

// ByID returns the values of a topic by the header "id"; for alerts by ID and kind, since one observation may be an
// alarm and an outlier. Repeated IDs must have equal values.
func ByID(t testing.TB, b *kafkatest.Broker, topic string) (values map[string]string, repeats int) {
	t.Helper()
	values = map[string]string{}
	for _, r := range b.Consume(t, topic) {
		if len(r.Headers) != 1 || r.Headers[0].Key != "id" {
			t.Fatalf("headers %v of %s", r.Headers, r.Value)
		}
		id := string(r.Headers[0].Value)
		var alert struct{ Kind string }
		if json.Unmarshal(r.Value, &alert) == nil && alert.Kind != "" {
			id += " " + alert.Kind
		}
		if old, ok := values[id]; ok {
			repeats++
			if old != string(r.Value) {
				t.Fatalf("%s: %s came as %s and as %s", topic, id, old, r.Value)
			}
		}
		values[id] = string(r.Value)
	}
	return values, repeats
}

// Same checks that a run with faults has the same outputs by ID as a run without.
func Same(t testing.TB, topic string, want, got map[string]string, repeats int) {
	t.Helper()
	lost, different := 0, 0
	for id, value := range want {
		switch g, ok := got[id]; {
		case !ok:
			lost++
		case g != value:
			different++
		}
	}
	t.Logf("%s: %d by id, %d repeats, %d lost, %d different", topic, len(got), repeats, lost, different)
	if lost > 0 || different > 0 || len(got) != len(want) || len(got) == 0 {
		t.Errorf("%s: %d lost, %d different, %d in place of %d", topic, lost, different, len(got), len(want))
	}
}
