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

	"hafvf/connectors"
	"hafvf/hafvf/keyed"
	"hafvf/internal/tabular"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/statebackend"
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

// Another file with the records of a previous run is read completely. It has no new record: the run fails with a
// remedy, and the states stay unchanged.
func TestStateFileOfTheSameNight(t *testing.T) {
	states := filepath.Join(t.TempDir(), "states.bin")
	lines := observations(100, 3)
	text := "model: {family: normal}\nstate: " + states + "\nsource: {jsonl: {path: "
	runConfig(t, text+write(t, "in.jsonl", lines...)+"}}\n")
	before := readFile(t, states)
	s, _, _ := runConfig(t, text+write(t, "in.jsonl", lines[:50]...)+"}}\n")
	if s.Err() == nil || !strings.Contains(s.String(), "give only new records to a run with a state") {
		t.Errorf("error %v, summary %s", s.Err(), s)
	}
	if readFile(t, states) != before {
		t.Error("the states were replaced")
	}
}

// A growing is a source of files that grow between runs with one file of states.
type growing struct {
	config string
	put    func(t *testing.T, lines []string) // writes the lines to the files
}

func growingFiles(dir string) map[string]growing {
	path := func(name string) string { return filepath.Join(dir, name) }
	save := func(t *testing.T, name string, text []byte) {
		expect.OK(t, os.WriteFile(path(name), text, 0o600))
	}
	table := func(t *testing.T, name string, lines []string, w *connectors.Sink) {
		w.Path, w.Columns = path(name), []tabular.Column{{Path: "key"}, {Path: "time"}, {Path: "x", Kind: tabular.Number}}
		out := expect.Get(connectors.Create(*w))(t)
		for _, line := range lines {
			o := observationOf(t, line, "")
			expect.OK(t, out.Write(fmt.Appendf(nil, "%q\t%q\t%.17g\n", o.key, o.Time.Format(time.RFC3339), o.X[0][0])))
		}
		expect.OK(t, out.Commit())
	}
	return map[string]growing{
		"jsonl": {"jsonl: {path: " + path("in.jsonl") + "}", func(t *testing.T, lines []string) {
			save(t, "in.jsonl", []byte(strings.Join(lines, "")))
		}},
		"without a last line end": {"jsonl: {path: " + path("in.jsonl") + "}", func(t *testing.T, lines []string) {
			save(t, "in.jsonl", []byte(strings.TrimSuffix(strings.Join(lines, ""), "\n")))
		}},
		"csv": {"csv: {path: " + path("in.csv") + "}", func(t *testing.T, lines []string) {
			table(t, "in.csv", lines, &connectors.Sink{Format: connectors.CSV})
		}},
		"csv.gz": {"csv: {path: " + path("in.csv.gz") + "}", func(t *testing.T, lines []string) {
			table(t, "in.csv.gz", lines, &connectors.Sink{Format: connectors.CSV})
		}},
		"parquet": {"parquet: {path: " + path("in.parquet") + "}", func(t *testing.T, lines []string) {
			table(t, "in.parquet", lines, &connectors.Sink{Format: connectors.Parquet})
		}},
		"glob": {"jsonl: {path: " + path("*.log") + "}", func(t *testing.T, lines []string) {
			for i := 0; i*70 < len(lines); i++ {
				save(t, fmt.Sprintf("%02d.log", i), []byte(strings.Join(lines[i*70:min((i+1)*70, len(lines))], "")))
			}
		}},
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

// A growing file is read from the end of the previous run on: each record is learned once, also with equal times, and
// none is rejected.
func TestStateFileOfAGrowingFile(t *testing.T) {
	expect.Long(t, "many runs of a growing file")
	t.Parallel()
	lines := observations(300, 3)
	// Line 100, the boundary between two runs, lies between equal times of one key.
	for i := 90; i < 110; i++ {
		lines[i] = fmt.Sprintf("{\"key\":\"k0\",\"time\":%q,\"x\":%d.5}\n", start.Add(90*time.Second).Format(time.RFC3339), i)
	}
	for name, file := range growingFiles(t.TempDir()) {
		t.Run(name, func(t *testing.T) {
			text := "model: {family: normal}\nsource: {" + file.config + "}\nstate: " + filepath.Join(t.TempDir(), "states")
			var outputs []string
			read := 0
			for _, n := range []int{100, 150, 150, 290, 300} { // at the end, fewer than a tenth are new
				file.put(t, lines[:n])
				s, estimates, _ := runConfig(t, text+"\n")
				equal(t, [3]int64{int64(n - read), int64(read), 0}, [3]int64{s.Records, s.AlreadyRead, s.Rejected})
				if n > read {
					outputs = append(outputs, estimates...)
				}
				read = n
			}
			want := plainLoop(t, keyed.Config{Filter: normalConfig}, lines, "in.jsonl")
			if diff := cmp.Diff(withoutID(want), withoutID(byKey(t, outputs))); diff != "" {
				t.Errorf("one night (-) and five (+): %s", diff)
			}
		})
	}
}

// A replaced file is read from its beginning. A last line that was incomplete is read again when it is complete.
func TestStateFileOfAnotherFile(t *testing.T) {
	lines := observations(30, 1)
	later := observations(60, 1)[30:]
	for _, test := range []struct {
		name           string
		first, second  []string
		records, times int64 // of the second run
		log            string
	}{
		{"replaced", lines, later, 30, 0, "file was replaced since the previous run: reading it from the start"},
		{"shorter", lines, later[:3], 3, 0, "file was replaced since the previous run: reading it from the start"},
		{"half a line", append(lines[:29:29], lines[29][:len(lines[29])/2]), lines, 1, 29, "last record has changed since the previous run: reading it again"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in, state := filepath.Join(t.TempDir(), "in.jsonl"), filepath.Join(t.TempDir(), "state")
			var logged bytes.Buffer
			var s Summary
			for _, lines := range [][]string{test.first, test.second} {
				save(t, in, lines...)
				g := compose(t, "model: {family: normal}\nsource: {jsonl: {path: "+in+"}}\nstate: "+state+"\nsink: none\ndead_letter: {jsonl: {path: "+state+".rejected}}\n")
				var err error
				if s, err = (Run{Graph: g, Log: slog.New(slog.NewTextHandler(&logged, nil))}).Execute(context.Background(), nil); err != nil || s.Err() != nil {
					t.Fatal(err, s.Err())
				}
			}
			equal(t, [3]int64{test.records, test.times, 0}, [3]int64{s.Records, s.AlreadyRead, s.Rejected})
			if !strings.Contains(logged.String(), test.log) {
				t.Errorf("the log has no %q: %s", test.log, &logged)
			}
		})
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

// If two runs use one file of states, the second fails with an error that names the first. A run that has ended or was
// killed does not block it.
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
	unlock := expect.Get(statebackend.Lock(state, "stop it", quiet))(t)
	for _, path := range []string{state, link} {
		_, err := Run{Graph: compose(t, text(path))}.Execute(context.Background(), nil)
		if want := fmt.Sprintf("state: %s: another run holds it: process %d on ", path, os.Getpid()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, not %s…", err, want)
		}
	}
	unlock()
	expect.OK(t, os.WriteFile(filepath.Join(dir, ".state.lock"), []byte("process 1 on a machine that has crashed"), 0o600))
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
