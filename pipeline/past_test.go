package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// pastSettings are settings of a previous run, and settings under which its states keep none or only a part of their
// meaning.
var pastSettings = []struct{ name, before, after, cost string }{
	{"family", "model: {family: ar}\ndetect: true\n", "model: {family: normal, prior: auto}\ndetect: true\n", "nothing kept, it has another model.family"},
	{"detect", "model: {family: normal, prior: auto}\n", "model: {family: normal, prior: auto}\ndetect: {settling: 0}\nincidents: true\n", "samples and levels kept; shares, detection and alarms start over"},
	{"aggregate", "model: {family: normal, prior: auto}\ndetect: true\n", "model: {family: normal, prior: auto}\ndetect: true\naggregate: {every: 30s, value: mean}\n", "it has another aggregate"},
}

// A run of a file whose states cannot be migrated completely learns from the part that the previous run has read,
// without output. It then continues as if it had always had the new settings.
func TestFileLearnsPast(t *testing.T) {
	t.Parallel()
	lines := observations(900, 3)
	for _, c := range pastSettings {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			in, state := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "states")
			run := func(n int, settings, state string, migrate bool) (records, alerts string) {
				save(t, in, lines[:n]...)
				out, alertsPath := filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "alerts.jsonl")
				g := compose(t, settings+"source: {jsonl: {path: "+in+"}}\nstate: "+state+"\nsink: {jsonl: {path: "+out+"}}\n"+alerting(settings, alertsPath))
				expect.Get(Run{Graph: g, Migrate: migrate}.Execute(t.Context(), nil))(t)
				b, _ := os.ReadFile(alertsPath)
				return string(expect.Get(os.ReadFile(out))(t)), string(b)
			}
			run(600, c.after, state+"2", false)
			records, alerts := run(900, c.after, state+"2", false)
			run(600, c.before, state, false)
			says, err := CheckStates(t.Context(), compose(t, c.after+"source: {jsonl: {path: "+in+"}}\nsink: none\nstate: "+state+"\n"), state, quiet)
			if err != nil || !strings.Contains(says, c.cost) || !strings.Contains(says, "from the past, 600 records of "+in) {
				t.Errorf("%s, %v", says, err)
			}
			gotRecords, gotAlerts := run(900, c.after, state, true)
			if gotRecords != records || gotAlerts != alerts {
				t.Errorf("%d bytes of records and %d of alerts, want %d and %d", len(gotRecords), len(gotAlerts), len(records), len(alerts))
			}
		})
	}
}

// A run of topics learns from their beginning to the offsets of its group. It stores the learned states in the
// changelog: the next run does not need Migrate.
func TestTopicLearnsPast(t *testing.T) {
	t.Parallel()
	var lines []string
	for i, line := range observations(900, 3) {
		if i < 300 || i >= 750 || !strings.Contains(line, "k2") { // silent in between
			lines = append(lines, line)
		}
	}
	settings := slices.Clone(pastSettings)
	settings = append(settings, settings[0])
	last := &settings[len(settings)-1]
	last.name, last.after = "silence", last.after+"silence: {after: 1m}\n"
	for _, bounded := range []bool{true, false} {
		for _, c := range settings {
			t.Run(fmt.Sprintf("%s, bounded %t", c.name, bounded), func(t *testing.T) {
				if !bounded {
					expect.Long(t, "runs that wait for commits")
				}
				t.Parallel()
				b := fakeBus(t, 1, "out", "told", "out2", "told2")
				text := func(settings, n string) string {
					if strings.Contains(settings, "detect") {
						settings += "alerts: {kafka: {topic: told" + n + "}}\n"
					}
					options := fmt.Sprintf("group: g%s, changelog: states%s, bounded: %t", n, n, bounded)
					return strings.NewReplacer("model: {family: normal}\n", "", "topic: out", "topic: out"+n).Replace(b.config(options, settings))
				}
				run := func(settings, n string, migrate bool) {
					r := launchRun(t, Run{Graph: compose(t, text(settings, n)), Migrate: migrate})
					if !bounded {
						b.committed(t, "g"+n, r, func(lag int64) bool { return lag == 0 })
						r.halt(t)
					}
					r.ends(t)
					expect.OK(t, r.err)
				}
				b.put(t, lines[:600]...)
				run(c.before, "", false)
				run(c.after, "2", false)
				after := map[string]int{}
				for _, topic := range []string{"out", "out2", "told", "told2"} {
					after[topic] = len(b.values(t, topic))
				}
				b.put(t, lines[600:700]...)
				says, err := CheckStates(t.Context(), compose(t, text(c.after, "")), "", quiet)
				if err != nil || !strings.Contains(says, c.cost) || !strings.Contains(says, "from the past, 600 records of in,") {
					t.Errorf("%s, %v", says, err)
				}
				run(c.after, "", true)
				run(c.after, "2", false)
				b.put(t, lines[700:]...)
				run(c.after, "", false)
				run(c.after, "2", false)
				later := func(topic string) []string {
					if bounded {
						return b.values(t, topic)[after[topic]:]
					}
					// Records that wait for the watermark at the end of a run are written by the next run.
					return slices.DeleteFunc(b.values(t, topic), func(line string) bool { return timeOf(t, line).Before(timeOf(t, lines[600])) })
				}
				checkEqual := func(want, got []string) {
					if !bounded { // but not after the last run
						n := min(len(want), len(got))
						want, got = want[:n], got[:n]
					}
					expect.Same(t, strings.Join(want, ""), strings.Join(got, ""))
				}
				checkEqual(later("out2"), later("out"))
				checkEqual(later("told2"), later("told"))
				if bounded && after["told2"] == 0 && c.name != "family" && c.name != "aggregate" || len(later("out")) == 0 {
					t.Errorf("%v, and %d later", after, len(later("out")))
				}
			})
		}
	}
}

