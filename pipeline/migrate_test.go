package pipeline

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
)

// States of another config are refused with the names of the differing settings. CheckStates reports what can be kept.
// A run with Migrate keeps it, and the next run does not need Migrate.
func TestMigrateStates(t *testing.T) {
	states := filepath.Join(t.TempDir(), "states.bin")
	lines := observations(600, 3)
	b := fakeBus(t, 2, "out")
	file := func(part []string, rest string) string {
		return rest + "state: " + states + "\nsource: {jsonl: {path: " + write(t, "in.jsonl", part...) + "}}\nsink: none\n"
	}
	topic := func(part []string, rest string) string {
		b.put(t, part...)
		return strings.Replace(b.config("group: g, changelog: states, bounded: true", rest), "model: {family: normal}\n", "", 1)
	}
	const before, after = "model: {family: normal}\n", "model: {family: normal, prior: {kappa: .1}}\nlevels: [{alpha: 9, beta: 1}]\ndetect: true\n"
	const want = "3 keys: samples kept; levels, detection and alarms start over"
	for _, c := range []struct {
		where  string
		text   func(part []string, rest string) string
		place  string
		remedy string
		hint   string
	}{
		{"file", file, states, "; use another file, ",
			"because no past can be read again; hafvf run does this with --migrate, and refuses the states without it"},
		{"changelog", topic, "states", "; use another changelog, ", "from the past, 200 records of in, without writing records or alerts, and " +
			"keeps the other keys as listed here; without --migrate it refuses the states"},
	} {
		t.Run(c.where, func(t *testing.T) {
			expect.OK(t, execute(t, c.text(lines[:200], before), quiet))
			second := c.text(lines[200:400], after)
			err := execute(t, second, quiet)
			for _, text := range []string{"does not fit the config, at the key ", "with other model.prior, ", c.remedy, "--migrate"} {
				expect.Error(t, err, text, "without Migrate")
			}
			expect.Same(t, true, errors.Is(err, keyed.ErrOtherConfig))
			says, err := CheckStates(t.Context(), compose(t, second), c.place, quiet)
			if err != nil || !strings.Contains(says, want) || !strings.HasSuffix(says, c.hint) {
				t.Errorf("%s: %v", says, err)
			}
			expect.Get(Run{Graph: compose(t, second), Migrate: true}.Execute(t.Context(), nil))(t)
			says, err = CheckStates(t.Context(), compose(t, second), c.place, quiet)
			if err != nil || !strings.HasSuffix(says, ": 3 keys: unchanged") {
				t.Errorf("after it: %s: %v", says, err)
			}
			if err := execute(t, c.text(lines[400:], after), quiet); err != nil {
				t.Error(err)
			}
			var out bytes.Buffer
			if err := ListStates(t.Context(), compose(t, second), "k1", &out, quiet); err != nil || !strings.Contains(out.String(), `"n":187,`) {
				t.Errorf("%v, %s", err, out.String())
			}
		})
	}
	t.Run("another family", func(t *testing.T) {
		g := compose(t, file(nil, "model: {family: exponential}\n"))
		_, err := CheckStates(t.Context(), g, states, quiet)
		expect.Error(t, err, "it has another model.family, and no part of it can be used")
		_, err = Run{Graph: g, Migrate: true}.Execute(t.Context(), nil)
		expect.Error(t, err, "another model.family")
		_, err = CheckStates(t.Context(), g, "none", quiet)
		expect.Error(t, err, "none is not a file of states")
	})
	t.Run("a file by itself", func(t *testing.T) {
		var out bytes.Buffer
		if err := ListStatesIn(states, "", &out); err != nil || strings.Count(out.String(), "\n") != 3 {
			t.Errorf("%v, %s", err, out.String())
		}
	})
}

// Keys without new records are migrated in the changelog too.
func TestMigrateSilentKeys(t *testing.T) {
	b, text := afterARun(t)
	expect.Get(Run{Graph: compose(t, text+"levels: []\ntop: .9\n"), Migrate: true}.Execute(t.Context(), nil))(t)
	for key, value := range sealedIn(t, b, "states") {
		if !bytes.Contains(value, []byte(`"top":0.9`)) {
			t.Errorf("%s is still of the old config", key)
		}
	}
}

// A changelog belongs to the outputs of its run. A config with other outputs is refused without Migrate.
func TestChangelogOfOtherOutputs(t *testing.T) {
	_, text := afterARun(t)
	changed := strings.Replace(text, "topic: out", "topic: estimates", 1)
	expect.Error(t, execute(t, changed, quiet), "this config differs: sink was kafka out and is kafka estimates;")
	expect.Get(Run{Graph: compose(t, changed), Migrate: true}.Execute(t.Context(), nil))(t)
}
