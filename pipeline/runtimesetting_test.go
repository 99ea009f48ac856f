package pipeline

import (
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/account"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/records"
	"hafvf/pipeline/settings"
	"hafvf/transforms"
)

// A gatedRunner is an account.Runner that sends the argument of Resume.
type gatedRunner chan error

func (r gatedRunner) Stalled() (string, time.Time) { return "", time.Time{} }
func (r gatedRunner) Resume(err error)             { r <- err }

// A settingInput is where a user changes a runtime setting.
type settingInput struct {
	config string
	key    string                                   // of the stored value
	change func(t *testing.T, g *Graph, key string) // adds a key
	poll   func(t *testing.T, r *run)
	stored func(b []byte) (keys []string)
	used   func(run *account.Run) (keys []string) // by filters
}

// settingInputs returns the inputs by name.
func settingInputs(t *testing.T) map[string]settingInput {
	dir := t.TempDir()
	quietFile, quietLines := filepath.Join(dir, "maintenance.jsonl"), []string(nil)
	save(t, quietFile)
	marksFile := filepath.Join(dir, "marks.jsonl")
	addMark := func(t *testing.T, g *Graph, key string) {
		mark := records.Mark{ID: "in-0-" + key, Mark: records.MarkedFalse, Key: &key, Time: start, Start: start, Side: records.Above, Size: 5}
		expect.OK(t, SendMarks(t.Context(), g.marks, []records.Mark{mark}, quiet))
	}
	pollMarks := func(t *testing.T, r *run) { expect.OK(t, r.marks.poll(t.Context())) }
	storedMarks := func(b []byte) (keys []string) {
		var m markState
		expect.OK(t, json.Unmarshal(b, &m))
		for _, mark := range m.Marks {
			keys = append(keys, *mark.Key)
		}
		return keys
	}
	usedMarks := func(run *account.Run) []string {
		return slices.Sorted(maps.Keys(*account.Value[*transforms.FalseMarks](run, "").Load()))
	}
	patterns := func(times []keyed.QuietTime) (matches []string) {
		for _, q := range times {
			matches = append(matches, q.Match)
		}
		return matches
	}
	return map[string]settingInput{
		"quiet file": {
			"quiet: [{file: " + quietFile + "}]\n", statestore.QuietKey,
			func(t *testing.T, _ *Graph, key string) {
				quietLines = append(quietLines, always(key))
				replace(t, quietFile, quietLines...)
			},
			func(_ *testing.T, r *run) { r.quiet.polled = time.Time{}; r.quiet.poll() },
			func(b []byte) []string { times, _ := settings.ParseQuiet(b); return patterns(times) },
			func(run *account.Run) []string {
				return patterns(*account.Value[*transforms.QuietTimes](run, "").Load())
			},
		},
		"marks file":  {"marks: {jsonl: {path: " + marksFile + "}}\n", statestore.MarksKey, addMark, pollMarks, storedMarks, usedMarks},
		"marks topic": {"marks: {kafka: {topic: marks}}\n", statestore.MarksKey, addMark, pollMarks, storedMarks, usedMarks},
	}
}

// A runtime setting, wherever a user changes it, applies after the commit that stores it, and only if this commit
// succeeds. A change during the commit waits for the next one. A later run starts with the stored value. If the
// value is damaged, the run reads all changes again.
func TestRuntimeSettings(t *testing.T) {
	b := fakeBus(t, 1)
	for name, c := range settingInputs(t) {
		t.Run(name, func(t *testing.T) {
			var stored []byte
			var g *Graph
			log := &aLog{}
			resumed, commits := make(gatedRunner), make(chan error)
			begin := func() *run {
				g = compose(t, b.config("group: g, changelog: states", "detect: true\n"+c.config))
				r := &run{log: log.logger(), memory: statestore.NewMemory(), account: account.Open(account.StateKeeper{
					Committed: func(states map[string]account.EncodedState, _ time.Time) {
						if s, ok := states[c.key]; ok {
							stored = s.State
						}
					},
					Commit:  func() error { return <-commits },
					Restore: func(key string) ([]byte, error) { return map[string][]byte{c.key: stored}[key], nil },
				})}
				t.Cleanup(r.account.Close)
				t.Cleanup(r.clients.close)
				account.WithValue[account.Runner](r.account, "", resumed)
				r.watchQuiet(g)
				expect.OK(t, r.openMarks(t.Context(), g))
				r.account.SetIdle("", false, time.Time{})
				return r
			}
			r := begin()
			shows := func(storedKeys, usedKeys []string) {
				t.Helper()
				if got := c.stored(stored); !slices.Equal(got, storedKeys) {
					t.Errorf("stored %q, want %q", got, storedKeys)
				}
				if got := c.used(r.account); !slices.Equal(got, usedKeys) {
					t.Errorf("used %q, want %q", got, usedKeys)
				}
			}
			change := func(key string) {
				c.change(t, g, key)
				c.poll(t, r)
			}
			commit := func(err error) {
				t.Helper()
				commits <- err
				if got := <-resumed; got != err {
					t.Errorf("resumed with %v, want %v", got, err)
				}
				r.account.SetIdle("", false, time.Time{})
			}
			r.account.SetBusy()
			change("a")
			c.poll(t, r)
			r.account.SetIdle("", false, time.Time{}) // starts a commit
			shows([]string{"a"}, nil)
			change("b")
			shows([]string{"a"}, nil)
			commit(nil)
			shows([]string{"a", "b"}, []string{"a"})
			commit(nil)
			shows([]string{"a", "b"}, []string{"a", "b"})
			committed := stored
			change("c")
			failure := errors.New("no broker")
			commit(failure)
			shows([]string{"a", "b", "c"}, []string{"a", "b"})
			stored = committed
			r = begin() // reads c again
			shows([]string{"a", "b", "c"}, []string{"a", "b"})
			commit(nil)
			shows([]string{"a", "b", "c"}, []string{"a", "b", "c"})
			stored = []byte("{") // damaged
			r = begin()          // reads all again
			shows([]string{"a", "b", "c"}, nil)
			commit(nil)
			shows([]string{"a", "b", "c"}, []string{"a", "b", "c"})
			if !log.contains("cannot read the stored")() {
				t.Errorf("log: %s", &log.b)
			}
		})
	}
}
