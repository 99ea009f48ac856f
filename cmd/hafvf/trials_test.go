package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
)

// blocks returns the trials of two interleaved subjects, whose block 1 returns. The name of one subject looks like a
// formula to a spreadsheet. In each range of 20 trials the answer is constant. The column time has no valid times.
func blocks() string {
	var b strings.Builder
	b.WriteString("subject,block,trial,correct,time\n")
	row := func(subject, block string, trial, answer int) {
		fmt.Fprintf(&b, "%s,%s,%d,%d,0.%d s\n", subject, block, trial, answer, trial)
	}
	for i, block := range []string{"1", "10", "2", "1"} {
		for k := range 20 {
			trial := k + 1
			if i == 3 {
				trial += 23 // three trials are missing
			}
			for s, subject := range []string{"s1", "=s2"} {
				row(subject, block, trial, (i/3+s)%2)
			}
		}
	}
	b.WriteString("s1,,90,1,\ns1,2,7,1,\ns1,2,x,1,\ns1,2,2.5,1,\ns1,2,,1,\n")
	return b.String()
}

// A smoothedTrial is a smoothed record without a time.
type smoothedTrial struct {
	Key     string
	Time    any
	ID      string
	N       int
	Segment struct{ Start int }
	Session struct{ Start, End, N int }
	Change  bool
	Place   map[string]int `json:"change_interval"`
}

// smoothedTrials returns the records of a file by the name of their session.
func smoothedTrials(t *testing.T, file string) map[string][]smoothedTrial {
	t.Helper()
	sessions := map[string][]smoothedTrial{}
	for line := range strings.Lines(string(expect.Get(os.ReadFile(file))(t))) {
		var r smoothedTrial
		expect.OK(t, json.Unmarshal([]byte(line), &r))
		session, n := r.ID[:strings.LastIndex(r.ID, "/")], r.ID[strings.LastIndex(r.ID, "/")+1:]
		sessions[session] = append(sessions[session], r)
		if r.Time != nil || fmt.Sprint(r.N) != n || r.N != len(sessions[session]) || !strings.HasPrefix(session, r.Key) || r.Session != sessions[session][0].Session {
			t.Errorf("%+v", r)
		}
	}
	return sessions
}

// Sessions of trials do not depend on the order of sessions, and have no times in records, tables and pictures. CSV,
// Parquet and JSON Lines give equal tables and pictures.
func TestTrials(t *testing.T) {
	t.Parallel()
	const model = "transform: smooth\nmodel: {family: bernoulli}\nsession: {by: [block]}\ndead_letter: {jsonl: {path: rejected.jsonl}}\n"
	dir := e2e.Folder(t, map[string]string{
		"trials.csv":   blocks(),
		"arrival.yaml": model + "order: arrival\nsource: {csv: {path: trials.csv, key: subject, values: [correct]}}\n",
		"trial.yaml":   model + "source: {csv: {path: trials.csv, key: subject, time: trial, time_format: trial, values: [correct]}}\n",
	})
	for _, c := range []struct {
		name     string
		extra    int // observations of s1 in block 2 that trials reject
		end      int // last trial of block 1
		rejected []string
	}{
		{"arrival", 4, 40, []string{`"block" is empty, which session.by names`}},
		{"trial", 0, 43, []string{
			`"block" is empty, which session.by names`, `the trial "x" is not a whole number`, `the trial "2.5" is not a whole number`,
			`no trial number: "trial" is empty`, `trial 7 of the session s1/2 occurs twice: the first is trials.csv:94`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			read := func(name string) string { return string(expect.Get(os.ReadFile(filepath.Join(dir, name)))(t)) }
			tables, pictures := map[string]string{}, map[string]string{}
			for _, format := range []string{"jsonl", "csv", "parquet"} {
				out := c.name + "." + format
				program.Well(t, dir, "run", c.name+".yaml", "--set", fmt.Sprintf("sink={%s: {path: %s}}", format, out))
				program.Well(t, dir, "sessions", out, "-o", "table.csv")
				program.Well(t, dir, "plot", out, "-o", "picture.svg", "--key", "=s2", "--title", "run")
				tables[read("table.csv")], pictures[read("picture.svg")] = format, format
			}
			if len(tables) != 1 || len(pictures) != 1 {
				t.Errorf("%d tables and %d pictures of one run", len(tables), len(pictures))
			}
			var reasons []string
			for line := range strings.Lines(read("rejected.jsonl")) {
				var r struct{ Reason, Place, Raw string }
				expect.OK(t, json.Unmarshal([]byte(line), &r))
				reasons = append(reasons, r.Reason)
				if !strings.HasPrefix(r.Raw, "s1,") || !strings.HasPrefix(r.Place, "trials.csv:16") {
					t.Errorf("%+v", r)
				}
			}
			expect.Same(t, c.rejected, reasons)

			bySession := smoothedTrials(t, filepath.Join(dir, c.name+".jsonl"))
			sizes := map[string]int{}
			for session, records := range bySession {
				sizes[session] = len(records)
			}
			expect.Same(t, map[string]int{"s1/1": 40, "s1/10": 20, "s1/2": 20 + c.extra, "=s2/1": 40, "=s2/10": 20, "=s2/2": 20}, sizes)
			for i, r := range bySession["s1/1"] {
				start, changed := 1, i == 20
				if i >= 20 {
					start = c.end - 19
				}
				if r.Session.Start != 1 || r.Session.End != c.end || r.Session.N != 40 || r.Segment.Start != start || r.Change != changed {
					t.Errorf("%+v", r)
				}
				if changed && (len(r.Place) != 2 || r.Place["from_n"] > 21 || r.Place["to_n"] < 21) {
					t.Errorf("the change is at %v", r.Place)
				}
			}

			for table := range tables {
				rows := expect.Get(csv.NewReader(strings.NewReader(table)).ReadAll())(t)
				if slices.Contains(rows[0], "change_interval.from") {
					t.Errorf("columns %q", rows[0])
				}
				var sessions []string
				for _, r := range rows[1:] {
					sessions = append(sessions, strings.Join(r[:6], " "))
				}
				end := fmt.Sprint(c.end - 20)
				expect.Same(t, []string{"'=s2 1 1 1 " + end + " 20", fmt.Sprintf("'=s2 1 2 %d %d 20", c.end-19, c.end), "'=s2 2 1 1 20 20", "'=s2 10 1 1 20 20"}, sessions[:4])
			}
			for picture := range pictures {
				if strings.Contains(picture, "1970") || !strings.Contains(picture, ">trial<") || !strings.Contains(picture, "3 sessions: 1, 2, 10") {
					t.Error("the picture has times, or no names of sessions")
				}
			}
		})
	}
}

