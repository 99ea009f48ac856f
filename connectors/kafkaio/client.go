package kafkaio

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
	"github.com/segmentio/kafka-go/protocol/offsetfetch"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"hafvf/internal/message"
)

// answerTime is the time limit of a Client's method.
const answerTime = 10 * time.Second

// A Client asks the brokers of a cluster about topics and groups. When a request needs a broker, it connects, logs in
// and keeps the connection. Records use other connections: one per partition that is read, and others per Writer.
// The methods are safe for concurrent use and take about 10 s at most.
type Client struct {
	cluster Cluster

	mu            sync.Mutex
	bootstrapAddr string                 // last address of anyBroker
	links         map[string]*pooledLink // by address

	ends ends
}

// A pooledLink is a link that a client keeps, for one request at a time.
type pooledLink struct {
	turn chan struct{} // contains a token while a request is in progress
	link *link         // nil if not connected
}

// lock waits until no other request is in progress, or returns the cause of ctx when it ends.
func (p *pooledLink) lock(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *pooledLink) unlock() { <-p.turn }

// NewClient returns a client that has not connected yet.
func NewClient(c Cluster) *Client {
	return &Client{cluster: c, links: map[string]*pooledLink{}}
}

// Close closes the connections after the requests in progress. A later request opens new ones.
func (c *Client) Close() {
	c.mu.Lock()
	links := slices.Collect(maps.Values(c.links))
	c.mu.Unlock()
	for _, pooled := range links {
		pooled.turn <- struct{}{}
		if pooled.link != nil {
			c.drop(pooled)
		}
		pooled.unlock()
	}
}

// anyBroker stands for the first broker that answers. It is used for requests that every broker can answer.
const anyBroker = ""

// linkTo returns the link of a broker, connected or not.
func (c *Client) linkTo(addr string) *pooledLink {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.links[addr] == nil {
		c.links[addr] = &pooledLink{turn: make(chan struct{}, 1)}
	}
	return c.links[addr]
}

