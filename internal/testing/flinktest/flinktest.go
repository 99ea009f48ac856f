// Package flinktest starts a Flink cluster for tests, as Java processes on
// loopback: a JobManager, TaskManagers, and Beam's job server, which takes
// pipelines. The workers next to the TaskManagers are the test's own to start, at
// Cluster.Workers.
//
// Tests share a cluster by being subtests of the test that started it; every
// function takes the t of the test that calls it, so that a failure is that
// test's own.
package flinktest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hafvf/internal/httpclient"
	"hafvf/internal/secret"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/javatest"
)

// A Config says what cluster to start.
type Config struct {
	// TaskManagers is how many there are, 2 by default.
	TaskManagers int
	// Slots is how many each has, 1 by default. It bounds the parallelism of
	// what runs at once together with TaskManagers.
	Slots int
	// Properties are of Flink's configuration, such as state.backend.type. They
	// are set last, over what is there. Checkpoints and savepoints go to the
	// test's temporary folder by default.
	Properties map[string]string
	// Measured gives the TaskManagers Java's second compiler, as in production.
	// Without it they start sooner and are slower in the long run.
	Measured bool
}

// patience is how long a step of a test may take before it is given up. It is
// far longer than any takes.
const stepTimeout = 2 * time.Minute

// A Cluster is a Flink cluster with a job server of Beam.
type Cluster struct {
	flink    javatest.Installation
	measured bool
	folder   string

	rest, endpoint string       // host:port
	client         *http.Client // of rest

	jobManager, jobServer *javatest.Process
	taskManagers          []*javatest.Process
	workers               []string // by TaskManager
	workerPort            string

	// started is every process, for the end.
	started []*javatest.Process
}

// Start starts a cluster on free ports of the loopback and returns when all of
// its slots are offered and the job server serves. All processes end with the test,
// and also when the test's process dies. If the
// test failed, it then says what their logs ended with.
//
// The jars are fetched by Maven once, into the user's cache folder. Without Java, Maven or Linux the test is
// skipped, or fails where the environment has CI=true.
func Start(t testing.TB, cfg Config) *Cluster {
	t.Helper()
	if runtime.GOOS != "linux" {
		javatest.Missing(t, flink.What, "Linux", errors.New("each TaskManager needs a loopback address of its own"))
	}
	return start(t, javatest.Install(t, flink), cfg)
}

