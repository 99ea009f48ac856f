package pipeline

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/internal/testing/expect"
)

// fieldsOf returns fields of JSON objects by key. A later object replaces an earlier one.
func fieldsOf(t *testing.T, lines []string, fields ...string) map[string]map[string]any {
	t.Helper()
	byKey := map[string]map[string]any{}
	for _, line := range lines {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		selected := map[string]any{}
		for _, f := range fields {
			v, ok := o[f]
			if !ok {
				t.Fatalf("no %s in %s", f, line)
			}
			selected[f] = v
		}
		if e, ok := selected["estimate"].(map[string]any); ok {
			delete(e, "regime")
		}
		byKey[o["key"].(string)] = selected
	}
	return byKey
}

// rounded compares the mean of a level approximately: a record has it from the step, a state from the level.
var rounded = cmpopts.EquateApprox(1e-14, 0)

func listed(t *testing.T, text, key string) []string {
	t.Helper()
	var out bytes.Buffer
	expect.OK(t, ListStates(t.Context(), compose(t, text), key, &out, quiet))
	return strings.SplitAfter(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// A listed state has the values of the last record of its key.
func TestListStatesOfFile(t *testing.T) {
	for name, model := range map[string]string{
		"levels":  "model: {family: normal}\n",
		"fixed":   "model: {family: normal}\nlevels: []\ntop: 0.9\n",
		"detect":  "model: {family: normal}\ndetect: true\n",
		"warm-up": "model: {family: normal, prior: auto, warm_up: 40}\n",
	} {
		t.Run(name, func(t *testing.T) {
			states := filepath.Join(t.TempDir(), "states.bin")
			text := model + "state: " + states + "\nsource: {jsonl: {path: " + write(t, "in.jsonl", observations(300, 3)...) + "}}\n"
			s, records, rejected := runConfig(t, text)
			if s.Rejected > 0 {
				t.Fatal(rejected)
			}
			fields := []string{"key", "n", "time", "estimate", "weight", "memory", "levels", "posterior"}
			want := fieldsOf(t, records, fields...)
			if diff := cmp.Diff(want, fieldsOf(t, listed(t, text, ""), fields...), rounded); diff != "" || len(want) != 3 {
				t.Errorf("%d keys, (-last record +state) %s", len(want), diff)
			}
			single := listed(t, text, "k1")
			if len(single) != 1 || !strings.HasPrefix(single[0], `{"key":"k1","place":null,"written_with":{"order":"event_time","filter":{"family":`) {
				t.Errorf("one key: %s", single)
			}
		})
	}
}

// Listed states of a changelog have their positions. The error for an unreadable state follows the other states.
func TestListStatesOfChangelog(t *testing.T) {
	b, text := afterARun(t)
	fields := []string{"key", "n", "time", "estimate", "weight", "memory", "levels", "posterior"}
	lines := listed(t, text, "")
	want := fieldsOf(t, b.values(t, "out"), fields...)
	if diff := cmp.Diff(want, fieldsOf(t, lines, fields...), rounded); diff != "" {
		t.Errorf("%d keys, (-last record +state) %s", len(want), diff)
	}
	if !strings.HasPrefix(lines[0], `{"key":"k0","place":"states-`) {
		t.Error(lines[0])
	}
	good := sealedIn(t, b, "states")
	b.Produce(t, &kgo.Record{Topic: "states", Key: []byte("k1"), Value: good["k0"]})
	var out bytes.Buffer
	err := ListStates(t.Context(), compose(t, text), "", &out, quiet)
	if err == nil || err.Error() != `the state of the key "k1" in the changelog states cannot be read: it is the state of another key, "k0"` || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%v\n%s", err, out.String())
	}
	expect.Error(t, ListStates(t.Context(), compose(t, text), "k9", &out, quiet), `has no state of the key "k9"; it has states of 3 other keys`)
	// A run in progress is not disturbed.
	b.Produce(t, &kgo.Record{Topic: "states", Key: []byte("k1"), Value: good["k1"]})
	if err := execute(t, text, quiet); err != nil {
		t.Error(err)
	}
}

func TestListStatesRefuses(t *testing.T) {
	in := write(t, "in.jsonl", observations(10, 1)...)
	absent := filepath.Join(t.TempDir(), "none.bin")
	for want, text := range map[string]string{
		"neither source.kafka.changelog nor state is set":   "model: {family: normal}\n",
		"none.bin does not exist: no run has succeeded yet": "model: {family: normal}\nstate: " + absent + "\n",
		"only transform: filter keeps them":                 "transform: smooth\nmodel: {family: normal}\nsession: {gap: 30m}\n",
	} {
		err := ListStates(t.Context(), compose(t, text+"source: {jsonl: {path: "+in+"}}\n"), "", os.Stdout, quiet)
		expect.Error(t, err, want)
	}
}
