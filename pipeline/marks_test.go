package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
// run that raised the alarm may have no marks in its config. Invalid marks and marks of an earlier version are written
// to the dead letter once. The stored marks are removed with marks in the config, and former alarms always.
func TestMarksOfFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	text := fmt.Sprintf("model: {family: normal}\ndetect: {settling: 0s}\nsource: {jsonl: {path: %s}}\nsink: none\nstate: %s\n", in("in*.jsonl"), in("states"))
	marks := "marks: {jsonl: {path: " + in("marks.jsonl") + "}}\n"
	var lines []string
	run := func(text string) (alarms, dead []string, s Summary) {
		t.Helper()
		s = runWell(t, text+fmt.Sprintf("alerts: {jsonl: {path: %s}, kinds: [novelty, change]}\ndead_letter: {jsonl: {path: %s}}\n", in("alerts.jsonl"), in("dead.jsonl")))
		lines = trimmed(readLines(t, in("alerts.jsonl")))
		for _, line := range lines {
			alarms = append(alarms, unmarshalled[struct{ ID string }](t, line).ID)
		}
		for _, line := range trimmed(readLines(t, in("dead.jsonl"))) {
			r := unmarshalled[struct{ Place, Reason string }](t, line)
			dead = append(dead, filepath.Base(r.Place)+" "+r.Reason)
		}
		slices.Sort(alarms)
		slices.Sort(dead)
		return alarms, dead, s
	}
	save(t, in("in0.jsonl"), spikes(0, 0, "a", "b")...)
	save(t, in("in1.jsonl"), spikes(1, 20, "a", "b")...)
	alarms, _, _ := run(text)
	if len(alarms) != 2 {
		t.Fatalf("alarms %v", alarms)
	}
	stamp := start.Add(14 * 24 * time.Hour).Format(time.RFC3339)
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(*markOf(t, a, "").Key, *markOf(t, b, "").Key) })
	save(t, in("marks.jsonl"),
		string(records.Lines([]records.Mark{markOf(t, lines[0], "false")})),
		string(records.Lines([]records.Mark{markOf(t, lines[1], "true")})),
		fmt.Sprintf("{\"id\":%q,\"mark\":\"false\",\"time\":%q,\"key\":\"a b\"}\n", alarms[1], stamp),
		fmt.Sprintf("{\"id\":\"other\",\"mark\":\"false\",\"time\":%q}\n", stamp),
		fmt.Sprintf("{\"id\":%q,\"mark\":\"wrong\",\"time\":%q}\n", alarms[1], stamp),
		fmt.Sprintf("{\"id\":%q,\"mark\":\"false\",\"time\":%q,\"who\":\"me\"}\n", alarms[1], stamp),
		fmt.Sprintf("{\"id\":%q,\"mark\":\"false\"}\n", alarms[1]),
		"\n", fmt.Sprintf("{\"id\":%q", alarms[1]))
	save(t, in("in2.jsonl"), spikes(2, 20, "a", "b")...)
	states := expect.Get(statebackend.OpenFile(in("states"), compose(t, text).transform.(filtering).store(false, quiet)))(t)
	states.Memory.Reserved[statestore.FormerAlarmsKey] = []byte("[]")
	expect.OK(t, states.Commit())
	states.Close()
	repeated, dead, s := run(text + marks)
	equal(t, []string{strings.Replace(alarms[1], "in1", "in2", 1)}, repeated)
	for i, want := range []string{"of an earlier version, without key and start of its alarm: mark the alarm again with hafvf mark ALERTS " + alarms[1] + " false --key 'a b', where", "hafvf mark ALERTS other false, where", `mark: unknown value "wrong": use one of false, true, expected`, `unknown field "who"`, "time: missing"} {
		if len(dead) != 5 || !strings.HasPrefix(dead[i], fmt.Sprintf("marks.jsonl:%d the mark is ", i+3)) || !strings.Contains(dead[i], want) {
			t.Errorf("dead letter %q", dead)
		}
	}
	if !strings.Contains(s.String(), "\n2 marks: 1 false, 1 true\n") {
		t.Errorf("%s", s)
	}
	save(t, in("in3.jsonl"), spikes(3, 50, "a", "b")...) // more than twice the deviation
	repeated, dead, s = run(text + marks)
	if len(repeated) != 2 || dead != nil || s.Marks != "2 marks: 1 false, 1 true" {
		t.Errorf("alarms %v, dead letter %q, %s", repeated, dead, s.Marks)
	}
	keys := func() (marked []string) {
		expect.Get(statestore.ReadFile(in("states"), func(s statestore.State) bool {
			if statestore.Reserved(s.Key) {
				marked = append(marked, s.Key)
			}
			return true
		}))(t)
		slices.Sort(marked)
		return marked
	}
	equal(t, []string{statestore.MarksKey}, keys())
	save(t, in("in4.jsonl"), spikes(4, 0, "a", "b")...)
	run(text)
	equal(t, []string(nil), keys())
}

