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
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
)

// A link is a connection to one broker. kafka-go's Client is not used here: it answers from a cache, and reports a
// wrong password, a wrong port and a missing login all as "unexpected EOF".
type link struct {
	*protocol.Conn
	addr            string
	metadata, fetch int16 // newest versions of these requests that the broker knows
}

// bootstrap connects to the first broker that can be used.
func (c Cluster) bootstrap(ctx context.Context) (*link, error) {
	addrs, err := c.addresses()
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	var errs []error
	for i, addr := range addrs {
		// A broker that does not answer must leave time for the others.
		share := time.Until(deadline) / time.Duration(len(addrs)-i)
		within, cancel := context.WithTimeout(ctx, min(share, dialTime))
		l, err := c.open(within, addr)
		cancel()
		if err == nil {
			return l, nil
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, context.Cause(ctx)
		}
		if errors.As(err, new(*loginError)) {
			return nil, err // every broker would refuse it, until the account is locked
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) == 1 {
		return nil, errs[0]
	}
	var texts []string
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	err = fmt.Errorf("none of the %d brokers can be used: %s", len(addrs), strings.Join(texts, "; "))
	if errors.As(errors.Join(errs...), new(unavailableError)) {
		err = unavailableError{err}
	}
	return nil, err
}

// open connects to a broker, and checks that it knows its cluster.
func (c Cluster) open(ctx context.Context, addr string) (*link, error) {
	l, err := c.connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	if _, err = ask[rawAnswer](ctx, l, l.metadataRequest([]string{})); err != nil {
		l.Close()
		if c.SASL == nil && hungUp(err) {
			return nil, unavailableError{fmt.Errorf("broker %s hangs up on a client that has not logged in: set sasl, or use a port that asks for no login", addr)}
		}
		return nil, unavailableError{fmt.Errorf("broker %s accepts the connection, but does not describe the cluster: %w", addr, err)}
	}
	return l, nil
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

// A loginError means that a broker refused the login.
type loginError struct {
	text     string
	sasl     *SASL
	password string // the refused password
}

func (e *loginError) Error() string { return e.text }

// outdated reports whether the password has changed since the login was refused.
func (e *loginError) outdated() bool {
	_, password, err := e.sasl.mechanism()
	return err == nil && password != e.password
}

// connect opens a connection, with TLS handshake and login. Its errors name the broker and the remedy.
func (c Cluster) connect(ctx context.Context, addr string) (l *link, err error) {
	err = twice(ctx, func(ctx context.Context) error {
		l, err = c.connectOnce(ctx, addr)
		return err
	})
	return l, err
}

func (c Cluster) connectOnce(ctx context.Context, addr string) (_ *link, err error) {
	d, err := c.dialer()
	if err != nil {
		return nil, permanentError{err}
	}
	start := time.Now()
	nc, err := d.open(ctx, "tcp", addr)
	switch {
	case errors.As(err, new(handshakeError)):
		return nil, c.tlsError(ctx, addr, start, err)
	case err != nil:
		return nil, dialError(ctx, addr, start, err)
	}
	defer func() {
		if err != nil {
			nc.Close()
		}
	}()
	l := newLink(nc, addr)
	if err := l.greet(ctx); err != nil {
		return nil, c.greetingError(ctx, addr, start, err)
	}
	if c.SASL == nil {
		return l, nil
	}
	return l, c.login(ctx, l)
}

func newLink(conn net.Conn, addr string) *link {
	return &link{Conn: protocol.NewConn(&checkGreeting{Conn: conn}, clientID), addr: addr}
}

// greet sends the first request, which asks for the versions of requests that the broker knows.
func (l *link) greet(ctx context.Context) error {
	versions, err := ask[*apiversions.Response](ctx, l, new(apiversions.Request))
	if err != nil {
		return err
	}
	known := map[protocol.ApiKey]int16{}
	for _, k := range versions.ApiKeys {
		key := protocol.ApiKey(k.ApiKey)
		known[key] = key.SelectVersion(k.MinVersion, k.MaxVersion)
		switch key { // these two are not limited to kafka-go's versions
		case protocol.Metadata:
			l.metadata = k.MaxVersion
		case protocol.Fetch:
			l.fetch = k.MaxVersion
		}
	}
	l.SetVersions(known)
	return nil
}

// login logs in with the current password. If the broker refuses, the error is a *loginError.
func (c Cluster) login(ctx context.Context, l *link) error {
	m, password, err := c.SASL.mechanism()
	if err != nil {
		return permanentError{err}
	}
	hello, err := ask[*saslhandshake.Response](ctx, l, &saslhandshake.Request{Mechanism: m.Name()})
	if err == nil && hello.ErrorCode != 0 {
		err = kafka.Error(hello.ErrorCode)
	}
	switch {
	case err == kafka.UnsupportedSASLMechanism && len(hello.Mechanisms) > 0:
		return fmt.Errorf("broker %s does not offer %s, but %s: set sasl.mechanism to one of these", l.addr, m.Name(), strings.Join(hello.Mechanisms, ", "))
	case err == kafka.UnsupportedSASLMechanism || err == kafka.IllegalSASLState:
		return fmt.Errorf("broker %s asks for no login at this port: leave out sasl, or use the port that does", l.addr)
	case err != nil:
		return fmt.Errorf("broker %s does not begin a login: %w", l.addr, err)
	}
	session, out, err := m.Start(ctx)
	for done := false; err == nil && !done; {
		var res *saslauthenticate.Response
		res, err = ask[*saslauthenticate.Response](ctx, l, &saslauthenticate.Request{AuthBytes: out})
		// Old brokers refuse a login by closing the connection.
		if err == nil && kafka.Error(res.ErrorCode) == kafka.SASLAuthenticationFailed || hungUp(err) {
			return &loginError{sasl: c.SASL, password: password, text: fmt.Sprintf("broker %s refuses the login of %s by %s: the name or the password (in %s) is wrong, or the user is not set up for this mechanism",
				l.addr, c.user(), m.Name(), c.SASL.Password.Where())}
		}
		if err == nil && res.ErrorCode != 0 {
			err = kafka.Error(res.ErrorCode) // without the broker's message, which may quote secrets
		}
		if err == nil {
			done, out, err = session.Next(ctx, res.AuthBytes)
		}
	}
	if err != nil {
		return fmt.Errorf("broker %s and %s could not complete a login by %s: %w", l.addr, c.user(), m.Name(), err)
	}
	return nil
}

// waited formats the time since start for messages.
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
		return unavailableError{fmt.Errorf("broker %s cannot be found: the name %s is unknown here; correct it, or add it to the DNS", addr, host)}
	case errors.As(err, &dns):
		return unavailableError{fmt.Errorf("broker %s cannot be found: looking up %s failed (%s)", addr, host, dns.Err)}
	case errors.Is(err, syscall.ECONNREFUSED):
		return unavailableError{fmt.Errorf("broker %s refuses the connection: nothing listens there; check host and port, and that Kafka is running", addr)}
	case errors.As(err, &timeout) && timeout.Timeout():
		return unavailableError{fmt.Errorf("broker %s did not answer within %s: check host and port, and that no firewall is in between", addr, waited(start))}
	}
	return unavailableError{fmt.Errorf("broker %s cannot be reached: %w", addr, err)}
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
		err := fmt.Errorf("broker %s does not speak TLS at this port: leave out tls, or use the port that does", addr)
		if record.Msg == "" {
			return unavailableError{err}
		}
		return err
	case ctx.Err() != nil:
		// A broker reads the greeting as the size of a request, and may wait for the rest of it.
		return unavailableError{fmt.Errorf("broker %s accepts a connection, but did not answer to TLS within %s: this is probably a port without TLS; leave out tls, or use the port that has it", addr, waited(start))}
	}
	return fmt.Errorf("broker %s and this client could not complete the TLS handshake: %w", addr, err)
}

