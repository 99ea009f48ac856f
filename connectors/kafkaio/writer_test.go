package kafkaio

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

var quiet = slog.New(slog.DiscardHandler)

func fake(t testing.TB, opts ...kfake.Opt) (*kfake.Cluster, Cluster) {
	t.Helper()
	k := kafkatest.Fake(t, opts...)
	return k, Cluster{Brokers: k.ListenAddrs()}
}

// context30 returns a context that ends with the test, or after 30 s.
func context30(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func newWriter(t testing.TB, c Cluster, topic string) *Writer {
	t.Helper()
	w := expect.Get(NewWriter(context30(t), Sink{Cluster: c, Topic: topic}, quiet))(t)
	t.Cleanup(func() { w.Close() })
	return w
}

func TestWrite(t *testing.T) {
	_, c := fake(t, kfake.SeedTopics(4, "out"))
	w := newWriter(t, c, "out")
	var msgs []Message
	want := map[string]Message{}
	for i := range 1000 {
		m := Message{Key: fmt.Appendf(nil, "key-%d", i%7), ID: fmt.Sprintf("in-0-%d", i), Value: fmt.Appendf(nil, `{"n":%d}`, i)}
		msgs = append(msgs, m)
		want[m.ID] = m
	}
	start := time.Now()
	for _, part := range [][]Message{msgs[:10], nil, msgs[10:]} {
		expect.OK(t, w.Write(context30(t), part))
	}
	got := map[string]Message{}
	last := map[string]string{}
	for _, r := range kafkatest.Dial(c.Brokers).Consume(t, "out") {
		if len(r.Headers) != 1 || r.Headers[0].Key != "id" {
			t.Fatalf("headers %v, want only the id", r.Headers)
		}
		id := string(r.Headers[0].Value)
		got[id] = Message{Key: r.Key, ID: id, Value: r.Value}
		if prev := want[last[string(r.Key)]]; string(prev.Value) >= string(r.Value) && len(prev.Value) == len(r.Value) {
			t.Errorf("key %s: %s comes after %s", r.Key, r.Value, prev.Value)
		}
		last[string(r.Key)] = id
		if r.Timestamp.Before(start.Truncate(time.Millisecond)) || r.Timestamp.After(time.Now()) {
			t.Errorf("timestamp %v is not the wall clock's", r.Timestamp)
		}
	}
	expect.Same(t, want, got)
}

func TestWriteNothing(t *testing.T) {
	_, c := fake(t, kfake.SeedTopics(1, "out"))
	w := newWriter(t, c, "out")
	expect.OK(t, w.Write(context30(t), []Message{{}, {Key: []byte{}, Value: []byte{}}}))
	for i, r := range kafkatest.Dial(c.Brokers).Consume(t, "out") {
		if (r.Key == nil) != (i == 0) || (r.Value == nil) != (i == 0) || len(r.Headers) != 0 {
			t.Errorf("record %d has key %v, value %v, headers %v", i, r.Key, r.Value, r.Headers)
		}
	}
}

// Keys have the same partitions as with franz-go, which follows the Java client, also in a changelog.
func TestPartitionOfKey(t *testing.T) {
	const n = 17
	java := kgo.StickyKeyPartitioner(nil).ForTopic("t")
	for _, key := range []string{"", "Zürich", "温度", "\x00\xff\xfe", "21", "foobar", "a-little-bit-long-string", "abc"} {
		want := java.Partition(&kgo.Record{Key: []byte(key)}, n)
		for p, msgs := range assign([]Message{{Key: []byte(key)}, {Key: []byte(key)}}, n) {
			if (len(msgs) == 2) != (p == want) {
				t.Errorf("key %q: %d messages in partition %d, want all in %d", key, len(msgs), p, want)
			}
		}
		if got := partitionFor([]byte(key), n); int(got) != want {
			t.Errorf("key %q: partition %d of a changelog, want %d", key, got, want)
		}
	}
}

func TestPartitionWithoutKey(t *testing.T) {
	used := map[int]bool{}
	for range 200 {
		for p, msgs := range assign(make([]Message, 10), 3) {
			if len(msgs) == 10 {
				used[p] = true
			} else if len(msgs) > 0 {
				t.Fatalf("%d of 10 messages in a partition", len(msgs))
			}
		}
	}
	expect.Same(t, 3, len(used), "partitions of 200 calls: ", used)
}

// checkOrder checks that each partition of a topic has the messages of its keys, and that their first copies have the
// order of msgs. It returns the number of repeats.
func checkOrder(t *testing.T, c Cluster, topic string, msgs []Message) (repeats int) {
	t.Helper()
	n := expect.Get(openClient(t, c).Partitions(context30(t), []string{topic}))(t)
	var total int
	got := map[int32][]string{}
	seen := map[string]bool{}
	for _, r := range kafkatest.Dial(c.Brokers).Consume(t, topic) {
		id := string(r.Headers[0].Value)
		total++
		if !seen[id] {
			seen[id] = true
			got[r.Partition] = append(got[r.Partition], id)
		}
	}
	want := map[int32][]string{}
	for p, part := range assign(msgs, n[topic]) {
		for _, m := range part {
			want[int32(p)] = append(want[int32(p)], m.ID)
		}
	}
	expect.Same(t, want, got, "first occurrences")
	return total - len(msgs)
}

// numbered returns n messages with the ids 0, 1, …, 97 keys, and the same value.
func numbered(n int, value []byte) []Message {
	msgs := make([]Message, n)
	for i := range msgs {
		msgs[i] = Message{Key: strconv.AppendInt(nil, int64(i%97), 10), ID: strconv.Itoa(i), Value: value}
	}
	return msgs
}

var errDrop = errors.New("drop the connection")

func TestOrderUnderFaults(t *testing.T) {
	expect.Long(t, "faults of a connection, for seconds")
	for _, seed := range []uint64{1, 2} {
		t.Run(strconv.Itoa(int(seed)), func(t *testing.T) {
			k, c := fake(t, kfake.SeedTopics(4, "out"))
			w := newWriter(t, c, "out")
			w.retry.First = time.Millisecond

			// Both functions run in the broker's only goroutine.
			rng := rand.New(rand.NewPCG(seed, 0))
			refusals := []*kerr.Error{kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.LeaderNotAvailable, kerr.KafkaStorageError, nil}
			var refused atomic.Int64
			k.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
				k.KeepControl()
				if rng.Float64() > 0.4 {
					return nil, nil, false
				}
				refused.Add(1)
				e := refusals[rng.IntN(len(refusals))]
				if e == nil {
					return nil, errDrop, true
				}
				in := req.(*kmsg.ProduceRequest).Topics[0]
				res := req.ResponseKind().(*kmsg.ProduceResponse)
				p := kmsg.NewProduceResponseTopicPartition()
				p.Partition, p.ErrorCode = in.Partitions[0].Partition, e.Code
				res.Topics = []kmsg.ProduceResponseTopic{{Topic: in.Topic, Partitions: []kmsg.ProduceResponseTopicPartition{p}}}
				return res, nil, true
			})
			// These two errors are returned although the messages are stored.
			some := func(kmsg.Request) bool { return rng.Float64() < 0.2 }
			stored := k.Fault(
				kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: -1, When: some},
				kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend, Count: -1, When: some})

			// Each call has about three batches for each partition.
			msgs := numbered(3000, []byte(strings.Repeat("x", 20_000)))
			for rest := msgs; len(rest) > 0; rest = rest[600:] {
				expect.OK(t, w.Write(context30(t), rest[:600]))
			}
			if refused.Load() < 10 || stored.Hits() < 10 {
				t.Fatalf("only %d requests were refused, %d stored without saying so", refused.Load(), stored.Hits())
			}
			if repeats := checkOrder(t, c, "out", msgs); repeats == 0 {
				t.Error("no repeats: the faults do not do what they should")
			}
		})
	}
}

