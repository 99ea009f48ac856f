package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

// States of files forget keys between runs alone, and say which. Those of a savepoint are the job's.
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
	saved, err := filepath.Glob("../../pipeline/flink/savepoint/testdata/*/_metadata")
	if err != nil || len(saved) == 0 {
		t.Skip("there are no savepoints", err)
	}
	path := expect.Get(filepath.Abs(saved[0]))(t)
	run("", 2, "", "is a savepoint, which only a job on Flink changes: set source.kafka.tombstones: forget", "states", "forget", path, "--key", "*")
}

// TestKafkaForget: a key of a changelog is forgotten between two runs, and begins anew. While a run
// goes on, that is refused, and the run does not notice. All else is as in one run.
func TestKafkaForget(t *testing.T) {
	expect.Waits(t, "a broker in Java")
	b := kafkatest.Start(t, kafkatest.Config{})
	for _, topic := range []string{"in", "forgets-out", "forgets-rejected"} {
		b.CreateTopic(t, topic, 4, nil)
	}
	cfg := kafkaConfig(t, b, "forgets", "")
	all := e2e.Observations("in", 6_000, 40, 11)
	feed := func(d *e2e.Daemon, part int) {
		t.Helper()
		expect.OK(t, <-e2e.Feed(t, b, all[part*2000:(part+1)*2000], time.Second))
		d.Eventually(t, "all is read", func() bool {
			return e2e.Held(t, b, "forgets-out")+e2e.Held(t, b, "forgets-rejected") >= int64(2000*(part+1))
		})
	}
	d := program.Start(t, nil, "run", cfg)
	feed(d, 0)
	forget := func(code int, stdout, stderr string, keys ...string) {
		t.Helper()
		args := []string{"states", "forget", cfg}
		for _, k := range keys {
			args = append(args, "--key", k)
		}
		got, out, errs := program.Run(t, "", "", args...)
		if got != code || out != stdout || !strings.Contains(errs, stderr) {
			t.Errorf("forget %v: exit %d, %q, standard error: %s", keys, got, out, errs)
		}
	}
	forget(1, "", "hafvf: the changelog forgets-states is in use: run ", "k7")
	feed(d, 1)
	d.Stop(t)

	forget(1, "", `hafvf: no key matches "q*" in the changelog forgets-states`, "q*")
	forget(0, "forgot 3 keys of 40 in the changelog forgets-states\n", "forgot k30\nforgot k35\nforgot k7\n", "k7", "k3[05]")
	d = program.Start(t, nil, "run", cfg)
	feed(d, 2)
	d.Stop(t)

	program.Start(t, nil, "run", kafkaConfig(t, b, "whole", ", bounded: true")).Ends(t, 0)
	want, _ := e2e.ByID(t, b, "whole-out")
	got, repeats := e2e.ByID(t, b, "forgets-out") // no record came twice: the offsets have not moved
	if repeats > 0 {
		t.Errorf("%d repeats", repeats)
	}
	begun := map[string]int{}
	for _, values := range []map[string]string{want, got} {
		maps.DeleteFunc(values, func(_, value string) bool {
			var e struct {
				Key string
				N   int
			}
			expect.OK(t, json.Unmarshal([]byte(value), &e))
			if e.N == 1 {
				begun[e.Key]++
			}
			return slices.Contains([]string{"k7", "k30", "k35"}, e.Key)
		})
	}
	for key, n := range begun {
		if forgotten := slices.Contains([]string{"k7", "k30", "k35"}, key); forgotten && n != 3 || !forgotten && n != 2 {
			t.Errorf("%s has begun %d times in two runs", key, n)
		}
	}
	e2e.Same(t, "out", want, got, repeats)
}
