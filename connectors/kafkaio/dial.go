package kafkaio

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

const (
	// clientID is the name under which brokers log this program and apply quotas.
	clientID = "hafvf"
	// dialTime is the limit for a connection with its login.
	dialTime = 5 * time.Second
	// loginPause is the maximum time between two logins if a broker refuses the first.
	loginPause = 2 * time.Second
)

// A dialer opens all connections of this package: links, and the connections of kafka-go's transport and of franz-go.
// It reads passwords and certificates again for each connection, because they may change while a client lives.
type dialer struct {
	cluster Cluster
	brokers []string // addresses of the Cluster's brokers, each with a port
}

// dialer returns the cluster's dialer. It reads the files that the cluster names, to check that they are valid.
func (c Cluster) dialer() (d dialer, err error) {
	d.cluster = c
	if d.brokers, err = c.addresses(); err != nil {
		return d, err
	}
	if _, err = c.TLS.Config(); err != nil {
		return d, err
	}
	_, _, err = c.SASL.mechanism()
	return d, err
}

// dialTCP opens the TCP connection of every link and client. The simulation replaces it.
var dialTCP = (&net.Dialer{Timeout: dialTime}).DialContext

// A handshakeError wraps the error of a TLS handshake.
type handshakeError struct{ error }

func (e handshakeError) Unwrap() error { return e.error }

// open connects to the broker at addr within dialTime, with a TLS handshake if the cluster has TLS.
func (d dialer) open(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := dialTCP(ctx, network, addr)
	if err != nil || d.cluster.TLS == nil {
		return conn, err
	}
	config, err := d.cluster.TLS.Config()
	if err != nil {
		conn.Close()
		return nil, permanentError{err}
	}
	config.ServerName, _, _ = net.SplitHostPort(addr)
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, handshakeError{err}
	}
	return secure, nil
}

// dial is open for the clients of kafka-go and franz-go. If the cluster has SASL, dial also logs in, because these
// clients would fail at the first refused login.
func (d dialer) dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	if d.cluster.SASL == nil {
		return d.open(ctx, network, addr)
	}
	err = twice(ctx, func(ctx context.Context) error {
		if conn, err = d.open(ctx, network, addr); err != nil {
			return err
		}
		l := newLink(conn, addr)
		if err = l.greet(ctx); err == nil {
			err = d.cluster.login(ctx, l)
		}
		if err == nil {
			err = conn.SetDeadline(time.Time{})
		}
		if err != nil {
			conn.Close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// twice calls connect, and calls it once more if a broker refuses the login. It waits until another password can be
// read, at most loginPause: the brokers may learn of a new password before this client does.
func twice(ctx context.Context, connect func(context.Context) error) error {
	try := func() error {
		ctx, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		return connect(ctx)
	}
	err := try()
	var refused *loginError
	if !errors.As(err, &refused) {
		return err
	}
	for start := time.Now(); time.Since(start) < loginPause && !refused.outdated(); {
		select {
		case <-ctx.Done():
			return err
		case <-time.After(firstPause):
		}
	}
	return try()
}
