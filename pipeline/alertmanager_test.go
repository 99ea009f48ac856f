package pipeline

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"hafvf/connectors/webhook"
	"hafvf/hafvf"
	"hafvf/hafvf/incidents"
	"hafvf/internal/secret"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/promtest"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
)

// An incident of a job uses the route of the job, and a silence of the job applies to it. When it widens to the fleet,
// also after a restart, the alert of the job stays open beside the alert of the fleet. After its end no alert fires.
func TestLabelsAtAnAlertmanager(t *testing.T) {
	target := &receiver{OnlyPages: true, Stateful: true, Choice: config.Choice{Kinds: []string{incidents.Kind}}}
	var team atomic.Int64
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		team.Add(1)
	}))
	defer hook.Close()
	manager := promtest.Alertmanager(t, fmt.Sprintf(`route:
  receiver: none
  group_by: ['...']
  group_wait: 10ms
  routes: [{matchers: ['job="auth"'], receiver: team}]
receivers: [{name: none}, {name: team, webhook_configs: [{url: %q, send_resolved: false}]}]
`, hook.URL))
	client := expect.Get(webhook.NewClient(webhook.Sink{URL: secret.Text{Text: manager.URL}, Batch: 10, Timeout: 10 * time.Second, Form: "alertmanager"}, nil))(t)
	layout := expect.Get(records.NewLayout(hafvf.Config{Family: "normal"}))(t)
	cfg := incidents.Config{By: []string{"rack", "job"}}
	fleet := expect.Get(incidents.New(cfg))(t)
	begin := time.Now().UTC().Truncate(time.Minute).Add(-15 * 24 * time.Hour)
	key := func(job string, i int) string {
		return fmt.Sprintf(`p95{instance="%d",job="%s",rack="r%d"}`, i, job, i%3)
	}
	for _, job := range []string{"auth", "cart", "img", "pay", "web"} {
		for i := range 6 {
			fleet.Register(key(job, i), begin, time.Minute, 7*24*time.Hour)
		}
	}
	// advance posts the events of the incidents, and returns the labels of the firing alerts.
	advance := func(when time.Time) []map[string]string {
		t.Helper()
		var bodies [][]byte
		for _, e := range fleet.Advance(when).Events {
			if target.wantsIncident(&e) {
				for _, labels := range e.AlertLabels {
					bodies = append(bodies, layout.AppendIncident(nil, records.Object, &e, labels, map[string]string{"severity": "page"}))
				}
			}
		}
		for _, err := range client.Post(t.Context(), bodies) {
			expect.OK(t, err)
		}
		firing := manager.Alerts(t, "")
		slices.SortFunc(firing, func(a, b map[string]string) int { return len(a) - len(b) })
		return firing
	}
	when := begin.Add(14 * 24 * time.Hour)
	alarm := func(job string, i int, after time.Duration) {
		fleet.Add(incidents.Alarm{ID: fmt.Sprint(job, i, after), Key: key(job, i), Kind: "novelty", Time: when.Add(after), Score: 9})
	}
	for i := range 3 {
		alarm("auth", i, 0)
	}
	labels := func(extra ...string) map[string]string {
		labels := map[string]string{"alertname": "hafvf", "kind": "incident", "id": `job="auth"@` + when.Format(time.RFC3339), "severity": "page", "metric": "p95"}
		for i := 0; i < len(extra); i += 2 {
			labels[extra[i]] = extra[i+1]
		}
		return labels
	}
	expect.Same(t, []map[string]string{labels("job", "auth")}, advance(when), "opened")
	for deadline := time.Now().Add(time.Minute); team.Load() == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the receiver of the job got nothing")
		}
	}
	manager.Silence(t, "job", "auth")
	for deadline := time.Now().Add(time.Minute); len(manager.Alerts(t, "silenced=true&active=false")) != 1; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the silence of the job does not hold")
		}
	}
	for i := 3; i < 6; i++ {
		alarm("auth", i, time.Minute)
	}
	expect.Same(t, []map[string]string{labels("job", "auth")}, advance(when.Add(time.Minute)), "more keys")
	fleet = expect.Get(incidents.Restore(cfg, expect.Get(fleet.AppendBinary(nil))(t)))(t)
	for _, job := range []string{"cart", "img", "pay", "web"} {
		for i := range 4 {
			alarm(job, i, 2*time.Minute)
		}
	}
	expect.Same(t, []map[string]string{labels(), labels("job", "auth")}, advance(when.Add(2*time.Minute)), "wider")
	expect.Same(t, 0, len(advance(when.Add(5*time.Hour))), "alerts that fire when it is over")
}
