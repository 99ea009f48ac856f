package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

// Keys in a state file can be forgotten only between runs. The output lists them.
func TestForgetInFile(t *testing.T) {
	dir := t.TempDir()
	save := func(name, text string) {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	save("c.yaml", "model: {family: normal}\norder: arrival\nstate: s.bin\nsource: {csv: {path: '-'}}\nsink: {jsonl: {path: out.jsonl}}\n")
	run := func(stdin string, code int, stdout, stderr string, args ...string) {
		t.Helper()
		got, out, errs := program.Run(t, dir, stdin, args...)
		if got != code || out != stdout || !strings.Contains(errs, stderr) {
			t.Errorf("hafvf %s: exit %d, %q, standard error: %s", strings.Join(args, " "), got, out, errs)
		}
	}
	var rows strings.Builder
	rows.WriteString("key,time,x\n")
	for i := range 40 {
		fmt.Fprintf(&rows, "k%d,,%d\n", i%20, i)
	}
	run(rows.String(), 0, "", "20 keys", "run", "c.yaml")

	d := program.Pipe(t, dir, "run", "c.yaml")
	lock := filepath.Join(dir, ".s.bin.lock")
	d.Eventually(t, "a lock", func() bool { text, _ := os.ReadFile(lock); return len(text) > 0 })
	run("", 1, "", "hafvf: state: s.bin: another run holds it: process ", "states", "forget", "c.yaml", "--key", "k3")
	d.Say(t, "key,time,x\nk3,,1\n")
	d.CloseInput(t)
	d.Ends(t, 0)

	run("", 1, "", `hafvf: no key matches "p*" in s.bin`, "states", "forget", "s.bin", "--key", "p*")
	run("", 0, "forgot 2 keys of 20 in s.bin\n", "forgot k3\nforgot k4\n", "states", "forget", "c.yaml", "--key", "k4", "--key", "k3")
	run(rows.String(), 0, "", "20 keys", "run", "c.yaml")
	text := expect.Get(os.ReadFile(filepath.Join(dir, "out.jsonl")))(t)
	for _, want := range []string{`{"key":"k3","time":null,"id":"stdin:5","n":1,`, `{"key":"k5","time":null,"id":"stdin:7","n":3,`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %.500s", want, text)
		}
	}
	code, out, errs := program.Run(t, dir, "", "states", "forget", "s.bin", "--key", "*")
	if code != 0 || out != "forgot 20 keys of 20 in s.bin\n" || errs != "" {
		t.Errorf("all: exit %d, %q, %q", code, out, errs)
	}
}
