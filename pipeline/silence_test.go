package pipeline

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hafvf/internal/testing/expect"
)

// stampOf returns the time of a minute since start.
func stampOf(minute int) string {
	return start.Add(time.Duration(minute) * time.Minute).Format(time.RFC3339)
}

// In a file, a gap is reported as a silence, at the time at which it exceeded the bound, and as the key's recovery.
// Keys that are silent at the last record of any key are reported at the end of the file, once. A run on the grown file
// reports the recovery of one of them.
func TestSilenceAlerts(t *testing.T) {
	var lines []string
	record := func(key string, minute int) {
		lines = append(lines, fmt.Sprintf("{\"key\":%q,\"time\":%q,\"x\":1}\n", key, stampOf(minute)))
	}
	for i := range 300 {
		record("a", i)
		if i < 100 || i >= 160 && i < 280 {
			record("b", i)
		}
		if i < 290 {
			record("c", i)
		}
	}
	dir := t.TempDir()
	path, alertsPath := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "alerts.jsonl")
	text := "model: {family: normal}\nsource: {jsonl: {path: " + path + ", zone: Europe/Berlin}}\nalerts: {jsonl: {path: " + alertsPath + "}}\nstate: " + filepath.Join(dir, "states.bin") + "\nsilence: {after: 15m}\n"
	type alert struct{ Key, Time, Kind, ID, Start, Message string }
	run := func() (int64, []alert) {
		t.Helper()
		save(t, path, lines...)
		s, _, _ := runConfig(t, text)
		return s.Silences, parse[alert](t, readLines(t, alertsPath))
	}
	clock := func(minute int) string {
		return start.Add(time.Duration(minute) * time.Minute).In(berlin(t)).Format("2006-01-02 15:04")
	}
	silent := func(key string, begin int) alert {
		message := key + " silent since " + clock(begin) + " (15 min): the limit is 15 min."
		return alert{key, stampOf(begin + 15), "silent", key + "/" + stampOf(begin+15), stampOf(begin), message}
	}
	back := func(key string, begin, end, line int, lasted string) alert {
		message := key + " back at " + clock(end) + ", after " + lasted + " of silence."
		return alert{key, stampOf(end), "recovered", fmt.Sprint("in.jsonl:", line), stampOf(begin), message}
	}
	silences, got := run()
	want := []alert{silent("b", 99), back("b", 99, 160, 422, "1 h 1 min"), silent("b", 279)}
	if diff := cmp.Diff(want, got); diff != "" || silences != 2 {
		t.Errorf("%d silences; (-want +got) %s", silences, diff)
	}
	record("a", 320) // c has been silent since 289 and has no further record
	record("b", 320)
	silences, got = run()
	want = []alert{
		silent("a", 299), back("a", 299, 320, len(lines)-1, "21 min"), back("b", 279, 320, len(lines), "41 min"), silent("c", 289),
	}
	byKey := func(x, y alert) int { return strings.Compare(x.Key+x.Time, y.Key+y.Time) }
	slices.SortFunc(got, byKey)
	if diff := cmp.Diff(want, got); diff != "" || silences != 2 {
		t.Errorf("the grown file: %d silences; (-want +got) %s", silences, diff)
	}
	silences, got = run() // the alerts of the previous run stay
	slices.SortFunc(got, byKey)
	if diff := cmp.Diff(want, got); diff != "" || silences != 0 {
		t.Errorf("the same file again: %d silences; (-want +got) %s", silences, diff)
	}
}

