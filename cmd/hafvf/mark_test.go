package main

import (
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// alertLines are alerts of an episode that gets worse and ends, of a key with the same ID, of a vector, of a silence, and
// of an incident with three members, of which one has no other line.
const alertLines = `{"key":"pump","time":"2026-03-01T12:00:00Z","kind":"novelty","id":"in:4","start":"2026-03-01T11:00:00Z","x":9,"usual":{"mean":2,"sd":1},"size":-7,"episode":{"id":"in:4","since":"2026-03-01T11:00:00Z","reports":1,"state":"open"}}
{"key":"pump","time":"2026-03-01T13:00:00Z","kind":"novelty","id":"in:5","start":"2026-03-01T13:00:00Z","x":9,"usual":{"mean":2,"sd":1},"size":-9,"incident":"fleet 1","episode":{"id":"in:4","since":"2026-03-01T11:00:00Z","reports":2,"state":"worse"}}
{"key":"pump","time":"2026-03-01T14:00:00Z","kind":"recovered","id":"in:4","start":"2026-03-01T11:00:00Z","size":-8,"episode":{"id":"in:4","since":"2026-03-01T11:00:00Z","reports":2,"state":"closed"}}
{"key":"b","time":"2026-03-01T12:00:00Z","kind":"novelty","id":"in:4","start":"2026-03-01T12:00:00Z","size":3,"incident":"fleet 1","episode":{"id":"in:4","since":"2026-03-01T12:00:00Z","reports":1,"state":"open"}}
{"key":"v","time":"2026-03-01T12:00:00Z","kind":"novelty","id":"in:6","start":"2026-03-01T12:00:00Z","x":[9,1],"usual":{"mean":[2,7],"sd":[2,1]},"size":-6,"episode":{"id":"in:6","since":"2026-03-01T12:00:00Z","reports":1,"state":"open"}}
{"key":"s","time":"2026-03-01T12:00:00Z","kind":"silent","id":"in:7","start":"2026-03-01T11:00:00Z","size":null,"episode":null}
{"key":"b","time":"2026-03-01T12:00:00Z","kind":"outlier","id":"in:8","start":"2026-03-01T12:00:00Z","size":3,"episode":null}
{"key":"","time":"2026-03-01T15:00:00Z","kind":"incident","id":"fleet 1","start":"2026-03-01T12:00:00Z","members":[{"key":"b","time":"2026-03-01T12:00:00Z","size":4,"episode":"in:4"},{"key":"c","time":"2026-03-01T12:30:00Z","size":5,"episode":"in:9"},{"key":"s","time":"2026-03-01T12:30:00Z","size":null,"episode":null}]}
`

// A mark has the key, the end, the start and the largest size of its alarm. It is printed, appended to a file as a whole
// line, or written to the marks of a config.
func TestMark(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "marks.jsonl")
	const config = "model: {family: normal}\ndetect: true\nsource: {csv: {path: a.csv}}\n"
	for name, text := range map[string]string{"none.yaml": config, "c.yaml": config + "marks: {jsonl: {path: marks.jsonl}}\n", "alerts.jsonl": alertLines + `{"key":"cu`, "empty.jsonl": ""} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	run := func(code int, stdout, stderr string, args ...string) {
		t.Helper()
		got, out, errs := program.Run(t, dir, alertLines, append([]string{"mark"}, args...)...)
		if got != code || out != stdout || !strings.Contains(errs, stderr) || stderr == "" && errs != "" {
			t.Errorf("hafvf mark %q: exit %d, %q, standard error: %s", args, got, out, errs)
		}
	}
	const (
		pump   = `{"id":"in:4","mark":"false","key":"pump","time":"2026-03-01T14:00:00Z","start":"2026-03-01T11:00:00Z","side":"below","size":-9,"note":"a test"}` + "\n"
		vector = `{"id":"in:6","mark":"expected","key":"v","time":"2026-03-01T12:00:00Z","start":"2026-03-01T12:00:00Z","side":"below","size":-6}` + "\n"
		silent = `{"id":"in:7","mark":"true","key":"s","time":"2026-03-01T12:00:00Z","start":"2026-03-01T11:00:00Z"}` + "\n"
		b      = `{"id":"in:4","mark":"false","key":"b","time":"2026-03-01T12:00:00Z","start":"2026-03-01T12:00:00Z","side":"above","size":4}` + "\n"
		c      = `{"id":"in:9","mark":"false","key":"c","time":"2026-03-01T12:30:00Z","start":"2026-03-01T12:30:00Z","side":"above","size":5}` + "\n"
	)
	note := []string{"--note", "a test"}
	run(0, pump, "", append(note, "alerts.jsonl", "in:4", "false", "--key", "pump")...)
	run(0, pump, "", append(note, "-", "in:5", "false")...) // the report that it is worse
	run(0, vector, "", "alerts.jsonl", "in:6", "expected")
	run(0, silent, "", "alerts.jsonl", "in:7", "true")
	run(0, strings.Replace(pump, `,"note":"a test"`, "", 1)+b+c, "", "alerts.jsonl", "fleet 1", "false")
	run(0, c, "", "alerts.jsonl", "fleet 1", "false", "--key", "c")
	run(0, "", "", append(note, "alerts.jsonl", "in:5", "false", "-o", "marks.jsonl")...)
	run(0, "", "", "alerts.jsonl", "in:6", "expected", "--config", "c.yaml")
	f := expect.Get(os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0o600))(t)
	expect.Get(f.WriteString("by hand"))(t)
	expect.OK(t, f.Close())
	run(0, "", "", "alerts.jsonl", "fleet 1", "false", "--key", "b", "-o", file)
	if text := string(expect.Get(os.ReadFile(file))(t)); text != pump+vector+"by hand\n"+b {
		t.Errorf("%s", text)
	}
	run(2, "", `hafvf: alarms of 2 keys have the id "in:4": choose with --key one of "pump", "b"`, "alerts.jsonl", "in:4", "false")
	run(1, "", `hafvf: alerts.jsonl has no alarm and no incident with the id "in:8": give the id of an alert in it`, "alerts.jsonl", "in:8", "false")
	run(1, "", `hafvf: standard input has no alarm and no incident with the id "in:5" and the key "b"`, "-", "in:5", "false", "--key", "b")
	run(1, "", `hafvf: empty.jsonl has no alarm and no incident with the id "in:4"`, "empty.jsonl", "in:4", "false")
	run(1, "", "hafvf: none.jsonl cannot be read: no such file", "none.jsonl", "in:4", "false")
	run(2, "", `hafvf: unknown mark "wrong": use false, true or expected after the ID`, "alerts.jsonl", "in:4", "wrong")
	run(2, "", "hafvf: the alerts are missing: use hafvf mark ALERTS 'a b' false, where ALERTS is the file", "a b", "false")
	run(2, "", "hafvf: the ID is empty: give the ID of an alert", "alerts.jsonl", "", "true")
	run(2, "", "hafvf: accepts 3 arg(s), received 1", "a")
	run(2, "", "hafvf: none.yaml has no marks: add marks: {jsonl: {path: marks.jsonl}}", "alerts.jsonl", "in:5", "true", "--config", "none.yaml")
	run(2, "", "hafvf: use either -o or --config, not both", "alerts.jsonl", "in:5", "true", "--config", "c.yaml", "-o", "a.jsonl")
	run(1, "", "hafvf: open nowhere/a.jsonl", "alerts.jsonl", "in:5", "true", "-o", "nowhere/a.jsonl")
}

