package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
	"hafvf/pipeline/records"
)

// A mark is printed, appended to a file as a whole line, or written to the marks of a config.
func TestMark(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "marks.jsonl")
	const config = "model: {family: normal}\ndetect: true\nsource: {csv: {path: a.csv}}\n"
	expect.OK(t, os.WriteFile(filepath.Join(dir, "none.yaml"), []byte(config), 0o600))
	expect.OK(t, os.WriteFile(filepath.Join(dir, "c.yaml"), []byte(config+"marks: {jsonl: {path: marks.jsonl}}\n"), 0o600))
	run := func(code int, stdout, stderr string, args ...string) {
		t.Helper()
		got, out, errs := program.Run(t, dir, "", append([]string{"mark"}, args...)...)
		if got != code || out != stdout || !strings.Contains(errs, stderr) || stderr == "" && errs != "" {
			t.Errorf("hafvf mark %q: exit %d, %q, standard error: %s", args, got, out, errs)
		}
	}
	const line = `{"id":"in-0-4711","mark":"false","time":"2026-03-01T12:00:00Z","key":"pump","note":"a test"}` + "\n"
	timeFlag := []string{"--time", "2026-03-01T12:00:00Z"}
	markArgs := append(timeFlag, "in-0-4711", "false", "--key", "pump", "--note", "a test")
	run(0, line, "", markArgs...)
	run(0, "", "", append(markArgs, "-o", "marks.jsonl")...)
	run(0, "", "", append(markArgs, "--config", "c.yaml")...)
	f := expect.Get(os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0o600))(t)
	expect.Get(f.WriteString("by hand"))(t)
	expect.OK(t, f.Close())
	run(0, "", "", append(timeFlag, "b", "expected", "-o", file)...)
	if text := string(expect.Get(os.ReadFile(file))(t)); text != line+line+"by hand\n"+`{"id":"b","mark":"expected","time":"2026-03-01T12:00:00Z"}`+"\n" {
		t.Errorf("%s", text)
	}
	run(2, "", `hafvf: unknown mark "wrong": use false, true or expected after the ID`, "a", "wrong")
	run(2, "", "hafvf: accepts 2 arg(s), received 1", "a")
	run(2, "", "hafvf: id: missing", "", "true")
	run(2, "", `hafvf: --time: "noon" is not a time such as 2026-01-02T03:04:05Z`, "a", "true", "--time", "noon")
	run(2, "", "hafvf: none.yaml has no marks: add marks: {jsonl: {path: marks.jsonl}}", "a", "true", "--config", "none.yaml")
	run(2, "", "hafvf: use either -o or --config, not both", "a", "true", "--config", "c.yaml", "-o", "a.jsonl")
	run(1, "", "hafvf: open nowhere/a.jsonl", "a", "true", "-o", "nowhere/a.jsonl")
	_, out, _ := program.Run(t, dir, "", "mark", "a", "true")
	if m := expect.Get(records.ParseMark([]byte(out)))(t); time.Since(m.Time) > time.Hour || m.Key != nil {
		t.Errorf("%s", out)
	}
}

// Marks are counted in a backtest and shown on a page.
func TestMarksAreScored(t *testing.T) {
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
	mark := func(args ...string) { program.Well(t, dir, append([]string{"mark", "-o", "marks.jsonl"}, args...)...) }
	mark("a.csv:502", "false")
	mark("a.csv:502", "true") // the last mark applies
	mark("a.csv:702", "false", "--key", "a")
	mark("a.csv:600", "false")
	mark("a.csv:902", "expected", "--key", "other")
	out, _ := program.Well(t, dir, "backtest", "c.yaml", "--marks", "marks.jsonl", "-o", "page.html")
	if want := "\nmarks: 1 of 1 true alarm raised, 1 of 2 false alarms, 0 of 1 expected\n"; !strings.Contains(out, want) {
		t.Errorf("no %q in %s", want, out)
	}
	out, _ = program.Well(t, dir, "backtest", "c.yaml", "--marks", "marks.jsonl", "--json", "--against", "c.yaml")
	if want := `"marks":{"true":{"marks":1,"raised":1},"false":{"marks":2,"raised":1},"expected":{"marks":1,"raised":0}}`; strings.Count(strings.NewReplacer(" ", "", "\n", "").Replace(out), want) != 2 {
		t.Errorf("no %s in %s", want, out)
	}
	program.Well(t, dir, "run", "c.yaml")
	program.Well(t, dir, "report", "alerts.jsonl", "--marks", "marks.jsonl", "-o", "alerts.html")
	for _, page := range []string{"page.html", "alerts.html"} {
		text := string(expect.Get(os.ReadFile(filepath.Join(dir, page)))(t))
		if strings.Count(text, "marked true") != 2 || strings.Count(text, "marked false") != 2 || strings.Contains(text, "marked expected") || strings.Contains(text, "hafvf mark ") {
			t.Errorf("%s does not show the marks", page)
		}
	}
	save("bad.jsonl", "\n{}\n")
	for _, command := range []string{"backtest c.yaml", "report alerts.jsonl -o a.html"} {
		code, _, errs := program.Run(t, dir, "", append(strings.Fields(command), "--marks", "bad.jsonl")...)
		if code != 2 || !strings.Contains(errs, "--marks: bad.jsonl:2: is not a mark: id: missing") {
			t.Errorf("%s: exit %d, %s", command, code, errs)
		}
	}
}