func start(t testing.TB, in javatest.Installation, cfg Config) *Cluster {
	t.Helper()
	c := &Cluster{flink: in, measured: cfg.Measured, folder: t.TempDir()}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.logs())
		}
		for _, p := range c.started {
			p.Kill()
		}
	})
	ports := javatest.FreePorts(t, 7)
	c.configure(t, cfg, ports)
	c.client = expect.Get(httpclient.New("flinktest", httpclient.Server{URL: secret.Text{Text: c.REST()}, Timeout: 10 * time.Second}, httpclient.Bounds{}, nil))(t).HTTP()
	c.taskManagers = make([]*javatest.Process, cmp.Or(cfg.TaskManagers, 2))
	for i := range c.taskManagers {
		// A job has one address of the worker for all TaskManagers: it is a name,
		// which each looks up in a file of its own.
		ip := "127.0.0." + strconv.Itoa(i+2)
		c.write(t, fmt.Sprintf("hosts%d", i), ip+" "+workerHost+"\n127.0.0.1 localhost\n127.0.0.1 "+hostname()+"\n")
		c.workers = append(c.workers, net.JoinHostPort(ip, c.workerPort))
	}
	c.runJobManager(t)
	for i := range c.taskManagers {
		c.runTaskManager(t, i)
	}
	var err error
	port := strconv.Itoa
	if c.jobServer, err = c.java("jobserver", "", jobServerOptions,
		"org.apache.beam.runners.flink.FlinkJobServerDriver",
		"--flink-master="+c.rest, "--flink-conf-dir=conf", "--artifacts-dir="+c.file("artifacts"), "--job-host=127.0.0.1",
		"--job-port="+port(ports[3]), "--artifact-port="+port(ports[4]), "--expansion-port="+port(ports[5])); err != nil {
		t.Fatalf("the job server's process does not start: %v", err)
	}
	c.awaitTaskManagers(t)
	c.await(t, "a job server that serves", func() error {
		conn, err := net.DialTimeout("tcp", c.endpoint, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return c
}

// workerHost is the name under which a TaskManager finds its worker.
const workerHost = "worker"

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (c *Cluster) configure(t testing.TB, cfg Config, ports []int) {
	t.Helper()
	c.rest, c.endpoint, c.workerPort = local(ports[2]), local(ports[3]), strconv.Itoa(ports[6])
	properties := map[string]string{
		"jobmanager.rpc.address":                   "127.0.0.1",
		"jobmanager.rpc.port":                      strconv.Itoa(ports[0]),
		"jobmanager.bind-host":                     "127.0.0.1",
		"jobmanager.retrieve-taskmanager-hostname": "false",
		"blob.server.port":                         strconv.Itoa(ports[1]),
		"rest.address":                             "127.0.0.1",
		"rest.bind-address":                        "127.0.0.1",
		"rest.port":                                strconv.Itoa(ports[2]),
		"rest.bind-port":                           strconv.Itoa(ports[2]),
		"taskmanager.host":                         "127.0.0.1",
		"taskmanager.bind-host":                    "127.0.0.1",
		"taskmanager.numberOfTaskSlots":            strconv.Itoa(cmp.Or(cfg.Slots, 1)),
		"io.tmp.dirs":                              c.file("tmp"),
		"state.checkpoints.dir":                    "file://" + c.file("checkpoints"),
		"state.savepoints.dir":                     "file://" + c.file("savepoints"),

		// Every class is on the cluster's own class path: those that come with a
		// job are the same, and need not be loaded a second time.
		"classloader.resolve-order": "parent-first",

		// A TaskManager is mostly there before the JobManager: it asks again soon,
		// and not after 10 s. A killed one is missed as soon.
		"cluster.registration.error-delay": "200",
		"heartbeat.interval":               "1000",
		"heartbeat.timeout":                "15000",

		// For so long the REST interface repeats its answers.
		"web.refresh-interval":            "100",
		"metrics.fetcher.update-interval": "500",

		// Flink's scripts would reckon these, and the options of Java with them.
		"taskmanager.cpu.cores":                      "1.0",
		"taskmanager.memory.framework.heap.size":     "64m",
		"taskmanager.memory.task.heap.size":          "384m",
		"taskmanager.memory.framework.off-heap.size": "64m",
		"taskmanager.memory.task.off-heap.size":      "128m",
		"taskmanager.memory.network.min":             "64m",
		"taskmanager.memory.network.max":             "64m",
		"taskmanager.memory.managed.size":            "128m",
		"taskmanager.memory.jvm-metaspace.size":      "256m",
		"taskmanager.memory.jvm-overhead.min":        "64m",
		"taskmanager.memory.jvm-overhead.max":        "64m",
	}
	maps.Copy(properties, cfg.Properties)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		value, _ := json.Marshal(properties[name]) // is YAML too
		fmt.Fprintf(&text, "%s: %s\n", name, value)
	}
	for _, folder := range []string{"conf", "tmp"} {
		expect.OK(t, os.MkdirAll(c.file(folder), 0o700))
	}
	c.write(t, "conf/config.yaml", text.String())
	c.write(t, "log4j2.properties", log4j)
}

// log4j leaves out what Flink says of its environment, which is long.
const log4j = `rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
appender.out.name = out
appender.out.type = CONSOLE
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss,SSS} %p %c{1} %m%n
logger.environment.name = org.apache.flink.runtime.entrypoint.ClusterEntrypoint
logger.environment.level = WARN
logger.configuration.name = org.apache.flink.configuration.GlobalConfiguration
logger.configuration.level = WARN
`

// The options of Java. The JobManager and the job server live too short to gain
// from Java's second compiler, which takes the machine from the others.
var (
	jobManagerOptions  = []string{"-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	jobServerOptions   = []string{"-Xmx700m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	taskManagerOptions = []string{"-Xmx448m", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=256m", "-XX:MaxMetaspaceSize=256m"}
)

// opened is what Flink's own scripts open to it of Java 17.
var openModules = []string{
	"--add-exports=java.base/sun.net.util=ALL-UNNAMED",
	"--add-opens=java.base/java.lang=ALL-UNNAMED",
	"--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
	"--add-opens=java.base/java.io=ALL-UNNAMED",
	"--add-opens=java.base/java.net=ALL-UNNAMED",
	"--add-opens=java.base/java.nio=ALL-UNNAMED",
	"--add-opens=java.base/java.text=ALL-UNNAMED",
	"--add-opens=java.base/java.time=ALL-UNNAMED",
	"--add-opens=java.base/java.util=ALL-UNNAMED",
	"--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
	"--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
	"--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED",
	"--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
}

func (c *Cluster) file(name string) string { return filepath.Join(c.folder, name) }

func (c *Cluster) write(t testing.TB, name, text string) {
	t.Helper()
	expect.OK(t, os.WriteFile(c.file(name), []byte(text), 0o600))
}

// java starts a process of a role in the cluster's folder, with a log named
// after the role and which one it is. It ends with the cluster.
func (c *Cluster) java(role, which string, options []string, class string, args ...string) (*javatest.Process, error) {
	log, err := os.OpenFile(c.file(role+which+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := c.flink.Command(role, slices.Concat(openModules, options, []string{
		"-Dlog4j2.configurationFile=log4j2.properties",
		"-Djava.io.tmpdir=" + c.file("tmp"),
	}), class, args...)
	cmd.Dir = c.folder
	cmd.Stdout, cmd.Stderr = log, log
	p, err := javatest.Spawn(cmd)
	if err == nil {
		c.started = append(c.started, p)
	}
	return p, err
}

func (c *Cluster) runJobManager(t testing.TB) {
	t.Helper()
	var err error
	if c.jobManager, err = c.java("jobmanager", "", jobManagerOptions,
		"org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint", "--configDir", "conf"); err != nil {
		t.Fatalf("the JobManager's process does not start: %v", err)
	}
}

func (c *Cluster) runTaskManager(t testing.TB, i int) {
	t.Helper()
	var err error
	options := append(slices.Clone(taskManagerOptions), "-Djdk.net.hosts.file="+c.file(fmt.Sprintf("hosts%d", i)))
	if !c.measured {
		options = append(options, "-XX:TieredStopAtLevel=1")
	}
	c.taskManagers[i], err = c.java("taskmanager", strconv.Itoa(i), options,
		"org.apache.flink.runtime.taskexecutor.TaskManagerRunner", "--configDir", "conf",
		"-D", "taskmanager.resource-id="+resource(i))
	if err != nil {
		t.Fatalf("the process of TaskManager %d does not start: %v", i, err)
	}
}

// resource is how Flink names a TaskManager.
func resource(i int) string { return "taskmanager" + strconv.Itoa(i) }

// registered is nil if the JobManager knows TaskManager i and has its slots.
func (c *Cluster) registered(i int) error {
	if err := c.taskManagers[i].Err(); err != nil {
		return fatal{fmt.Errorf("TaskManager %d: %w", i, err)}
	}
	slots, err := c.registeredSlots()
	if err == nil && slots[resource(i)] == 0 {
		err = fmt.Errorf("TaskManager %d is not registered", i)
	}
	return err
}

// awaitTaskManagers returns when the JobManager has all slots.
func (c *Cluster) awaitTaskManagers(t testing.TB) {
	t.Helper()
	c.await(t, "TaskManagers that register", func() error {
		for i := range c.taskManagers {
			if err := c.registered(i); err != nil {
				return err
			}
		}
		return nil
	})
}

// known returns how many slots the JobManager has of which TaskManager.
func (c *Cluster) registeredSlots() (map[string]int, error) {
	var answer struct {
		TaskManagers []struct {
			ID          string
			SlotsNumber int
		}
	}
	if err := c.get("/taskmanagers", &answer); err != nil {
		return nil, err
	}
	slots := map[string]int{}
	for _, tm := range answer.TaskManagers {
		slots[tm.ID] = tm.SlotsNumber
	}
	return slots, nil
}

// get reads an answer of Flink's REST interface.
func (c *Cluster) get(path string, dst any) error {
	resp, err := c.client.Get(c.REST() + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("%s: %s: %s", path, resp.Status, text)
	}
	return json.NewDecoder(resp.Body).Decode(dst)
}

// A fatal error is one that waiting does not cure.
type fatal struct{ error }

// await returns when f has no error, and fails the test if that takes too long
// or the JobManager or the job server ends.
func (c *Cluster) await(t testing.TB, what string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(stepTimeout)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		if ended := c.jobManager.Err(); ended != nil {
			err = fatal{fmt.Errorf("the JobManager: %w", ended)}
		} else if ended := c.jobServer.Err(); ended != nil {
			err = fatal{fmt.Errorf("the job server: %w", ended)}
		}
		if errors.As(err, new(fatal)) || time.Now().After(deadline) {
			t.Fatalf("awaiting %s: %v", what, err) // the logs follow
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("awaiting %s: %v, and the test ended", what, err)
		}
	}
}

// Endpoint is the host and port of Beam's job server.
func (c *Cluster) Endpoint() string { return c.endpoint }

// REST is the address of Flink's REST interface, such as http://127.0.0.1:8081,
// under which paths such as /jobs are.
func (c *Cluster) REST() string { return "http://" + c.rest }

// Worker is the address at which each TaskManager looks for the worker beside it.
func (c *Cluster) Worker() string { return net.JoinHostPort(workerHost, c.workerPort) }

// Workers are the addresses that the workers have to listen on, by TaskManager.
func (c *Cluster) Workers() []string { return c.workers }

// Kill ends TaskManager i with SIGKILL and returns when it is gone, though the
// JobManager need not have missed it yet. It does nothing when it is gone
// already.
func (c *Cluster) Kill(i int) { c.taskManagers[i].Kill() }

// StartTaskManager kills TaskManager i if it is alive, starts it again, and returns when the JobManager has its slots.
func (c *Cluster) StartTaskManager(t testing.TB, i int) {
	t.Helper()
	c.Kill(i)
	// The JobManager could still show the one before it.
	c.await(t, fmt.Sprintf("TaskManager %d to be missed", i), func() error {
		slots, err := c.registeredSlots()
		if _, found := slots[resource(i)]; found && err == nil {
			err = errors.New("it is still registered")
		}
		return err
	})
	c.runTaskManager(t, i)
	c.await(t, fmt.Sprintf("TaskManager %d to register", i), func() error { return c.registered(i) })
}

// StartBareTaskManager is StartTaskManager without the jars of Beam.
func (c *Cluster) StartBareTaskManager(t testing.TB, i int) {
	t.Helper()
	withBeam := c.flink
	c.flink = withBeam.Without(t, "beam-")
	defer func() { c.flink = withBeam }()
	c.StartTaskManager(t, i)
}

// LoseJobManager ends the JobManager with SIGKILL, and with it all that it knows of
// jobs, starts another, and returns when all slots are free of them.
func (c *Cluster) LoseJobManager(t testing.TB) {
	t.Helper()
	c.jobManager.Kill()
	c.runJobManager(t)
	c.awaitTaskManagers(t)
	c.await(t, "slots that become free", func() error {
		var slots struct {
			Total int `json:"slots-total"`
			Free  int `json:"slots-available"`
		}
		err := c.get("/overview", &slots)
		if err == nil && slots.Free < slots.Total {
			err = fmt.Errorf("%d of %d are", slots.Free, slots.Total)
		}
		return err
	})
}

// logs is what the logs of the cluster ended with, and their last complaints.
func (c *Cluster) logs() string {
	names, _ := filepath.Glob(c.file("*.log"))
	var out strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(&out, "%s ended with\n%s\n", filepath.Base(name), digest(string(text)))
	}
	return out.String()
}

// digest is the last lines of a log after the last of the lines before them that
// tell of errors.
func digest(log string) string {
	const tail, complaints = 25, 15
	lines := strings.Split(javatest.Ending(log, 1<<20), "\n")
	var errs []string
	for _, line := range lines[:max(0, len(lines)-tail)] {
		if strings.Contains(line, " ERROR ") || strings.Contains(line, " WARN ") || strings.HasPrefix(line, "Caused by: ") {
			errs = append(errs, line)
		}
	}
	chosen := append(errs[max(0, len(errs)-complaints):], lines[max(0, len(lines)-tail):]...)
	for i, line := range chosen {
		chosen[i] = "  " + line[:min(len(line), 600)]
	}
	return strings.Join(chosen, "\n")
}
