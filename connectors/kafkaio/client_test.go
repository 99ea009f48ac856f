package kafkaio

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hafvf/internal/testing/expect"
)

// openClient returns a client that is closed when the test ends.
func openClient(t testing.TB, c Cluster) *Client {
	client := NewClient(c)
	t.Cleanup(client.Close)
	return client
}

// TestOneConnection: a client uses one connection per broker for all requests, and connects again after Close.
func TestOneConnection(t *testing.T) {
	k, c := fake(t, kfake.NumBrokers(3), kfake.SeedTopics(6, "in", "out"))
	greetings := 0
	k.ControlKey(int16(kmsg.ApiVersions), func(kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		greetings++
		return nil, nil, false
	})
	client := openClient(t, c)
	start := func() {
		t.Helper()
		ctx := context30(t)
		expect.OK(t, client.Check(ctx))
		expect.OK(t, client.Check(ctx))
		topics := expect.Get(client.describe(ctx, []string{"in", "out"}))(t)
		expect.Get(client.Create(ctx, "out", 6, nil))(t)
		expect.Get(client.Create(ctx, t.Name(), 1, nil))(t)
		expect.Get(client.config(ctx, "out", "cleanup.policy"))(t)
		partitions := partitionsOf(topics)
		expect.Get(client.committed(ctx, "g", partitions))(t)
		expect.OK(t, client.commit(ctx, "g", map[string]partitionProgress{"in-3": committedBy("in-3", 0)}))
		for _, timestamp := range []int64{atFirst, atEnd, 0} {
			expect.Get(client.offsets(ctx, partitions, timestamp, true))(t)
		}
		found := expect.Get(client.committed(ctx, "g", partitions))(t)
		if len(found) != 1 || found["in-3"] != committedBy("in-3", 0) {
			t.Errorf("committed is %v", found)
		}
	}
	start()
	expect.Same(t, 3, greetings, "connections with 3 brokers")
	client.Close()
	start()
	expect.Same(t, 6, greetings, "connections after a restart")
}

// committedBy returns an offset as another program has committed it.
func committedBy(log string, offset int64) partitionProgress {
	p, _ := parsePosition(log, offset)
	return partitionProgress{Position: p, metadata: "note"}
}