// connect connects pooled, which the caller has locked, unless it is connected. fresh is true if it was not.
func (c *Client) connect(ctx context.Context, pooled *pooledLink, addr string) (fresh bool, err error) {
	if pooled.link != nil {
		return false, nil
	}
	if addr != anyBroker {
		pooled.link, err = c.cluster.connect(ctx, addr)
		return true, err
	}
	if pooled.link, err = c.cluster.bootstrap(ctx); err != nil {
		return true, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bootstrapAddr = pooled.link.addr
	if c.links[pooled.link.addr] == nil {
		c.links[pooled.link.addr] = pooled
	}
	return true, nil
}

// drop closes the connection of pooled, which the caller has locked.
func (c *Client) drop(pooled *pooledLink) {
	pooled.link.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.links[pooled.link.addr] == pooled {
		delete(c.links, pooled.link.addr)
	}
	pooled.link = nil
}

// roundTrip sends a request to the broker at addr and returns the answer. request makes the request for a link. If a
// kept connection is lost, roundTrip connects again once.
func roundTrip[R protocol.Message](ctx context.Context, c *Client, addr string, request func(*link) protocol.Message) (r R, err error) {
	pooled := c.linkTo(addr)
	if err := pooled.lock(ctx); err != nil {
		return r, err
	}
	defer pooled.unlock()
	for {
		fresh, err := c.connect(ctx, pooled, addr)
		if err != nil {
			return r, err
		}
		if r, err = ask[R](ctx, pooled.link, request(pooled.link)); err == nil {
			return r, nil
		}
		err = fmt.Errorf("broker %s accepts the connection, but does not answer: %w", pooled.link.addr, err)
		c.drop(pooled)
		if fresh || ctx.Err() != nil {
			return r, unavailableError{err}
		}
	}
}

// send is roundTrip for a request that is the same for every link.
func send[R protocol.Message](ctx context.Context, c *Client, addr string, request protocol.Message) (R, error) {
	return roundTrip[R](ctx, c, addr, func(*link) protocol.Message { return request })
}

// metadata asks for the cluster's brokers and for topics: no topics if the list is empty, all topics if it is nil.
func (c *Client) metadata(ctx context.Context, topics []string) (*kmsg.MetadataResponse, error) {
	answer, err := roundTrip[rawAnswer](ctx, c, anyBroker, func(l *link) protocol.Message { return l.metadataRequest(topics) })
	if err != nil {
		return nil, err
	}
	return answer.Response.(*kmsg.MetadataResponse), nil
}

// advertised returns the address of a broker that other brokers report (advertised.listeners).
func advertised(b kmsg.MetadataResponseBroker) string {
	return net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
}

// advertisedError returns the error for a broker that cannot be reached at the address that another broker reported.
func (c *Client) advertisedError(ctx context.Context, b kmsg.MetadataResponseBroker, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("broker %s answers, but the address that it reports for node %d (advertised.listeners) cannot be used: %w", c.bootstrapAddr, b.NodeID, err)
}

// Check connects to a broker and logs in, and then to every broker that this one reports. The error is a sentence with
// the broker, the cause and the remedy.
func (c *Client) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	md, err := c.metadata(ctx, []string{})
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	for _, b := range md.Brokers {
		g.Go(func() error {
			pooled := c.linkTo(advertised(b))
			if err := pooled.lock(gctx); err != nil {
				return err
			}
			defer pooled.unlock()
			if _, err := c.connect(gctx, pooled, advertised(b)); err != nil {
				return c.advertisedError(gctx, b, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// Partitions returns the number of partitions of each topic. The error for topics that do not exist lists them and
// suggests similar names.
func (c *Client) Partitions(ctx context.Context, topics []string) (map[string]int, error) {
	described, err := c.describe(ctx, topics)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int, len(topics))
	for name, t := range described {
		counts[name] = t.partitions
	}
	return counts, nil
}

// A topic is a broker's description of a topic.
type topic struct {
	partitions int
	// id changes if a topic is deleted and created again with the same name. It has the format of Kafka's tools, and
	// is empty with brokers older than 2.8.
	id string
	// epochs are the epochs of the partitions' leaders, which restart with a new topic; nil with brokers older than
	// 2.1.
	epochs map[int]int32
}

// describe returns the topics by name. If some do not exist, the error is an *unknownTopicsError.
func (c *Client) describe(ctx context.Context, topics []string) (map[string]topic, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	md, err := c.metadata(ctx, append([]string{}, topics...))
	if err != nil {
		return nil, err
	}
	described := make(map[string]topic, len(topics))
	var missing []string
	for _, t := range md.Topics {
		name := nameOf(t)
		switch code := kafka.Error(t.ErrorCode); {
		case code == kafka.UnknownTopicOrPartition:
			missing = append(missing, name)
		case code == kafka.InvalidTopic:
			return nil, fmt.Errorf("%q is not a topic name: use at most 249 letters, digits, '.', '_' and '-'", name)
		case code == kafka.TopicAuthorizationFailed:
			return nil, fmt.Errorf("%s may not see topic %q: allow the operation Describe on it", c.cluster.user(), name)
		case code != 0 && code != kafka.LeaderNotAvailable:
			return nil, fmt.Errorf("a broker reports an error for topic %q: %w", name, code)
		}
		desc := topic{partitions: len(t.Partitions), id: idOf(t)}
		if md.Version >= epochsVersion {
			desc.epochs = make(map[int]int32, len(t.Partitions))
			for _, p := range t.Partitions {
				desc.epochs[int(p.Partition)] = p.LeaderEpoch
			}
		}
		described[name] = desc
	}
	if len(missing) > 0 {
		return nil, &unknownTopicsError{missing, c.topics(ctx)}
	}
	return described, nil
}

// nameOf returns the topic's name, which is set in answers to requests by name.
func nameOf(t kmsg.MetadataResponseTopic) string {
	if t.Topic == nil {
		return ""
	}
	return *t.Topic
}

// idOf returns topic.id.
func idOf(t kmsg.MetadataResponseTopic) string {
	if t.TopicID == [16]byte{} {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(t.TopicID[:])
}

// topics returns the names of all topics, or nil after an error.
func (c *Client) topics(ctx context.Context) []string {
	md, err := c.metadata(ctx, nil)
	if err != nil {
		return nil
	}
	var names []string
	for _, t := range md.Topics {
		names = append(names, nameOf(t))
	}
	return names
}

// unknownTopicsError is the error for topics that do not exist.
type unknownTopicsError struct{ missing, existing []string }

func (e *unknownTopicsError) Error() string {
	slices.Sort(e.missing)
	var s []string
	for _, name := range e.missing {
		q := strconv.Quote(name)
		if near := message.Nearest(name, e.existing); near != "" {
			q += fmt.Sprintf(" (did you mean %q?)", near)
		}
		s = append(s, q)
	}
	if len(s) == 1 {
		return "topic " + s[0] + " does not exist: create it, or correct its name"
	}
	return "topics " + strings.Join(s, ", ") + " do not exist: create them, or correct their names"
}

// Create creates a topic, and returns when the topic can be written to. If the topic exists, Create leaves it
// unchanged and returns false. With partitions ≤ 0, the broker's default is used. The number of replicas is always
// the broker's default. config holds settings of the topic, such as cleanup.policy.
func (c *Client) Create(ctx context.Context, topic string, partitions int, config map[string]string) (created bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	md, err := c.metadata(ctx, []string{topic})
	if err != nil {
		return false, err
	}
	if kafka.Error(md.Topics[0].ErrorCode) == 0 {
		return false, nil // needs no permission to create
	}
	controller := anyBroker
	if i := slices.IndexFunc(md.Brokers, func(b kmsg.MetadataResponseBroker) bool { return b.NodeID == md.ControllerID }); i >= 0 {
		controller = advertised(md.Brokers[i])
	}
	if partitions <= 0 {
		partitions = -1
	}
	req := createtopics.RequestTopic{Name: topic, NumPartitions: int32(partitions), ReplicationFactor: -1}
	for _, k := range slices.Sorted(maps.Keys(config)) {
		req.Configs = append(req.Configs, createtopics.RequestConfig{Name: k, Value: config[k]})
	}
	res, err := send[*createtopics.Response](ctx, c, controller, &createtopics.Request{
		Topics:    []createtopics.RequestTopic{req},
		TimeoutMs: int32(answerTime.Milliseconds() / 2),
	})
	if err != nil {
		return false, fmt.Errorf("topic %q cannot be created: %w", topic, err)
	}
	for _, t := range res.Topics {
		switch code := kafka.Error(t.ErrorCode); code {
		case 0:
		case kafka.TopicAlreadyExists:
			return false, nil
		case kafka.TopicAuthorizationFailed, kafka.ClusterAuthorizationFailed:
			return false, fmt.Errorf("%s may not create topic %q: create it yourself, or allow the operation Create on it", c.cluster.user(), topic)
		default:
			return false, fmt.Errorf("topic %q cannot be created: %w", topic, brokerError(code, t.ErrorMessage))
		}
	}
	// Brokers learn of a new topic one after the other, and of its leaders last.
	err = requests(noLimit).Do(ctx, func(ctx context.Context) error {
		md, err := c.metadata(ctx, []string{topic})
		if err != nil {
			return err
		}
		t := md.Topics[0]
		if t.ErrorCode != 0 || slices.ContainsFunc(t.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool { return p.ErrorCode != 0 }) {
			return kafka.LeaderNotAvailable
		}
		return nil
	}, func(err error) bool { return err == kafka.LeaderNotAvailable })
	if err != nil {
		return true, fmt.Errorf("topic %q has been created, but is not ready yet: %w", topic, err)
	}
	return true, nil
}

// config returns settings of a topic, such as cleanup.policy, including those that it inherits from the broker.
// Without names it returns all settings. The map lacks names that the broker does not know.
func (c *Client) config(ctx context.Context, topic string, names ...string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	res, err := send[*describeconfigs.Response](ctx, c, anyBroker, &describeconfigs.Request{Resources: []describeconfigs.RequestResource{
		{ResourceType: int8(kafka.ResourceTypeTopic), ResourceName: topic, ConfigNames: names},
	}})
	if err != nil {
		return nil, fmt.Errorf("the settings of topic %q cannot be read: %w", topic, err)
	}
	values := map[string]string{}
	for _, r := range res.Resources {
		switch code := kafka.Error(r.ErrorCode); code {
		case 0:
		case kafka.UnknownTopicOrPartition:
			return nil, &unknownTopicsError{[]string{topic}, c.topics(ctx)}
		case kafka.TopicAuthorizationFailed, kafka.ClusterAuthorizationFailed:
			return nil, fmt.Errorf("%s may not read the settings of topic %q: allow the operation DescribeConfigs on it", c.cluster.user(), topic)
		default:
			return nil, fmt.Errorf("the settings of topic %q cannot be read: %w", topic, brokerError(code, r.ErrorMessage))
		}
		for _, e := range r.ConfigEntries {
			values[e.ConfigName] = e.ConfigValue
		}
	}
	return values, nil
}

// brokerError returns an error with the broker's message or, if the broker sent none, the standard text of the code.
func brokerError(code kafka.Error, message string) error {
	if message == "" {
		return code
	}
	return fmt.Errorf("%s: %s", code.Title(), message)
}

// Special values of the timestamp in requests for offsets.
const (
	atFirst, atEnd = -2, -1
)

// offsets returns offsets of partitions, by Position.Log. timestamp is in Unix milliseconds; the result is the offset
// of the first record at or after it, or −1 if there is none. With atFirst, it is the offset of the first record that
// is left. With atEnd, it is the offset after the last record or, with committed, before the first open transaction.
func (c *Client) offsets(ctx context.Context, partitions map[string][]int, timestamp int64, committed bool) (result map[string]int64, err error) {
	err = requests(answerTime).Do(ctx, func(ctx context.Context) (err error) {
		result, err = c.askOffsets(ctx, partitions, timestamp, committed)
		return err
	}, func(err error) bool {
		// The brokers name the leader of a new topic before the leader knows of it.
		return errors.Is(err, kafka.NotLeaderForPartition) || errors.Is(err, kafka.LeaderNotAvailable)
	})
	return result, err
}

// askOffsets is one attempt of offsets.
func (c *Client) askOffsets(ctx context.Context, partitions map[string][]int, timestamp int64, committed bool) (map[string]int64, error) {
	md, err := c.metadata(ctx, slices.Collect(maps.Keys(partitions)))
	if err != nil {
		return nil, err
	}
	byLeader := map[string]map[string][]listoffsets.RequestPartition{}
	for topic, list := range partitions {
		for _, p := range list {
			req, position := listoffsets.RequestPartition{Partition: int32(p), CurrentLeaderEpoch: -1, Timestamp: timestamp}, Position{Topic: topic, Partition: p}
			leader, err := leaderOf(md, position)
			if err != nil {
				return nil, fmt.Errorf("the offsets of %s cannot be read: %w", position.Log(), err)
			}
			addr := advertised(leader)
			if byLeader[addr] == nil {
				byLeader[addr] = map[string][]listoffsets.RequestPartition{}
			}
			byLeader[addr][topic] = append(byLeader[addr][topic], req)
		}
	}
	result := map[string]int64{}
	for addr, topics := range byLeader {
		req := &listoffsets.Request{ReplicaID: -1}
		if committed {
			req.IsolationLevel = 1
		}
		for topic, list := range topics {
			req.Topics = append(req.Topics, listoffsets.RequestTopic{Topic: topic, Partitions: list})
		}
		res, err := send[*listoffsets.Response](ctx, c, addr, req)
		if err != nil {
			return nil, fmt.Errorf("the offsets of %s cannot be read: %w", strings.Join(slices.Sorted(maps.Keys(topics)), ", "), err)
		}
		for _, t := range res.Topics {
			for _, p := range t.Partitions {
				log := Position{Topic: t.Topic, Partition: int(p.Partition)}.Log()
				if p.ErrorCode != 0 {
					return nil, fmt.Errorf("the offsets of %s cannot be read: %w", log, kafka.Error(p.ErrorCode))
				}
				result[log] = p.Offset
			}
		}
	}
	return result, nil
}

// coordinator returns the address of the broker that stores a group's offsets.
func (c *Client) coordinator(ctx context.Context, group string) (addr string, err error) {
	res, err := send[*findcoordinator.Response](ctx, c, anyBroker, &findcoordinator.Request{Key: group})
	if err == nil && res.ErrorCode != 0 {
		err = kafka.Error(res.ErrorCode)
	}
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(res.Host, strconv.Itoa(int(res.Port))), nil
}

// committed returns the group's offsets by partition. Partitions without an offset are missing in the map.
func (c *Client) committed(ctx context.Context, group string, partitions map[string][]int) (result map[string]partitionProgress, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("the offsets of group %s cannot be read: %w", group, err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	addr, err := c.coordinator(ctx, group)
	if err != nil {
		return nil, err
	}
	req := &offsetfetch.Request{GroupID: group}
	for topic, list := range partitions {
		t := offsetfetch.RequestTopic{Name: topic}
		for _, p := range list {
			t.PartitionIndexes = append(t.PartitionIndexes, int32(p))
		}
		req.Topics = append(req.Topics, t)
	}
	res, err := send[*offsetfetch.Response](ctx, c, addr, req)
	if err != nil {
		return nil, err
	}
	result = map[string]partitionProgress{}
	switch code := kafka.Error(res.ErrorCode); code {
	case 0:
	case kafka.GroupIdNotFound:
		return result, nil
	default:
		return nil, code
	}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				err = errors.Join(err, kafka.Error(p.ErrorCode))
			}
			if p.CommittedOffset >= 0 {
				position := Position{t.Name, int(p.PartitionIndex), p.CommittedOffset}
				result[position.Log()] = partitionProgress{Position: position, pace: readNote(p.Metadata).pace, metadata: p.Metadata}
			}
		}
	}
	return result, err
}

// commit commits offsets, by Position.Log, for a group without members.
func (c *Client) commit(ctx context.Context, group string, offsets map[string]partitionProgress) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	addr, err := c.coordinator(ctx, group)
	if err != nil {
		return err
	}
	const noMember, unknown = -1, -1
	topics := map[string][]offsetcommit.RequestPartition{}
	for _, p := range offsets {
		topics[p.Topic] = append(topics[p.Topic], offsetcommit.RequestPartition{
			PartitionIndex: int32(p.Partition), CommittedOffset: p.Offset, CommittedLeaderEpoch: unknown, CommittedMetadata: p.metadata})
	}
	req := &offsetcommit.Request{GroupID: group, GenerationID: noMember, RetentionTimeMs: unknown}
	for topic, list := range topics {
		req.Topics = append(req.Topics, offsetcommit.RequestTopic{Name: topic, Partitions: list})
	}
	res, err := send[*offsetcommit.Response](ctx, c, addr, req)
	if err != nil {
		return err
	}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				err = errors.Join(err, kafka.Error(p.ErrorCode))
			}
		}
	}
	return err
}

// dialLeader opens a new connection to the leader of a partition. It fails if the topic's ID differs from id; an empty
// id is not checked.
func (c *Client) dialLeader(ctx context.Context, position Position, id string) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	md, err := c.metadata(ctx, []string{position.Topic})
	if err != nil {
		return nil, err
	}
	for _, t := range md.Topics {
		if err := replacedTopicError(position.Topic, id, idOf(t)); err != nil {
			return nil, err
		}
	}
	leader, err := leaderOf(md, position)
	if err != nil {
		return nil, err
	}
	l, err := c.cluster.connect(ctx, advertised(leader))
	if err != nil {
		return nil, c.advertisedError(ctx, leader, err)
	}
	return l, nil
}