// The first maxMarksLogged rejected marks are logged one by one, the others are counted. All are in the dead letter,
// cut to the maximum length. A file may start with a byte order mark, and lines may be longer than this length.
func TestMarksOfNoUse(t *testing.T) {
	t.Parallel()
	dead := filepath.Join(t.TempDir(), "dead.jsonl")
	line := func(i int, note string) string {
		return fmt.Sprintf("{\"id\":\"x%d\",\"mark\":\"false\",\"time\":\"2026-01-01T00:00:00Z\",\"note\":%q}\n", i, note)
	}
	lines := []string{"\ufeff" + line(0, strings.Repeat("n", maxMarkBytes/2)), line(1, strings.Repeat("n", 3*maxMarkBytes))}
	for i := range 30 {
		lines = append(lines, line(2+i, ""))
	}
	marks := write(t, "marks.jsonl", lines...)
	text := fmt.Sprintf("model: {family: normal}\ndetect: true\nsource: {jsonl: {path: %s}}\nsink: none\nmarks: {jsonl: {path: %s}}\ndead_letter: {jsonl: {path: %s}}\n",
		write(t, "in.jsonl", spikes(0, 0, "a")...), marks, dead)
	log := &aLog{}
	expect.Get(Run{Graph: compose(t, text), Log: log.logger()}.Execute(t.Context(), nil))(t)
	if n := strings.Count(log.b.String(), "mark rejected"); n != maxMarksLogged || !log.contains("more marks rejected, written to the dead letter\" marks=22")() {
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
	for i := range lines {
		want[fmt.Sprint("marks.jsonl:", i+1)] = fmt.Sprintf("the mark is of an earlier version, without key and start of its alarm: mark the alarm again with hafvf mark ALERTS x%d false, where ALERTS is the file of its alert", i)
	}
	want["marks.jsonl:2"] = "the mark is longer than 64 kB"
	expect.Same(t, want, reasons)
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
	if len(m.read.Marks) != maxMarks {
		t.Errorf("%d marks", len(m.read.Marks))
	}
	parsed := expect.Get(records.ParseMark([]byte(`{"id":"1","mark":"false","key":"k","time":"2026-01-02T03:04:05Z","start":"2026-01-02T03:04:05Z","side":"below","size":4}`)))(t)
	equal(t, -4., parsed.Size) // the side determines the sign
	const stored = `{"Marks":[{"id":"i","mark":"false","time":"2026-01-02T03:04:05Z","key":"k","Of":"1","Size":-4,"Output":1},{"id":"i","mark":"false","time":"2026-01-02T03:04:05Z","key":"k","Of":"2","Size":4}]}`
	old := &markRegistry{}
	expect.OK(t, json.Unmarshal([]byte(stored), &old.read))
	equal(t, map[string][]keyed.FalseMark{"k": {{From: start, Size: -4, Since: start}, {From: start, Size: 4, Since: start}}}, old.falseMarks())
}

// Alarms are marked in a file or a topic, while runs are killed. The last output of each record equals that of a loop
// in which marks take effect at the commits that contain them.
func TestMarksAfterKills(t *testing.T) {
	expect.Waits(t, "clocks")
	for _, origin := range []string{"file", "topic"} {
		t.Run(origin, func(t *testing.T) { marksAfterKills(t, origin) })
	}
}

func marksAfterKills(t *testing.T, origin string) {
	b := fakeBus(t, 1, "out", "rejected", "alerts", "marks")
	file := filepath.Join(t.TempDir(), "marks.jsonl")
	marks := "marks: {kafka: {topic: marks}}\n"
	if origin == "file" {
		marks = "marks: {jsonl: {path: " + file + "}}\n"
	}
	text := b.config("group: g, changelog: states", "detect: {budget: 60, settling: 0s}\n"+marks) + "alerts: {kafka: {topic: alerts}, kinds: [novelty, change], max_age: none}\n"
	rng := rand.New(rand.NewPCG(82, 3))
	begin := time.Now().AddDate(0, 0, -200).UTC().Truncate(time.Second)
	put := func(n int) {
		var lines []string
		for range n {
			begin = begin.Add(time.Minute)
			lines = append(lines, event{fmt.Sprint("k", rng.IntN(4)), begin, rng.NormFloat64() + float64(rng.IntN(40)/39*10*(1+rng.IntN(3)))}.json())
		}
		b.put(t, lines...)
	}
	marked, g := 0, compose(t, text)
	mark := func() {
		alerts := b.Consume(t, "alerts")
		if len(alerts) == 0 {
			return
		}
		mark := markOf(t, string(alerts[len(alerts)-1].Value), "false")
		expect.OK(t, SendMarks(context.Background(), g.marks, []records.Mark{mark}, quiet))
		marked++
	}
	repeated := func() int { return len(b.Consume(t, "out")) - len(b.Consume(t, "in")) }
	var feeding sync.WaitGroup
	fed := make(chan struct{})
	feeding.Go(func() {
		defer close(fed)
		for n := range 300 { // a kill may come late on a busy machine
			put(30)
			time.Sleep(time.Duration(20+rng.IntN(60)) * time.Millisecond)
			if rng.IntN(8) == 0 {
				mark()
			}
			if n >= 120 && n%20 == 0 && repeated() > 200 {
				return
			}
		}
	})
	killRuns(t, text, fed, 82, 100, 1200, func(kills *rand.Rand) {
		if kills.IntN(2) == 0 {
			_ = os.Remove(file) // marks that were read still apply
		}
	})
	feeding.Wait()
	r := launch(t, compose(t, text))
	put(30)
	b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
	r.halt(t)
	b.comparesMarks(t, text, marked)
}

// comparesMarks compares the last output of each record with a loop.
func (b *bus) comparesMarks(t *testing.T, text string, marked int) {
	t.Helper()
	type storedMarks struct {
		time  time.Time
		marks map[string][]keyed.FalseMark
	}
	history := []storedMarks{{}}
	for _, r := range b.ConsumeCommitted(t, "states") {
		if !strings.HasSuffix(string(r.Key), statestore.MarksKey) {
			continue
		}
		m := &markRegistry{}
		expect.OK(t, json.NewDecoder(strings.NewReader(string(r.Value[strings.Index(string(r.Value), `{"Read"`):]))).Decode(&m.read)) // inside a seal
		history = append(history, storedMarks{r.Timestamp, m.falseMarks()})
	}
	type output struct {
		line string
		time time.Time
	}
	last := map[string]output{}
	for _, r := range b.Consume(t, "out") {
		last[unmarshalled[struct{ ID string }](t, string(r.Value)).ID] = output{string(r.Value), r.Timestamp}
	}
	layout := expect.Get(records.NewLayout(composed(t, text).Filter))(t)
	est := expect.Get(keyed.NewEstimator(composed(t, text)))(t)
	states, retained, unmarked := map[string][]byte{}, 0, map[string][]byte{}
	for _, r := range b.Consume(t, "in") {
		o := observationOf(t, string(r.Value), fmt.Sprintf("in-%d-%d", r.Partition, r.Offset))
		estimate := func(states map[string][]byte, marks map[string][]keyed.FalseMark) (line string, alarms bool, state []byte) {
			est.SetMarks(marks)
			k := expect.Get(est.Open(o.key, states[o.key]))(t)
			e := estimated(t, &k, o.Observation)
			return strings.TrimSuffix(string(layout.AppendEstimate(nil, records.Object, o.key, &e)), "\n"), e.Alarm != nil, expect.Get(k.AppendBinary(nil))(t)
		}
		got := last[o.ID]
		found, alarms := false, false
		for i := len(history) - 1; i >= 0 && !found; i-- {
			if history[i].time.After(got.time) {
				continue
			}
			var line string
			var state []byte
			if line, alarms, state = estimate(states, history[i].marks); line == got.line {
				states[o.key], found = state, true
			} else if history[i].time.Before(got.time) { // the commit may be later in the same millisecond
				t.Fatalf("%s\ninstead of\n%s", got.line, line)
			}
		}
		if !found {
			t.Fatalf("%s is what no mark makes of it", got.line)
		}
		_, alarmed, state := estimate(unmarked, nil)
		if unmarked[o.key] = state; alarmed && !alarms {
			retained++
		}
	}
	t.Logf("%d records, %d marks, %d commits with marks, %d alarms are kept back", len(last), marked, len(history)-1, retained)
	if len(history) < 4 || retained == 0 {
		t.Error("the runs do not show what they are to show")
	}
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

// A query stores marks in its file of states.
func TestMarksOfQuery(t *testing.T) {
	expect.Waits(t, "a server")
	begin := time.Now().Add(-100 * time.Hour).UTC().Truncate(time.Minute)
	o := &oracle{series: threeWaves(begin), maxSteps: 20, heard: func(int) { time.Sleep(5 * time.Millisecond) }}
	dir := t.TempDir()
	state, alerts := filepath.Join(dir, "states"), filepath.Join(dir, "alerts.jsonl")
	text := queryConfig + fmt.Sprintf("source: {prometheus: {url: %q, query: load, start: %s}}\nstate: %s\nmarks: {jsonl: {path: %s}}\nsink: none\ndead_letter: {jsonl: {path: %s}}\nalerts: {jsonl: {path: %s}, max_age: none}\n",
		o.serve(t), begin.Format(time.RFC3339), state, filepath.Join(dir, "marks.jsonl"), filepath.Join(dir, "dead.jsonl"), alerts)
	log := &aLog{}
	ctx, crash := context.WithCancel(t.Context())
	defer crash()
	done := make(chan error, 1)
	go func() {
		_, err := Run{Graph: compose(t, text), Log: log.logger()}.Execute(ctx, nil)
		done <- err
	}()
	line := ""
	expect.Soon(t, "an alert", func() bool {
		b, _ := os.ReadFile(alerts)
		var whole bool
		line, _, whole = strings.Cut(string(b), "\n")
		return whole
	})
	mark := markOf(t, line, "false")
	expect.OK(t, SendMarks(ctx, compose(t, text).marks, []records.Mark{mark}, quiet))
	expect.Soon(t, "a mark", log.contains("1 mark: 1 false"))
	crash()
	<-done
	stored := map[string]string{}
	expect.Get(statestore.ReadFile(state, func(s statestore.State) bool {
		stored[s.Key] = string(s.Bytes)
		return true
	}))(t)
	if !strings.Contains(stored[statestore.MarksKey], strings.TrimSpace(string(records.Lines([]records.Mark{mark})))) {
		t.Errorf("the file of states has %s", stored[statestore.MarksKey])
	}
}

// estimated returns the estimate of an observation that is due at once.
func estimated(t *testing.T, k *keyed.KeyState, o keyed.Observation) (out keyed.Estimate) {
	t.Helper()
	n := 0
	for e, err := range k.Estimates(o) {
		expect.OK(t, err)
		out = e
		n++
	}
	if n != 1 {
		t.Fatalf("%d estimates of one observation", n)
	}
	return out
}
