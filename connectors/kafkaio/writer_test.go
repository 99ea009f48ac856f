package kafkaio

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fake starts an in-process broker of three nodes.
func fake(t testing.TB, opts ...kfake.Opt) (*kfake.Cluster, Cluster) {
	t.Helper()
	k, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k, Cluster{Brokers: k.ListenAddrs()}
}

// context30 ends with the test, or after 30 s: nothing here takes that long.
func context30(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func newWriter(t testing.TB, c Cluster, topic string) *Writer {
	t.Helper()
	w, err := NewWriter(context30(t), Sink{Cluster: c, Topic: topic}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// readAll reads the first n records of a topic by another client.
func readAll(t testing.TB, c Cluster, topic string, n int) []*kgo.Record {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var all []*kgo.Record
	for len(all) < n {
		f := cl.PollFetches(context30(t))
		if err := f.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(all), n, err)
		}
		all = append(all, f.Records()...)
	}
	return all
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
		if err := w.Write(context30(t), part); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]Message{}
	last := map[string]string{}
	for _, r := range readAll(t, c, "out", len(msgs)) {
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
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