// Marks are counted in a backtest and shown on a page, with the commands that mark alarms.
func TestMarksAreScored(t *testing.T) {
	expect.Long(t, "pages with marks")
	t.Parallel()
	dir := t.TempDir()
	var rows strings.Builder
	rows.WriteString("key,time,x\n")
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 1000 {
		x := float64(i*7919%101) / 10
		if i == 500 || i == 700 || i == 900 {
			x = 200
		}
		fmt.Fprintf(&rows, "a,%s,%g\n", start.Add(time.Duration(i)*time.Hour).Format(time.RFC3339), x)
	}
	save := func(name, text string) { expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	save("a.csv", rows.String())
	save("c.yaml", "model: {family: normal}\ndetect: true\nsource: {csv: {path: a.csv}}\nsink: none\nalerts: {jsonl: {path: alerts.jsonl}}\n")
	program.Well(t, dir, "run", "c.yaml")
	mark := func(args ...string) {
		program.Well(t, dir, append([]string{"mark", "-o", "marks.jsonl", "alerts.jsonl"}, args...)...)
	}
	save("marks.jsonl", `{"id":"a.csv:600","mark":"false","time":"2026-03-01T12:00:00Z"}
{"id":"a.csv:902","mark":"expected","time":"2026-03-01T12:00:00Z","key":"other"}
`)
	mark("a.csv:502", "false")
	mark("a.csv:502", "true") // the last mark applies
	mark("a.csv:702", "false", "--key", "a")
	out, _ := program.Well(t, dir, "backtest", "c.yaml", "--marks", "marks.jsonl", "-o", "page.html")
	if want := "\nmarks: 1 of 1 true alarm raised, 1 of 2 false alarms, 0 of 1 expected\n"; !strings.Contains(out, want) {
		t.Errorf("no %q in %s", want, out)
	}
	out, _ = program.Well(t, dir, "backtest", "c.yaml", "--marks", "marks.jsonl", "--json", "--against", "c.yaml")
	if want := `"marks":{"true":{"marks":1,"raised":1},"false":{"marks":2,"raised":1},"expected":{"marks":1,"raised":0}}`; strings.Count(strings.NewReplacer(" ", "", "\n", "").Replace(out), want) != 2 {
		t.Errorf("no %s in %s", want, out)
	}
	program.Well(t, dir, "report", "alerts.jsonl", "--marks", "marks.jsonl", "-o", "alerts.html")
	program.Well(t, dir, "report", "c.yaml", "--marks", "marks.jsonl", "-o", "config.html")
	last := ""
	for _, page := range []string{"page.html", "alerts.html", "config.html"} {
		text := string(expect.Get(os.ReadFile(filepath.Join(dir, page)))(t))
		found := regexp.MustCompile("<code>([^<]*hafvf mark [^<]*)</code>").FindAllStringSubmatch(text, -1)
		marked := [3]int{strings.Count(text, "marked true"), strings.Count(text, "marked false"), strings.Count(text, "marked expected")}
		if marked != [3]int{2, 2, 0} || len(found) != 6 {
			t.Errorf("%s does not show the marks, or has %d commands", page, len(found))
		}
		for _, command := range found { // each is in the table and in the list of single alarms, and works as copied
			cmd := exec.Command("sh", "-c", strings.ReplaceAll(html.UnescapeString(command[1]), "hafvf mark", program.Path+" mark"))
			cmd.Dir, cmd.Env = dir, append(os.Environ(), program.Env...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v, %s", command[1], err, out)
			}
		}
		marks := string(expect.Get(os.ReadFile(filepath.Join(dir, "marks.jsonl")))(t))
		lines := strings.SplitAfter(marks, "\n")
		slices.Sort(lines[len(lines)-7:])
		if marks = strings.Join(lines[len(lines)-7:], ""); last != "" && marks != last {
			t.Errorf("%s marks %s instead of %s", page, marks, last)
		}
		last = marks
	}
	save("alerts.jsonl", alertLines)
	save("bad.jsonl", "\n{}\n")
	for _, command := range []string{"backtest c.yaml", "report alerts.jsonl -o a.html"} {
		code, _, errs := program.Run(t, dir, "", append(strings.Fields(command), "--marks", "bad.jsonl")...)
		if code != 2 || !strings.Contains(errs, "--marks: bad.jsonl:2: is not a mark: id: missing") {
			t.Errorf("%s: exit %d, %s", command, code, errs)
		}
	}
}
