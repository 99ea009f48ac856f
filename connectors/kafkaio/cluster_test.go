package kafkaio

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

func writeFile(t testing.TB, text string) string {
	name := filepath.Join(t.TempDir(), "file")
	expect.OK(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// puts returns a function that puts one entry, for owner.commit.
func puts(e entry) func(put func(entry)) { return func(put func(entry)) { put(e) } }

// server returns the TLS config of a broker at 127.0.0.1.
func server(t testing.TB, c kafkatest.Certificates) *tls.Config {
	pair := expect.Get(tls.LoadX509KeyPair(c.ServerCert, c.ServerKey))(t)
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// serve listens on a loopback port and calls f for each connection.
func serve(t testing.TB, f func(net.Conn)) Cluster {
	ln := expect.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
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

// closedPort returns an address at which nothing listens.
func closedPort(t testing.TB) string {
	ln := expect.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ln.Close()
	return ln.Addr().String()
}

func one(t testing.TB, opts ...kfake.Opt) Cluster {
	_, c := fake(t, append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	return c
}

func TestCheck(t *testing.T) {
	t.Parallel()
	certs, other := kafkatest.NewCertificates(t), kafkatest.NewCertificates(t)
	overTLS := one(t, kfake.TLS(server(t, certs)))
	misnamed := one(t, kfake.TLS(server(t, certs)), kfake.ListenFn(func(network, _ string) (net.Listener, error) {
		return net.Listen(network, "127.0.0.2:0")
	}))
	mutual := func(maxVersion uint16) Cluster {
		config := server(t, certs)
		ca := expect.Get(os.ReadFile(certs.CA))(t)
		config.ClientAuth, config.ClientCAs, config.MaxVersion = tls.RequireAndVerifyClientCert, x509.NewCertPool(), maxVersion
		config.ClientCAs.AppendCertsFromPEM(ca)
		return one(t, kfake.TLS(config))
	}
	mutual12, mutual13 := mutual(tls.VersionTLS12), mutual(tls.VersionTLS13)

	login := func(mechanism, env string) *SASL {
		return &SASL{Mechanism: mechanism, Username: "ann", Password: Secret{Env: env}}
	}
	guarded := one(t, kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "ann", "secret&sound"), kfake.Superuser("SCRAM-SHA-256", "ann", "secret&sound"), kfake.Superuser("SCRAM-SHA-512", "ann", "secret&sound"))
	both := one(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "ann", "secret&sound"), kfake.TLS(server(t, certs)))
	plain := one(t)
	closed := closedPort(t)
	var listens string
	advertising := one(t, kfake.ListenFn(func(network, address string) (net.Listener, error) {
		ln, err := net.Listen(network, address)
		listens = ln.Addr().String()
		return elsewhere{ln, closed}, err
	}))
	advertising.Brokers = []string{listens}

	web := serve(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); io.Copy(io.Discard, c) })
	// A Kafka broker closes the connection if a request claims a size of hundreds of megabytes.
	strict := serve(t, func(c net.Conn) { bufio.NewReader(c).Peek(4) })

	for _, test := range []struct {
		name    string
		cluster Cluster
		tls     *TLS
		sasl    *SASL
		want    string // empty for success
	}{
		{"plain", plain, nil, nil, ""},
		{"TLS", overTLS, &TLS{CA: certs.CA}, nil, ""},
		{"client certificate", mutual13, &TLS{CA: certs.CA, Cert: certs.ClientCert, Key: certs.ClientKey}, nil, ""},
		{"client certificate, TLS 1.2", mutual12, &TLS{CA: certs.CA, Cert: certs.ClientCert, Key: certs.ClientKey}, nil, ""},
		{"PLAIN", guarded, nil, login("PLAIN", "RIGHT"), ""},
		{"SCRAM-SHA-256", guarded, nil, login("SCRAM-SHA-256", "RIGHT"), ""},
		{"SCRAM-SHA-512", guarded, nil, login("SCRAM-SHA-512", "RIGHT"), ""},
		{"SCRAM over TLS", both, &TLS{CA: certs.CA}, login("SCRAM-SHA-512", "RIGHT"), ""},

		{"refused", Cluster{Brokers: []string{closed}}, nil, nil, `broker ADDR refuses the connection: nothing listens there; check host and port, and that Kafka is running`},
		{"no such name", Cluster{Brokers: []string{"broker.invalid"}}, nil, nil, `broker broker.invalid:9092 cannot be found: …`},
		{"no TLS here", plain, &TLS{CA: certs.CA}, nil, `broker ADDR accepts a connection, but did not answer to TLS within …: this is probably a port without TLS; leave out tls, or use the port that has it`},
		{"no TLS here, strict", strict, &TLS{CA: certs.CA}, nil, `broker ADDR does not speak TLS at this port: leave out tls, or use the port that does`},
		{"TLS here", overTLS, nil, nil, `broker ADDR … TLS; set tls, or use the port without`},
		{"hangs up", strict, nil, nil, `broker ADDR hangs up at the first request: this is probably a port with TLS; set tls, or use the port without`},
		{"other authority", overTLS, &TLS{CA: other.CA}, nil, `broker ADDR shows a certificate of an authority that is not trusted ("kafkatest authority"): the authority's certificate is not in tls.ca, …`},
		{"system's authorities", overTLS, &TLS{}, nil, `broker ADDR shows a certificate of an authority that is not trusted ("kafkatest authority"): set tls.ca to the PEM file of that authority`},
		{"other name", misnamed, &TLS{CA: certs.CA}, nil, `broker ADDR shows a certificate that is not for this name (x509: …): name the broker as its certificate does`},
		{"no client certificate", mutual13, &TLS{CA: certs.CA}, nil, `broker ADDR probably asks for a client certificate: set tls.cert and tls.key (it says: certificate required)`},
		{"no client certificate, TLS 1.2", mutual12, &TLS{CA: certs.CA}, nil, `broker ADDR probably asks for a client certificate: set tls.cert and tls.key (it says: handshake failure)`},
		{"wrong client certificate", mutual13, &TLS{CA: certs.CA, Cert: other.ClientCert, Key: other.ClientKey}, nil, `broker ADDR probably does not accept the client certificate …: it must be valid, and of an authority that the broker trusts (it says: …)`},
		{"wrong client certificate, TLS 1.2", mutual12, &TLS{CA: certs.CA, Cert: other.ClientCert, Key: other.ClientKey}, nil, `broker ADDR probably does not accept the client certificate …: it must be valid, and of an authority that the broker trusts (it says: …)`},
		{"wrong password, PLAIN", guarded, nil, login("PLAIN", "WRONG"), `broker ADDR refuses the login of user "ann" by PLAIN: the name or the password (in the environment variable WRONG) is wrong, or the user is not set up for this mechanism`},
		{"wrong password, SCRAM-SHA-512", guarded, nil, login("SCRAM-SHA-512", "WRONG"), `broker ADDR refuses the login of user "ann" by SCRAM-SHA-512: the name or the password (in the environment variable WRONG) is wrong, or the user is not set up for this mechanism`},
		{"no login", guarded, nil, nil, `broker ADDR hangs up on a client that has not logged in: set sasl, or use a port that asks for no login`},
		{"web server", web, nil, nil, `ADDR is not a Kafka broker: its answer begins with "HTTP"`},
		{"advertised", advertising, nil, nil, `broker ADDR answers, but the address that it reports for node 0 (advertised.listeners) cannot be used: broker GONE refuses the connection: …`},
		{"second of two", Cluster{Brokers: []string{closed, plain.Brokers[0]}}, nil, nil, ""},
		{"none of two", Cluster{Brokers: []string{closed, web.Brokers[0]}}, nil, nil, `none of the 2 brokers can be used: broker GONE refuses the connection: …; WEB is not a Kafka broker: its answer begins with "HTTP"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if strings.HasPrefix(test.name, "wrong password") {
				expect.Waits(t, "another password")
			}
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
			if err := openClient(t, c).Check(within()); err != nil {
				got = err.Error()
			}
			want := strings.NewReplacer("ADDR", c.Brokers[0], "GONE", closed, "WEB", web.Brokers[0]).Replace(test.want)
			if !like(got, want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if strings.Contains(got, "secret&") {
				t.Errorf("the password is in %q", got)
			}
			// All requests return the same error.
			if _, err := openClient(t, c).Partitions(within(), nil); test.want != "" && test.name != "advertised" {
				says(t, err, want, "Partitions")
			}
		})
	}
}

// says fails the test unless err is the sentence want, in which each "…" matches any text.
func says(t testing.TB, err error, want string, what ...any) {
	t.Helper()
	if err == nil || !like(err.Error(), want) {
		t.Errorf("%s: got %v\nwant %s", fmt.Sprint(what...), err, want)
	}
}

// like reports whether got matches want, in which each "…" matches any text.
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

// elsewhere is a listener that reports another address.
type elsewhere struct {
	net.Listener
	addr string
}

func (l elsewhere) Addr() net.Addr { return kafka.TCP(l.addr) }

func TestTopics(t *testing.T) {
	k, c := fake(t, kfake.SeedTopics(3, "measurements"), kfake.SeedTopics(1, "alerts"), kfake.DefaultNumPartitions(5))
	ctx := context30(t)

	got, err := openClient(t, c).Partitions(ctx, []string{"measurements", "alerts"})
	expect.OK(t, err)
	expect.Same(t, map[string]int{"measurements": 3, "alerts": 1}, got)
	if _, err = openClient(t, c).Partitions(ctx, nil); err != nil {
		t.Error(err)
	}
	for _, test := range []struct {
		topics []string
		want   string
	}{
		{[]string{"measurement"}, `topic "measurement" (did you mean "measurements"?) does not exist: create it, or correct its name`},
		{[]string{"nothing-like-it"}, `topic "nothing-like-it" does not exist: create it, or correct its name`},
		{[]string{"measurements", "other-topic", "alert"}, `topics "alert" (did you mean "alerts"?), "other-topic" do not exist: create them, or correct their names`},
	} {
		_, err := openClient(t, c).Partitions(ctx, test.topics)
		says(t, err, test.want, test.topics)
	}

	for _, test := range []struct {
		topic      string
		partitions int
		config     map[string]string
		created    bool
		want       int
	}{
		{"log", 2, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "2000000"}, true, 2},
		{"log", 7, nil, false, 2},
		{"default", 0, nil, true, 5},
	} {
		created, err := openClient(t, c).Create(ctx, test.topic, test.partitions, test.config)
		expect.OK(t, err)
		expect.Same(t, test.created, created, "Create ", test.topic)
		if info := k.TopicInfo(test.topic); info == nil {
			t.Errorf("topic %q does not exist", test.topic)
		}
		got := expect.Get(openClient(t, c).Partitions(ctx, []string{test.topic}))(t)
		expect.Same(t, test.want, got[test.topic], "partitions of ", test.topic)
	}
	for _, test := range []struct {
		code *kerr.Error
		want string
	}{
		{kerr.InvalidConfig, `topic "bad" cannot be created: Invalid Configuration: cleanup.policy cannot be shred`},
		{kerr.TopicAlreadyExists, ""}, // another process was faster
	} {
		k.ControlKey(int16(kmsg.CreateTopics), func(req kmsg.Request) (kmsg.Response, error, bool) {
			res := req.ResponseKind().(*kmsg.CreateTopicsResponse)
			message := "cleanup.policy cannot be shred"
			res.Topics = []kmsg.CreateTopicsResponseTopic{{Topic: "bad", ErrorCode: test.code.Code, ErrorMessage: &message}}
			return res, nil, true
		})
		created, err := openClient(t, c).Create(ctx, "bad", 1, nil)
		if created || (err == nil) != (test.want == "") || err != nil && err.Error() != test.want {
			t.Errorf("got %v, %v\nwant %s", created, err, test.want)
		}
	}

	config, err := openClient(t, c).config(ctx, "log", "cleanup.policy", "max.message.bytes")
	expect.OK(t, err)
	expect.Same(t, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "2000000"}, config)
	if config, err = openClient(t, c).config(ctx, "alerts", "cleanup.policy"); err != nil || config["cleanup.policy"] != "delete" {
		t.Errorf("got cleanup.policy %q (%v) by default", config["cleanup.policy"], err)
	}
	if config, err = openClient(t, c).config(ctx, "alerts"); err != nil || len(config) < 3 {
		t.Errorf("got %d settings (%v) when all were asked for", len(config), err)
	}
	_, err = openClient(t, c).config(ctx, "alert")
	says(t, err, `topic "alert" (did you mean "alerts"?) does not exist: …`)
}

func TestTopicsForbidden(t *testing.T) {
	t.Setenv("PASSWORD", "secret")
	c := one(t, kfake.SeedTopics(1, "seen", "hidden"), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("PLAIN", "root", "root"), kfake.User("PLAIN", "ann", "secret",
			kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "seen", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationDescribe, Allow: true}))
	c.SASL = &SASL{Mechanism: "PLAIN", Username: "ann", Password: Secret{Env: "PASSWORD"}}
	ctx := context30(t)
	if _, err := openClient(t, c).Partitions(ctx, []string{"seen"}); err != nil {
		t.Error(err)
	}
	_, partitions := openClient(t, c).Partitions(ctx, []string{"hidden"})
	_, create := openClient(t, c).Create(ctx, "new", 1, nil)
	_, config := openClient(t, c).config(ctx, "seen")
	_, writer := NewWriter(ctx, Sink{Cluster: c, Topic: "hidden"}, quiet)
	w := newWriter(t, c, "seen")
	write := w.Write(ctx, []Message{{Value: []byte("x")}})
	for _, test := range []struct {
		err  error
		want string
	}{
		{partitions, `user "ann" may not see topic "hidden": allow the operation Describe on it`},
		{create, `user "ann" may not create topic "new": create it yourself, or allow the operation Create on it`},
		{config, `user "ann" may not read the settings of topic "seen": allow the operation DescribeConfigs on it`},
		{writer, `user "ann" may not see topic "hidden": allow the operation Describe on it`},
		{write, `user "ann" may not write to topic "seen": allow the operation Write on it`},
	} {
		says(t, test.err, test.want)
	}
}

func TestClusterRefused(t *testing.T) {
	t.Setenv("EMPTY", "")
	t.Setenv("FULL", "secret")
	brokers := []string{"localhost:9092"}
	folder := t.TempDir()
	login := func(s Secret) *SASL { return &SASL{Mechanism: "PLAIN", Username: "ann", Password: s} }
	for _, test := range []struct {
		cluster Cluster
		want    string
	}{
		{Cluster{}, "no broker is given: name one or more as host:port"},
		{Cluster{Brokers: []string{"kafka://a:1"}}, `broker "kafka://a:1" is not of the form host:port`},
		{Cluster{Brokers: []string{"a:1,b:2"}}, `broker "a:1,b:2" is not of the form host:port`},
		{Cluster{Brokers: []string{"a:0"}}, `broker "a:0" is not of the form host:port`},
		{Cluster{Brokers: []string{""}}, `broker "" is not of the form host:port`},
		{Cluster{Brokers: brokers, SASL: &SASL{Mechanism: "GSSAPI"}}, `sasl.mechanism "GSSAPI" is unknown: use one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512`},
		{Cluster{Brokers: brokers, SASL: &SASL{Mechanism: "PLAIN", Password: Secret{Env: "FULL"}}}, "sasl.username is missing"},
		{Cluster{Brokers: brokers, SASL: login(Secret{})}, "sasl.password: the secret has no source: name an environment variable (env) or a file (file)"},
		{Cluster{Brokers: brokers, SASL: login(Secret{Env: "FULL", File: "x"})}, "sasl.password: give one of env and file"},
		{Cluster{Brokers: brokers, SASL: login(Secret{Env: "MISSING_"})}, "sasl.password.env: the environment variable that it names is not set"},
		{Cluster{Brokers: brokers, SASL: login(Secret{Env: "EMPTY"})}, "sasl.password.env: the environment variable EMPTY is empty"},
		{Cluster{Brokers: brokers, SASL: login(Secret{File: folder + "/none"})}, "sasl.password.file: the file that it names cannot be read: no such file or directory"},
		{Cluster{Brokers: brokers, SASL: login(Secret{File: writeFile(t, "\n")})}, "sasl.password.file: the file … is empty"},
		{Cluster{Brokers: brokers, TLS: &TLS{CA: folder + "/none"}}, "tls.ca: " + folder + "/none cannot be read: no such file or directory"},
		{Cluster{Brokers: brokers, TLS: &TLS{CA: writeFile(t, "no PEM")}}, "tls.ca: … contains no PEM certificate"},
		{Cluster{Brokers: brokers, TLS: &TLS{Cert: "x"}}, "tls.cert and tls.key belong together: give both or neither"},
		{Cluster{Brokers: brokers, TLS: &TLS{Cert: folder + "/none", Key: "x"}}, "tls.cert: " + folder + "/none cannot be read: no such file or directory"},
	} {
		says(t, openClient(t, test.cluster).Check(context30(t)), test.want)
		_, err := openWriter(Sink{Cluster: test.cluster}, quiet)
		says(t, err, test.want, "a writer")
	}
}

func TestAddresses(t *testing.T) {
	got := expect.Get(Cluster{Brokers: []string{"a", "b:1", "::1", "[::1]:2", "[::1]", "127.0.0.1"}}.addresses())(t)
	expect.Same(t, []string{"a:9092", "b:1", "[::1]:9092", "[::1]:2", "[::1]:9092", "127.0.0.1:9092"}, got)
}

// TestNewPassword: a reader, a writer and the owner of a changelog continue when the password changes at the broker,
// even if the file changes only after the broker has refused the old password.
func TestNewPassword(t *testing.T) {
	expect.Long(t, "pauses between requests")
	t.Parallel()
	file := writeFile(t, "0")
	k, c := fake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "ann", "known"), kfake.SeedTopics(1, "in", "out", "states"))
	var mu sync.Mutex
	password, cut, logins := 0, false, 0
	fetches := false // cuts fetches too; otherwise the reader would take the cut of another client
	k.Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		switch r := r.(type) {
		case *kmsg.SASLAuthenticateRequest:
			logins++
			if string(r.SASLAuthBytes) == fmt.Sprintf("\x00ann\x00%d", password) {
				r.SASLAuthBytes = []byte("\x00ann\x00known")
				return nil, nil, false
			}
			time.AfterFunc(3*firstPause, func() { os.WriteFile(file, fmt.Append(nil, password), 0o600) })
			answer := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
			answer.ErrorCode = kerr.SaslAuthenticationFailed.Code
			return answer, nil, true
		case *kmsg.FetchRequest, *kmsg.ProduceRequest:
			if _, fetch := r.(*kmsg.FetchRequest); cut && (fetches || !fetch) {
				cut = false
				return nil, errors.New("the connection is cut"), true
			}
		}
		return nil, nil, false
	})
	c.SASL = &SASL{Mechanism: "PLAIN", Username: "ann", Password: Secret{File: file}}

	w, r := newWriter(t, c, "out"), startReading(t, Source{Cluster: c, Topics: []string{"in"}}, nil)
	o := expect.Get(takeOwnership(context30(t), c, "states", "", batchBytes))(t)
	defer o.close()
	in := newWriter(t, c, "in")
	for i := range 3 {
		for name, use := range map[string]func(){
			"writer": func() {
				expect.OK(t, w.Write(context30(t), []Message{{Value: []byte("x")}}))
			},
			"owner": func() {
				expect.OK(t, o.commit(context30(t), puts(entry{key: []byte("k"), value: []byte("1")}), nil))
			},
			"reader": func() {
				n := len(r.got)
				expect.OK(t, in.Write(context30(t), []Message{{Value: []byte("x")}}))
				r.until(func() bool { return len(r.got) > n })
			},
		} {
			mu.Lock()
			if cut = i > 0; cut {
				password++
			}
			fetches = name == "reader"
			before := logins
			mu.Unlock()
			use()
			mu.Lock()
			if i > 0 && logins < before+2 {
				t.Errorf("%s: %d logins with a new password", name, logins-before)
			}
			mu.Unlock()
		}
	}
}
