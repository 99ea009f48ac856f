package kafkatest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Client writes and reads topics. Each call opens a new connection, so it sees the current topics and survives
// the restart of a broker. A call that does not succeed within two minutes fails its test, which must be the test
// of the calling goroutine.
type Client struct{ opts []kgo.Opt }

// Dial returns a client of the brokers at addrs; for a fake cluster these are ListenAddrs(). opts set for example
// security or the partitioner: with
//
//	kgo.RecordPartitioner(kgo.ManualPartitioner())
//
// records go to the Partition that they name; by default they go to the partition that Java's client chooses by
// key.
func Dial(addrs []string, opts ...kgo.Opt) *Client {
	return &Client{slices.Concat([]kgo.Opt{
		kgo.SeedBrokers(addrs...),
		kgo.ClientID("kafkatest"),
		// A test mostly waits for a broker that is starting.
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.MetadataMinAge(50 * time.Millisecond),
	}, opts)}
}

// CreateTopic creates a topic with config, such as cleanup.policy, and waits until its partitions have leaders.
func (c *Client) CreateTopic(t testing.TB, name string, partitions int, config map[string]string) {
	t.Helper()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic = name
	topic.NumPartitions = int32(partitions)
	topic.ReplicationFactor = -1
	for k, v := range config {
		entry := kmsg.NewCreateTopicsRequestTopicConfig()
		entry.Name, entry.Value = k, &v
		topic.Configs = append(topic.Configs, entry)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, topic)
	c.call(t, "topic "+name+" cannot be created", func(ctx context.Context, cl *kgo.Client) error {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		for _, topic := range resp.Topics {
			if err := failure(topic.ErrorCode, topic.ErrorMessage); err != nil {
				return err
			}
		}
		return waitForLeaders(ctx, cl, name, partitions)
	})
}

// AddPartitions increases the number of partitions to total and waits until all have leaders.
func (c *Client) AddPartitions(t testing.TB, name string, total int) {
	t.Helper()
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic = name
	topic.Count = int32(total)
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Topics = append(req.Topics, topic)
	c.call(t, "topic "+name+" cannot be given partitions", func(ctx context.Context, cl *kgo.Client) error {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		for _, topic := range resp.Topics {
			if err := failure(topic.ErrorCode, topic.ErrorMessage); err != nil {
				return err
			}
		}
		return waitForLeaders(ctx, cl, name, total)
	})
}

// Produce writes records, waits until all are acknowledged, and sets their Partition and Offset. In each partition
// they are stored once, in the order of records.
func (c *Client) Produce(t testing.TB, records ...*kgo.Record) {
	t.Helper()
	c.call(t, "records cannot be produced", func(ctx context.Context, cl *kgo.Client) error {
		return cl.ProduceSync(ctx, records...).FirstErr()
	})
}

// DeleteBefore deletes the records of a partition before an offset.
func (c *Client) DeleteBefore(t testing.TB, topic string, partition int, offset int64) {
	t.Helper()
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = int32(partition), offset
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{p}}}
	c.call(t, "records of "+topic+" cannot be deleted", func(ctx context.Context, cl *kgo.Client) error {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	})
}

// Offsets returns, by partition, the offset of the first record and the offset after the last.
func (c *Client) Offsets(t testing.TB, topic string) (start, end []int64) {
	t.Helper()
	c.call(t, "the offsets of topic "+topic+" cannot be read", func(ctx context.Context, cl *kgo.Client) (err error) {
		start, end, err = offsets(ctx, cl, topic)
		return err
	})
	return start, end
}

// Consume returns the topic's records by partition and offset, up to the end at the time of the call. It includes
// the records of aborted transactions.
func (c *Client) Consume(t testing.TB, topic string) []*kgo.Record {
	t.Helper()
	var records []*kgo.Record
	c.call(t, "topic "+topic+" cannot be read", func(ctx context.Context, cl *kgo.Client) error {
		start, end, err := offsets(ctx, cl, topic)
		if err != nil {
			return err
		}
		startOffsets := map[int32]kgo.Offset{}
		positions := slices.Clone(start)
		for p := range end {
			if start[p] < end[p] {
				startOffsets[int32(p)] = kgo.NewOffset().At(start[p])
			}
		}
		cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: startOffsets})
		for !slices.EqualFunc(positions, end, func(position, end int64) bool { return position >= end }) {
			fetches := cl.PollFetches(ctx)
			for _, e := range fetches.Errors() {
				if errors.Is(e.Err, context.DeadlineExceeded) {
					return fmt.Errorf("it ends at offsets %d, of which %d were reached", end, positions)
				}
				return fmt.Errorf("partition %d at offset %d: %w", e.Partition, positions[max(0, e.Partition)], e.Err)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				if r.Offset < end[r.Partition] {
					positions[r.Partition] = r.Offset + 1
					if !r.Attrs.IsControl() {
						records = append(records, r)
					}
				}
			})
		}
		return nil
	})
	slices.SortFunc(records, func(a, b *kgo.Record) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return records
}

