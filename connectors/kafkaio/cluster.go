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
	"time"

	"hafvf/internal/message"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"golang.org/x/sync/errgroup"
)

const (
	// clientID is the name under which brokers log this program and apply quotas.
	clientID = "hafvf"
	// answerTime is how long Check and the questions about topics may take.
	answerTime = 10 * time.Second
	// dialTime is how long one broker is given to accept a connection and a login.
	dialTime = 5 * time.Second
)

// A Cluster says how to reach Kafka. It is plain data that can travel to
// workers as JSON, and holds no secret, only where one is.
type Cluster struct {
	// Brokers are some brokers of the cluster, host:port; the port is 9092
	// where it is left out. They name all others, by addresses of their own
	// choice (advertised.listeners), which must be reachable too.
	Brokers []string
	// TLS encrypts; nil for a port that does not.
	TLS *TLS
	// SASL logs in with a password; nil for a port that asks for none.
	SASL *SASL
}

// Client is for requests to the whole cluster, each of which is given 10 s. It
// connects at the first of them, and from then on asks for the cluster's
// metadata every few seconds until its Transport's CloseIdleConnections is
// called.
func (c Cluster) Client() (*kafka.Client, error) {
	addrs, err := c.addresses()
	if err != nil {
		return nil, err
	}
	t, err := c.transport()
	if err != nil {
		return nil, err
	}
	return &kafka.Client{Addr: kafka.TCP(addrs...), Timeout: answerTime, Transport: t}, nil
}

func (c Cluster) transport() (*kafka.Transport, error) {
	sec, err := c.security()
	if err != nil {
		return nil, err
	}
	return &kafka.Transport{
		ClientID:    clientID,
		Dial:        (&net.Dialer{Timeout: dialTime}).DialContext,
		DialTimeout: dialTime,
		TLS:         sec.tls,
		SASL:        sec.sasl,
	}, nil
}

// Check connects to a broker, logs in, and then does so with every broker that
// this one names. The error is a sentence that says which broker, what is wrong
// and what to do. It returns after about 10 s at most.
func (c Cluster) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	sec, err := c.security()
	if err != nil {
		return err
	}
	l, md, err := c.bootstrap(ctx, sec, []string{})
	if err != nil {
		return err
	}
	defer l.Close()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(16) // connections at a time
	for _, b := range md.Brokers {
		if advertised(b) == l.addr {
			continue
		}
		g.Go(func() error {
			other, err := c.follow(gctx, sec, l, b)
			if err != nil {
				return err
			}
			return other.Close()
		})
	}
	return g.Wait()
}

