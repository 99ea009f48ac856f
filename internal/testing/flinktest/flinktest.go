// Package flinktest starts a Flink cluster for tests, as Java processes on loopback: a JobManager, TaskManagers,
// and Beam's job server, which accepts pipelines. The test itself starts the workers of the TaskManagers, at
// Cluster.Workers.
//
// Tests share a cluster as subtests of the test that started it. Each function takes the t of the test that calls
// it, so a failure belongs to that test.
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

// A Config describes the cluster to start.
type Config struct {
	// TaskManagers is the number of TaskManagers; 0 means 2.
	TaskManagers int
	// Slots is the number of slots of each TaskManager; 0 means 1. The product with TaskManagers limits the
	// parallelism of all running jobs.
	Slots int
	// Properties replace or extend Flink's configuration, such as state.backend.type. By default, checkpoints and
	// savepoints go to the test's temporary folder.
	Properties map[string]string
	// Measured gives the TaskManagers Java's second compiler, as in production. Without it they start sooner and
	// are slower in the long run.
	Measured bool
}

// stepTimeout is the maximum time of a step of a test. It is far longer than any step needs.
const stepTimeout = 2 * time.Minute

// A Cluster is a Flink cluster with Beam's job server.
type Cluster struct {
	flink    javatest.Installation
	measured bool
	folder   string

	rest, endpoint string       // host:port
	client         *http.Client // for rest

	jobManager, jobServer *javatest.Process
	taskManagers          []*javatest.Process
	workers               []string // addresses by TaskManager
	workerPort            string

	// started has all processes, for the end of the test.
	started []*javatest.Process
}

// Start starts a cluster on free loopback ports and waits until all slots are offered and the job server serves.
// All processes end with the test, and also when the test's process dies. If the test fails, it logs the ends of
// their logs.
//
// Maven fetches the jars once, into the user's cache folder. Without Java, Maven or Linux the test is skipped, or
// fails if the environment has CI=true.
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
		// A job has one worker address for all TaskManagers: a name that each resolves with its own hosts file.
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

// workerHost is the host name under which a TaskManager finds its worker.
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

		// All classes are on the cluster's class path. The classes in a job are the same and need not be loaded
		// again.
		"classloader.resolve-order": "parent-first",

		// A TaskManager usually starts before the JobManager: it retries after 200 ms instead of 10 s. The
		// JobManager notices a killed TaskManager early.
		"cluster.registration.error-delay": "200",
		"heartbeat.interval":               "1000",
		"heartbeat.timeout":                "15000",

		// The REST interface repeats its responses for this time.
		"web.refresh-interval":            "100",
		"metrics.fetcher.update-interval": "500",

		// Flink's scripts would calculate these and derive Java options from them.
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
		value, _ := json.Marshal(properties[name]) // JSON is also YAML
		fmt.Fprintf(&text, "%s: %s\n", name, value)
	}
	for _, folder := range []string{"conf", "tmp"} {
		expect.OK(t, os.MkdirAll(c.file(folder), 0o700))
	}
	c.write(t, "conf/config.yaml", text.String())
	c.write(t, "log4j2.properties", log4j)
}

// log4j omits Flink's long messages about its environment.
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

// Java options. The JobManager and the job server run too briefly to gain from Java's second compiler, which uses
// processor time that other processes need.
var (
	jobManagerOptions  = []string{"-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	jobServerOptions   = []string{"-Xmx700m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	taskManagerOptions = []string{"-Xmx448m", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=256m", "-XX:MaxMetaspaceSize=256m"}
)

// openModules are the packages of Java 17 that Flink's own scripts open to it.
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

// java starts a process in the cluster's folder. Its log is named after role and which. It ends with the cluster.
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

// resource returns Flink's name of TaskManager i.
func resource(i int) string { return "taskmanager" + strconv.Itoa(i) }

// registered returns nil if the JobManager knows TaskManager i and has its slots.
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

// awaitTaskManagers waits until the JobManager has all slots.
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

// registeredSlots returns the number of slots of each TaskManager that the JobManager knows.
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

// get decodes a response of Flink's REST interface into dst.
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

// A fatal error does not go away by waiting.
type fatal struct{ error }

// await waits until f returns nil. It fails the test after stepTimeout, or if the JobManager or the job server
// ends.
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

// Endpoint returns the host and port of Beam's job server.
func (c *Cluster) Endpoint() string { return c.endpoint }

// REST returns the address of Flink's REST interface, such as http://127.0.0.1:8081, for paths such as /jobs.
func (c *Cluster) REST() string { return "http://" + c.rest }

// Worker returns the address at which each TaskManager looks for its own worker.
func (c *Cluster) Worker() string { return net.JoinHostPort(workerHost, c.workerPort) }

// Workers returns the addresses on which the workers must listen, by TaskManager.
func (c *Cluster) Workers() []string { return c.workers }

// Kill ends TaskManager i with SIGKILL and waits until it has ended. The JobManager may notice later. Kill does
// nothing if the TaskManager has ended already.
func (c *Cluster) Kill(i int) { c.taskManagers[i].Kill() }

// StartTaskManager kills TaskManager i if it runs, starts it again, and waits until the JobManager has its slots.
func (c *Cluster) StartTaskManager(t testing.TB, i int) {
	t.Helper()
	c.Kill(i)
	// The JobManager may still list the killed process.
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

// LoseJobManager kills the JobManager, which loses its jobs, starts another, and waits until all slots are free.
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

// logs returns the digest of each log.
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

// digest returns the last lines of a log, preceded by the last earlier lines with errors or warnings.
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