// A rejected record moves the clock of a file and is no sign of life. A key whose records are all rejected from some time on
// is silent, and the alert has the reason. The summary names it. A rejected record with a time ahead of the clock or
// without a key changes nothing, and other keys have the same estimates.
func TestSilenceOfRejectedRecords(t *testing.T) {
	dir := t.TempDir()
	path, alertsPath := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "alerts.jsonl")
	text := "model: {family: normal}\nsource: {jsonl: {path: " + path + "}}\nalerts: {jsonl: {path: " + alertsPath + "}}\nsilence: {after: 15m}\n"
	record := func(key string, at time.Time, x string) string {
		return fmt.Sprintf("{\"key\":%q,\"time\":%q,\"x\":%s}\n", key, at.Format(time.RFC3339), x)
	}
	const object, why = `{"value":1}`, "an object where a number is due."
	type result struct {
		Alerts, Keys, Estimates []string
		Rejected                int64
	}
	run := func(until, good int, more ...string) (r result) {
		t.Helper()
		lines := slices.Clone(more)
		for i := range max(until, good) {
			at, x := start.Add(time.Duration(i)*time.Minute), map[bool]string{true: "1", false: object}[i < 100]
			if i < until {
				lines = append(lines, record("a", at, x), record("b", at, x))
			}
			if i < good {
				lines = append(lines, record("c", at, "1"))
			}
		}
		save(t, path, lines...)
		s, estimates, _ := runConfig(t, text)
		for _, a := range parse[struct{ Time, Kind, Message string }](t, trimmed(readLines(t, alertsPath))) {
			r.Alerts = append(r.Alerts, a.Time+" "+a.Kind+" "+a.Message)
		}
		type estimate struct {
			Key, Time string
			N         int
			Weight    float64
		}
		for _, e := range parse[estimate](t, estimates) { // of c, without the place, which depends on the rejected records
			if e.Key == "c" {
				r.Estimates = append(r.Estimates, fmt.Sprint(e))
			}
		}
		if r.Rejected, r.Keys = s.Rejected, s.RejectedKeys; !strings.Contains(s.String(), strings.Join(s.RejectedKeys, ", ")) {
			t.Errorf("the summary names no %s: %s", s.RejectedKeys, s)
		}
		return r
	}
	silent := func(key string, last, n int) string {
		since := start.Add(time.Duration(last) * time.Minute).Format("2006-01-02 15:04")
		text := fmt.Sprintf("%s silent %s silent since %s (15 min): the limit is 15 min.", stampOf(last+15), key, since)
		if n > 0 {
			text += fmt.Sprintf(" %d records were rejected since then: %s", n, why)
		}
		return text
	}
	for name, test := range map[string]struct {
		until, good int
		more        []string
		want        result
	}{
		"before the limit": {114, 100, nil, result{nil, []string{"a (14)", "b (14)"}, nil, 28}},
		"all keys":         {300, 0, nil, result{[]string{silent("a", 99, 200), silent("b", 99, 200)}, []string{"a (200)", "b (200)"}, nil, 400}},
		"beside a good key": {300, 300, []string{record("d", start, object), record("d", start, "1"), record("e", start, object)},
			result{[]string{silent("a", 99, 200), silent("b", 99, 200), silent("d", 0, 0)}, []string{"a (200)", "b (200)", "e (1)"}, nil, 402}},
		"without a key":       {100, 100, []string{`{"time":"` + stampOf(300) + `","x":{}}` + "\n"}, result{nil, nil, nil, 1}},
		"far ahead":           {100, 100, []string{record("z", time.Now().AddDate(30, 0, 0), object)}, result{nil, []string{"z (1)"}, nil, 1}},
		"far ahead, accepted": {100, 100, []string{record("z", time.Now().AddDate(30, 0, 0), "1")}, result{nil, nil, nil, 0}},
	} {
		got := run(test.until, test.good, test.more...)
		good := got.Estimates
		got.Estimates = nil
		slices.Sort(got.Alerts)
		slices.Sort(test.want.Alerts)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: (-want +got) %s", name, diff)
		}
		if diff := cmp.Diff(run(0, max(test.good, 1)).Estimates[:test.good], good, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: c alone: (-want +got) %s", name, diff)
		}
	}
}

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone := expect.Get(time.LoadLocation("Europe/Berlin"))(t)
	return zone
}

// In a topic, a silence is reported while it lasts, once, also after a restart on a topic without new records. Its end
// is reported once.
func TestKafkaSilence(t *testing.T) {
	expect.Waits(t, "clocks")
	b := fakeBus(t, 2, "alerts", "out")
	text := b.config("group: g, changelog: states", "records: brief\nsilence: {after: 1s}\nalerts: {kafka: {topic: alerts}}\n")
	now := time.Now().UTC().Truncate(time.Second)
	stamp := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	line := func(key string, d time.Duration) string {
		return fmt.Sprintf("{\"key\":%q,\"time\":%q,\"x\":1}", key, stamp(d))
	}
	const far = time.Hour // a key with a record at this time is not silent before it
	b.put(t, line("a", -4*time.Second), line("a", -3*time.Second), line("c", far))

	r := launch(t, compose(t, text))
	b.await(t, "alerts", 1, r)
	b.put(t, line("a", far))
	b.await(t, "alerts", 2, r)
	// Mostly the run stops before d is silent, and the next run reports it.
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
	for _, a := range parse[struct{ Key, Time, Kind, ID, Message string }](t, b.values(t, "alerts")) {
		if a.Kind == "recovered" {
			a.ID = "" // its partition depends on a hash
		}
		got = append(got, fmt.Sprint(a.Key, " ", a.Kind, " ", a.Time, " ", a.ID))
	}
	silent := func(key string, d time.Duration) string {
		return fmt.Sprint(key, " silent ", stamp(d), " ", key, "/", stamp(d))
	}
	recovered := func(key string) string { return fmt.Sprint(key, " recovered ", stamp(far), " ") }
	want := []string{
		silent("a", -2*time.Second), recovered("a"), silent("d", 3*time.Second), recovered("d"), silent("e", -4*time.Second), recovered("e"),
	}
	slices.Sort(got)
	slices.Sort(want)
	equal(t, want, got)
}
