package pipeline

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
)

// An observer sees every estimate and all alerts in the file of alerts, with and without incidents, including keys that
// are silent at the end.
func TestObserverSeesWrittenRecords(t *testing.T) {
	expect.Long(t, "ten days of a fleet")
	t.Parallel()
	dir := t.TempDir()
	lines := fleetLines(start)
	for i := range lines { // a key ends early
		if i > len(lines)/2 && strings.Contains(lines[i], `"s1/r2:m4"`) {
			lines[i] = ""
		}
	}
	in := filepath.Join(dir, "in.jsonl")
	save(t, in, lines...)
	for _, set := range []string{"incidents=true", "incidents=false"} {
		alerts := filepath.Join(dir, set)
		g := compose(t, fleetConfig+"source: {jsonl: {path: "+in+"}}\nsink: none\nalerts: {jsonl: {path: "+alerts+"}}\n", set)
		type name struct{ kind, key, id string }
		var mu sync.Mutex
		heard, assigned, events, estimates := map[name]string{}, map[name]string{}, 0, int64(0)
		s, err := Run{Graph: g, Observer: &Observer{
			Alert: func(key string, event keyed.AlertEvent, incident string) {
				mu.Lock()
				defer mu.Unlock()
				if !g.Sends(event) {
					return
				}
				n := name{event.Kind, key, event.ID}
				if _, ok := heard[n]; !ok || assigned[n] != incident {
					t.Errorf("%+v is of incident %q, and assigned to %q", n, incident, assigned[n])
				}
				heard[n] = incident
			},
			Assigned: func(a incidents.Assignment) { assigned[name{a.Kind, a.Key, a.ID}] = a.Incident },
			Incident: func(*incidents.Event) { events++ },
			Estimate: func(key string, e *keyed.Estimate, alerts []keyed.AlertEvent) {
				mu.Lock()
				defer mu.Unlock()
				if e != nil {
					estimates++
				}
				for _, t := range alerts {
					if g.Sends(t) {
						heard[name{t.Kind, key, t.ID}] = ""
					}
				}
			},
		}}.Execute(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, s.Records, estimates)
		silent := false
		for _, a := range parse[struct{ Kind, Key, ID, Incident string }](t, readLines(t, alerts)) {
			silent = silent || a.Kind == keyed.SilentAlarm
			if a.Kind == incidents.Kind {
				events--
				continue
			}
			n := name{a.Kind, a.Key, a.ID}
			if incident, ok := heard[n]; !ok || incident != a.Incident {
				t.Errorf("%s: %+v of incident %q, heard %q", set, n, a.Incident, incident)
			}
			delete(heard, n)
		}
		if len(heard) > 0 || events != 0 || !silent {
			t.Errorf("%s: %d alarms and %d events that are not in the file; silences: %t", set, len(heard), events, silent)
		}
	}
}