// The key, the session and the trial of an object are at paths, and a number equals its text.
func TestTrialsOfObjects(t *testing.T) {
	var b strings.Builder
	for trial := range 3 {
		for _, session := range []string{`"block":1,"run":{"day":"a/b"}`, `"block":"2","run":{"day":"c"}`} {
			fmt.Fprintf(&b, `{"who":{"id":"s","at":{%s}},"n":{"trial":%d},"rt":1.5}`+"\n", session, 9-trial)
		}
	}
	b.WriteString(`{"who":{"id":"s","at":{"block":"1","run":{"day":"a/b"}}},"n":{"trial":"10"},"rt":1.5}` + "\n" +
		`{"who":{"id":"s","at":{"block":1}},"n":{"trial":1},"rt":1}` + "\n" +
		`{"who":{"id":"s","at":{"block":null,"run":{"day":"c"}}},"n":{"trial":1},"rt":1}` + "\n" +
		`{"who":{"id":"s","at":{"block":[1],"run":{"day":"c"}}},"n":{"trial":1},"rt":1}` + "\n")
	dir := e2e.Folder(t, map[string]string{
		"in.jsonl":   b.String(),
		"in.csv":     "key,t,x\na,1,1\n",
		"table.yaml": "transform: smooth\nmodel: {family: normal}\nsession: {by: block}\nsource: {csv: {path: in.csv, time: t, time_format: trial}}\n",
		"c.yaml": "transform: smooth\nmodel: {family: normal}\nsession: {by: [who.at.block, who.at.run.day]}\nsink: {jsonl: {path: out.jsonl}}\ndead_letter: {jsonl: {path: rejected.jsonl}}\n" +
			"source: {jsonl: {path: in.jsonl, key: who.id, time: n.trial, time_format: trial, values: [rt]}}\n",
	})
	program.Well(t, dir, "run", "c.yaml")
	sessions := smoothedTrials(t, filepath.Join(dir, "out.jsonl"))
	first, second := sessions["s/1/a%2Fb"], sessions["s/2/c"]
	if len(sessions) != 2 || len(first) != 4 || len(second) != 3 || first[0].Session.Start != 7 || first[0].Session.End != 10 {
		t.Errorf("%+v", sessions)
	}
	rejected := string(expect.Get(os.ReadFile(filepath.Join(dir, "rejected.jsonl")))(t))
	for _, reason := range []string{`no field \"who.at.run.day\", which session.by names`, `\"who.at.block\" is empty, which session.by names`, `\"who.at.block\", which session.by names, is a list`} {
		if strings.Count(rejected, reason) != 1 {
			t.Errorf("no %s in %s", reason, rejected)
		}
	}
	exits(t, dir, "", "", []exit{
		{"a column that is not there", "run table.yaml", 1, `in.csv has no column "block"`},
		{"a gap", "run c.yaml --set session.gap=1h", 2, "session.gap: needs times, and time_format: trial has none: leave it out"},
	})
}

// A picture of estimates, and the page of alerts and estimates, are equal from CSV, Parquet and JSON Lines.
func TestPicturesOfTables(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("key,time,x\n")
	for i := range 300 {
		fmt.Fprintf(&b, "'k,2026-01-01T%02d:%02d:00Z,%d\n", i/60, i%60, i*7%10+i/200*40)
	}
	dir := e2e.Folder(t, map[string]string{
		"in.csv": b.String(),
		"c.yaml": "model: {family: normal, prior: auto}\ndetect: true\nrecords: full\ninterval: 0.9\nsource: {csv: {path: in.csv}}\n",
	})
	pictures, pages := map[string]string{}, map[string]string{}
	for _, format := range []string{"jsonl", "csv", "parquet"} {
		program.Well(t, dir, "run", "c.yaml", "--set", fmt.Sprintf("sink={%s: {path: out.%[1]s}}", format), "--set", fmt.Sprintf("alerts={%s: {path: alerts.%[1]s}}", format))
		program.Well(t, dir, "plot", "out."+format, "-o", "picture.svg", "--title", "run")
		program.Well(t, dir, "report", "alerts."+format, "out."+format, "-o", "page.html")
		pictures[string(expect.Get(os.ReadFile(filepath.Join(dir, "picture.svg")))(t))] = format
		page := string(expect.Get(os.ReadFile(filepath.Join(dir, "page.html")))(t))
		pages[strings.NewReplacer("alerts."+format, "alerts", "out."+format, "out").Replace(page)] = format
	}
	if len(pictures) != 1 || len(pages) != 1 {
		t.Errorf("%d pictures and %d pages of one run", len(pictures), len(pages))
	}
}
