// Package kafkaio reads records from Kafka and writes messages to it.
package kafkaio

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	"golang.org/x/sync/errgroup"

	"hafvf/connectors"
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

// TLS says whom to trust and as whom to appear. The zero value trusts the
// authorities of the system and shows no certificate. The versions are 1.2 and
// above; a broker's certificate must be for the host name by which it is reached.
type TLS struct {
	// CA is a PEM file of the authorities that are trusted in place of the
	// system's.
	CA string
	// Cert and Key are PEM files, both or neither: the certificate that this
	// client shows.
	Cert, Key string
}

// SASL is a login.
type SASL struct {
	// Mechanism is PLAIN (for TLS only: the password is sent as it is),
	// SCRAM-SHA-256 or SCRAM-SHA-512.
	Mechanism string
	Username  string
	Password  Secret
}

// A Secret is where a secret stands: in an environment variable or in a file,
// exactly one of them. The line end that ends a file is no part of it.
type Secret struct{ Env, File string }

// value reads the secret. Errors name the place, never what is in it.
func (s Secret) value() (string, error) {
	switch {
	case s.Env != "" && s.File != "":
		return "", fmt.Errorf("a secret is in the variable %s or in the file %s: give one of them", s.Env, s.File)
	case s.Env != "":
		v, ok := os.LookupEnv(s.Env)
		if !ok {
			return "", fmt.Errorf("the environment variable %s, which holds a secret, is not set", s.Env)
		}
		if v == "" {
			return "", fmt.Errorf("the environment variable %s, which holds a secret, is empty", s.Env)
		}
		return v, nil
	case s.File != "":
		b, err := os.ReadFile(s.File)
		if err != nil {
			return "", fmt.Errorf("the file %s, which holds a secret, cannot be read: %w", s.File, reason(err))
		}
		v := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
		if v == "" {
			return "", fmt.Errorf("the file %s, which holds a secret, is empty", s.File)
		}
		return v, nil
	}
	return "", errors.New("a secret has no place: name an environment variable (env) or a file (file)")
}

// where names the place of the secret.
func (s Secret) where() string {
	if s.Env != "" {
		return "the environment variable " + s.Env
	}
	return "the file " + s.File
}

