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
	// dialTime is the limit of a connection with its login.
	dialTime = 5 * time.Second
	// loginPause is the longest time between two logins, if a broker refuses the first.
	loginPause = 2 * time.Second
)

// A dialer opens all connections of this package: those of links, of kafka-go's transport
// and of franz-go. Clients outlive passwords and certificates, so these are read again for
// each connection.
type dialer struct {
	cluster Cluster
	brokers []string // of the Cluster, each with a port
}

// dialer returns the cluster's dialer. It reads the files that the cluster names, to see that
// they can be used.
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

// dial is open for clients of other packages: if the cluster asks for a login, the broker
// has accepted it. By themselves these clients would end at the first refusal.
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

// twice calls connect, and again if a broker refuses the login: as soon as the password that
// can be read is another one, or after loginPause. A password may change at the brokers
// first.
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
