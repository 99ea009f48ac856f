package pipeline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/fleet"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
	"hafvf/pipeline/settings"
	"hafvf/transforms"
)

// Keys with detect: false or alerts: false send no alerts and join no incident. The records of all keys equal those of
// a run without the rules, except for the alarms of keys with detect: false.
func TestRulesByKey(t *testing.T) {
	expect.Long(t, "ten days of a fleet")
	t.Parallel()
	type line struct {
		Key, Kind string
		Members   []struct{ Key string }
	}
	in := write(t, "in.jsonl", fleetLines(start)...)
	run := func(rules string) (records []string, alerts []line) {
		dir := t.TempDir()
		out, alertsPath := filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "alerts.jsonl")
		expect.Get(Run{Graph: compose(t, fleetConfig+rules+"source: {jsonl: {path: "+in+"}}\nsink: {jsonl: {path: "+out+"}}\nalerts: {jsonl: {path: "+alertsPath+"}}\n")}.Execute(t.Context(), nil))(t)
		records = strings.Split(strings.TrimSpace(string(expect.Get(os.ReadFile(out))(t))), "\n")
		for text := range strings.Lines(string(expect.Get(os.ReadFile(alertsPath))(t))) {
			var l line
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				t.Fatal(err)
			}
			alerts = append(alerts, l)
		}
		slices.Sort(records)
		return records, alerts
	}
	undetected := func(key string) bool { return strings.HasPrefix(key, "s0/r1") }
	unalerted := func(key string) bool { return undetected(key) || strings.HasPrefix(key, "s1/") && key != "s1/r0:m1" }
	contains := func(lines []line, matches func(string) bool) bool {
		return slices.ContainsFunc(lines, func(l line) bool {
			return l.Kind != incidents.Kind && matches(l.Key) || slices.ContainsFunc(l.Members, func(m struct{ Key string }) bool { return matches(m.Key) })
		})
	}
	plain, lines := run("")
	ruled, partial := run("keys: [{match: \"s0/r1*\", detect: false}, {match: \"s1/r0:m1\", alerts: true}, {match: \"s1/*\", alerts: false}]\n")
	alerted := func(key string) bool { return !unalerted(key) }
	if !contains(lines, undetected) || !contains(lines, func(key string) bool { return strings.HasPrefix(key, "s1/") }) {
		t.Error("without rules nothing is told of these keys")
	}
	if contains(partial, unalerted) || !contains(partial, alerted) {
		t.Error("told of keys of which nobody is to be told, or of no other")
	}
	detected := func(line string) bool { return strings.Contains(line, `"s0/r1`) }
	if diff := cmp.Diff(slices.DeleteFunc(slices.Clone(plain), detected), slices.DeleteFunc(slices.Clone(ruled), detected)); diff != "" {
		t.Errorf("records (-plain +ruled)\n%.2000s", diff)
	}
	for i := range plain {
		var a, b struct {
			ID              string
			Mean, Predicted any
		}
		if err := json.Unmarshal([]byte(plain[i]), &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(ruled[i]), &b); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("(-plain +ruled)\n%s", diff)
		}
	}
}

// A silent key with detect: false joins no incident.
func TestSilenceOfUndetected(t *testing.T) {
	switches := encoding{Alone: settings.Switches{{Match: "a*", On: true}}, Alerted: settings.Switches{{Match: "ab"}}}
	e := &encoder{encoding: switches, run: &run{}, observer: (&run{}).observer()}
	e.Layout.Incidents = true
	s := keyed.SilenceEvent{Silence: keyed.Silence{Since: start, Bound: time.Hour}, Outputs: 1}
	for key, want := range map[string][]byte{
		"a": fleet.AppendAlone(nil, "a", s.Alerts("a")), "b": fleet.AppendNotices(nil, "b", nil, s.Alerts("b")), "ab": nil,
	} {
		var dst transforms.Encoded
		if e.Silent(&dst, key, s); !slices.Equal(dst.Alerts, want) {
			t.Errorf("%s: %q, want %q", key, dst.Alerts, want)
		}
	}
}

// An incident goes to a receiver if a member matches keys and does not match except.
func TestExcept(t *testing.T) {
	r := receiver{Choice: config.Choice{Kinds: []string{incidents.Kind}, Keys: "s0/*", Except: "s0/test*"}}
	for want, keys := range map[bool][][]string{true: {{"s0/a"}, {"s0/test1", "s0/a"}}, false: {{"s0/test1"}, {"s0/test1", "s1/a"}, {}}} {
		for _, members := range keys {
			e := incidents.Event{State: incidents.Opened, Group: "s0/r1"}
			for _, key := range members {
				e.Members = append(e.Members, incidents.Member{Key: key})
			}
			if r.wantsIncident(&e) != want {
				t.Errorf("%v: want %t", members, want)
			}
		}
	}
}
