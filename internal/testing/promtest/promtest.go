// Package promtest starts Prometheus and Alertmanager for tests. If a program is missing, the test is skipped, or
// fails if the environment has CI=true.
package promtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/javatest"
)

// A Server is a process that serves HTTP on loopback until the test ends.
type Server struct{ URL string }

// Prometheus starts Prometheus with config. It accepts remote write.
func Prometheus(t testing.TB, config string) Server {
	t.Helper()
	return PrometheusOf(t, config, "")
}

// PrometheusOf is Prometheus with a history of samples in the OpenMetrics format.
func PrometheusOf(t testing.TB, config, history string) Server {
	t.Helper()
	return start(t, "prometheus", config, "/-/ready", func(file, dir, address string) []string {
		if history != "" {
			samples := file + ".samples"
			expect.OK(t, os.WriteFile(samples, []byte(history), 0o600))
			if output, err := exec.Command("promtool", "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=240h", samples, dir).CombinedOutput(); err != nil {
				t.Fatalf("promtool: %v\n%s", err, output)
			}
		}
		return []string{"--config.file=" + file, "--storage.tsdb.path=" + dir, "--web.listen-address=" + address, "--web.enable-remote-write-receiver"}
	})
}

// Nowhere is the configuration of an Alertmanager that sends no notifications.
const Nowhere = "route: {receiver: none}\nreceivers: [{name: none}]\n"

// Alertmanager starts Alertmanager with config.
func Alertmanager(t testing.TB, config string) Server {
	t.Helper()
	return start(t, "prometheus-alertmanager", config, "/-/ready", func(file, dir, address string) []string {
		return []string{"--config.file=" + file, "--storage.path=" + dir, "--web.listen-address=" + address, "--cluster.listen-address="}
	})
}

// start starts a program of the Debian package with that name.
func start(t testing.TB, name, config, ready string, args func(file, dir, address string) []string) Server {
	t.Helper()
	expect.Long(t, name)
	path, err := exec.LookPath(name)
	if err != nil {
		javatest.Missing(t, name, "the package "+name, err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	expect.OK(t, os.WriteFile(file, []byte(config), 0o600))
	address := fmt.Sprintf("127.0.0.1:%d", javatest.FreePorts(t, 1)[0])
	cmd := exec.Command(path, args(file, filepath.Join(dir, "data"), address)...)
	cmd.Dir = dir
	var log javatest.Journal
	cmd.Stdout, cmd.Stderr = &log, &log
	process := expect.Get(javatest.Spawn(cmd))(t)
	t.Cleanup(process.Kill)
	s := Server{"http://" + address}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		answer, err := http.Get(s.URL + ready)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return s
			}
		}
		if exited := process.Err(); exited != nil || time.Now().After(deadline) {
			t.Fatalf("%s does not start: %v, %v\n%s", name, exited, err, javatest.Ending(log.String(), 20))
		}
	}
}

// Alerts returns the labels of the alerts in an Alertmanager. query selects alerts.
func (s Server) Alerts(t testing.TB, query string) (labels []map[string]string) {
	t.Helper()
	answer := expect.Get(http.Get(s.URL + "/api/v2/alerts?" + query))(t)
	defer answer.Body.Close()
	var alerts []struct{ Labels map[string]string }
	expect.OK(t, json.NewDecoder(answer.Body).Decode(&alerts))
	for _, a := range alerts {
		labels = append(labels, a.Labels)
	}
	return labels
}

// Silence silences the alerts of an Alertmanager that have a label with that value.
func (s Server) Silence(t testing.TB, label, value string) {
	t.Helper()
	now := time.Now().UTC()
	silence := fmt.Sprintf(`{"matchers":[{"name":%q,"value":%q,"isRegex":false}],"startsAt":%q,"endsAt":%q,"createdBy":"test","comment":"a deploy"}`,
		label, value, now.Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))
	expect.Get(http.Post(s.URL+"/api/v2/silences", "application/json", strings.NewReader(silence)))(t).Body.Close()
}