// reason is err without the operation and path that os puts before it.
func reason(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// config reads the files.
func (t *TLS) config() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("tls.ca: %s cannot be read: %w", t.CA, reason(err))
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca: %s holds no certificate in PEM form", t.CA)
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("tls.cert and tls.key belong together: give both or neither")
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("tls.cert %s and tls.key %s cannot be used: %w", t.Cert, t.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// mechanism reads the password.
func (s *SASL) mechanism() (sasl.Mechanism, error) {
	if s == nil {
		return nil, nil
	}
	const plainName = "PLAIN"
	known := []string{plainName, scram.SHA256.Name(), scram.SHA512.Name()}
	if !slices.Contains(known, s.Mechanism) {
		return nil, fmt.Errorf("sasl.mechanism %q is not known: it is one of %s", s.Mechanism, strings.Join(known, ", "))
	}
	if s.Username == "" {
		return nil, errors.New("sasl.username is missing")
	}
	password, err := s.Password.value()
	if err != nil {
		return nil, fmt.Errorf("sasl.password: %w", err)
	}
	algorithm := scram.SHA512
	switch s.Mechanism {
	case plainName:
		return plain.Mechanism{Username: s.Username, Password: password}, nil
	case scram.SHA256.Name():
		algorithm = scram.SHA256
	}
	m, err := scram.Mechanism(algorithm, s.Username, password)
	if err != nil {
		// The library's error might quote what it refused.
		return nil, fmt.Errorf("sasl.username, or the password in %s, has characters that %s forbids", s.Password.where(), s.Mechanism)
	}
	return m, nil
}

// security is what TLS and SASL come to once their files are read.
type security struct {
	tls  *tls.Config
	sasl sasl.Mechanism
}

func (c Cluster) security() (s security, err error) {
	if s.tls, err = c.TLS.config(); err != nil {
		return security{}, err
	}
	s.sasl, err = c.SASL.mechanism()
	return s, err
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

// Dialer is for kafka.Conn. Its errors are those of reading the secret and the
// files of TLS: it connects to nothing yet. Dialling is given 10 s, but
// kafka-go does not count the login in that.
func (c Cluster) Dialer() (*kafka.Dialer, error) {
	sec, err := c.security()
	if err != nil {
		return nil, err
	}
	return &kafka.Dialer{ClientID: clientID, Timeout: answerTime, DualStack: true, TLS: sec.tls, SASLMechanism: sec.sasl}, nil
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
	counts := make(map[string]int, len(topics))
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
			counts[t.Name] = len(t.Partitions)
		}
	}
	if len(missing) == 0 {
		return counts, nil
	}
	return nil, &unknownTopics{missing, l.topics(ctx)}
}

// unknownTopics is the error for topics that do not exist.
type unknownTopics struct{ missing, existing []string }

func (e *unknownTopics) Error() string {
	slices.Sort(e.missing)
	var s []string
	for _, name := range e.missing {
		q := strconv.Quote(name)
		if near := nearestTopic(name, e.existing); near != "" {
			q += fmt.Sprintf(" (did you mean %q?)", near)
		}
		s = append(s, q)
	}
	if len(s) == 1 {
		return "topic " + s[0] + " does not exist: create it, or correct its name"
	}
	return "topics " + strings.Join(s, ", ") + " do not exist: create them, or correct their names"
}

// nearestTopic returns the name that is at most a third of want's length (and
// at least two) edits away and nearest to it, or "".
func nearestTopic(want string, names []string) string {
	best, least := "", max(2, len(want)/3)+1
	for _, n := range names {
		if d := connectors.Edits(n, want); d < least {
			best, least = n, d
		}
	}
	return best
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

// A link is a connection to one broker. kafka-go's Client would do for the
// questions above, but it tells a wrong password, a wrong port and a missing
// login apart no better than by "unexpected EOF", and answers from a cache.
type link struct {
	*protocol.Conn
	addr string
}

// bootstrap connects to the first broker that can be used, and asks it for the
// cluster's brokers and for some topics: none if the list is empty, all if it
// is nil.
func (c Cluster) bootstrap(ctx context.Context, sec security, topics []string) (*link, *metadata.Response, error) {
	addrs, err := c.addresses()
	if err != nil {
		return nil, nil, err
	}
	deadline, _ := ctx.Deadline()
	var errs []error
	for i, addr := range addrs {
		// A broker that does not answer must leave time for the others.
		share := time.Until(deadline) / time.Duration(len(addrs)-i)
		l, md, err := c.open(ctx, sec, addr, min(share, dialTime), topics)
		if err == nil {
			return l, md, nil
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, nil, context.Cause(ctx)
		}
		var refused *loginError
		if errors.As(err, &refused) {
			return nil, nil, err // as every broker would, until the account is locked
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) == 1 {
		return nil, nil, errs[0]
	}
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return nil, nil, fmt.Errorf("none of the %d brokers can be used: %s", len(addrs), strings.Join(all, "; "))
}

func (c Cluster) open(ctx context.Context, sec security, addr string, patience time.Duration, topics []string) (*link, *metadata.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l, err := c.connect(ctx, sec, addr)
	if err != nil {
		return nil, nil, err
	}
	md, err := ask[*metadata.Response](ctx, l, &metadata.Request{TopicNames: topics})
	if err != nil {
		l.Close()
		if c.SASL == nil && hungUp(err) {
			return nil, nil, fmt.Errorf("broker %s hangs up on a client that has not logged in: set sasl, or use a port that asks for no login", addr)
		}
		return nil, nil, fmt.Errorf("broker %s accepts the connection, but says nothing of the cluster: %w", addr, err)
	}
	return l, md, nil
}

// advertised is the address that a broker has other brokers tell.
func advertised(b metadata.ResponseBroker) string {
	return net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
}

// follow connects to a broker that the one at the other end of l named.
func (c Cluster) follow(ctx context.Context, sec security, l *link, b metadata.ResponseBroker) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	other, err := c.connect(ctx, sec, advertised(b))
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
			return nil, err
		}
		return nil, fmt.Errorf("broker %s answers, but sends clients on to an address that cannot be used (in advertised.listeners of node %d): %w", l.addr, b.NodeID, err)
	}
	return other, nil
}

// topics are the names of all topics, as far as they can be had.
func (l *link) topics(ctx context.Context) []string {
	md, err := ask[*metadata.Response](ctx, l, &metadata.Request{})
	if err != nil {
		return nil
	}
	var names []string
	for _, t := range md.Topics {
		names = append(names, t.Name)
	}
	return names
}

