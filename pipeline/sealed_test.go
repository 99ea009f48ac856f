package pipeline

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/testing/expect"
)

// sealedIn returns the last values in a changelog by key, without its head.
func sealedIn(t *testing.T, b *bus, topic string) map[string][]byte {
	t.Helper()
	sealed := map[string][]byte{}
	for _, r := range b.Consume(t, topic) {
		if len(r.Key) > 0 && r.Key[0] != 0 {
			sealed[string(r.Key)] = r.Value
		}
	}
	return sealed
}

// afterARun returns a cluster in which a run over 100 observations of three keys has stored its states, and the run's
// config.
func afterARun(t *testing.T) (b *bus, text string) {
	t.Helper()
	b = fakeBus(t, 1, "out")
	b.put(t, observations(100, 3)...)
	text = b.config("group: g, changelog: states, bounded: true", "")
	expect.OK(t, execute(t, text, quiet))
	return b, text
}

func execute(t *testing.T, text string, log *slog.Logger) error {
	t.Helper()
	_, err := Run{Graph: compose(t, text), Log: log}.Execute(t.Context(), nil)
	return err
}

// States of a newer version of this program are refused, and no key is reset. The format number is one higher in the
// file, its states, a key's state, or the state of the incidents.
func TestStatesOfANewerVersion(t *testing.T) {
	const wants = "a newer version of this program wrote it: use that version, or start without these states"
	higher := func(b []byte, index int) []byte {
		b = bytes.Clone(b)
		b[index]++
		return b
	}
	raise := map[string]func(s statestore.State) statestore.State{
		"seal": func(s statestore.State) statestore.State { return statestore.Open(s.Key, higher(s.Seal(), 3)) },
		"key": func(s statestore.State) statestore.State {
			if !statestore.Reserved(s.Key) {
				s.Bytes = higher(s.Bytes, 0)
			}
			return s
		},
		"incidents": func(s statestore.State) statestore.State {
			if s.Key == statestore.FleetKey {
				s.Bytes = higher(s.Bytes, 1) // after the length of the incidents
			}
			return s
		},
	}
	refused := func(name, text string) {
		t.Helper()
		expect.Error(t, execute(t, text, quiet), wants, name)
	}
	const settings = "detect: true\nincidents: true\nkeys: [{match: \"k[12]\", detect: {budget: 100h}}]\n"
	states := filepath.Join(t.TempDir(), "states.bin")
	file := "model: {family: normal}\nstate: " + states + "\nsource: {jsonl: {path: " + write(t, "in.jsonl", observations(100, 3)...) + "}}\nsink: none\n" + settings
	expect.OK(t, execute(t, file, quiet))
	whole := readFile(t, states)
	stored, source, err := readStateFile(states)
	expect.OK(t, err)
	for name, raised := range raise {
		var higher []statestore.State
		for _, s := range stored {
			higher = append(higher, raised(s))
		}
		expect.OK(t, expect.Get(statestore.PrepareFile(states, source, slices.Values(higher)))(t).Commit())
		before := readFile(t, states)
		refused("file, "+name, file)
		equal(t, before, readFile(t, states))
	}
	expect.OK(t, os.WriteFile(states, []byte(strings.Replace(whole, "hafvf states 2\n", "hafvf states 3\n", 1)), 0o600))
	refused("file", file)

	b, topic := afterARun(t)
	last := statestore.Open("k2", sealedIn(t, b, "states")["k2"]) // not the first state with its settings
	b.Produce(t, &kgo.Record{Topic: "states", Key: []byte("k2"), Value: raise["key"](last).Seal()})
	refused("changelog", topic)
}

// If no state has a seal, none is damaged: they belong to another program. They are refused with a remedy.
func TestStatesWithoutSeal(t *testing.T) {
	b, text := afterARun(t)
	for key := range sealedIn(t, b, "states") {
		b.Produce(t, &kgo.Record{Topic: "states", Key: []byte(key), Value: []byte("\x00\x01")})
	}
	err := execute(t, text, quiet)
	for _, part := range []string{"no state in the changelog states can be read", "it has no seal", "remove the file, or use --begin-anew"} {
		expect.Error(t, err, part)
	}
}
