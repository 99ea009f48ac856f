package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
	"hafvf/pipeline/records"
)

// A mark is printed, appended to a file as a whole line, or sent to where a config has its marks.
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
	at := []string{"--time", "2026-03-01T12:00:00Z"}
	all := append(at, "in-0-4711", "false", "--key", "pump", "--note", "a test")
	run(0, line, "", all...)
	run(0, "", "", append(all, "-o", "marks.jsonl")...)
	run(0, "", "", append(all, "--config", "c.yaml")...)
	f := expect.Get(os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0o600))(t)
	expect.Get(f.WriteString("by hand"))(t)
	expect.OK(t, f.Close())
	run(0, "", "", append(at, "b", "expected", "-o", file)...)
	if text := string(expect.Get(os.ReadFile(file))(t)); text != line+line+"by hand\n"+`{"id":"b","mark":"expected","time":"2026-03-01T12:00:00Z"}`+"\n" {
		t.Errorf("%s", text)
	}
	run(2, "", `hafvf: "wrong" is none of false, true, expected: give one of them behind the id`, "a", "wrong")
	run(2, "", "hafvf: accepts 2 arg(s), received 1", "a")
	run(2, "", "hafvf: id: missing", "", "true")
	run(2, "", `hafvf: --time: "noon" is not a time such as 2026-01-02T03:04:05Z`, "a", "true", "--time", "noon")
	run(2, "", "hafvf: none.yaml has no marks: add marks: {jsonl: {path: marks.jsonl}}", "a", "true", "--config", "none.yaml")
	run(2, "", "hafvf: -o and --config both say where the mark goes", "a", "true", "--config", "c.yaml", "-o", "a.jsonl")
	run(1, "", "hafvf: open nowhere/a.jsonl", "a", "true", "-o", "nowhere/a.jsonl")
	_, out, _ := program.Run(t, dir, "", "mark", "a", "true")
	if m := expect.Get(records.ParseMark([]byte(out)))(t); time.Since(m.Time) > time.Hour || m.Key != nil {
		t.Errorf("%s", out)
	}
}
