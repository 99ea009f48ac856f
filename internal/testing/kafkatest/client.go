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

// A Client fills and reads topics. Each call connects anew, so that it knows
// the topics as they are and outlasts a broker. A call that does not succeed
// within two minutes fails its test, which has to be the calling goroutine's.
type Client struct{ opts []kgo.Opt }

// Dial returns a client of the brokers at these addresses, of which a fake's are
// ListenAddrs(). The options are for security, for instance, or for how records
// are partitioned: with
//
//	kgo.RecordPartitioner(kgo.ManualPartitioner())
//
// records go to the Partition they name; by default they go where Java's client
// puts their key.
func Dial(addrs []string, opts ...kgo.Opt) *Client {
	return &Client{slices.Concat([]kgo.Opt{
		kgo.SeedBrokers(addrs...),
		kgo.ClientID("kafkatest"),
		// What a test waits for is mostly a broker that is starting.
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.MetadataMinAge(50 * time.Millisecond),
	}, opts)}
}

// CreateTopic creates a topic, with configuration such as cleanup.policy, and
// returns when its partitions have leaders.
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
		return led(ctx, cl, name, partitions)
	})
}

// AddPartitions makes the topic have total partitions and returns when all of
// them have leaders.
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
		return led(ctx, cl, name, total)
	})
}

// Produce writes the records and returns when all are acknowledged. Each gets
// its Partition and Offset. Within a partition they are stored in the order
// given, each once.
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

// Offsets returns, by partition, the offset of the topic's first record and the
// one that follows the last.
func (c *Client) Offsets(t testing.TB, topic string) (start, end []int64) {
	t.Helper()
	c.call(t, "the offsets of topic "+topic+" cannot be read", func(ctx context.Context, cl *kgo.Client) (err error) {
		start, end, err = offsets(ctx, cl, topic)
		return err
	})
	return start, end
}

// Consume returns the topic's records up to the end that it has at the call, by
// partition and offset. It takes them whether their transaction was committed
// or not.
func (c *Client) Consume(t testing.TB, topic string) []*kgo.Record {
	t.Helper()
	var all []*kgo.Record
	c.call(t, "topic "+topic+" cannot be read", func(ctx context.Context, cl *kgo.Client) error {
		start, end, err := offsets(ctx, cl, topic)
		if err != nil {
			return err
		}
		from := map[int32]kgo.Offset{}
		at := slices.Clone(start)
		for p := range end {
			if start[p] < end[p] {
				from[int32(p)] = kgo.NewOffset().At(start[p])
			}
		}
		cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
		for !slices.EqualFunc(at, end, func(at, end int64) bool { return at >= end }) {
			fetches := cl.PollFetches(ctx)
			for _, e := range fetches.Errors() {
				if errors.Is(e.Err, context.DeadlineExceeded) {
					return fmt.Errorf("it ends at offsets %d, of which %d were reached", end, at)
				}
				return fmt.Errorf("partition %d at offset %d: %w", e.Partition, at[max(0, e.Partition)], e.Err)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				if r.Offset < end[r.Partition] {
					at[r.Partition] = r.Offset + 1
					if !r.Attrs.IsControl() {
						all = append(all, r)
					}
				}
			})
		}
		return nil
	})
	slices.SortFunc(all, func(a, b *kgo.Record) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return all
}

// ConsumeCommitted is Consume without the records of transactions that were aborted. None may be open.
func (c *Client) ConsumeCommitted(t testing.TB, topic string) []*kgo.Record {
	t.Helper()
	committed := Client{slices.Concat(c.opts, []kgo.Opt{kgo.FetchIsolationLevel(kgo.ReadCommitted())})}
	return committed.Consume(t, topic)
}

// Do calls f with a connection of its own, for what the other methods do not do,
// and fails the test with its error.
func (c *Client) Do(t testing.TB, what string, f func(context.Context, *kgo.Client) error) {
	t.Helper()
	c.call(t, what, f)
}

// call calls f with a connection of its own and fails the test with its error.
func (c *Client) call(t testing.TB, what string, f func(context.Context, *kgo.Client) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.do(ctx, f); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func (c *Client) do(ctx context.Context, f func(context.Context, *kgo.Client) error) error {
	cl, err := kgo.NewClient(slices.Concat(c.opts, []kgo.Opt{
		// Offsets are given: to start elsewhere than at them is an error.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		// A marker of a transaction can be the last thing in a partition.
		kgo.KeepControlRecords(),
		kgo.FetchMaxPartitionBytes(8 << 20),
	})...)
	if err != nil {
		return err
	}
	defer cl.Close()
	return f(ctx, cl)
}

// led returns when the topic has that many partitions and each has a leader.
func led(ctx context.Context, cl *kgo.Client, topic string, partitions int) error {
	return until(ctx, func(ctx context.Context) error {
		n, err := metadata(ctx, cl, topic)
		if err == nil && n != partitions {
			err = fmt.Errorf("it has %d partitions in place of %d", n, partitions)
		}
		return err
	})
}

// until calls f until it has no error, or returns the last one when ctx ends.
func until(ctx context.Context, f func(context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// A broker that is just starting may leave a request unanswered.
		one, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := f(one)
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

// metadata returns the number of partitions of the topic, of all topics if it
// is "". It is an error if there is no broker, or no such topic, or a partition
// without a leader.
func metadata(ctx context.Context, cl *kgo.Client, topic string) (partitions int, err error) {
	req := kmsg.NewPtrMetadataRequest()
	if topic != "" {
		one := kmsg.NewMetadataRequestTopic()
		one.Topic = &topic
		req.Topics = append(req.Topics, one)
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
	const earliest, latest = -2, -1 // in place of a time
	if start, err = listOffsets(ctx, cl, topic, n, earliest); err != nil {
		return nil, nil, err
	}
	end, err = listOffsets(ctx, cl, topic, n, latest)
	return start, end, err
}

func listOffsets(ctx context.Context, cl *kgo.Client, topic string, partitions int, at int64) ([]int64, error) {
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for i := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = int32(i), at
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

// failure is the error of a code with what the broker says of it.
func failure(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err != nil && message != nil {
		err = fmt.Errorf("%w (%s)", err, *message)
	}
	return err
}
