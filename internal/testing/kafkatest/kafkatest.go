// Package kafkatest starts Kafka for tests: a fake cluster in the process, or a real broker of one node as a Java
// process on loopback. Its Client reads and writes topics with another implementation (franz-go) than the one under
// test.
//
// A real broker takes two to three seconds to start and five to restart. Tests share one as subtests of the test
// that started it. Each function takes the t of the test that calls it, so a failure belongs to that test.
package kafkatest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/javatest"
)

// Fake starts a cluster inside the process, with three nodes unless an option changes that. It closes when the test
// ends.
func Fake(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatalf("the fake Kafka cluster does not start: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// A Config sets how a broker treats its clients. With the zero value it accepts all clients, unencrypted.
type Config struct {
	// TLS encrypts with the broker's Certificates.
	TLS bool
	// ClientAuth makes the broker require a client certificate of its authority. It implies TLS.
	ClientAuth bool
	// SASL is SCRAM-SHA-256 or SCRAM-SHA-512. The broker then requires it of clients, with this user and password.
	// Both consist of printable ASCII without commas and double quotes, which Kafka's own tool does not accept.
	SASL           string
	User, Password string
	// Properties replace or extend the properties in server.properties.
	Properties map[string]string
	// Measured gives the broker Java's second compiler, as in production. Without it a broker starts in half the
	// time and is slower in the long run.
	Measured bool
}

// stepTimeout is the maximum time of a step of a test. It is far longer than any step needs.
const stepTimeout = 2 * time.Minute

// A Broker is a Kafka broker and controller in its own process. It does not create topics automatically. The
// embedded client has its own listener, which is always plaintext.
type Broker struct {
	*Client
	// Certificates is empty without TLS.
	Certificates Certificates
	kafka        javatest.Installation
	measured     bool
	folder       string
	addr         string
	proc         *javatest.Process
}

// Start starts a broker on free loopback ports and waits until it serves. The broker ends with the test, and on
// Linux also when the test's process dies; its data is removed with the test's temporary folders.
//
// Maven fetches the jars once, into the user's cache folder. Without Java or Maven the test is skipped, or fails if
// the environment has CI=true.
func Start(t testing.TB, cfg Config) *Broker {
	t.Helper()
	return start(t, javatest.Install(t, kafka), cfg)
}

func start(t testing.TB, k javatest.Installation, cfg Config) *Broker {
	t.Helper()
	b := &Broker{kafka: k, measured: cfg.Measured, folder: t.TempDir()}
	b.configure(t, cfg)
	t.Cleanup(func() {
		b.Kill()
		if t.Failed() {
			t.Logf("the log of the broker on %s ended with\n%s", b.addr, b.tail())
		}
	})
	b.run(t)
	return b
}

func (b *Broker) configure(t testing.TB, cfg Config) {
	t.Helper()
	var addrs []string
	for _, port := range javatest.FreePorts(t, 3) {
		addrs = append(addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	client, internal, controller := addrs[0], addrs[1], addrs[2]
	b.addr = client
	b.Client = Dial([]string{internal})
	properties := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        "1",
		"controller.quorum.voters":       "1@" + controller,
		"controller.listener.names":      "CONTROLLER",
		"inter.broker.listener.name":     "INTERNAL",
		"listeners":                      "CLIENT://" + client + ",INTERNAL://" + internal + ",CONTROLLER://" + controller,
		"advertised.listeners":           "CLIENT://" + client + ",INTERNAL://" + internal,
		"listener.security.protocol.map": "CLIENT:" + cfg.protocol() + ",INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs":                       "data",

		// Tests write records of other years, which a broker would delete after a week.
		"log.retention.ms": "-1",

		"auto.create.topics.enable":                "false",
		"offsets.topic.replication.factor":         "1",
		"offsets.topic.num.partitions":             "5",
		"transaction.state.log.replication.factor": "1",
		"transaction.state.log.min.isr":            "1",
		"group.initial.rebalance.delay.ms":         "0",

		// A killed broker can register again only when its last session has expired, by default after 9 s. It tries
		// 3.1 s after its start, among other times.
		"broker.session.timeout.ms":    "3000",
		"broker.heartbeat.interval.ms": "500",
	}
	users := b.secure(t, cfg, properties)
	maps.Copy(properties, cfg.Properties)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&text, "%s=%s\n", name, escape(properties[name]))
	}
	b.write(t, "server.properties", text.String())
	b.write(t, "log4j.properties", log4j)
	format := append([]string{"kafka.tools.StorageTool", "format", "--config", "server.properties", "--cluster-id", clusterID()}, users...)
	out, err := b.java(format...).CombinedOutput()
	if err != nil {
		t.Fatalf("the broker's data folder cannot be formatted: %v\n%s", err, javatest.Ending(string(out), 40))
	}
}

// secure sets the properties of the clients' listener. It returns the arguments that create its users when the data
// folder is formatted.
func (b *Broker) secure(t testing.TB, cfg Config, properties map[string]string) (users []string) {
	t.Helper()
	if cfg.TLS || cfg.ClientAuth {
		b.Certificates = NewCertificates(t)
		b.write(t, "keystore.pem", read(t, b.Certificates.ServerKey)+read(t, b.Certificates.ServerCert))
		maps.Copy(properties, map[string]string{
			"listener.name.client.ssl.keystore.type":       "PEM",
			"listener.name.client.ssl.keystore.location":   "keystore.pem",
			"listener.name.client.ssl.truststore.type":     "PEM",
			"listener.name.client.ssl.truststore.location": b.Certificates.CA,
		})
	}
	if cfg.ClientAuth {
		properties["listener.name.client.ssl.client.auth"] = "required"
	}
	if cfg.SASL == "" {
		return nil
	}
	if cfg.User == "" || cfg.Password == "" {
		t.Fatal("with SASL the broker needs a User and a Password")
	}
	properties["listener.name.client.sasl.enabled.mechanisms"] = cfg.SASL
	jaas := "listener.name.client." + strings.ToLower(cfg.SASL) + ".sasl.jaas.config"
	switch cfg.SASL {
	case "SCRAM-SHA-256", "SCRAM-SHA-512":
		if strings.ContainsFunc(cfg.User+cfg.Password, func(r rune) bool { return r < ' ' || r > '~' || r == ',' || r == '"' }) {
			t.Fatal("a user and password for SCRAM may hold printable ASCII without commas and double quotes")
		}
		properties[jaas] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		users = []string{"--add-scram", fmt.Sprintf(`%s=[name="%s",password="%s"]`, cfg.SASL, cfg.User, cfg.Password)}
	default:
		t.Fatalf("SASL mechanism %q is not known: it is one of SCRAM-SHA-256, SCRAM-SHA-512", cfg.SASL)
	}
	return users
}

// log4j logs the states of a broker and its errors: a failed test shows the end of the log.
const log4j = `log4j.rootLogger=WARN, out
log4j.logger.kafka.server.BrokerServer=INFO
log4j.logger.kafka.server.BrokerLifecycleManager=INFO
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss,SSS} %p %c{1} %m%n
`

// protocol returns Kafka's name for the security of a listener.
func (cfg Config) protocol() string {
	encrypted := cfg.TLS || cfg.ClientAuth
	switch {
	case encrypted && cfg.SASL != "":
		return "SASL_SSL"
	case encrypted:
		return "SSL"
	case cfg.SASL != "":
		return "SASL_PLAINTEXT"
	}
	return "PLAINTEXT"
}

func clusterID() string {
	var id [16]byte
	rand.Read(id[:])
	id[0] &= 0x7f // an ID that begins with '-' would be an option
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// escape returns s as the value of a Java property; property files are in Latin-1.
func escape(s string) string {
	var out strings.Builder
	for _, unit := range utf16.Encode([]rune(s)) {
		if unit == '\\' || unit <= ' ' || unit > '~' {
			fmt.Fprintf(&out, `\u%04x`, unit)
		} else {
			out.WriteByte(byte(unit))
		}
	}
	return out.String()
}

func (b *Broker) file(name string) string { return filepath.Join(b.folder, name) }

func (b *Broker) write(t testing.TB, name, text string) {
	t.Helper()
	expect.OK(t, os.WriteFile(b.file(name), []byte(text), 0o600))
}

func read(t testing.TB, path string) string {
	t.Helper()
	text := expect.Get(os.ReadFile(path))(t)
	return string(text)
}

// java returns a command that runs in the broker's folder. Its file names are relative to the folder: Kafka splits
// a list of folders at commas, which the name of a subtest may contain.
func (b *Broker) java(args ...string) *exec.Cmd {
	options := []string{"-Xms256m", "-Xmx512m", "-Dlog4j.configuration=file:log4j.properties"}
	if !b.measured {
		options = append(options, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
	}
	cmd := b.kafka.Command("broker", options, args[0], args[1:]...)
	cmd.Dir = b.folder
	return cmd
}

// run starts the process and waits until it serves.
func (b *Broker) run(t testing.TB) {
	t.Helper()
	log := expect.Get(os.OpenFile(b.file("broker.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600))(t)
	defer log.Close()
	cmd := b.java("kafka.Kafka", "server.properties")
	cmd.Stdout, cmd.Stderr = log, log
	b.proc = expect.Get(javatest.Spawn(cmd))(t)
	ready := make(chan error, 1)
	go func() { ready <- b.serves(t.Context()) }() // ends with the test at the latest
	var err error
	select {
	case err = <-ready:
	case <-b.proc.Exited():
		err = b.proc.Err()
	}
	if err != nil {
		t.Fatalf("the broker on %s does not serve: %v", b.addr, err) // its log follows
	} // its log follows
}

// serves waits until the broker is registered, all partitions have leaders and clients can connect: Kafka opens its
// listeners one after the other.
func (b *Broker) serves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return b.do(ctx, func(ctx context.Context, cl *kgo.Client) error {
		return retry(ctx, func(ctx context.Context) error {
			if _, err := metadata(ctx, cl, ""); err != nil {
				return err
			}
			var dialer net.Dialer
			conn, err := dialer.DialContext(ctx, "tcp", b.addr)
			if err != nil {
				return err
			}
			return conn.Close()
		})
	})
}

// Addr returns the host and port of the listener for clients.
func (b *Broker) Addr() string { return b.addr }

// Kill ends the process with SIGKILL and waits until it has ended. It does nothing if the process has ended
// already. It may be called from any goroutine, but not during Restart.
func (b *Broker) Kill() {
	if b.proc != nil {
		b.proc.Kill()
	}
}

// Restart kills the broker if it runs, starts it again on the same ports and data, and waits until it serves.
func (b *Broker) Restart(t testing.TB) {
	t.Helper()
	b.Kill()
	b.run(t)
}

func (b *Broker) tail() string {
	text, err := os.ReadFile(b.file("broker.log"))
	if err != nil {
		return err.Error()
	}
	return javatest.Ending(string(text), 40)
}