// timeOf returns the time of a record.
func timeOf(t testing.TB, line string) time.Time {
	var record struct{ Time time.Time }
	expect.OK(t, json.Unmarshal([]byte(line), &record))
	return record.Time
}

// alerting returns the config that writes the alerts of settings with detect to a file.
func alerting(settings, path string) string {
	if !strings.Contains(settings, "detect") {
		return ""
	}
	return "alerts: {jsonl: {path: " + path + "}}\n"
}

// A query learns from its start to the end of the previous run. If learning is aborted, the file of states is
// unchanged, and the next run learns again.
func TestQueryLearnsPast(t *testing.T) {
	expect.Waits(t, "answers of a server")
	dir := t.TempDir()
	begin := time.Now().Add(-40 * time.Hour).UTC().Truncate(time.Minute)
	end := begin.Add(2390 * time.Minute) // final, with a point in each series
	o := &oracle{series: threeWaves(begin), maxSteps: 100}
	url := o.serve(t)
	state, out := filepath.Join(dir, "states"), filepath.Join(dir, "out.jsonl")
	text := func(settings, extra string) string {
		return settings + fmt.Sprintf("source: {prometheus: {url: %q, query: load, start: %s%s}}\n", url, begin.Format(time.RFC3339), extra)
	}
	goesOn := func(settings string) string {
		return text(settings, "") + "state: " + state + "\nsink: {jsonl: {path: " + out + "}}\ndead_letter: {jsonl: {path: " + filepath.Join(dir, "dead.jsonl") + "}}\n"
	}
	lines := func() int {
		b, _ := os.ReadFile(out)
		return strings.Count(string(b), "\n")
	}
	enough := func() bool { return lines() > 3000 }
	o.heard = func(int) {
		if enough() { // the run has to stop before it has read everything
			time.Sleep(time.Second)
		}
	}
	expect.OK(t, watchQuery(t, goesOn("model: {family: ar}\n"), false, enough))
	before, stored := lines(), expect.Get(os.ReadFile(state))(t)

	const after = queryConfig + "incidents: true\n"
	g := compose(t, goesOn(after))
	ctx, abort := context.WithCancel(t.Context())
	o.mu.Lock()
	o.heard = func(asked int) { // while it learns
		if asked == 8 {
			abort()
		}
	}
	o.asked = 0
	o.mu.Unlock()
	if _, err := (Run{Graph: g, Migrate: true}).Execute(ctx, nil); err == nil {
		t.Error("an aborted learning has no error")
	}
	if current := expect.Get(os.ReadFile(state))(t); !bytes.Equal(current, stored) || lines() != before {
		t.Errorf("an aborted learning has changed the states, or written %d records", lines()-before)
	}

	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := Run{Graph: g, Migrate: true}.Execute(t.Context(), stop)
		done <- err
	}()
	expect.Soon(t, "the present", func() bool {
		b, _ := os.ReadFile(out)
		return strings.Count(string(b), end.Format(`"time":"`+time.RFC3339)) == 3
	})
	close(stop)
	expect.OK(t, <-done)
	_, want, _ := runConfig(t, text(after, ", bounded: true"))
	expected := byPlace(t, want, end)
	got := byPlace(t, readLines(t, out)[before:], end)
	for place, record := range got {
		if expected[place] != record {
			t.Fatalf("%s\ninstead of\n%s", record, expected[place])
		}
	}
	if n := len(expected) - before; len(got) != n {
		t.Errorf("%d records after those of the run before, want %d", len(got), n)
	}
}
