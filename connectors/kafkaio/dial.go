package kafkaio

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
)

const (
	// clientID is the name under which brokers log this program and apply quotas.
	clientID = "hafvf"
	// dialTime is the limit of a connection with its login.
	dialTime = 5 * time.Second
)

// A dialer opens all connections of this package: those of links, of kafka-go's transport
// and of franz-go. Clients outlive passwords and certificates, so these are read again for
// each connection.
type dialer struct {
	brokers []string       // of the Cluster, each with a port
	tls     *TLS           // nil: none
	login   sasl.Mechanism // nil: none
}

// dialer returns the cluster's dialer. It reads the files that the cluster names, to see that
// they can be used.
func (c Cluster) dialer() (d dialer, err error) {
	if d.brokers, err = c.addresses(); err != nil {
		return d, err
	}
	if _, err = c.TLS.config(); err != nil {
		return d, err
	}
	d.tls = c.TLS
	m, err := c.SASL.mechanism()
	if m != nil {
		d.login = login{m.Name(), c.SASL}
	}
	return d, err
}

// A login is a mechanism that reads the password each time.
type login struct {
	name string
	sasl *SASL
}

func (l login) Name() string { return l.name }

func (l login) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	m, err := l.sasl.mechanism()
	if err != nil {
		return nil, nil, err
	}
	return m.Start(ctx)
}

// dialTCP opens every connection of this package. The simulation replaces it.
var dialTCP = (&net.Dialer{Timeout: dialTime}).DialContext

// A handshakeError is the error of a TLS handshake.
type handshakeError struct{ error }

func (e handshakeError) Unwrap() error { return e.error }

// open connects to the broker at addr, with a TLS handshake, within dialTime.
func (d dialer) open(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := dialTCP(ctx, network, addr)
	if err != nil || d.tls == nil {
		return conn, err
	}
	config, err := d.tls.config()
	if err != nil {
		conn.Close()
		return nil, permanent{err}
	}
	config.ServerName, _, _ = net.SplitHostPort(addr)
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, handshakeError{err}
	}
	return secure, nil
}

// transport is that of a kafka.Client.
func (d dialer) transport() *kafka.Transport {
	return &kafka.Transport{ClientID: clientID, Dial: d.open, DialTimeout: dialTime, SASL: d.login}
}

// startLogin begins a login with the broker at addr. The session goes on in the context
// that is returned.
func startLogin(ctx context.Context, m sasl.Mechanism, addr string) (context.Context, sasl.StateMachine, []byte, error) {
	host, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	ctx = sasl.WithMetadata(ctx, &sasl.Metadata{Host: host, Port: n})
	session, first, err := m.Start(ctx)
	return ctx, session, first, err
}
