package kafkaio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"hafvf/connectors/internal/retry"
)

// An owner writes to a changelog and commits the offsets that belong to it, both in one transaction. The changelog has
// one owner at a time: when another process becomes the owner, the brokers refuse the transactions of this one. An
// owner uses franz-go, because kafka-go has no fenced transactions.
type owner struct {
	client    *kgo.Client
	changelog string
	group     string // empty if no offsets are committed
	batch     int32  // maximum batch size of the topic in bytes
	err       error  // error of the failed transaction; none follows it
}

// transactionTime is the maximum duration of a transaction. After that time, the broker aborts it and refuses later
// writes of its owner. The first commit can contain the states of all keys.
const transactionTime = 10 * time.Minute

// Limits of the records in flight to the brokers. Their number is limited too, because each takes as much extra memory
// as a small state.
const (
	bufferedBytes   = 4 * changelogBytes
	bufferedRecords = 10_000
)

// errChangelogTaken is the error for a transaction that the brokers refuse because the changelog has another owner, or
// because it was open for longer than transactionTime.
var errChangelogTaken = errors.New("the brokers do not accept this process as the owner of the changelog")

// transactionalID returns the id by which brokers know the owner of a changelog.
func transactionalID(changelog string) string { return "hafvf-" + changelog }

// takeOwnership makes this process the owner of a changelog. Transactions of the previous owner that are not committed
// are aborted. batch is the maximum batch size of the topic in bytes.
func takeOwnership(ctx context.Context, c Cluster, changelog, group string, batch int32) (*owner, error) {
	d, err := c.dialer()
	if err != nil {
		return nil, err
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(d.brokers...), kgo.ClientID(clientID), kgo.Dialer(d.dialPatiently), kgo.DisableClientMetrics(),
		// A broker that is stopping may have accepted the connection. That this client can talk to the cluster is
		// already known: it has read the changelog.
		kgo.AlwaysRetryEOF(),
		// addOffsets adds the group to a transaction explicitly, which is the protocol up to Kafka 3.9.
		kgo.MaxVersions(kversion.V3_9_0()),
		kgo.TransactionalID(transactionalID(changelog)), kgo.TransactionTimeout(transactionTime),
		kgo.DefaultProduceTopic(changelog), kgo.ProducerLinger(0), kgo.MaxBufferedBytes(bufferedBytes), kgo.MaxBufferedRecords(bufferedRecords), kgo.ProducerBatchMaxBytes(batch),
		kgo.ProducerBatchCompression(kgo.ZstdCompression(), kgo.NoCompression()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(deliveryTime), kgo.RetryTimeout(deliveryTime), kgo.RequestRetries(int(deliveryTime / firstPause)), kgo.RetryBackoffFn(requests(deliveryTime).Pause),
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if _, _, err = client.ProducerID(within); err == nil {
		return &owner{client: client, changelog: changelog, group: group, batch: batch}, nil
	}
	client.Close()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed):
		return nil, fmt.Errorf("%s may not use the transactional id %q, by which one process owns the changelog %s: allow the operation Write on it", c.user(), transactionalID(changelog), changelog)
	case errors.Is(err, kerr.InvalidTransactionTimeout):
		return nil, fmt.Errorf("the brokers allow no transactions of %s, in which states are written to the changelog %s: set their transaction.max.timeout.ms to %d or more", transactionTime, changelog, transactionTime.Milliseconds())
	}
	return nil, fmt.Errorf("the changelog %s cannot be taken over within %s: %w; if the brokers have no coordinator for transactions, and there are fewer than three, set their transaction.state.log.replication.factor and transaction.state.log.min.isr to at most their number",
		changelog, startTimeout, err)
}

// dialPatiently is dial for franz-go, whose requests fail as soon as no broker accepts a connection, for example while
// the only broker restarts. While all brokers of the Cluster are away, it repeats dial for up to deliveryTime. If
// another broker is reachable, it returns the error at once, because franz-go then asks that broker. It also returns a
// refused login at once.
func (d dialer) dialPatiently(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	final := false
	err = requests(deliveryTime).Do(ctx, func(ctx context.Context) (err error) {
		if conn, err = d.dial(ctx, network, addr); err == nil {
			return nil
		}
		if final = refused(err); !final && d.anyone(ctx) {
			final = true
			conn, err = d.dial(ctx, network, addr) // this broker may be back too
		}
		return err
	}, func(error) bool { return !final })
	return conn, err
}

// anyone reports whether a broker of the Cluster accepts connections.
func (d dialer) anyone(ctx context.Context) bool {
	for _, addr := range d.brokers {
		if conn, err := dialTCP(ctx, "tcp", addr); err == nil {
			conn.Close()
			return true
		}
	}
	return false
}

