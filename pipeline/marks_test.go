package pipeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/connectors"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/records"
	"hafvf/pipeline/statebackend"
)

// spikes returns a week of hourly observations of each key, with the value x at hour 100.
func spikes(week int, x float64, keys ...string) (lines []string) {
	rng := rand.New(rand.NewPCG(82, uint64(week)))
	for i := range 7 * 24 {
		for _, key := range keys {
			v := rng.NormFloat64()
			if i == 100 {
				v = x
			}
			lines = append(lines, event{key, start.Add(time.Duration(week*7*24+i) * time.Hour), v}.json())
		}
	}
	return lines
}

// markOf returns the mark of the alarm in an alert's line, as hafvf mark writes it.
func markOf(t *testing.T, alert, mark string) records.Mark {
	t.Helper()
	a := unmarshalled[struct {
		ID, Key     string
		Time, Start time.Time
		Size        float64
	}](t, alert)
	side := records.Above
	if a.Size < 0 {
		side = records.Below
	}
	return records.Mark{ID: a.ID, Mark: mark, Key: &a.Key, Time: a.Time, Start: a.Start, Side: side, Size: a.Size}
}

// A false mark suppresses similar alarms in the next run, for four budgets from the first record after it was read. The
// run that raised the alarm may have no marks in its config. The stored marks are removed with marks in the config, and
// former alarms always.
func TestMarksOfFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	text := fmt.Sprintf("model: {family: normal}\ndetect: {settling: 0s}\nsource: {jsonl: {path: %s}}\nsink: none\nstate: %s\n", in("in*.jsonl"), in("states"))
	marks := "marks: {jsonl: {path: " + in("marks.jsonl") + "}}\n"
	var lines []string
	run := func(text string) (alarms []string, s Summary) {
		t.Helper()
		s = runWell(t, text+fmt.Sprintf("alerts: {jsonl: {path: %s}, kinds: [novelty, change]}\ndead_letter: {jsonl: {path: %s}}\n", in("alerts.jsonl"), in("dead.jsonl")))
		lines = trimmed(readLines(t, in("alerts.jsonl")))
		for _, line := range lines {
			alarms = append(alarms, unmarshalled[struct{ ID string }](t, line).ID)
		}
		return alarms, s
	}
	save(t, in("in0.jsonl"), spikes(0, 0, "a", "b")...)
	save(t, in("in1.jsonl"), spikes(1, 20, "a", "b")...)
	alarms, _ := run(text)
	if len(alarms) != 2 {
		t.Fatalf("alarms %v", alarms)
	}
	save(t, in("marks.jsonl"), string(records.Lines([]records.Mark{markOf(t, lines[0], "false"), markOf(t, lines[1], "true")})))
	save(t, in("in2.jsonl"), spikes(2, 20, "a", "b")...)
	states := expect.Get(statebackend.OpenFile(in("states"), compose(t, text).transform.(filtering).store(false, quiet)))(t)
	states.Memory.Reserved[statestore.FormerAlarmsKey] = []byte("[]")
	expect.OK(t, states.Commit())
	states.Close()
	repeated, s := run(text + marks)
	equal(t, []string{strings.Replace(alarms[1], "in1", "in2", 1)}, repeated)
	if !strings.Contains(s.String(), "\n2 marks: 1 false, 1 true\n") {
		t.Errorf("%s", s)
	}
	save(t, in("in3.jsonl"), spikes(3, 50, "a", "b")...) // more than twice the deviation
	repeated, s = run(text + marks)
	if len(repeated) != 2 || s.Marks != "2 marks: 1 false, 1 true" {
		t.Errorf("alarms %v, %s", repeated, s.Marks)
	}
	keys := func() []string { return slices.Sorted(maps.Keys(storedIn(t, in("states")))) }
	equal(t, []string{statestore.MarksKey, "a", "b"}, keys())
	save(t, in("in4.jsonl"), spikes(4, 0, "a", "b")...)
	run(text)
	equal(t, []string{"a", "b"}, keys())
}

