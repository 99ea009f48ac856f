package pipeline

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/hafvf/keyed/fleet"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/statebackend"
)

// A tombstone forgets its key: later records start at 1, and states and changelog have no trace of the key. Other keys
// are unaffected. By default, tombstones are rejected.
func TestTombstonesForget(t *testing.T) {
	t.Parallel()
	b := fakeBus(t, 2, "out", "rejected")
	minute := 0
	put := func(keys ...string) {
		for _, key := range keys {
			minute++
			when := time.Now().UTC().Add(time.Duration(minute-600) * time.Minute)
			b.Produce(t, &kgo.Record{Topic: "in", Key: []byte(key), Value: fmt.Appendf(nil, `{"key":%q,"time":%q,"x":%d}`, key, when.Format(time.RFC3339), minute%7)})
		}
	}
	forget := func(key string) { b.Produce(t, &kgo.Record{Topic: "in", Key: []byte(key)}) }
	text := b.config("group: g, changelog: states, tombstones: forget, bounded: true", "detect: true\nincidents: true\nsilence: true\n")
	stored := func() (keys []string) {
		for _, line := range listed(t, text, "") {
			keys = append(keys, eventOf(t, line).key)
		}
		return keys
	}
	run := func(set ...string) Summary {
		return expect.Get(Run{Graph: compose(t, text, set...)}.Execute(t.Context(), nil))(t)
	}
	put("a", "b", "a", "b", "c")
	forget("a")
	forget("never") // a key without records
	forget("c")
	put("c")
	if s := run(); s.Forgotten != 2 || s.Keys != 4 || !strings.Contains(s.String(), "2 keys were forgotten") { // c is counted twice
		t.Errorf("%d forgotten of %d: %s", s.Forgotten, s.Keys, s)
	}
	equal(t, []string{"b", "c"}, stored())
	forget("c")
	put("a", "b", "a")
	run()
	equal(t, []string{"a", "b"}, stored())
	var got []string
	for _, e := range b.learned(t, "out") {
		got = append(got, fmt.Sprint(e.Key, e.N))
	}
	slices.Sort(got)
	equal(t, []string{"a1", "a1", "a2", "a2", "b1", "b2", "b3", "c1", "c1"}, got)
	if rejected := b.values(t, "rejected"); len(rejected) != 1 || !strings.Contains(rejected[0], `tombstone for the unknown key \"never\": nothing to forget`) {
		t.Errorf("rejected %q", rejected)
	}

	// The default.
	forget("b")
	run("source.kafka.tombstones=reject")
	if rejected := b.values(t, "rejected"); len(rejected) != 2 || !strings.Contains(rejected[1], "a tombstone: the record has no value") {
		t.Errorf("rejected %q", rejected)
	}
	equal(t, []string{"a", "b"}, stored())
}

