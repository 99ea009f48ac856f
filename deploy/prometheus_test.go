package deploy_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/javatest"
	"hafvf/pipeline/config"
)

// The dashboard of series queries the metrics that the sink writes, and the Prometheus of the compose file accepts
// them.
func TestPrometheusFiles(t *testing.T) {
	written := []string{"hafvf_score", "hafvf_usual", "hafvf_usual_lower", "hafvf_usual_upper", "hafvf_alarm", "hafvf_threshold"}
	var asked []string
	for place, expr := range panels(t, "dashboard.prometheus.json") {
		for _, name := range regexp.MustCompile(`\bhafvf_\w+`).FindAllString(expr, -1) {
			if asked = append(asked, name); !slices.Contains(written, name) {
				t.Errorf("%s queries %s, which does not exist", place, name)
			}
		}
	}
	for _, name := range written {
		if !slices.Contains(asked, name) {
			t.Errorf("no panel shows %s", name)
		}
	}
	if command := compose(t, "compose.prometheus.yaml").Services["prometheus"].Command; !slices.Contains(command, "--web.enable-remote-write-receiver") {
		t.Errorf("Prometheus accepts no remote write: %v", command)
	}
	expect.Long(t, "promtool")
	for _, tool := range [][]string{{"promtool", "check", "config", "--syntax-only", "prometheus/prometheus.yml"}, {"promtool", "check", "rules", "prometheus/rules.yml"}, {"promtool", "test", "rules", "testdata/alerts.yaml"}} {
		if _, err := exec.LookPath(tool[0]); err != nil {
			javatest.Missing(t, "promtool", "the package prometheus", err)
		}
		if out, err := exec.Command(tool[0], tool[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", strings.Join(tool, " "), err, out)
		}
	}
}

// The config of the manifest equals the example except for its servers.
func TestPrometheusManifest(t *testing.T) {
	text := objectsOf[*core.ConfigMap](loadManifests(t))["hafvf-prometheus"].Data["config.yaml"]
	expect.Get(config.Parse("prometheus.yaml", []byte(text), nil))(t)
	example := string(read(t, "prometheus.yaml"))
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "http://") && !strings.Contains(example, strings.TrimSpace(line)) {
			t.Errorf("the example has no %q", line)
		}
	}
}