// Partitions returns how many partitions each topic has. The error for topics
// that do not exist names them, with those that were probably meant.
func (c Cluster) Partitions(ctx context.Context, topics []string) (map[string]int, error) {
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

// A topic is what a broker says of one.
type topic struct {
	partitions int
	// id is another one where a topic is deleted and one of its name created. It is
	// written as Kafka's tools do, and empty where brokers are older than 2.8.
	id string
	// epochs are those of the partitions' leaders, which begin anew with a topic;
	// none where brokers are older than 2.1.
	epochs map[int]int32
}

// describe asks for topics, by name. The error for those that do not exist is
// unknownTopics.
func (c Cluster) describe(ctx context.Context, topics []string) (map[string]topic, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	sec, err := c.security()
	if err != nil {
		return nil, err
	}
	l, md, err := c.bootstrap(ctx, sec, append([]string{}, topics...))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	described := make(map[string]topic, len(topics))
	var missing []string
	for _, t := range md.Topics {
		switch code := kafka.Error(t.ErrorCode); {
		case code == kafka.UnknownTopicOrPartition:
			missing = append(missing, t.Name)
		case code == kafka.InvalidTopic:
			return nil, fmt.Errorf("%q cannot be a topic's name: that has letters, digits, '.', '_' and '-', at most 249 of them", t.Name)
		case code == kafka.TopicAuthorizationFailed:
			return nil, fmt.Errorf("%s may not see topic %q: allow it the operation Describe on it", c.user(), t.Name)
		case code != 0 && code != kafka.LeaderNotAvailable:
			return nil, fmt.Errorf("broker %s says of topic %q: %w", l.addr, t.Name, code)
		default:
			described[t.Name] = topic{partitions: len(t.Partitions)}
		}
	}
	if len(missing) > 0 {
		return nil, &unknownTopics{missing, l.topics(ctx)}
	}
	if err := l.identify(ctx, described); err != nil {
		return nil, away{fmt.Errorf("broker %s does not say what it knows of %s: %w", l.addr, strings.Join(topics, ", "), err)}
	}
	return described, nil
}

// identify adds ids and epochs to topics, as far as the broker has them.
func (l *link) identify(ctx context.Context, topics map[string]topic) error {
	if l.metadata < epochsVersion || len(topics) == 0 {
		return nil
	}
	req := &describeRequest{slices.Collect(maps.Keys(topics)), min(l.metadata, mostVersion)}
	res, err := ask[*describedTopics](ctx, l, req)
	if err != nil {
		return err
	}
	for _, d := range res.topics {
		if d.Topic == nil {
			continue
		}
		t := topics[*d.Topic]
		if d.TopicID != [16]byte{} {
			t.id = base64.RawURLEncoding.EncodeToString(d.TopicID[:])
		}
		t.epochs = make(map[int]int32, len(d.Partitions))
		for _, p := range d.Partitions {
			t.epochs[int(p.Partition)] = p.LeaderEpoch
		}
		topics[*d.Topic] = t
	}
	return nil
}

// unknownTopics is the error for topics that do not exist.
type unknownTopics struct{ missing, existing []string }

func (e *unknownTopics) Error() string {
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

// user names who is logged in, for messages.
func (c Cluster) user() string {
	if c.SASL != nil {
		return fmt.Sprintf("user %q", c.SASL.Username)
	}
	return "this client"
}

// Create creates a topic. Where there is one of that name it leaves it as it
// is, and returns false. With partitions ≤ 0 their number is the broker's
// default, as the number of replicas always is; config are the topic's own
// settings, as cleanup.policy. It returns when the topic can be written to.
func (c Cluster) Create(ctx context.Context, topic string, partitions int, config map[string]string) (created bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	sec, err := c.security()
	if err != nil {
		return false, err
	}
	l, md, err := c.bootstrap(ctx, sec, []string{topic})
	if err != nil {
		return false, err
	}
	defer l.Close()
	if kafka.Error(md.Topics[0].ErrorCode) == 0 {
		return false, nil // without asking for the right to create
	}
	ctrl := l
	if i := slices.IndexFunc(md.Brokers, func(b metadata.ResponseBroker) bool { return b.NodeID == md.ControllerID }); i >= 0 {
		if ctrl, err = c.follow(ctx, sec, l, md.Brokers[i]); err != nil {
			return false, err
		}
		defer ctrl.Close()
	}
	if partitions <= 0 {
		partitions = -1
	}
	req := createtopics.RequestTopic{Name: topic, NumPartitions: int32(partitions), ReplicationFactor: -1}
	for _, k := range slices.Sorted(maps.Keys(config)) {
		req.Configs = append(req.Configs, createtopics.RequestConfig{Name: k, Value: config[k]})
	}
	res, err := ask[*createtopics.Response](ctx, ctrl, &createtopics.Request{
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
			return false, fmt.Errorf("%s may not create topic %q: create it yourself, or allow the operation Create on it", c.user(), topic)
		default:
			return false, fmt.Errorf("topic %q cannot be created: %w", topic, said(code, t.ErrorMessage))
		}
	}
	// Brokers learn of a new topic one after the other, and of its leaders last.
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		md, err := ask[*metadata.Response](ctx, l, &metadata.Request{TopicNames: []string{topic}})
		if err != nil {
			return true, fmt.Errorf("topic %q has been created, but is not ready yet: %w", topic, err)
		}
		t := md.Topics[0]
		if t.ErrorCode == 0 && !slices.ContainsFunc(t.Partitions, func(p metadata.ResponsePartition) bool { return p.ErrorCode != 0 }) {
			return true, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return true, fmt.Errorf("topic %q has been created, but has no leader yet: %w", topic, context.Cause(ctx))
		}
	}
}

// Config returns settings of a topic, as cleanup.policy, its own or those it
// takes from the broker; all of them if no names are given. A name that the
// broker does not know is missing in the map.
func (c Cluster) Config(ctx context.Context, topic string, names ...string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	sec, err := c.security()
	if err != nil {
		return nil, err
	}
	l, _, err := c.bootstrap(ctx, sec, []string{})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	res, err := ask[*describeconfigs.Response](ctx, l, &describeconfigs.Request{Resources: []describeconfigs.RequestResource{
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
			return nil, &unknownTopics{[]string{topic}, l.topics(ctx)}
		case kafka.TopicAuthorizationFailed, kafka.ClusterAuthorizationFailed:
			return nil, fmt.Errorf("%s may not read the settings of topic %q: allow the operation DescribeConfigs on it", c.user(), topic)
		default:
			return nil, fmt.Errorf("the settings of topic %q cannot be read: %w", topic, said(code, r.ErrorMessage))
		}
		for _, e := range r.ConfigEntries {
			values[e.ConfigName] = e.ConfigValue
		}
	}
	return values, nil
}

// said is what a broker says of an error, or else what is said of the error in
// general.
func said(code kafka.Error, message string) error {
	if message == "" {
		return code
	}
	return fmt.Errorf("%s: %s", code.Title(), message)
}

// addresses are the brokers, each with a port.
func (c Cluster) addresses() ([]string, error) {
	var all []string
	for _, b := range c.Brokers {
		host, port, err := net.SplitHostPort(b)
		if err != nil {
			host, port = strings.Trim(b, "[]"), "9092"
		}
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n > 65535 || host == "" || strings.ContainsAny(b, "/, ") {
			return nil, fmt.Errorf("broker %q is not of the form host:port", b)
		}
		all = append(all, net.JoinHostPort(host, port))
	}
	if len(all) == 0 {
		return nil, errors.New("no broker is given: name one or more as host:port")
	}
	return all, nil
}