// ConsumeCommitted is Consume without the records of aborted transactions. No transaction may be open.
func (c *Client) ConsumeCommitted(t testing.TB, topic string) []*kgo.Record {
	t.Helper()
	committed := Client{slices.Concat(c.opts, []kgo.Opt{kgo.FetchIsolationLevel(kgo.ReadCommitted())})}
	return committed.Consume(t, topic)
}

// Do calls f with a new connection, for requests that the other methods lack. It fails the test with f's error.
func (c *Client) Do(t testing.TB, what string, f func(context.Context, *kgo.Client) error) {
	t.Helper()
	c.call(t, what, f)
}

// call calls f with a new connection and fails the test with f's error.
func (c *Client) call(t testing.TB, what string, f func(context.Context, *kgo.Client) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	if err := c.do(ctx, f); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func (c *Client) do(ctx context.Context, f func(context.Context, *kgo.Client) error) error {
	cl, err := kgo.NewClient(slices.Concat(c.opts, []kgo.Opt{
		// Offsets are set explicitly: starting elsewhere is an error.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		// The last record of a partition may be the marker of a transaction.
		kgo.KeepControlRecords(),
		kgo.FetchMaxPartitionBytes(8 << 20),
	})...)
	if err != nil {
		return err
	}
	defer cl.Close()
	return f(ctx, cl)
}

// waitForLeaders waits until the topic has that many partitions and each has a leader.
func waitForLeaders(ctx context.Context, cl *kgo.Client, topic string, partitions int) error {
	return retry(ctx, func(ctx context.Context) error {
		n, err := metadata(ctx, cl, topic)
		if err == nil && n != partitions {
			err = fmt.Errorf("it has %d partitions in place of %d", n, partitions)
		}
		return err
	})
}

// retry calls f until it returns nil, or returns the last error when ctx ends.
func retry(ctx context.Context, f func(context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// A broker that is starting may not answer a request.
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := f(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// metadata returns the number of partitions of the topic, or of all topics if it is "". It fails if there is no
// broker, no such topic, or a partition without a leader.
func metadata(ctx context.Context, cl *kgo.Client, topic string) (partitions int, err error) {
	req := kmsg.NewPtrMetadataRequest()
	if topic != "" {
		wanted := kmsg.NewMetadataRequestTopic()
		wanted.Topic = &topic
		req.Topics = append(req.Topics, wanted)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return 0, err
	}
	if len(resp.Brokers) == 0 {
		return 0, errors.New("no broker has registered")
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return 0, fmt.Errorf("topic %s: %w", *t.Topic, err)
		}
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return 0, fmt.Errorf("topic %s, partition %d: %w", *t.Topic, p.Partition, err)
			}
		}
		partitions += len(t.Partitions)
	}
	return partitions, nil
}

func offsets(ctx context.Context, cl *kgo.Client, topic string) (start, end []int64, err error) {
	n, err := metadata(ctx, cl, topic)
	if err != nil {
		return nil, nil, err
	}
	const earliest, latest = -2, -1 // used instead of a timestamp
	if start, err = listOffsets(ctx, cl, topic, n, earliest); err != nil {
		return nil, nil, err
	}
	end, err = listOffsets(ctx, cl, topic, n, latest)
	return start, end, err
}

func listOffsets(ctx context.Context, cl *kgo.Client, topic string, partitions int, timestamp int64) ([]int64, error) {
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for i := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = int32(i), timestamp
		t.Partitions = append(t.Partitions, p)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	found := make([]int64, partitions)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("partition %d: %w", p.Partition, err)
			}
			found[p.Partition] = p.Offset
		}
	}
	return found, nil
}

// failure returns the error for a code, with the broker's message.
func failure(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err != nil && message != nil {
		err = fmt.Errorf("%w (%s)", err, *message)
	}
	return err
}
