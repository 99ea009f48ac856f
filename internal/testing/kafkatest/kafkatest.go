// Package kafkatest starts Kafka for tests: a fake one in the process, and a
// real broker of one node as a Java process on loopback. Its Client is another
// implementation (franz-go) than the one under test, and fills and reads topics.
//
// A real broker takes two to three seconds to start and five to restart. Tests
// share one by being subtests of the test that started it; every function takes
// the t of the test that calls it, so that a failure is that test's own.
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

// Fake starts a cluster inside the process, of three nodes unless an option says
// otherwise. It is closed when the test ends.
func Fake(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatalf("the fake Kafka cluster does not start: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// A Config says how a broker is to treat its clients. The zero value is a
// broker that takes everybody, unencrypted.
type Config struct {
	// TLS encrypts, with the broker's Certificates.
	TLS bool
	// ClientAuth makes the broker demand a certificate of its authority from
	// clients. It implies TLS.
	ClientAuth bool
	// SASL is SCRAM-SHA-256 or SCRAM-SHA-512 and makes the broker demand it of
	// clients, with this user and password. These are of printable ASCII without
	// commas and double quotes, which Kafka's own tool does not take.
	SASL           string
	User, Password string
	// Properties are set in server.properties last, over what is there.
	Properties map[string]string
	// Measured gives the broker Java's second compiler, as in production. Without
	// it a broker starts in half the time and is slower in the long run.
	Measured bool
}

// patience is how long a step of a test may take before it is given up. It is
// far longer than any takes.
const patience = 2 * time.Minute

// A Broker is a Kafka broker and controller in a process of its own. Topics are
// not created by being named. The embedded client has a listener to itself,
// which is plaintext whatever the Config says.
type Broker struct {
	*Client
	// Certificates are empty without TLS.
	Certificates Certificates
	kafka        javatest.Installation
	measured     bool
	folder       string
	addr         string
	proc         *javatest.Process
}

// Start starts a broker on free ports of the loopback and returns when it
// serves. The broker ends with the test, and on Linux also when the test's
// process dies; its data is removed with the test's temporary folders.
//
// The jars are fetched by Maven once, into the user's cache folder. Without Java
// or Maven the test is skipped, or fails where the environment has CI=true.
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

		// Tests write records of other years, which a broker deletes after a week.
		"log.retention.ms": "-1",

		"auto.create.topics.enable":                "false",
		"offsets.topic.replication.factor":         "1",
		"offsets.topic.num.partitions":             "5",
		"transaction.state.log.replication.factor": "1",
		"transaction.state.log.min.isr":            "1",
		"group.initial.rebalance.delay.ms":         "0",

		// A killed broker may register again only when its last session is
		// over, which by default takes 9 s; it asks 3.1 s after its start, among
		// other times.
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

// secure sets the properties of the clients' listener and returns the arguments
// that make its users known when the data folder is formatted.
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

// log4j leaves the states of a broker and what goes wrong: the end of the log is
// what a failed test shows.
const log4j = `log4j.rootLogger=WARN, out
log4j.logger.kafka.server.BrokerServer=INFO
log4j.logger.kafka.server.BrokerLifecycleManager=INFO
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss,SSS} %p %c{1} %m%n
`

// protocol is Kafka's name of the security of a listener.
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
	id[0] &= 0x7f // an id that begins with '-' would be an option
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// escape makes s the value of a Java property: a file of those is in Latin-1.
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

// java is a command that works in the broker's folder. The names of files that
// it is given are relative to it: Kafka splits a list of folders at the commas
// that the name of a subtest may hold.
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
	served := make(chan error, 1)
	go func() { served <- b.serves(t.Context()) }() // ends with the test at the latest
	var err error
	select {
	case err = <-served:
	case <-b.proc.Exited():
		err = b.proc.Err()
	}
	if err != nil {
		t.Fatalf("the broker on %s does not serve: %v", b.addr, err) // its log follows
	}
}

// serves returns when the broker is registered, every partition has its leader
// and clients can connect: Kafka opens one listener after the other.
func (b *Broker) serves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return b.do(ctx, func(ctx context.Context, cl *kgo.Client) error {
		return until(ctx, func(ctx context.Context) error {
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

// Addr is the host and port of the listener for clients.
func (b *Broker) Addr() string { return b.addr }

// Kill ends the process with SIGKILL and returns when it is gone. It does
// nothing when it is gone already, and may be called from any goroutine, though
// not during Restart.
func (b *Broker) Kill() {
	if b.proc != nil {
		b.proc.Kill()
	}
}

// Restart kills the broker if it is alive, starts it again on the same ports
// and data and returns when it serves and every partition has its leader.
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