// ask sends a request and waits for its answer.
func ask[R protocol.Message](ctx context.Context, l *link, req protocol.Message) (r R, err error) {
	deadline, _ := ctx.Deadline()
	l.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { l.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	res, err := l.RoundTrip(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return r, err
	}
	return res.(R), nil
}

// A loginError says that a broker refused the login.
type loginError struct{ text string }

func (e *loginError) Error() string { return e.text }

// connect opens a connection, with handshake and login. Its errors are
// sentences that begin with the broker's name and end with what to do. ctx must
// have a deadline.
func (c Cluster) connect(ctx context.Context, sec security, addr string) (_ *link, err error) {
	start := time.Now()
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, dialError(ctx, addr, start, err)
	}
	defer func() {
		if err != nil {
			nc.Close()
		}
	}()
	if sec.tls != nil {
		config := sec.tls.Clone()
		config.ServerName, _, _ = net.SplitHostPort(addr)
		tc := tls.Client(nc, config)
		if err := tc.HandshakeContext(ctx); err != nil {
			return nil, c.tlsError(ctx, addr, start, err)
		}
		nc = tc
	}
	l := &link{protocol.NewConn(&greeted{Conn: nc}, clientID), addr}
	versions, err := ask[*apiversions.Response](ctx, l, new(apiversions.Request))
	if err != nil {
		return nil, c.greetingError(ctx, addr, start, err)
	}
	known := map[protocol.ApiKey]int16{}
	for _, k := range versions.ApiKeys {
		key := protocol.ApiKey(k.ApiKey)
		known[key] = key.SelectVersion(k.MinVersion, k.MaxVersion)
	}
	l.SetVersions(known)
	if sec.sasl == nil {
		return l, nil
	}
	return l, c.login(ctx, sec.sasl, l)
}

func (c Cluster) login(ctx context.Context, m sasl.Mechanism, l *link) error {
	hello, err := ask[*saslhandshake.Response](ctx, l, &saslhandshake.Request{Mechanism: m.Name()})
	switch code := kafka.Error(0); {
	case err != nil:
		return fmt.Errorf("broker %s does not begin a login: %w", l.addr, err)
	case hello.ErrorCode != 0:
		code = kafka.Error(hello.ErrorCode)
		if code == kafka.UnsupportedSASLMechanism && len(hello.Mechanisms) > 0 {
			return fmt.Errorf("broker %s does not offer %s, but %s: set sasl.mechanism to one of these", l.addr, m.Name(), strings.Join(hello.Mechanisms, ", "))
		}
		if code == kafka.IllegalSASLState || code == kafka.UnsupportedSASLMechanism {
			return fmt.Errorf("broker %s asks for no login at this port: leave out sasl, or use the port that does", l.addr)
		}
		return fmt.Errorf("broker %s does not begin a login: %w", l.addr, code)
	}
	host, port, _ := net.SplitHostPort(l.addr)
	n, _ := strconv.Atoi(port)
	session, out, err := m.Start(sasl.WithMetadata(ctx, &sasl.Metadata{Host: host, Port: n}))
	for done := false; err == nil && !done; {
		var res *saslauthenticate.Response
		res, err = ask[*saslauthenticate.Response](ctx, l, &saslauthenticate.Request{AuthBytes: out})
		// Old brokers say no by hanging up.
		if err == nil && kafka.Error(res.ErrorCode) == kafka.SASLAuthenticationFailed || hungUp(err) {
			return &loginError{fmt.Sprintf("broker %s refuses the login of %s by %s: the name or the password (in %s) is wrong, or the user is not set up for this mechanism",
				l.addr, c.user(), m.Name(), c.SASL.Password.where())}
		}
		if err == nil && res.ErrorCode != 0 {
			err = kafka.Error(res.ErrorCode) // its message may repeat what was sent
		}
		if err == nil {
			done, out, err = session.Next(ctx, res.AuthBytes)
		}
	}
	if err != nil {
		return fmt.Errorf("broker %s and %s do not come to a login by %s: %w", l.addr, c.user(), m.Name(), err)
	}
	return nil
}

// waited says for how long, for messages.
func waited(start time.Time) string {
	return cmp.Or(time.Since(start).Round(100*time.Millisecond), 100*time.Millisecond).String()
}

func dialError(ctx context.Context, addr string, start time.Time, err error) error {
	host, _, _ := net.SplitHostPort(addr)
	var dns *net.DNSError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Cause(ctx)
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("broker %s cannot be found: nothing is known here by the name %s; correct it, or enter it into the DNS", addr, host)
	case errors.As(err, &dns):
		return fmt.Errorf("broker %s cannot be found: looking up %s failed (%s)", addr, host, dns.Err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("broker %s refuses the connection: nothing listens there; check host and port, and that Kafka is running", addr)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("broker %s did not answer within %s: check host and port, and that no firewall is in between", addr, waited(start))
	}
	return fmt.Errorf("broker %s cannot be reached: %w", addr, err)
}

