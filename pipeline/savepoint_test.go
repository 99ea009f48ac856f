package pipeline

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/testing/expect"
)

const (
	savepoints    = "flink/savepoint/testdata/"
	ofSavepoints  = "model: {family: normal}\n"
	fromSomewhere = "source: {kafka: {brokers: [\"127.0.0.1:1\"], topics: [in]}}\n"
)

// What the states in a savepoint say is what the job's last records said.
func TestListSavepoint(t *testing.T) {
	const path = savepoints + "settings"
	text := expect.Get(os.ReadFile(savepoints + "settings.jsonl"))(t)
	fields := []string{"key", "n", "time", "estimate", "weight", "memory"}
	want := fieldsOf(t, lines(string(text)), fields...)
	g := compose(t, ofSavepoints+fromSomewhere)
	var out bytes.Buffer
	expect.OK(t, ListSavepoint(g, path, "", &out))
	if diff := cmp.Diff(want, fieldsOf(t, lines(out.String()), fields...), rounded); diff != "" || len(want) != 115 {
		t.Errorf("%d keys, (-last record +state) %s", len(want), diff)
	}
	var one bytes.Buffer
	if err := ListSavepoint(g, path, strings.Repeat("k7 µ/", 50), &one); err != nil || strings.Count(one.String(), "\n") != 1 || !strings.Contains(out.String(), one.String()) {
		t.Errorf("one key: %v, %s", err, one.String())
	}
	kept, err := CheckStates(t.Context(), g, path, quiet)
	if err != nil || kept != "the savepoint "+path+": 115 keys: unchanged" {
		t.Errorf("%s, %v", kept, err)
	}
}

// States that say what they were written with need no config, and another one can be told
// what it keeps of them.
func TestSavepointWithSettings(t *testing.T) {
	const path = savepoints + "settings"
	var under, alone bytes.Buffer
	expect.OK(t, ListSavepoint(compose(t, ofSavepoints+"top: 0.5\n"+fromSomewhere), path, "", &under))
	expect.OK(t, ListStatesIn(path, "", &alone))
	if diff := cmp.Diff(alone.String(), under.String()); diff != "" || strings.Count(alone.String(), "\n") != 115 {
		t.Errorf("(-alone +under another config) %.2000s", diff)
	}
	for config, want := range map[string]string{
		ofSavepoints + "top: 0.5\n":     "115 keys: samples kept; levels start over; what starts over is lost, as no past is read again; hafvf run does so with --migrate, and refuses them without",
		ofSavepoints + "detect: true\n": "115 keys: samples and levels kept; shares, detection and alarms start over",
	} {
		kept, err := CheckStates(t.Context(), compose(t, config+fromSomewhere), path, quiet)
		if err != nil || !strings.Contains(kept, want) {
			t.Errorf("%s, %v\nwant %s", kept, err, want)
		}
	}
	_, err := CheckStates(t.Context(), compose(t, "model: {family: poisson}\n"+fromSomewhere), path, quiet)
	expect.Error(t, err, "it has another model.family, and nothing of it means the same")
}

func lines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

func TestListSavepointRefuses(t *testing.T) {
	const one, without = savepoints + "settings", savepoints + "hashmap" // whose cells do not say what they were written with
	none := t.TempDir()
	var out bytes.Buffer
	list := func(text, path, key string) error {
		return ListSavepoint(compose(t, text+fromSomewhere), path, key, &out)
	}
	check := func(text, place string) error {
		_, err := CheckStates(t.Context(), compose(t, text+fromSomewhere), place, quiet)
		return err
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{list(ofSavepoints, one, "k200"), `has no state of the key "k200"; it has those of 115 other keys`},
		{list(ofSavepoints, none, ""), "there is no _metadata"},
		{list(ofSavepoints, without, ""), "without the savepoint"},
		{ListStatesIn(without, "k8", &out), "without the savepoint"},
		{check(ofSavepoints, without), "without the savepoint"},
		{ListSavepoint(compose(t, "transform: smooth\nsession: {gap: 30m}\n"+ofSavepoints+"source: {jsonl: {path: in.jsonl}}\n"), one, "", &out), "they belong to transform: filter"},
		{check(ofSavepoints+"sink: none\ndead_letter: {kafka: {topic: rejected}}\nrunner: {name: flink, endpoint: \"a:1\", rest: \"http://a:2\", worker: \"a:3\"}\n", ""), "on Flink the job keeps the states"},
		{check(ofSavepoints, none), none + " is not a file of states, nor a savepoint on this machine"},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("%v\nwant %s", test.err, test.want)
		}
	}
	if out.Len() > 0 {
		t.Error(out.String())
	}
}

// The states of a job with cells: 0 do not say what they were written with. They are read
// under the config, and another one cannot be told what it keeps of them.
func TestStatesWithoutSettings(t *testing.T) {
	all := expect.Get(savepointStates(savepoints + "settings"))(t)
	for i := range all {
		all[i].Settings = ""
	}
	of := func(text string) filtering { return compose(t, text+fromSomewhere).transform.(filtering) }
	own, other := of(ofSavepoints), of(ofSavepoints+"top: 0.5\n")
	var out bytes.Buffer
	if err := listStates(all, "here", &own.cfg, "", &out); err != nil || strings.Count(out.String(), `"written_with":null`) != 115 {
		t.Errorf("%v, %.2000s", err, out.String())
	}
	out.Reset()
	for want, err := range map[string]error{
		"it does not say which config it was written with":                                              listStates(all, "here", nil, "", &out),
		`the state of the key "k0" in here cannot be read: state belongs to another configuration`:      listStates(all, "here", &other.cfg, "k0", &out),
		`the state of the key "k0" in here cannot be carried over: it is of a job with cells: 0, whose`: second(statestore.Migrate(other.cfg, slices.Values(all), statestore.Carry, "here", func(statestore.State, bool) {})),
	} {
		expect.Error(t, err, want)
	}
	if out.Len() > 0 {
		t.Error(out.String())
	}
}

func second[T any](_ T, err error) error { return err }

// A savepoint in which the name of a state is damaged does not look like one with fewer
// keys.
func TestListDamagedSavepoint(t *testing.T) {
	for from, to := range map[string]string{
		"\x00\x06entity":   "\x00\x06Entity",
		"\x00\x03log":      "\x00\x03Log",
		"\x00\x08settings": "\x00\x08Settings",
	} {
		folder := t.TempDir()
		expect.OK(t, os.CopyFS(folder, os.DirFS(savepoints+"settings")))
		files, err := filepath.Glob(folder + "/*-*")
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		data := expect.Get(os.ReadFile(files[0]))(t)
		if !bytes.Contains(data, []byte(from)) {
			t.Fatalf("no %q", from)
		}
		expect.OK(t, os.WriteFile(files[0], bytes.ReplaceAll(data, []byte(from), []byte(to)), 0o600))
		var out bytes.Buffer
		if err := ListSavepoint(compose(t, ofSavepoints+fromSomewhere), folder, "", &out); err == nil || out.Len() > 0 {
			t.Errorf("%q in place of %q: %v, %d keys", to, from, err, strings.Count(out.String(), "\n"))
		} else {
			t.Log(err)
		}
	}
}
