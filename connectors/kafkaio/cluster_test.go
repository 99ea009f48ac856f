package kafkaio

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// An authority signs certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its certificate
}

func newAuthority(t testing.TB, name string) *authority {
	a := &authority{t: t, cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	a.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.file = writePEM(t, "CERTIFICATE", der)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t testing.TB, kind string, der []byte) string {
	return writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

func writeFile(t testing.TB, text string) string {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// sign returns the files of a certificate for a host, valid till then.
func (a *authority) sign(host string, till time.Time) (cert, key string) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: till,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	k := newKey(a.t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, k.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return writePEM(a.t, "CERTIFICATE", der), writePEM(a.t, "PRIVATE KEY", keyDER)
}

func (a *authority) server(host string, till time.Time) *tls.Config {
	cert, key := a.sign(host, till)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// serve answers each connection to a loopback port by f.
func serve(t testing.TB, f func(net.Conn)) Cluster {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c)
			}()
		}
	}()
	return Cluster{Brokers: []string{ln.Addr().String()}}
}

// nobody is the address of a port at which nothing listens.
func nobody(t testing.TB) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	return ln.Addr().String()
}

func one(t testing.TB, opts ...kfake.Opt) Cluster {
	_, c := fake(t, append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	return c
}

func TestCheck(t *testing.T) {
	hour := time.Now().Add(time.Hour)
	ca, other := newAuthority(t, "our authority"), newAuthority(t, "their authority")
	overTLS := one(t, kfake.TLS(ca.server("127.0.0.1", hour)))
	misnamed := one(t, kfake.TLS(ca.server("kafka.example", hour)))
	expired := one(t, kfake.TLS(ca.server("127.0.0.1", time.Now().Add(-time.Minute))))
	mutual := func(max uint16) Cluster {
		config := ca.server("127.0.0.1", hour)
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		config.ClientCAs.AddCert(ca.cert)
		config.MaxVersion = max
		return one(t, kfake.TLS(config))
	}
	mutual12, mutual13 := mutual(tls.VersionTLS12), mutual(tls.VersionTLS13)
	cert, key := ca.sign("client", hour)
	wrongCert, wrongKey := other.sign("client", hour)

	t.Setenv("RIGHT", "secret&sound")
	t.Setenv("WRONG", "secret&wrong")
	login := func(mechanism, env string) *SASL {
		return &SASL{Mechanism: mechanism, Username: "ann", Password: Secret{Env: env}}
	}
	guarded := one(t, kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "ann", "secret&sound"), kfake.Superuser("SCRAM-SHA-256", "ann", "secret&sound"), kfake.Superuser("SCRAM-SHA-512", "ann", "secret&sound"))
	both := one(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "ann", "secret&sound"), kfake.TLS(ca.server("127.0.0.1", hour)))
	// What Kafka says; the fake says other things.
	answering := func(code int16, mechanisms ...string) Cluster {
		k, c := fake(t, kfake.NumBrokers(1))
		k.ControlKey(int16(kmsg.SASLHandshake), func(req kmsg.Request) (kmsg.Response, error, bool) {
			k.KeepControl()
			res := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
			res.ErrorCode, res.SupportedMechanisms = code, mechanisms
			return res, nil, true
		})
		return c
	}
	refusing := func() Cluster {
		k, c := fake(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "ann", "secret&sound"))
		k.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
			k.KeepControl()
			res := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
			message := "Authentication failed: Invalid username or password"
			res.ErrorCode, res.ErrorMessage = kerr.SaslAuthenticationFailed.Code, &message
			return res, nil, true
		})
		return c
	}
	plain := one(t)
	gone := nobody(t)
	advertising := one(t, kfake.ListenFn(func(network, address string) (net.Listener, error) {
		ln, err := net.Listen(network, address)
		return &elsewhere{ln, gone}, err
	}))
	advertising.Brokers = []string{lastListener.Listener.Addr().String()}

	web := serve(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); io.Copy(io.Discard, c) })
	// A Kafka broker hangs up on a request that claims to have hundreds of megabytes.
	strict := serve(t, func(c net.Conn) { bufio.NewReader(c).Peek(4) })

	for _, test := range []struct {
		name    string
		cluster Cluster
		tls     *TLS
		sasl    *SASL
		want    string // "" where all is well
	}{
		{"plain", plain, nil, nil, ""},
		{"TLS", overTLS, &TLS{CA: ca.file}, nil, ""},
		{"client certificate", mutual13, &TLS{CA: ca.file, Cert: cert, Key: key}, nil, ""},
		{"client certificate, TLS 1.2", mutual12, &TLS{CA: ca.file, Cert: cert, Key: key}, nil, ""},
		{"PLAIN", guarded, nil, login("PLAIN", "RIGHT"), ""},
		{"SCRAM-SHA-256", guarded, nil, login("SCRAM-SHA-256", "RIGHT"), ""},
		{"SCRAM-SHA-512", guarded, nil, login("SCRAM-SHA-512", "RIGHT"), ""},
		{"SCRAM over TLS", both, &TLS{CA: ca.file}, login("SCRAM-SHA-512", "RIGHT"), ""},

		{"refused", Cluster{Brokers: []string{gone}}, nil, nil, `broker ADDR refuses the connection: nothing listens there; check host and port, and that Kafka is running`},
		{"no TLS here", plain, &TLS{CA: ca.file}, nil, `broker ADDR accepts a connection, but did not answer to TLS within …: this is probably a port without TLS; leave out tls, or use the port that has it`},
		{"no TLS here, strict", strict, &TLS{CA: ca.file}, nil, `broker ADDR does not speak TLS at this port: leave out tls, or use the port that does`},
		{"TLS here", overTLS, nil, nil, `broker ADDR … TLS; set tls, or use the port without`},
		{"hangs up", strict, nil, nil, `broker ADDR hangs up at the first request: this is probably a port with TLS; set tls, or use the port without`},
		{"other authority", overTLS, &TLS{CA: other.file}, nil, `broker ADDR shows a certificate of an authority that is not trusted ("our authority"): the authority's certificate is not in tls.ca, …/file`},
		{"system's authorities", overTLS, &TLS{}, nil, `broker ADDR shows a certificate of an authority that is not trusted ("our authority"): set tls.ca to the PEM file of that authority`},
		{"other name", misnamed, &TLS{CA: ca.file}, nil, `broker ADDR shows a certificate that is not for this name (x509: …): name the broker as its certificate does`},
		{"expired", expired, &TLS{CA: ca.file}, nil, `broker ADDR shows a certificate that is not valid: x509: certificate has expired …`},
		{"no client certificate", mutual13, &TLS{CA: ca.file}, nil, `broker ADDR probably asks for a client certificate: set tls.cert and tls.key (it says: certificate required)`},
		{"no client certificate, TLS 1.2", mutual12, &TLS{CA: ca.file}, nil, `broker ADDR probably asks for a client certificate: set tls.cert and tls.key (it says: handshake failure)`},
		{"wrong client certificate", mutual13, &TLS{CA: ca.file, Cert: wrongCert, Key: wrongKey}, nil, `broker ADDR does not accept the client certificate …/file: it must be valid, and of an authority that the broker trusts (it says: …)`},
		{"wrong client certificate, TLS 1.2", mutual12, &TLS{CA: ca.file, Cert: wrongCert, Key: wrongKey}, nil, `broker ADDR breaks off the TLS handshake: handshake failure`},
		{"wrong password, PLAIN", guarded, nil, login("PLAIN", "WRONG"), `broker ADDR refuses the login of user "ann" by PLAIN: the name or the password (in the environment variable WRONG) is wrong, or the user is not set up for this mechanism`},
		{"wrong password, SCRAM-SHA-256", guarded, nil, login("SCRAM-SHA-256", "WRONG"), `broker ADDR refuses the login of user "ann" by SCRAM-SHA-256: the name or the password (in the environment variable WRONG) is wrong, or the user is not set up for this mechanism`},
		{"wrong password, SCRAM-SHA-512", guarded, nil, login("SCRAM-SHA-512", "WRONG"), `broker ADDR refuses the login of user "ann" by SCRAM-SHA-512: the name or the password (in the environment variable WRONG) is wrong, or the user is not set up for this mechanism`},
		{"wrong password, said so", refusing(), nil, login("SCRAM-SHA-512", "WRONG"), `broker ADDR refuses the login of user "ann" by SCRAM-SHA-512: the name or the password (in the environment variable WRONG) is wrong, or the user is not set up for this mechanism`},
		{"no login", guarded, nil, nil, `broker ADDR hangs up on a client that has not logged in: set sasl, or use a port that asks for no login`},
		{"no login here", answering(kerr.IllegalSaslState.Code), nil, login("PLAIN", "RIGHT"), `broker ADDR asks for no login at this port: leave out sasl, or use the port that does`},
		{"other mechanism", answering(kerr.UnsupportedSaslMechanism.Code, "OAUTHBEARER", "SCRAM-SHA-512"), nil, login("PLAIN", "RIGHT"), `broker ADDR does not offer PLAIN, but OAUTHBEARER, SCRAM-SHA-512: set sasl.mechanism to one of these`},
		{"web server", web, nil, nil, `ADDR is no Kafka broker: its answer begins with "HTTP"`},
		{"advertised", advertising, nil, nil, `broker ADDR answers, but sends clients on to an address that cannot be used (in advertised.listeners of node 0): broker GONE refuses the connection: …`},
		{"second of two", Cluster{Brokers: []string{gone, plain.Brokers[0]}}, nil, nil, ""},
		{"none of two", Cluster{Brokers: []string{gone, web.Brokers[0]}}, nil, nil, `none of the 2 brokers can be used: broker GONE refuses the connection: …; WEB is no Kafka broker: its answer begins with "HTTP"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := test.cluster
			c.TLS, c.SASL = test.tls, test.sasl
			patience := 30 * time.Second
			if test.name == "no TLS here" { // the fake waits for the rest of a request
				patience = 200 * time.Millisecond
			}
			within := func() context.Context {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				t.Cleanup(cancel)
				return ctx
			}
			got := ""
			if err := c.Check(within()); err != nil {
				got = err.Error()
			}
			want := strings.NewReplacer("ADDR", c.Brokers[0], "GONE", gone, "WEB", web.Brokers[0]).Replace(test.want)
			if !like(got, want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if strings.Contains(got, "secret&") {
				t.Errorf("the password is in %q", got)
			}
			// Whoever asks something gets the same answer.
			if _, err := c.Partitions(within(), nil); test.want != "" && test.name != "advertised" && (err == nil || !like(err.Error(), want)) {
				t.Errorf("got from Partitions %v\nwant %s", err, want)
			}
		})
	}
}

// like reports whether got is want, where each "…" stands for anything.
func like(got, want string) bool {
	parts := strings.Split(want, "…")
	if len(parts) == 1 {
		return got == want
	}
	rest, ok := strings.CutPrefix(got, parts[0])
	for _, p := range parts[1 : len(parts)-1] {
		var found bool
		_, rest, found = strings.Cut(rest, p)
		ok = ok && found
	}
	return ok && strings.HasSuffix(rest, parts[len(parts)-1])
}

type elsewhere struct {
	net.Listener
	addr string
}

var lastListener *elsewhere

func (l *elsewhere) Addr() net.Addr {
	lastListener = l
	return addr(l.addr)
}

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

var _ = json.Marshal
var _ = cmp.Diff
var _ = kafka.TCP
var _ = strings.Cut