// Invalid marks and marks of an earlier version are written to the dead letter once, cut to the maximum length. The first
// maxMarksLogged are logged one by one, the others are counted. A file may start with a byte order mark, and lines may
// be longer than this length.
func TestMarksOfNoUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dead := filepath.Join(dir, "dead.jsonl")
	line := func(i int, note string) string {
		return fmt.Sprintf("{\"id\":\"x%d\",\"mark\":\"false\",\"time\":\"2026-01-01T00:00:00Z\",\"note\":%q}\n", i, note)
	}
	lines := []string{"\ufeff" + line(0, strings.Repeat("n", maxMarkBytes/2)), line(1, strings.Repeat("n", 3*maxMarkBytes))}
	for i := range 30 {
		lines = append(lines, line(2+i, ""))
	}
	lines = append(lines,
		strings.Replace(line(32, ""), `"note"`, `"key":"a b","note"`, 1), strings.Replace(line(33, ""), `"note"`, `"who"`, 1),
		"{\"id\":\"x\",\"mark\":\"wrong\",\"time\":\"2026-01-01T00:00:00Z\"}\n", "{\"id\":\"x\",\"mark\":\"false\"}\n", "\n", "{\"id\":\"x\"")
	marks := write(t, "marks.jsonl", lines...)
	text := fmt.Sprintf("model: {family: normal}\ndetect: true\nsource: {jsonl: {path: %s}}\nsink: none\n"+
		"marks: {jsonl: {path: %s}}\ndead_letter: {jsonl: {path: %s}}\nstate: %s\n",
		write(t, "in.jsonl", spikes(0, 0, "a")...), marks, dead, filepath.Join(dir, "states"))
	log := &aLog{}
	expect.Get(Run{Graph: compose(t, text), Log: log.logger()}.Execute(t.Context(), nil))(t)
	logged := log.contains("more marks rejected, written to the dead letter\" marks=26")
	if n := strings.Count(log.b.String(), "mark rejected"); n != maxMarksLogged || !logged() {
		t.Errorf("%d lines: %s", n, &log.b)
	}
	reasons := map[string]string{}
	for _, reject := range trimmed(readLines(t, dead)) {
		r := unmarshalled[struct{ Place, Reason, Raw string }](t, reject)
		reasons[filepath.Base(r.Place)] = r.Reason
		if len(r.Raw) > connectors.MaxRaw {
			t.Errorf("%s: %d bytes", r.Place, len(r.Raw))
		}
	}
	want := map[string]string{}
	for i := range 32 {
		want[fmt.Sprint("marks.jsonl:", i+1)] = fmt.Sprintf("the mark is of an earlier version, without key and start of its alarm: mark the alarm again with hafvf mark ALERTS x%d false, where ALERTS is the file of its alert", i)
	}
	want["marks.jsonl:2"] = "the mark is longer than 64 kB"
	want["marks.jsonl:33"] = strings.Replace(want["marks.jsonl:32"], "x31 false", "x32 false --key 'a b'", 1)
	want["marks.jsonl:34"] = `the mark is not a mark: json: unknown field "who"`
	want["marks.jsonl:35"] = `the mark is not a mark: mark: unknown value "wrong": use one of false, true, expected`
	want["marks.jsonl:36"] = "the mark is not a mark: time: missing; it is required"
	expect.Same(t, want, reasons)
	save(t, dead)
	runWell(t, text)
	equal(t, []string(nil), trimmed(readLines(t, dead)))
}

