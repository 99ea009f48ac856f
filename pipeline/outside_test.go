package pipeline

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// A number outside the family's domain goes to the dead letter, and raises an alarm if its key has a state. Text, late
// records and records of a key without a state go only to the dead letter, and are not counted as keys.
func TestOutsideAlerts(t *testing.T) {
	for _, settings := range []string{"", "lateness: 3m\n", "aggregate: {every: 1m, value: max}\n", "incidents: true\n"} {
		lines := []string{"key,time,x\n"}
		record := func(key string, minute int, x string) {
			lines = append(lines, fmt.Sprintf("%s,%s,%s\n", key, start.Add(time.Duration(minute)*time.Minute).Format(time.RFC3339), x))
		}
		for i := range 300 {
			x := fmt.Sprint(i % 5)
			switch i {
			case 200, 201, 290:
				x = "-5"
			case 250:
				x = "none"
			}
			record("a", i, x)
			if i == 270 {
				record("a", 100, "-5")
			}
		}
		record("b", 299, "-5")
		alertsPath := filepath.Join(t.TempDir(), "alerts.jsonl")
		s, _, rejected := runConfig(t, "model: {family: poisson, prior: auto}\ndetect: {rest: 50}\nsource: {csv: {path: "+write(t, "in.csv", lines...)+", key: key, time: time, values: [x]}}\n"+
			"alerts: {jsonl: {path: "+alertsPath+"}}\n"+settings)
		var ids []string
		for _, line := range readLines(t, alertsPath) {
			if line == "" {
				continue
			}
			var a map[string]any
			expect.OK(t, json.Unmarshal([]byte(line), &a))
			if a["kind"] == "incident" {
				continue
			}
			ids = append(ids, a["id"].(string))
			if a["kind"] != "novelty" || a["x"] != -5. || a["score"] != nil || a["threshold"] != nil || a["size"] != nil || !strings.Contains(a["message"].(string), "outside the domain of the family poisson (x = -5 is below zero).") {
				t.Error(line)
			}
		}
		if want := []string{"in.csv:202", "in.csv:293"}; !reflect.DeepEqual(ids, want) {
			t.Errorf("%q: alarms %v, want %v", settings, ids, want)
		}
		want := `{"reason":"x = -5 is below zero","place":"in.csv:202","raw":"a,2026-`
		if !strings.HasPrefix(rejected[0], want) || len(rejected) != 6 || s.Rejected != 6 || s.NoveltyAlarms != 2 || s.Keys != 1 {
			t.Errorf("%q: %+v, rejected %q", settings, s, rejected)
		}
	}
}

// In a topic the alarm is also sent. The rejected record is counted once, and its offset is committed.
func TestOutsideAlertsOfTopic(t *testing.T) {
	t.Parallel()
	b := fakeBus(t, 1, "out", "rejected", "alerts")
	lines := []string{`{"key":"b","time":"2026-01-02T08:00:00Z","x":-5}`}
	for i := range 201 {
		x := i % 5
		if i == 200 {
			x = -5
		}
		lines = append(lines, fmt.Sprintf(`{"key":"a","time":%q,"x":%d}`, start.Add(time.Duration(i)*time.Minute).Format(time.RFC3339), x))
	}
	b.put(t, lines...)
	text := strings.Replace(b.config("group: g, changelog: states", "detect: true\nalerts: {kafka: {topic: alerts}}\n"), "family: normal", "family: poisson", 1)
	r := launch(t, compose(t, text))
	b.await(t, "alerts", 1, r)
	b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
	if s := r.halt(t); s.Records != 200 || s.Rejected != 2 || s.NoveltyAlarms != 1 || s.Keys != 1 {
		t.Errorf("%+v", s)
	}
	if alerts, rejected := b.values(t, "alerts"), b.values(t, "rejected"); len(alerts) != 1 || !strings.Contains(alerts[0], `"id":"in-0-201"`) || len(rejected) != 2 {
		t.Errorf("told %q, rejected %q", alerts, rejected)
	}
}