// logged is a slog.Handler that keeps log lines.
type logged struct {
	slog.Handler
	mu     sync.Mutex
	lines  strings.Builder
	warned chan struct{}
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.lines, "%s %s", r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&l.lines, " %s", a); return true })
	l.lines.WriteByte('\n')
	if r.Level == slog.LevelWarn {
		l.warned <- struct{}{}
	}
	return nil
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

func TestWriteCancelled(t *testing.T) {
	cause := errors.New("the user's wish")
	for name, begins := range map[string]func(k *kfake.Cluster) (begun func()){
		"while it tries again": func(k *kfake.Cluster) func() {
			fault := k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
			return func() { expect.OK(t, fault.Wait(context30(t), 3)) }
		},
		"while it waits for an answer": func(k *kfake.Cluster) func() {
			asked, answer := make(chan struct{}), make(chan struct{})
			t.Cleanup(func() { close(answer) })
			k.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				k.SleepControl(func() { close(asked); <-answer })
				return nil, errDrop, true
			})
			return func() { <-asked }
		},
	} {
		k, c := fake(t, kfake.SeedTopics(1, "out"))
		w := newWriter(t, c, "out")
		w.retry.First = time.Millisecond
		begun := begins(k)
		ctx, cancel := context.WithCancelCause(context30(t))
		done := make(chan error, 1)
		go func() { done <- w.Write(ctx, numbered(1, nil)) }()
		begun()
		cancel(cause)
		if err := <-done; err != cause {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestWriteRefused(t *testing.T) {
	expect.Waits(t, "the pauses between requests")
	k, c := fake(t, kfake.SeedTopics(1, "out", "gone"))
	ctx := context30(t)
	produce := []kmsg.Key{kmsg.Produce}
	for _, test := range []struct {
		name  string
		fault kfake.Fault
		want  string
		hits  int
	}{
		{"too long", kfake.Fault{Keys: produce, Err: kerr.NotEnoughReplicas, Count: -1},
			`topic "out", partition 0: Kafka did not take the messages within 3s: [19] Not Enough Replicas: …`, 0},
		{"unknown too long", kfake.Fault{Keys: produce, Err: kerr.UnknownTopicOrPartition, Count: -1},
			`topic "out" does not exist, or was deleted: create it ([3] Unknown Topic Or Partition: …)`, 0},
		{"for good", kfake.Fault{Keys: produce, Err: kerr.InvalidRecord, Count: -1},
			`topic "out" does not take messages: [87] Invalid Record: this record has failed …`, 1},
		{"policy", kfake.Fault{Keys: produce, Err: kerr.PolicyViolation, Count: -1},
			`topic "out" does not take messages: [44] Policy Violation: …`, 1},
		{"authorization", kfake.Fault{Keys: produce, Err: kerr.TopicAuthorizationFailed, Count: -1},
			`this client may not write to topic "out": allow the operation Write on it`, 1},
		{"unknown for a moment", kfake.Fault{Keys: produce, Err: kerr.UnknownTopicOrPartition, Count: 2}, "", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWriter(t, c, "out")
			w.retry.First, w.grace, w.retry.Budget = time.Millisecond, time.Second, 3*time.Second
			if test.want == "" {
				w.grace, w.retry.Budget = time.Minute, time.Minute
			}
			fault := k.Fault(test.fault)
			defer fault.Remove()
			got := ""
			if err := w.Write(ctx, numbered(1, nil)); err != nil {
				got = err.Error()
			}
			if !like(got, test.want) {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if test.hits > 0 && fault.Hits() != test.hits || test.hits == 0 && fault.Hits() < 2 {
				t.Errorf("%d attempts", fault.Hits())
			}
		})
	}

	_, err := NewWriter(ctx, Sink{Cluster: c, Topic: "uot"}, quiet)
	says(t, err, `topic "uot" (did you mean "out"?) does not exist: …`)
	_, err = NewWriter(ctx, Sink{Cluster: Cluster{Brokers: []string{closedPort(t)}}, Topic: "out"}, quiet)
	says(t, err, "broker … refuses the connection: …")

	w := newWriter(t, c, "gone")
	w.grace = 50 * time.Millisecond
	expect.OK(t, w.Write(ctx, numbered(1, nil)))
	expect.OK(t, k.DeleteTopic("gone"))
	says(t, w.Write(ctx, numbered(1, nil)), `topic "gone" does not exist, or was deleted: create it (…)`)
}

func TestTooLarge(t *testing.T) {
	k, c := fake(t)
	expect.OK(t, k.CreateTopic("out", 1, map[string]string{"max.message.bytes": "20000"}))
	w := newWriter(t, c, "out")
	rng := rand.NewChaCha8([32]byte{})
	var msgs []Message
	for i := range 300 {
		m := Message{Key: []byte("k"), ID: strconv.Itoa(i), Value: make([]byte, rng.Uint64()%3000)}
		rng.Read(m.Value)
		msgs = append(msgs, m)
	}
	// All messages together exceed the topic's limit; each of them does not.
	expect.OK(t, w.Write(context30(t), msgs))
	checkOrder(t, c, "out", msgs)

	large := Message{Key: []byte("k"), ID: "in-0-17", Value: make([]byte, 30_000)}
	rng.Read(large.Value)
	err := w.Write(context30(t), append(msgs[:5:5], large))
	says(t, err, `topic "out" does not take the message with id "in-0-17" and key "k", which has 30000 bytes: increase max.message.bytes of the topic`)
}

func TestRetryable(t *testing.T) {
	timeout, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	_, refused := net.Dial("tcp", closedPort(t))
	for _, test := range []struct {
		err  error
		want bool
	}{
		{rawproduce.NewError(protocol.NewErrNoLeader("t", 1)), true}, // kafka-go returns it while a leader is elected
		{kafka.NotLeaderForPartition, true},
		{fmt.Errorf("%w: more", kafka.BrokerNotAvailable), true},
		{refused, true},
		{&net.DNSError{IsNotFound: true}, true}, // a container that is being replaced
		{timeout.Err(), true},
		{io.ErrUnexpectedEOF, true}, // also if a login was interrupted
		{fmt.Errorf("no: %w", kafka.SASLAuthenticationFailed), false},
		{kafka.InvalidTopic, false},
		{kafka.UnsupportedForMessageFormat, false},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, false},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, false},
		{errors.New("something else"), false},
	} {
		expect.Same(t, test.want, retryable(bare(test.err)), test.err)
	}
}