func issuer(e x509.UnknownAuthorityError) string {
	if e.Cert == nil || e.Cert.Issuer.CommonName == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", e.Cert.Issuer.CommonName)
}

// alertError returns the error for a TLS handshake that the broker has aborted.
func (c Cluster) alertError(addr string, alert error) error {
	text := strings.TrimPrefix(alert.Error(), "tls: ")
	certificate := strings.Contains(text, "certificate") || text == "handshake failure" // TLS 1.2 may report it so
	switch {
	case certificate && c.TLS.Cert == "":
		return fmt.Errorf("broker %s probably asks for a client certificate: set tls.cert and tls.key (it says: %s)", addr, text)
	case certificate:
		return fmt.Errorf("broker %s probably does not accept the client certificate %s: it must be valid, and of an authority that the broker trusts (it says: %s)", addr, c.TLS.Cert, text)
	}
	return fmt.Errorf("broker %s breaks off the TLS handshake: %s", addr, text)
}

// greetingError returns the error for the first request over a connection.
func (c Cluster) greetingError(ctx context.Context, addr string, start time.Time, err error) error {
	answer, foreign := errors.AsType[*protocolError](err)
	remote, _ := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Cause(ctx)
	case foreign && answer.tls():
		return fmt.Errorf("broker %s speaks TLS at this port: set tls (it may be empty if a well-known authority has signed the certificate), or use the port without TLS", addr)
	case foreign:
		return fmt.Errorf("%s is not a Kafka broker: its answer begins with %q", addr, answer.first)
	case c.TLS != nil && remote != nil && remote.Op == "remote error":
		return c.alertError(addr, remote.Err) // with TLS 1.3, a refused certificate is only reported now
	case c.TLS != nil && c.TLS.Cert == "" && hungUp(err):
		return unavailableError{fmt.Errorf("broker %s hangs up after the TLS handshake: if it asks for a client certificate, set tls.cert and tls.key", addr)}
	case c.TLS == nil && hungUp(err):
		return unavailableError{fmt.Errorf("broker %s hangs up at the first request: this is probably a port with TLS; set tls, or use the port without", addr)}
	case ctx.Err() != nil:
		return unavailableError{fmt.Errorf("broker %s accepts a connection, but did not answer within %s: check that it is a Kafka port, and that the broker is well", addr, waited(start))}
	}
	return fmt.Errorf("broker %s does not answer as Kafka does: %w", addr, err)
}

// hungUp reports whether the other side closed the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// checkGreeting checks the first bytes of the answer. kafka-go would read the bytes of another protocol as the size of
// an answer, and allocate it.
type checkGreeting struct {
	net.Conn
	seen bool
	err  error
}

// maxGreeting is an upper bound of the answer to the first request, in bytes.
const maxGreeting = 1 << 20

func (g *checkGreeting) Read(b []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.Conn.Read(b)
	if first := b[:min(n, 4)]; !g.seen && len(first) == 4 && binary.BigEndian.Uint32(first) > maxGreeting {
		g.err = &protocolError{bytes.Clone(first)}
		return 0, g.err
	}
	g.seen = g.seen || n > 0
	return n, err
}

// protocolError is the error for an answer in another protocol.
type protocolError struct{ first []byte }

func (e *protocolError) Error() string { return fmt.Sprintf("not Kafka: %q", e.first) }

// tls reports whether the answer is a TLS alert or handshake.
func (e *protocolError) tls() bool {
	return len(e.first) > 1 && (e.first[0] == 21 || e.first[0] == 22) && e.first[1] == 3
}
