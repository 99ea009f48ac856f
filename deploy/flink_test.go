package deploy_test

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"hafvf/internal/testing/expect"
	"hafvf/pipeline/flink"
)

// dependenciesOf returns the elements of a POM that name Maven's dependencies, and the version of Flink.
func dependenciesOf(t *testing.T, path string) (lines []string, flink string) {
	t.Helper()
	text := string(read(t, path))
	m := regexp.MustCompile(`<flink>(.*)</flink>`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no version of Flink", path)
	}
	return regexp.MustCompile(`<dependency>.*</dependency>`).FindAllString(text, -1), m[1]
}

// The images have the same jars as the tests.
func TestFlinkImages(t *testing.T) {
	tested, version := dependenciesOf(t, "../internal/testing/flinktest/install.go")
	// The distribution has it already, and the job server does not need it.
	tested = slices.DeleteFunc(tested, func(d string) bool { return strings.Contains(d, "rocksdb") })
	built, pom := dependenciesOf(t, "flink/pom.xml")
	if diff := cmp.Diff(tested, built); diff != "" || pom != version {
		t.Errorf("flink/pom.xml has other jars than the tests, Flink %s instead of %s:\n%s", pom, version, diff)
	}
	text := string(read(t, "flink/Dockerfile"))
	for _, want := range []string{
		"FROM flink:" + version + "-java17 AS flink\n", "flink-s3-fs-presto-" + version + ".jar", "COPY deploy/flink/pom.xml .\n",
		"\nUSER 9999:9999\n", "\nUSER 65532:65532\n", "FLINK_CONF_DIR=/etc/flink ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("flink/Dockerfile has no %q", want)
		}
	}
	if !strings.HasPrefix(version, flink.Flink+".") {
		t.Errorf("the images have Flink %s, and the program asks for %s", version, flink.Flink)
	}
	// The job server and a TaskManager need the same Java modules to be open.
	var config map[string]string
	expect.OK(t, yaml.Unmarshal(read(t, "flink/config.yaml"), &config))
	opens := regexp.MustCompile(`--add-opens=\S+ALL-UNNAMED`)
	if diff := cmp.Diff(opens.FindAllString(config["env.java.opts.all"], -1), opens.FindAllString(text, -1)); diff != "" {
		t.Errorf("flink/config.yaml and flink/Dockerfile open other packages of Java:\n%s", diff)
	}
	ignore := strings.Fields(string(read(t, "flink/Dockerfile.dockerignore")))
	if !slices.Contains(ignore, "!deploy/flink/pom.xml") {
		t.Error("the build is not given flink/pom.xml")
	}
}

// flinkConfig decodes Flink's configuration, from compose.flink.yaml or Kubernetes.
func flinkConfig(t *testing.T, text []byte) map[string]string {
	t.Helper()
	var config map[string]string
	expect.OK(t, yaml.Unmarshal(text, &config))
	return config
}

// number returns an integer of a configuration.
func number(t *testing.T, config map[string]string, key string) int {
	t.Helper()
	n, err := strconv.Atoi(config[key])
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return n
}