// commit stores the changelog entries that putAll puts, and the offsets of the group by Position.Log: all of them or
// none. putAll must put at least one entry. The error wraps errChangelogTaken if the process is no longer the owner.
// After an error, later calls return the same error.
func (o *owner) commit(ctx context.Context, putAll func(put func(entry)), offsets map[string]partitionProgress) error {
	if o.err == nil {
		o.err = o.transact(ctx, putAll, offsets)
	}
	return o.err
}

func (o *owner) transact(ctx context.Context, putAll func(put func(entry)), offsets map[string]partitionProgress) error {
	err := o.client.BeginTransaction()
	if err == nil {
		err = o.write(ctx, putAll)
	}
	if err == nil && o.group != "" && len(offsets) > 0 {
		err = o.addOffsets(ctx, offsets)
	}
	if err == nil {
		err = o.client.EndTransaction(ctx, kgo.TryCommit)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.InvalidTxnState):
		return fmt.Errorf("%w: %w", errChangelogTaken, err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("states and offsets cannot be committed to the changelog %s: %w", o.changelog, err)
}

func (o *owner) write(ctx context.Context, putAll func(put func(entry))) error {
	var mu sync.Mutex
	var first error
	stored := func(r *kgo.Record, err error) {
		mu.Lock()
		defer mu.Unlock()
		if first = cmp.Or(first, err); errors.Is(err, kerr.MessageTooLarge) {
			first = fmt.Errorf("a record with the key %q has %d bytes: increase max.message.bytes of the topic: %w", r.Key, len(r.Value), err)
		}
	}
	putAll(func(e entry) {
		r := &kgo.Record{Key: e.key, Value: e.value, Partition: e.partition}
		if e.parts > 0 {
			r.Headers = []kgo.RecordHeader{{Key: partsHeader, Value: strconv.AppendInt(nil, int64(e.parts), 10)}}
		}
		o.client.Produce(ctx, r, stored)
	})
	err := o.client.Flush(ctx)
	mu.Lock()
	err = cmp.Or(first, err)
	mu.Unlock()
	if err == nil {
		err = o.awaitPartitions(ctx)
	}
	return err
}

// awaitPartitions waits until franz-go knows the partitions of the changelog. For a new topic, version 1.22.2 stores
// them only after it has sent the records that waited for them. If EndTransaction is called in between, it considers
// the transaction empty: it ends nothing and returns no error.
func (o *owner) awaitPartitions(ctx context.Context) error {
	errYet := errors.New("the partitions of the changelog are not known")
	return retry.Policy{First: time.Millisecond, Last: firstPause, Budget: deliveryTime}.Do(ctx, func(context.Context) error {
		if leader, _, _ := o.client.PartitionLeader(o.changelog, 0); leader < 0 {
			return errYet
		}
		return nil
	}, func(error) bool { return true })
}

// addOffsets adds the group's offsets to the transaction.
func (o *owner) addOffsets(ctx context.Context, offsets map[string]partitionProgress) error {
	id, epoch, err := o.client.ProducerID(ctx)
	if err != nil {
		return err
	}
	begin := kmsg.NewPtrAddOffsetsToTxnRequest()
	begin.TransactionalID, begin.ProducerID, begin.ProducerEpoch, begin.Group = transactionalID(o.changelog), id, epoch, o.group
	err = retried(ctx, func(ctx context.Context) error {
		res, err := begin.RequestWith(ctx, o.client)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(res.ErrorCode)
	})
	if err != nil {
		return err
	}
	topics := map[string][]kmsg.TxnOffsetCommitRequestTopicPartition{}
	for _, progress := range offsets {
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = int32(progress.Partition), progress.Offset, kmsg.StringPtr(progress.metadata)
		topics[progress.Topic] = append(topics[progress.Topic], p)
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = transactionalID(o.changelog), id, epoch, o.group
	for name, partitions := range topics {
		t := kmsg.NewTxnOffsetCommitRequestTopic()
		t.Topic, t.Partitions = name, partitions
		req.Topics = append(req.Topics, t)
	}
	return retried(ctx, func(ctx context.Context) error {
		res, err := req.RequestWith(ctx, o.client)
		if err != nil {
			return err
		}
		for _, t := range res.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// retried calls do until it succeeds, or the brokers' answer is not a retriable error.
func retried(ctx context.Context, do func(context.Context) error) error {
	return requests(deliveryTime).Do(ctx, do, func(err error) bool {
		return kerr.IsRetriable(err) || errors.Is(err, kerr.ConcurrentTransactions)
	})
}

func (o *owner) close() { o.client.Close() }
