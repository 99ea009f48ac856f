package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
)

// withoutID removes the IDs, which differ between two files and one.
func withoutID(records map[string][]string) map[string][]string {
	for _, lines := range records {
		for i, line := range lines {
			begin := strings.Index(line, `"id":`)
			end := begin + strings.Index(line[begin:], `,"n":`)
			lines[i] = line[:begin] + line[end:]
		}
	}
	return records
}

// A file that was replaced by one with records of a previous run is read from its start, which is logged. It has no new
// record: the run fails with a remedy, and the states stay unchanged.
func TestStateFileOfTheSameNight(t *testing.T) {
	dir, lines := t.TempDir(), observations(100, 3)
	in, states := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "states.bin")
	text := "model: {family: normal}\nsink: none\nstate: " + states + "\nsource: {jsonl: {path: " + in + "}}\n"
	save(t, in, lines...)
	runWell(t, text)
	before := readFile(t, states)
	save(t, in, lines[:50]...)
	var log strings.Builder
	s := expect.Get(Run{Graph: compose(t, text), Log: slog.New(slog.NewTextHandler(&log, nil))}.Execute(t.Context(), nil))(t)
	if s.Err() == nil || !strings.Contains(s.String(), "give only new records to a run with a state") {
		t.Errorf("error %v, summary %s", s.Err(), s)
	}
	if readFile(t, states) != before || !strings.Contains(log.String(), "file was replaced since the previous run") {
		t.Errorf("the states were replaced, or the log does not name the file: %s", &log)
	}
}

// A second run with the same states leaves sink, alerts and dead letter of the first run unchanged if the source has no
// new record. A missing output is created empty. With a new record, or a rejected one, the outputs are those of the
// second run.
func TestSecondRunWithoutNewRecords(t *testing.T) {
	dir := t.TempDir()
	inDir := func(name string) string { return filepath.Join(dir, name) }
	lines := slices.Concat(spikes(0, 0, "a"), spikes(1, 20, "a"), []string{"no JSON\n"})
	save(t, inDir("in.jsonl"), lines...)
	outputs := []string{"out.parquet", "alerts.jsonl", "dead.jsonl"}
	text := fmt.Sprintf("model: {family: normal}\ndetect: true\nstate: %s\nsource: {jsonl: {path: %s}}\nsink: {parquet: {path: %s}}\nalerts: {jsonl: {path: %s}}\ndead_letter: {jsonl: {path: %s}}\n",
		inDir("states"), inDir("in.jsonl"), inDir(outputs[0]), inDir(outputs[1]), inDir(outputs[2]))
	contents := func() (texts []string) {
		for _, name := range outputs {
			texts = append(texts, readFile(t, inDir(name)))
		}
		return texts
	}
	const nothing = "no new records: "
	if s := runWell(t, text); strings.HasPrefix(s.String(), nothing) {
		t.Errorf("%s", s)
	}
	first, old := contents(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, name := range outputs {
		if expect.OK(t, os.Chtimes(inDir(name), old, old)); first[i] == "" {
			t.Fatalf("%s is empty", name)
		}
	}
	if s := runWell(t, text); !strings.HasPrefix(s.String(), nothing) {
		t.Errorf("%s", s)
	}
	equal(t, first, contents())
	for _, name := range outputs {
		if got := expect.Get(os.Stat(inDir(name)))(t).ModTime(); !got.Equal(old) {
			t.Errorf("%s was written at %v", name, got)
		}
	}
	expect.OK(t, os.Remove(inDir("dead.jsonl")))
	runWell(t, text)
	equal(t, []string{first[0], first[1], ""}, contents())
	save(t, inDir("in.jsonl"), append(lines, "none either\n")...)
	_, err := Run{Graph: compose(t, text)}.Execute(t.Context(), nil)
	expect.OK(t, err)
	equal(t, first[0], contents()[0]) // no record could be used: the outputs of the previous run stay
	save(t, inDir("in.jsonl"), append(lines, "none either\n", spikes(2, 0, "a")[0])...)
	if s := runWell(t, text); strings.HasPrefix(s.String(), nothing) {
		t.Errorf("%s", s)
	}
	if got := contents(); got[0] == first[0] || got[1] != "" || got[2] == "" {
		t.Errorf("%q", got[1:])
	}
}

// An invalid file of states is refused before the source is read, and stays unchanged.
func TestStateFileRefuses(t *testing.T) {
	dir := t.TempDir()
	states, in := filepath.Join(dir, "states.bin"), write(t, "in.jsonl", observations(100, 3)...)
	run := func(text string) error {
		g := compose(t, text+"state: "+states+"\nsource: {jsonl: {path: "+in+"}}\nsink: none\n")
		_, err := Run{Graph: g}.Execute(context.Background(), nil)
		return err
	}
	expect.OK(t, run("model: {family: normal}\n"))
	good := expect.Get(os.ReadFile(states))(t)
	expect.Error(t, run("model: {family: normal, prior: {mu: 3}}\n"), "does not fit the config, at the key")
	if current, err := os.ReadFile(states); err != nil || string(current) != string(good) {
		t.Errorf("the file was changed: %v", err)
	}
	flipped := slices.Clone(good)
	flipped[len(flipped)/2] ^= 1
	older := bytes.Replace(good, []byte("hafvf states 2\n"), []byte("hafvf states 1\n"), 1)
	for name, bad := range map[string][]byte{
		"cut": good[:len(good)-9], "damaged": flipped, "older": older, "text": []byte("key,time,x\n"), "empty": {},
	} {
		expect.OK(t, os.WriteFile(states, bad, 0o600))
		expect.Error(t, run("model: {family: normal}\n"), "is not a state file, or it is damaged", name)
	}
}

// A run of topics starts with the states of a run of files, also after a restart, and for keys that the topic did not
// have before.
func TestStateFileWarmsUpATopic(t *testing.T) {
	t.Parallel()
	for _, changelog := range []string{"", ", changelog: states"} {
		t.Run(fmt.Sprintf("changelog=%v", changelog != ""), func(t *testing.T) {
			lines := observations(3000, 20)
			states := filepath.Join(t.TempDir(), "states.bin")
			history := write(t, "in.jsonl", lines[:1000]...)
			_, before, _ := runConfig(t, "model: {family: normal}\nstate: "+states+"\nsource: {jsonl: {path: "+history+"}}\n")

			b := fakeBus(t, 2, "out")
			first := slices.DeleteFunc(slices.Clone(lines[1000:2000]), func(l string) bool { return !strings.Contains(l, `"k1`) })
			second := slices.DeleteFunc(slices.Clone(lines[1000:]), func(l string) bool { return strings.Contains(l, `"k1`) })
			for _, part := range [][]string{first, second} {
				b.put(t, part...)
				expect.OK(t, execute(t, b.config("bounded: true, group: g"+changelog, "state: "+states+"\n"), quiet))
			}
			got := byKey(t, append(before, b.values(t, "out")...))
			want := plainLoop(t, keyed.Config{Filter: normalConfig}, slices.Concat(lines[:1000], first, second), "in.jsonl")
			if diff := cmp.Diff(withoutID(want), withoutID(got)); diff != "" {
				t.Errorf("(-want +got) %s", diff)
			}
		})
	}
}