func (c Cluster) tlsError(ctx context.Context, addr string, start time.Time, err error) error {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		remote    *net.OpError
	)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Cause(ctx)
	case errors.As(err, &authority):
		trust := "set tls.ca to the PEM file of that authority"
		if c.TLS.CA != "" {
			trust = fmt.Sprintf("the authority's certificate is not in tls.ca, %s", c.TLS.CA)
		}
		return fmt.Errorf("broker %s shows a certificate of an authority that is not trusted%s: %s", addr, issuer(authority), trust)
	case errors.As(err, &hostname):
		return fmt.Errorf("broker %s shows a certificate that is not for this name (%w): name the broker as its certificate does", addr, hostname)
	case errors.As(err, &verify):
		return fmt.Errorf("broker %s shows a certificate that is not valid: %w", addr, verify.Err)
	case errors.As(err, &remote) && remote.Op == "remote error":
		return c.alertError(addr, remote.Err)
	case errors.As(err, &record), hungUp(err):
		return fmt.Errorf("broker %s does not speak TLS at this port: leave out tls, or use the port that does", addr)
	case ctx.Err() != nil:
		// A broker takes the greeting for the size of a request, and may wait for the rest of it.
		return fmt.Errorf("broker %s accepts a connection, but did not answer to TLS within %s: this is probably a port without TLS; leave out tls, or use the port that has it", addr, waited(start))
	}
	return fmt.Errorf("broker %s and this client do not come to speak TLS: %w", addr, err)
}

func issuer(e x509.UnknownAuthorityError) string {
	if e.Cert == nil || e.Cert.Issuer.CommonName == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", e.Cert.Issuer.CommonName)
}

// alertError is for a TLS handshake that the broker broke off.
func (c Cluster) alertError(addr string, alert error) error {
	text := strings.TrimPrefix(alert.Error(), "tls: ")
	certificate := strings.Contains(text, "certificate") || text == "handshake failure" // as TLS 1.2 may have it
	switch {
	case certificate && c.TLS.Cert == "":
		return fmt.Errorf("broker %s probably asks for a client certificate: set tls.cert and tls.key (it says: %s)", addr, text)
	case certificate:
		return fmt.Errorf("broker %s probably does not accept the client certificate %s: it must be valid, and of an authority that the broker trusts (it says: %s)", addr, c.TLS.Cert, text)
	}
	return fmt.Errorf("broker %s breaks off the TLS handshake: %s", addr, text)
}

// greetingError is for the first request over a connection.
func (c Cluster) greetingError(ctx context.Context, addr string, start time.Time, err error) error {
	var (
		not    *notKafka
		remote *net.OpError
	)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Cause(ctx)
	case errors.As(err, &not) && not.tls():
		return fmt.Errorf("broker %s speaks TLS at this port: set tls (an empty one will do if a well-known authority has signed its certificate), or use the port without TLS", addr)
	case errors.As(err, &not):
		return fmt.Errorf("%s is no Kafka broker: its answer begins with %q", addr, not.first)
	case c.TLS != nil && errors.As(err, &remote) && remote.Op == "remote error":
		return c.alertError(addr, remote.Err) // with TLS 1.3 a refused certificate shows only now
	case c.TLS != nil && c.TLS.Cert == "" && hungUp(err):
		return fmt.Errorf("broker %s hangs up after the TLS handshake: if it asks for a client certificate, set tls.cert and tls.key", addr)
	case c.TLS == nil && hungUp(err):
		return fmt.Errorf("broker %s hangs up at the first request: this is probably a port with TLS; set tls, or use the port without", addr)
	case ctx.Err() != nil:
		return fmt.Errorf("broker %s accepts a connection, but did not answer within %s: check that it is a Kafka port, and that the broker is well", addr, waited(start))
	}
	return fmt.Errorf("broker %s does not answer as Kafka does: %w", addr, err)
}

// hungUp reports whether the other side closed the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// greeted looks at the first bytes that come in: kafka-go would take those of
// another protocol for the size of an answer, and make room for it.
type greeted struct {
	net.Conn
	seen bool
	err  error
}

// mostGreeting is more than the answer to the first request can be, in bytes.
const mostGreeting = 1 << 20

func (g *greeted) Read(b []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.Conn.Read(b)
	if first := b[:min(n, 4)]; !g.seen && len(first) == 4 && binary.BigEndian.Uint32(first) > mostGreeting {
		g.err = &notKafka{bytes.Clone(first)}
		return 0, g.err
	}
	g.seen = g.seen || n > 0
	return n, err
}

// notKafka is the error for an answer in another protocol.
type notKafka struct{ first []byte }

func (e *notKafka) Error() string { return fmt.Sprintf("not Kafka: %q", e.first) }

// tls reports whether the answer is a TLS alert or handshake.
func (e *notKafka) tls() bool {
	return len(e.first) > 1 && (e.first[0] == 21 || e.first[0] == 22) && e.first[1] == 3
}
