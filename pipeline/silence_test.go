package pipeline

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// In a file a gap is told: that the key fell silent, dated when the bound was passed, and
// that it spoke again. The end of the input is no silence.
func TestSilenceIsTold(t *testing.T) {
	var lines []string
	for i := range 300 {
		for _, key := range []string{"a", "b"} {
			if key == "b" && i >= 100 && i < 160 || key == "a" && i > 250 {
				continue
			}
			lines = append(lines, fmt.Sprintf("{\"key\":%q,\"time\":%q,\"x\":1}\n", key, start.Add(time.Duration(i)*time.Minute).Format(time.RFC3339)))
		}
	}
	path, told := write(t, "in.jsonl", lines...), filepath.Join(t.TempDir(), "alerts.jsonl")
	run := func(text string) (s Summary, alerts []map[string]any) {
		s, _, _ = runConfig(t, "model: {family: normal}\nsource: {jsonl: {path: "+path+"}}\nalerts: {jsonl: {path: "+told+"}}\n"+text)
		for _, line := range readLines(t, told) {
			var a map[string]any
			if line == "" {
				continue
			}
			if err := json.Unmarshal([]byte(line), &a); err != nil {
				t.Fatal(err)
			}
			alerts = append(alerts, a)
		}
		return s, alerts
	}
	at := func(minute int) string { return start.Add(time.Duration(minute) * time.Minute).Format(time.RFC3339) }
	none := map[string]any{"mean": nil, "sd": nil}
	alert := func(kind string, minute int, id, message string) map[string]any {
		return map[string]any{
			"key": "b", "time": at(minute), "kind": kind, "id": id, "corrects": nil, "start": at(99), "delay": 0., "odds": nil,
			"score": nil, "x": nil, "predicted": none, "size": nil, "before": none, "after": none, "message": message,
		}
	}
	s, got := run("silence: {after: 15m}\n")
	want := []map[string]any{
		alert("silent", 114, "b/"+at(114), "b: nothing has come since "+at(99)+", for more than 15m0s."),
		alert("recovered", 160, "in.jsonl:262", "b: it speaks again, after 1h1m0s."),
	}
	if diff := cmp.Diff(want, got); diff != "" || s.Silences != 1 {
		t.Errorf("%d silences; (-want +got) %s", s.Silences, diff)
	}
	if s, got := run("silence: true\ndetect: true\n"); s.Silences != 1 || len(got) != 2 {
		t.Errorf("by its own rhythm: %d silences, alerts %v", s.Silences, got)
	}
}

// On a topic a silence is told while it lasts, once, also over a restart on a topic in
// which nothing comes, and its end is told once.
func TestKafkaSilence(t *testing.T) {
	b := fakeBus(t, 2)
	b.CreateTopic(t, "alerts", 1, nil)
	b.CreateTopic(t, "out", 1, nil)
	text := b.config("group: g, changelog: states", "records: brief\nsilence: {after: 1s}\nalerts: {kafka: {topic: alerts}}\n")
	now := time.Now().UTC().Truncate(time.Second)
	at := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	line := func(key string, d time.Duration) string {
		return fmt.Sprintf("{\"key\":%q,\"time\":%q,\"x\":1}", key, at(d))
	}
	const far = time.Hour // a key that has spoken of that hour is not silent before
	b.put(t, line("a", -4*time.Second), line("a", -3*time.Second), line("c", far))

	r := launch(t, compose(t, text))
	b.await(t, "alerts", 1, r)
	b.put(t, line("a", far))
	b.await(t, "alerts", 2, r)
	// Mostly the run has stopped before d is silent, and the next one tells it.
	b.put(t, line("d", 2*time.Second), line("e", -5*time.Second))
	b.await(t, "alerts", 3, r) // e
	silences := r.halt(t).Silences

	r = launch(t, compose(t, text))
	b.await(t, "alerts", 4, r)
	b.put(t, line("d", far), line("e", far))
	b.await(t, "alerts", 6, r)
	silences += r.halt(t).Silences

	r = launch(t, compose(t, text))
	b.put(t, line("f", far))
	b.await(t, "out", 9, r)
	silences += r.halt(t).Silences
	equal(t, int64(3), silences)

	var got []string
	for _, line := range b.values(t, "alerts") {
		var a struct{ Key, Time, Kind, ID, Message string }
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		if a.Kind == "recovered" {
			a.ID = "" // its partition is the hash's
		}
		got = append(got, fmt.Sprint(a.Key, " ", a.Kind, " ", a.Time, " ", a.ID))
	}
	silent := func(key string, d time.Duration) string {
		return fmt.Sprint(key, " silent ", at(d), " ", key, "/", at(d))
	}
	recovered := func(key string) string { return fmt.Sprint(key, " recovered ", at(far), " ") }
	want := []string{
		silent("a", -2*time.Second), recovered("a"), silent("d", 3*time.Second), recovered("d"), silent("e", -4*time.Second), recovered("e"),
	}
	slices.Sort(got)
	slices.Sort(want)
	equal(t, want, got)
}

// An observation that waits when a run ends is released by the next one, also where
// nothing more comes.
func TestKafkaWaitsOverARestart(t *testing.T) {
	b := fakeBus(t, 1)
	b.CreateTopic(t, "out", 1, nil)
	text := b.config("group: g, changelog: states", "lateness: 3s\n")
	soon := time.Now().UTC().Add(2 * time.Second).Format(time.RFC3339Nano)
	b.put(t, fmt.Sprintf("{\"key\":\"a\",\"time\":%q,\"x\":1}", soon), fmt.Sprintf("{\"key\":\"b\",\"time\":%q,\"x\":1}", soon))
	r := launch(t, compose(t, text))
	b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
	r.halt(t)
	r = launch(t, compose(t, text))
	b.await(t, "out", 2, r)
	r.halt(t)
	equal(t, 2, len(b.values(t, "out")))
}