// The latest mark of an alarm applies. Marks of an earlier version, in a stored state, act from their time on.
func TestMarkRegistry(t *testing.T) {
	m := &markRegistry{}
	for _, test := range []struct {
		key, id, mark, side string
		size                float64
		want                string
	}{
		{"a", "1", "false", records.Above, 5, "a: 5"},
		{"b", "1", "false", records.Below, -6, "a: 5, b: -6"},
		{"b", "2", "false", records.Below, -7, "a: 5, b: -6, b: -7"},
		{"a", "1", "true", records.Above, 5, "b: -6, b: -7"},
		{"a", "3", "false", "", 0, "b: -6, b: -7"}, // of a silence
		{"b", "1", "false", records.Below, -8, "b: -7, b: -8"},
	} {
		expect.OK(t, m.addMark(records.Mark{ID: test.id, Mark: test.mark, Time: start, Key: &test.key, Start: start, Side: test.side, Size: test.size}))
		var got []string
		falseMarks := m.falseMarks()
		for _, key := range []string{"a", "b"} {
			for _, f := range falseMarks[key] {
				got = append(got, fmt.Sprintf("%s: %g", key, f.Size))
			}
		}
		equal(t, test.want, strings.Join(got, ", "))
	}
	for i := range 2 * maxMarks {
		expect.OK(t, m.addMark(records.Mark{ID: fmt.Sprint(i), Key: new("c"), Mark: "true", Time: start, Start: start}))
	}
	if len(m.read.Marks) != maxMarks || m.read.Marks[0].ID != fmt.Sprint(maxMarks) {
		t.Errorf("%d marks", len(m.read.Marks))
	}
	parsed := expect.Get(records.ParseMark([]byte(`{"id":"1","mark":"false","key":"k","time":"2026-01-02T03:04:05Z","start":"2026-01-02T03:04:05Z","side":"below","size":4}`)))(t)
	equal(t, -4., parsed.Size) // the side determines the sign
	const stored = `{"Marks":[{"id":"i","mark":"false","time":"2026-01-02T03:04:05Z","key":"k","Of":"1","Size":-4,"Output":1},{"id":"i","mark":"false","time":"2026-01-02T03:04:05Z","key":"k","Of":"2","Size":4}]}`
	old := &markRegistry{}
	expect.OK(t, json.Unmarshal([]byte(stored), &old.read))
	equal(t, map[string][]keyed.FalseMark{"k": {{From: start, Size: -4, Since: start}, {From: start, Size: 4, Since: start}}}, old.falseMarks())
}

// A missing topic of marks is created. A rejected mark is written to the dead letter with its position, once, also
// after a restart.
func TestMarksOfTopic(t *testing.T) {
	expect.Waits(t, "clocks")
	b := fakeBus(t, 1, "out", "rejected")
	text := b.config("group: g, changelog: states", "detect: true\nmarks: {kafka: {topic: marks}}\n")
	n := 0
	session := func(action func(*aLog)) {
		t.Helper()
		log := &aLog{}
		r := launchRun(t, Run{Graph: compose(t, text), Log: log.logger()})
		n++
		b.put(t, event{"a", start.Add(time.Duration(n) * time.Minute), 1}.json())
		b.await(t, "out", n, r)
		action(log)
		r.halt(t)
	}
	session(func(log *aLog) {
		expect.OK(t, SendMarks(t.Context(), compose(t, text).marks, []records.Mark{{ID: "in-0-7", Mark: "true", Time: start}, {ID: "in-0-8", Mark: "true", Time: start, Key: new("a"), Start: start}}, quiet))
		expect.Soon(t, "a warning", log.contains("mark rejected"))
		expect.Soon(t, "a commit", log.contains("marks applied"))
	})
	session(func(log *aLog) {
		time.Sleep(3 * quietPoll) // nothing may happen
		if log.contains("mark rejected")() {
			t.Errorf("log: %s", &log.b)
		}
	})
	equal(t, []string{`{"reason":"the mark is of an earlier version, without key and start of its alarm: mark the alarm again with hafvf mark ALERTS in-0-7 true, where ALERTS is the file of its alert","place":"marks-0-0","id":"marks-0-0","topic":"marks","partition":0,"offset":0,"raw":"{\"id\":\"in-0-7\",\"mark\":\"true\",\"time\":\"2026-01-02T03:04:05Z\"}"}` + "\n"}, b.values(t, "rejected"))
}
