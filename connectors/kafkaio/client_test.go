package kafkaio

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hafvf/internal/testing/expect"
)

// asks returns a client that is closed when the test ends.
func asks(t testing.TB, c Cluster) *Client {
	client := NewClient(c)
	t.Cleanup(client.Close)
	return client
}

// TestOneConnection: a start asks all its questions over one connection with each
// broker, and a broker that has hung up is connected to again.
func TestOneConnection(t *testing.T) {
	k, c := fake(t, kfake.NumBrokers(3), kfake.SeedTopics(6, "in", "out"))
	greetings := 0
	k.ControlKey(int16(kmsg.ApiVersions), func(kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		greetings++
		return nil, nil, false
	})
	client := asks(t, c)
	start := func() {
		t.Helper()
		ctx := context30(t)
		expect.OK(t, client.Check(ctx))
		expect.OK(t, client.Check(ctx))
		topics, err := client.describe(ctx, []string{"in", "out"})
		expect.OK(t, err)
		_, err = client.Create(ctx, "out", 6, nil)
		expect.OK(t, err)
		_, err = client.Create(ctx, t.Name(), 1, nil)
		expect.OK(t, err)
		_, err = client.Config(ctx, "out", "cleanup.policy")
		expect.OK(t, err)
		partitions := partitionsOf(topics)
		_, err = client.committed(ctx, "g", partitions)
		expect.OK(t, err)
		expect.OK(t, client.commit(ctx, "g", map[string]committed{"in-3": {0, "note"}}))
		for _, at := range []int64{atFirst, atEnd, 0} {
			_, err = client.offsets(ctx, partitions, at, true)
			expect.OK(t, err)
		}
		found, err := client.committed(ctx, "g", partitions)
		expect.OK(t, err)
		if len(found) != 1 || found["in-3"] != (committed{0, "note"}) {
			t.Errorf("committed is %v", found)
		}
	}
	start()
	if greetings != 3 {
		t.Errorf("%d connections with 3 brokers", greetings)
	}
	client.Close()
	start()
	if greetings != 6 {
		t.Errorf("%d connections after a restart", greetings)
	}
}