// A forgotten key leaves a file of states without a trace, also in the state of the incidents. The other states of the
// file, also damaged ones, and the position of the source stay equal, byte for byte. A failed call changes nothing.
func TestForgetKeysOfFile(t *testing.T) {
	path, in := filepath.Join(t.TempDir(), "states.bin"), write(t, "in.jsonl", observations(1000, 3)...)
	text := "model: {family: normal}\ndetect: true\nincidents: true\nstate: " + path + "\nsource: {jsonl: {path: " + in + "}}\n"
	runConfig(t, text)
	readStates := func() (states []statestore.State, sealed map[string]string) {
		states, source, err := readStateFile(path)
		sealed = map[string]string{"source": string(source)}
		for _, s := range states {
			sealed[s.Key] = string(s.Seal())
		}
		expect.OK(t, err)
		return states, sealed
	}
	states, sealed := readStates()
	damaged := []byte(sealed["k0"])
	damaged[len(damaged)-1] ^= 1
	sealed["k0"] = string(damaged)
	for i, s := range states {
		states[i] = statestore.Open(s.Key, []byte(sealed[s.Key]))
	}
	expect.OK(t, expect.Get(statestore.PrepareFile(path, []byte(sealed["source"]), slices.Values(states)))(t).Commit())

	whole := readFile(t, path)
	unlock := expect.Get(statebackend.Lock(path, "", quiet))(t)
	_, err := ForgetKeysIn(path, []string{"k1"}, quiet)
	expect.Error(t, err, fmt.Sprintf("another run holds it: process %d", os.Getpid()))
	expect.Error(t, err, "; wait for its end, or stop it")
	unlock()
	for want, patterns := range map[string][]string{
		`no key matches "s9/*" in ` + path:              {"s9/*"},
		`no key matches one of "[" and "k" in ` + path:  {"[", "k"},
		`no key matches "\x00\xffincidents" in ` + path: {statestore.FleetKey},
	} {
		if _, err := ForgetKeysIn(path, patterns, quiet); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	equal(t, whole, readFile(t, path))

	f, err := ForgetKeys(t.Context(), compose(t, text), []string{"k1", "nobody"}, quiet)
	if err != nil || !slices.Equal(f.Keys, []string{"k1"}) || f.String() != "forgot 1 key of 3 in "+path {
		t.Fatal(f, err)
	}
	_, remaining := readStates()
	for i, states := range []map[string]string{sealed, remaining} {
		known := statestore.Open(statestore.FleetKey, []byte(states[statestore.FleetKey]))
		_, names, err := fleet.Forget(known.Bytes, func(key string) bool { return key == "k1" })
		expect.OK(t, err)
		expect.Same(t, 1-i, len(names), "names in the fleet")
		delete(states, statestore.FleetKey)
	}
	delete(sealed, "k1")
	equal(t, sealed, remaining)
	if f, err := ForgetKeysIn(path, []string{"k[02]"}, quiet); err != nil || len(f.Keys) != 2 || f.Total != 2 {
		t.Error(f, err)
	}
	_, remaining = readStates()
	expect.Same(t, 2, len(remaining), "the fleet and the source are left")
}

// Keys in a changelog are forgotten with all parts of large states. The states of other keys stay equal, byte for byte.
func TestForgetKeysOfChangelog(t *testing.T) {
	b := fakeBus(t, 2, "out")
	b.CreateTopic(t, "states", 3, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "1200"}) // splits states into parts
	text := b.config("group: g, changelog: states, bounded: true", "detect: true\nincidents: true\n")
	b.put(t, observations(2_000, 6)...)
	expect.OK(t, execute(t, text, quiet))
	before := sealedIn(t, b, "states")
	f, err := ForgetKeys(t.Context(), compose(t, text), []string{"k1", "k[45]"}, quiet)
	if err != nil || f.String() != "forgot 3 keys of 6 in the changelog states" || !slices.Equal(f.Keys, []string{"k1", "k4", "k5"}) {
		t.Fatal(f, err)
	}
	after := sealedIn(t, b, "states")
	for _, key := range f.Keys {
		expect.Same(t, true, before[key] != nil && after[key] == nil, key)
		delete(before, key)
		delete(after, key)
	}
	equal(t, before, after)
	parts := map[string]bool{} // by key; true if the part is left
	for _, rec := range b.Consume(t, "states") {
		raw := string(rec.Key)
		if strings.HasPrefix(raw, "\x00") && slices.ContainsFunc(f.Keys, func(key string) bool { return strings.HasSuffix(raw, key) }) {
			parts[raw] = rec.Value != nil
		}
	}
	if left := slices.Collect(maps.Values(parts)); len(left) == 0 || slices.Contains(left, true) {
		t.Errorf("parts of states: %v", parts)
	}
}

// A run that is stopped before or during the takeover of the previous run's states ends without an error.
func TestStopWhileStatesAreTakenOver(t *testing.T) {
	t.Parallel()
	b := fakeBus(t, 1, "out")
	text := b.config("group: g, changelog: states", "")
	b.put(t, observations(100, 3)...)
	r := launch(t, compose(t, text))
	b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
	r.halt(t)
	stop := make(chan struct{})
	close(stop)
	for range 10 {
		expect.Get(Run{Graph: compose(t, text)}.Execute(t.Context(), stop))(t)
	}
}
