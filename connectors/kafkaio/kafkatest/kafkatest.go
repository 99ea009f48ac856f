// Package kafkatest starts Kafka for tests: a fake one in the process, and a
// real broker of one node as a Java process on loopback. Its Client is another
// implementation (franz-go) than the one under test, and fills and reads topics.
//
// A real broker takes about two seconds to start. Tests share one by being
// subtests of the test that started it; every function takes the t of the test
// that calls it, so that a failure is that test's own.
package kafkatest

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
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
	// Properties are set in server.properties last, over what is there.
	Properties map[string]string
}

// patience is how long a step of a test may take before it is given up. It is
// far longer than any takes.
const patience = 2 * time.Minute

// A Broker is a Kafka broker and controller in a process of its own. Topics are
// not created by being named. The embedded client has a listener to itself,
// which is plaintext whatever the Config says.
type Broker struct {
	*Client
	kafka  kafka
	folder string
	addr   string
	proc   *process
}

// Start starts a broker on free ports of the loopback and returns when it
// serves. The broker ends with the test, and on Linux also when the test's
// process dies; its data is removed with the test's temporary folders.
//
// The jars are fetched by Maven once, into the user's cache folder. Without Java
// or Maven the test is skipped, or fails where the environment has CI=true.
func Start(t testing.TB, cfg Config) *Broker {
	t.Helper()
	b := &Broker{kafka: install(t), folder: t.TempDir()}
	t.Cleanup(func() {
		b.Kill()
		if t.Failed() {
			t.Logf("the broker's log ended with\n%s", b.tail())
		}
	})
	b.configure(t, cfg)
	b.run(t)
	return b
}

func (b *Broker) configure(t testing.TB, cfg Config) {
	t.Helper()
	ports := freePorts(t, 3)
	client, internal, controller := ports[0], ports[1], ports[2]
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
		"listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs":                       filepath.Join(b.folder, "data"),

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
	maps.Copy(properties, cfg.Properties)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&text, "%s=%s\n", name, escape(properties[name]))
	}
	b.write(t, "server.properties", text.String())
	b.write(t, "log4j.properties", log4j)
	var id [16]byte
	rand.Read(id[:])
	id[0] &= 0x7f // an id that begins with '-' would be an option
	args := []string{"kafka.tools.StorageTool", "format",
		"--cluster-id", base64.RawURLEncoding.EncodeToString(id[:]), "--config", b.file("server.properties")}
	out, err := b.java(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("the broker's data folder cannot be formatted: %v\n%s", err, out)
	}
}

const log4j = `log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss,SSS} %p %c{1} %m%n
`

// escape makes s the value of a Java property.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(s)
}

func (b *Broker) file(name string) string { return filepath.Join(b.folder, name) }

func (b *Broker) write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(b.file(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (b *Broker) java(args ...string) *exec.Cmd {
	return exec.Command(b.kafka.java, append([]string{"-Xms256m", "-Xmx512m",
		"-Dlog4j.configuration=file:" + b.file("log4j.properties"),
		"-cp", filepath.Join(b.kafka.jars, "*")}, args...)...)
}

// run starts the process and waits until it serves.
func (b *Broker) run(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(b.file("broker.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := b.java("kafka.Kafka", b.file("server.properties"))
	cmd.Stdout, cmd.Stderr = log, log
	if b.proc, err = spawn(cmd); err != nil {
		t.Fatalf("the broker's process does not start: %v", err)
	}
	served := make(chan error, 1)
	go func() { served <- b.serves(t.Context()) }()
	select {
	case err = <-served:
	case <-b.proc.exited:
		err = fmt.Errorf("it ended: %v", b.proc.cmd.ProcessState)
	}
	if err != nil {
		t.Fatalf("the broker on %s does not serve: %v", b.addr, err) // its log follows
	}
}

// Addr is the host and port of the listener for clients.
func (b *Broker) Addr() string { return b.addr }

// Kill ends the process with SIGKILL and returns when it is gone. It does
// nothing when it is gone already, and may be called from any goroutine.
func (b *Broker) Kill() {
	if b.proc != nil {
		b.proc.kill()
	}
}

// Restart kills the broker if it is alive, starts it again on the same ports
// and data and returns when it serves and every partition has its leader.
func (b *Broker) Restart(t testing.TB) {
	t.Helper()
	b.Kill()
	b.run(t)
}

// tail is the end of the broker's log.
func (b *Broker) tail() string {
	const most = 40
	text, err := os.ReadFile(b.file("broker.log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// freePorts returns n addresses on the loopback that nobody listens on. The
// ports are below those that systems give to outgoing connections: a client
// that dials a killed broker again and again could otherwise be given the
// broker's own port, connect to itself and keep the broker from coming back.
func freePorts(t testing.TB, n int) []string {
	t.Helper()
	var addrs []string
	for tries := 0; len(addrs) < n; tries++ {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+mathrand.IntN(12000)))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			if tries == 1000 {
				t.Fatalf("no free port on the loopback: %v", err)
			}
			continue
		}
		defer l.Close()
		addrs = append(addrs, addr)
	}
	return addrs
}
