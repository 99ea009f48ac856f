package pipeline

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hafvf/hafvf/keyed"
)

// nights runs a config over one file after another, with one file of states.
func nights(t *testing.T, text string, files ...[]string) (all []string) {
	t.Helper()
	states := filepath.Join(t.TempDir(), "states.bin")
	for _, lines := range files {
		path := write(t, "in.jsonl", lines...)
		s, estimates, rejected := runConfig(t, text+"state: "+states+"\nsource: {jsonl: {path: "+path+"}}\n")
		if s.Rejected != 0 {
			t.Fatalf("%d rejected: %v", s.Rejected, rejected)
		}
		all = append(all, estimates...)
	}
	return all
}

// withoutID leaves out what differs between two files and one.
func withoutID(records map[string][]string) map[string][]string {
	for _, lines := range records {
		for i, line := range lines {
			from := strings.Index(line, `"id":`)
			to := from + strings.Index(line[from:], `,"n":`)
			lines[i] = line[:from] + line[to:]
		}
	}
	return records
}

// Two nights are one: what a run of files has learned, waited for and alarmed is there in
// the next.
func TestStateFileGoesOn(t *testing.T) {
	lines := observations(3000, 20)
	for name, text := range map[string]string{
		"levels": "model: {family: normal}\n",
		"detect": "model: {family: normal, prior: auto, warm_up: 80}\ndetect: {budget: 200}\n",
	} {
		t.Run(name, func(t *testing.T) {
			want := withoutID(byKey(t, nights(t, text, lines)))
			// One night is of a few keys alone: the others keep their states.
			few := slices.DeleteFunc(slices.Clone(lines[1000:2000]), func(l string) bool { return !strings.Contains(l, `"k1`) })
			rest := slices.DeleteFunc(slices.Clone(lines[1000:2000]), func(l string) bool { return strings.Contains(l, `"k1`) })
			got := withoutID(byKey(t, nights(t, text, lines[:1000], few, rest, lines[2000:])))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("one night (-) and four (+): %s", diff)
			}
		})
	}
}

// A run that was given yesterday's file again fails, says why, and leaves the states.
func TestStateFileOfTheSameNight(t *testing.T) {
	states := filepath.Join(t.TempDir(), "states.bin")
	path := write(t, "in.jsonl", observations(100, 3)...)
	text := "model: {family: normal}\nstate: " + states + "\nsource: {jsonl: {path: " + path + "}}\n"
	runConfig(t, text)
	before, err := os.ReadFile(states)
	if err != nil {
		t.Fatal(err)
	}
	s, _, _ := runConfig(t, text)
	if s.Err() == nil || !strings.Contains(s.String(), "give a run with a state new records only") {
		t.Errorf("error %v, summary %s", s.Err(), s)
	}
	if after, err := os.ReadFile(states); err != nil || string(after) != string(before) {
		t.Errorf("the states were replaced: %v", err)
	}
}

// What the state file cannot be is refused before anything is read, and the file stays.
func TestStateFileRefuses(t *testing.T) {
	dir := t.TempDir()
	states, in := filepath.Join(dir, "states.bin"), write(t, "in.jsonl", observations(100, 3)...)
	run := func(text string) error {
		g := compose(t, text+"state: "+states+"\nsource: {jsonl: {path: "+in+"}}\nsink: none\n")
		_, err := Run{Graph: g}.Execute(context.Background(), nil)
		return err
	}
	if err := run("model: {family: normal}\n"); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(states)
	if err != nil {
		t.Fatal(err)
	}
	if err := run("model: {family: normal, prior: {mu: 3}}\n"); err == nil || !strings.Contains(err.Error(), "does not fit the config, at the key") {
		t.Errorf("another prior: %v", err)
	}
	if now, err := os.ReadFile(states); err != nil || string(now) != string(good) {
		t.Errorf("the file was changed: %v", err)
	}
	flipped := slices.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for what, bad := range map[string][]byte{"cut": good[:len(good)-9], "damaged": flipped, "text": []byte("key,time,x\n"), "empty": {}} {
		if err := os.WriteFile(states, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run("model: {family: normal}\n"); err == nil || !strings.Contains(err.Error(), "is no file of states, or it is damaged") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// History first, then the topic: a run of topics begins with the states of a run of
// files, also after a restart, of keys that the first run had not met.
func TestStateFileWarmsUpATopic(t *testing.T) {
	for _, changelog := range []string{"", ", changelog: states"} {
		t.Run(fmt.Sprintf("changelog=%v", changelog != ""), func(t *testing.T) {
			lines := observations(3000, 20)
			states := filepath.Join(t.TempDir(), "states.bin")
			history := write(t, "in.jsonl", lines[:1000]...)
			_, before, _ := runConfig(t, "model: {family: normal}\nstate: "+states+"\nsource: {jsonl: {path: "+history+"}}\n")

			b := fakeBus(t, 2)
			b.CreateTopic(t, "out", 2, nil)
			cfg := b.config("group: g"+changelog, "state: "+states+"\n")
			first := slices.DeleteFunc(slices.Clone(lines[1000:2000]), func(l string) bool { return !strings.Contains(l, `"k1`) })
			second := slices.DeleteFunc(slices.Clone(lines[1000:]), func(l string) bool { return strings.Contains(l, `"k1`) })
			b.put(t, first...)
			r := launch(t, compose(t, cfg))
			b.await(t, "out", len(first), r)
			r.halt(t)
			b.put(t, second...)
			r = launch(t, compose(t, cfg))
			b.await(t, "out", len(first)+len(second), r)
			r.halt(t)

			got := byKey(t, append(before, b.values(t, "out")...))
			want := plainLoop(t, keyed.Config{Filter: normalConfig}, slices.Concat(lines[:1000], first, second), "in.jsonl")
			if diff := cmp.Diff(withoutID(want), withoutID(got)); diff != "" {
				t.Errorf("(-want +got) %s", diff)
			}
		})
	}
}

// Of two runs with one file of states, the second says who has it; a run that has ended, or was
// killed, blocks none.
func TestStateFileIsLocked(t *testing.T) {
	dir := t.TempDir()
	state, link := filepath.Join(dir, "state"), filepath.Join(dir, "link")
	in := write(t, "in.jsonl", observations(100, 3)...)
	text := func(state string) string {
		return "model: {family: normal}\nstate: " + state + "\nsource: {jsonl: {path: " + in + "}}\nsink: none\n"
	}
	runWell(t, text(state))
	if err := os.Symlink(state, link); err != nil {
		t.Skip(err)
	}
	before := readFile(t, state)
	unlock, err := lockStates(state, quiet)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{state, link} {
		_, err := Run{Graph: compose(t, text(path))}.Execute(context.Background(), nil)
		if want := fmt.Sprintf("state: %s: another run holds it: process %d on ", path, os.Getpid()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, not %s…", err, want)
		}
	}
	unlock()
	if err := os.WriteFile(filepath.Join(dir, ".state.lock"), []byte("process 1 on a machine that has crashed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if readFile(t, state) != before {
		t.Error("a run that was refused changed the file")
	}
	if _, err := (Run{Graph: compose(t, text(link))}).Execute(context.Background(), nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".state.lock")); err == nil {
		t.Error("the lock was left")
	}
}
