//go:build unix

package prometheus_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/promtest"
)

// A replaceable is an Alertmanager at one address that can be replaced by a new one, which knows no alerts.
type replaceable struct {
	URL     string
	current atomic.Pointer[promtest.Server]
}

func newReplaceable(t testing.TB) *replaceable {
	r := &replaceable{}
	r.replace(t)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		target := expect.Get(url.Parse(r.current.Load().URL))(t)
		httputil.NewSingleHostReverseProxy(target).ServeHTTP(w, q)
	}))
	t.Cleanup(proxy.Close)
	r.URL = proxy.URL
	return r
}

func (r *replaceable) replace(t testing.TB) {
	s := promtest.Alertmanager(t, promtest.Nowhere)
	r.current.Store(&s)
}

// fires reports whether an alert with the label fires.
func (r *replaceable) fires(t testing.TB, label, value string) bool {
	return slices.ContainsFunc(r.current.Load().Alerts(t, ""), func(labels map[string]string) bool { return labels[label] == value })
}

// replaceAll replaces the Alertmanager, and prints how long the new one takes to get each alert that was open.
func (r *replaceable) replaceAll(t testing.TB) {
	missing := slices.DeleteFunc(r.current.Load().Alerts(t, ""), func(labels map[string]string) bool { return labels["kind"] == "digest" })
	r.replace(t)
	replaced := time.Now()
	fmt.Printf("the Alertmanager is replaced while %d alerts are open\n", len(missing))
	for len(missing) > 0 && time.Since(replaced) < 30*time.Second {
		known := r.current.Load().Alerts(t, "")
		missing = slices.DeleteFunc(missing, func(labels map[string]string) bool {
			got := slices.ContainsFunc(known, func(k map[string]string) bool { return maps.Equal(k, labels) })
			if got {
				fmt.Printf("  after %v: %v\n", time.Since(replaced).Round(100*time.Millisecond), labels)
			}
			return got
		})
		time.Sleep(100 * time.Millisecond)
	}
	if len(missing) > 0 {
		t.Errorf("the new Alertmanager does not get %v", missing)
	}
}

// An Alertmanager that has lost its alerts gets those that are open again: during a run, and from the next run. It ends
// them if the program does not come back.
func TestRepeats(t *testing.T) {
	t.Parallel()
	target, jump := exporter(t, 2)
	server := promtest.Prometheus(t, fmt.Sprintf(`global: {scrape_interval: 100ms}
scrape_configs: [{job_name: pumps, static_configs: [{targets: ["%s"]}]}]
`, target))
	manager := newReplaceable(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "pumps.yaml")
	expect.OK(t, os.WriteFile(config, fmt.Appendf(nil, `model: {family: normal, prior: auto}
detect: true
state: %s
source: {prometheus: {url: %q, query: pressure, step: 100ms, start: -5s, delay: 2s}}
sink: none
alerts: {alertmanager: {url: %q, repeat: 1s}}
`, filepath.Join(dir, "states"), server.URL, manager.URL), 0o600))

	address := freeAddress(t)
	run := program.Start(t, nil, "run", config, "--listen", address)
	run.Eventually(t, "the warm-up", func() bool { return metric(address, "hafvf_records_in_total") > 200 })
	jump()
	fires := func() bool { return manager.fires(t, "pump", "p0") }
	run.Eventually(t, "an alert", fires)
	replaced := time.Now()
	manager.replace(t)
	run.Eventually(t, "the alert, after the Alertmanager was replaced", fires)
	t.Logf("the new Alertmanager had the alert after %v", time.Since(replaced).Round(10*time.Millisecond))
	run.Stop(t)
	manager.replace(t)
	run = program.Start(t, nil, "run", config)
	run.Eventually(t, "the alert, from the next run", fires)
	run.Signal(syscall.SIGKILL)
	<-run.Exited()
	killed := time.Now()
	expect.Soon(t, "the end of the alert", func() bool { return !fires() })
	t.Logf("the alert ended %v after the program", time.Since(killed).Round(10*time.Millisecond))
}