// The services of compose.yaml, changed by compose.flink.yaml, agree with Flink's configuration and the job's
// config.
func TestComposeFlink(t *testing.T) {
	const name = "compose.flink.yaml"
	base, c := compose(t, "compose.yaml"), compose(t, name)
	hafvf := base.Services["hafvf"]
	change := c.Services["hafvf"]
	for other, on := range change.DependsOn {
		hafvf.DependsOn[other] = on
	}
	hafvf.Command, hafvf.Restart, hafvf.Volumes, hafvf.Ports = change.Command, change.Restart, change.Volumes, nil
	c.Services["hafvf"] = hafvf
	for serviceName, s := range base.Services {
		if serviceName != "hafvf" {
			c.Services[serviceName] = s
		}
	}
	for serviceName, v := range base.Volumes {
		c.Volumes[serviceName] = v
	}
	c.check(t, name)

	built := map[string]bool{}
	for _, s := range c.Services {
		built[s.Image] = built[s.Image] || s.Build.Dockerfile != ""
	}
	ports := map[string]string{}
	for serviceName, s := range c.Services {
		if strings.HasPrefix(s.Image, "hafvf") && (!built[s.Image] || !s.ReadOnly) {
			t.Errorf("%s: nothing builds the image of %s, or it can be written to", name, serviceName)
		}
		if other, ok := strings.CutPrefix(s.NetworkMode, "service:"); ok && (c.Services[other].Image == "" || len(s.Ports) > 0) {
			t.Errorf("%s: %s has the network of %s", name, serviceName, other)
		}
		for _, p := range s.Ports {
			host := p[:strings.LastIndex(p, ":")]
			if ports[host] != "" || !strings.HasPrefix(host, "127.0.0.1:") {
				t.Errorf("%s: the port %s of %s is taken by %s, or open to others", name, host, serviceName, ports[host])
			}
			ports[host] = serviceName
		}
	}

	config := flinkConfig(t, read(t, "flink/config.yaml"))
	r := graph(t, "flink.yaml").Runner
	pairs := 0
	for serviceName, s := range c.Services {
		i, ok := strings.CutPrefix(serviceName, "taskmanager-")
		if !ok {
			continue
		}
		pairs++
		worker := c.Services["worker-"+i]
		if s.NetworkMode != "service:worker-"+i || !slices.Equal(worker.Command, []string{"worker", "--address", r.Worker, "--listen", "0.0.0.0:9090"}) {
			t.Errorf("%s: %s and its worker do not find each other: %+v, %+v", name, serviceName, s, worker)
		}
		for _, port := range []string{":9090", ":" + config["metrics.reporter.prom.port"]} {
			if !slices.ContainsFunc(worker.Ports, func(p string) bool { return strings.HasSuffix(p, port) }) {
				t.Errorf("%s: worker-%s does not offer %s", name, i, port)
			}
		}
		if _, waits := c.Services["hafvf"].DependsOn[serviceName]; !waits {
			t.Errorf("%s: hafvf does not wait for %s", name, serviceName)
		}
	}
	if slots := pairs * number(t, config, "taskmanager.numberOfTaskSlots"); slots < r.Parallelism || pairs == 0 {
		t.Errorf("%s: %d slots, and the job takes %d", name, slots, r.Parallelism)
	}
	endpoint, _, err := net.SplitHostPort(r.Cluster.Endpoint)
	expect.OK(t, err)
	expect.Same(t, "hafvf-jobserver", c.Services[endpoint].Image, "runner.endpoint ", r.Cluster.Endpoint)
	rest, err := url.Parse(r.Cluster.REST)
	if err != nil || rest.Hostname() != config["rest.address"] || rest.Port() != config["rest.port"] || c.Services[rest.Hostname()].Image != "hafvf-flink" {
		t.Errorf("runner.rest %s: %v", r.Cluster.REST, err)
	}
	expect.Same(t, []string{"--flink-master=" + rest.Host}, c.Services[endpoint].Command, "the job server's arguments")
	for _, key := range []string{"state.checkpoints.dir", "state.savepoints.dir", "state.backend.rocksdb.localdir"} {
		folder := strings.TrimPrefix(config[key], "file://")
		for serviceName, s := range c.Services {
			if strings.HasPrefix(serviceName, "taskmanager-") && !slices.ContainsFunc(s.Volumes, func(v string) bool {
				_, target, ok := strings.Cut(v, ":")
				if !ok {
					target = v
				}
				return folder == target || strings.HasPrefix(folder, target+"/")
			}) {
				t.Errorf("%s: %s: %s is on no volume", name, serviceName, folder)
			}
		}
	}
	for _, file := range []string{"config.yaml", "log4j-console.properties"} {
		if _, err := os.Stat(filepath.Join("flink", file)); err != nil {
			t.Error(err)
		}
	}
}
