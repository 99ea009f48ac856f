package pipeline

import (
	"bytes"
	"fmt"
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
	const settings = "group: g, changelog: states, tombstones: forget"
	text := b.config(settings, "detect: true\nincidents: true\nsilence: true\n")
	stored := func() string {
		var listing strings.Builder
		expect.OK(t, ListStates(t.Context(), compose(t, text), "", &listing, quiet))
		return listing.String()
	}
	put("a", "b", "a", "b", "c")
	r := launch(t, compose(t, text))
	b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
	forget("a")
	forget("never") // a key without records
	forget("c")
	put("c")
	b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
	if s := r.halt(t); s.Forgotten != 2 || s.Keys != 4 || !strings.Contains(s.String(), "2 keys were forgotten") { // c is counted twice
		t.Errorf("%d forgotten: %s", s.Forgotten, s)
	}
	if listing := stored(); strings.Contains(listing, `"key":"a"`) || strings.Contains(listing, `"key":"never"`) || !strings.Contains(listing, `"key":"b"`) || !strings.Contains(listing, `"key":"c"`) {
		t.Errorf("stored: %s", listing)
	}
	put("a", "b", "a")
	expect.Get(Run{Graph: compose(t, text, "source.kafka.bounded=true")}.Execute(t.Context(), nil))(t)
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
	r = launch(t, compose(t, strings.Replace(text, "forget", "reject", 1), "source.kafka.bounded=true"))
	<-r.done
	if rejected := b.values(t, "rejected"); r.err != nil || len(rejected) != 2 || !strings.Contains(rejected[1], "a tombstone: the record has no value") || !strings.Contains(stored(), `"key":"b"`) {
		t.Errorf("%v, rejected %q", r.err, rejected)
	}
}

// A key that is forgotten between two runs of files starts at 1 in the second run. The stored states, including its
// incident, have no trace of it. The records and stored states of other keys stay equal, byte for byte.
func TestForgetKeysOfFile(t *testing.T) {
	expect.Long(t, "days of a fleet")
	t.Parallel()
	const cut = 30 * (8*144 + 4) // within the incident of a rack
	lines := fleetLines(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC))[:30*9*144]
	dir := t.TempDir()
	text := func(state string) string {
		return fleetConfig + "state: " + filepath.Join(dir, state) + "\nalerts: {jsonl: {path: " + filepath.Join(dir, "alerts.jsonl") + "}}\n"
	}
	run := func(state string, lines []string) map[string][]string {
		s, out, rejected := runConfig(t, text(state)+"source: {jsonl: {path: "+write(t, "in.jsonl", lines...)+"}}\n")
		if s.Rejected != 0 {
			t.Fatal(rejected)
		}
		return withoutID(byKey(t, out))
	}
	readStates := func(state string) (states map[string]string, source []byte) {
		in, source, err := readStateFile(filepath.Join(dir, state))
		if err != nil {
			t.Fatal(err)
		}
		states = map[string]string{}
		for _, s := range in {
			states[s.Key] = string(s.Seal())
		}
		return states, source
	}
	const forgotten = "s0/r1:m2"
	first := run("forgets", lines[:cut])
	before, source := readStates("forgets")
	whole := []byte(readFile(t, filepath.Join(dir, "forgets")))
	expect.OK(t, os.WriteFile(filepath.Join(dir, "keeps"), whole, 0o600))
	path := filepath.Join(dir, "forgets")

	// A failed call leaves the file unchanged.
	unlock := expect.Get(statebackend.Lock(path, "", quiet))(t)
	_, err := ForgetKeysIn(path, []string{forgotten}, quiet)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("another run holds it: process %d", os.Getpid())) || !strings.HasSuffix(err.Error(), "; wait for its end, or stop it") {
		t.Error(err)
	}
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
	if !bytes.Equal(whole, []byte(readFile(t, path))) {
		t.Error("the file was changed")
	}

	config := compose(t, text("forgets")+"source: {jsonl: {path: in.jsonl}}\n")
	f, err := ForgetKeys(t.Context(), config, []string{forgotten, "nobody"}, quiet)
	if err != nil || !slices.Equal(f.Keys, []string{forgotten}) || f.String() != "forgot 1 key of 30 in "+path {
		t.Fatal(f, err)
	}
	remaining, after := readStates("forgets")
	known := statestore.Open(statestore.FleetKey, []byte(before[statestore.FleetKey]))
	if _, names, err := fleet.Forget(known.Bytes, func(key string) bool { return key == forgotten }); err != nil || len(names) != 1 {
		t.Fatalf("the fleet before: %v %v", names, err)
	}
	known = statestore.Open(statestore.FleetKey, []byte(remaining[statestore.FleetKey]))
	if _, names, err := fleet.Forget(known.Bytes, func(key string) bool { return key == forgotten }); err != nil || len(names) != 0 {
		t.Errorf("the fleet has %v, %v", names, err)
	}
	for _, states := range []map[string]string{before, remaining} {
		delete(states, statestore.FleetKey)
		delete(states, forgotten)
	}
	equal(t, before, remaining)
	if !bytes.Equal(source, after) {
		t.Error("how far the source was read has changed")
	}

	want, got := run("keeps", lines[cut:]), run("forgets", lines[cut:])
	restarted := got[forgotten]
	delete(want, forgotten)
	delete(got, forgotten)
	equal(t, want, got)
	if len(restarted) != (len(lines)-cut)/30 || !strings.Contains(restarted[0], `"n":1,`) || len(first[forgotten]) != cut/30 {
		t.Errorf("%d records, the first %s", len(restarted), restarted[0])
	}
	fresh := run("fresh", slices.DeleteFunc(slices.Clone(lines[cut:]), func(l string) bool { return !strings.Contains(l, forgotten) }))
	equal(t, fresh[forgotten], restarted)

	// All keys may be forgotten.
	if f, err = ForgetKeysIn(path, []string{"s0/*", "s1/r?:m*"}, quiet); err != nil || len(f.Keys) != 30 || f.Total != 30 {
		t.Error(f, err)
	}
	if remaining, _ := readStates("forgets"); len(remaining) != 1 {
		t.Errorf("%d states are left", len(remaining)-1)
	}
	if _, err := ForgetKeysIn(filepath.Join(dir, "none"), []string{"*"}, quiet); err == nil || !strings.Contains(err.Error(), "none does not exist: no run has succeeded yet") {
		t.Error(err)
	}
}

// The other states of a file stay unchanged, also damaged ones.
func TestForgetKeysBesideADamagedState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "states.bin")
	text := "model: {family: normal}\nstate: " + path + "\nsource: {jsonl: {path: " + write(t, "in.jsonl", observations(100, 3)...) + "}}\n"
	runConfig(t, text)
	states, source, err := readStateFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := states[1].Seal()
	damaged[len(damaged)-1] ^= 1
	states[1] = statestore.Open(states[1].Key, damaged)
	file, err := statestore.PrepareFile(path, source, slices.Values(states))
	if err == nil {
		err = file.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	expect.Get(ForgetKeysIn(path, []string{states[0].Key}, quiet))(t)
	remaining, _, err := readStateFile(path)
	if err != nil || len(remaining) != 2 || !bytes.Equal(remaining[0].Seal(), damaged) || remaining[0].Err == nil || !bytes.Equal(remaining[1].Seal(), states[2].Seal()) {
		t.Errorf("%v, %+v", err, remaining)
	}
	if f, err := ForgetKeysIn(path, []string{states[1].Key}, quiet); err != nil || f.Total != 2 {
		t.Error(f, err)
	}
}

// Keys in a changelog are forgotten only while no run uses it, in one transaction, and large states with all their
// parts. A run in progress is not disturbed. The next run resumes the other keys, and the offsets of the group stay.
func TestForgetKeysOfChangelog(t *testing.T) {
	t.Parallel()
	b := fakeBus(t, 2, "out")
	b.CreateTopic(t, "states", 3, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "1200"}) // splits states into parts
	lines := observations(3_000, 6)
	text := b.config("group: g, changelog: states", "detect: true\nincidents: true\n")
	b.put(t, lines[:1000]...)
	r := launch(t, compose(t, text))
	b.await(t, "out", 1000, r)
	b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
	forget := func(patterns ...string) (Forgotten, error) {
		return ForgetKeys(t.Context(), compose(t, text), patterns, quiet)
	}
	if _, err := forget("k1"); err == nil || !strings.Contains(err.Error(), "the changelog states is in use: run ") || !strings.Contains(err.Error(), "has not ended; stop it first, ") || !strings.Contains(err.Error(), "if it was killed, start and stop it once more") {
		t.Error(err)
	}
	b.put(t, lines[1000:2000]...)
	b.await(t, "out", 2000, r)
	b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
	r.halt(t)

	before := sealedIn(t, b, "states")
	_, ends := b.Offsets(t, "states")
	if _, err := forget("k9", "x*"); err == nil || err.Error() != `no key matches one of "k9" and "x*" in the changelog states` {
		t.Error(err)
	}
	if _, offsets := b.Offsets(t, "states"); !slices.Equal(offsets, ends) {
		t.Error("something was written")
	}
	f, err := forget("k1", "k[45]")
	if err != nil || f.String() != "forgot 3 keys of 6 in the changelog states" || !slices.Equal(f.Keys, []string{"k1", "k4", "k5"}) {
		t.Fatal(f, err)
	}
	after := sealedIn(t, b, "states")
	parts := 0
	for _, key := range f.Keys {
		delete(before, key)
		if after[key] != nil {
			t.Errorf("%s is there", key)
		}
		delete(after, key)
	}
	last := map[string][]byte{}
	for _, rec := range b.Consume(t, "states") {
		last[string(rec.Key)] = rec.Value
	}
	for raw, value := range last {
		if raw == "" || raw[0] != 0 {
			continue
		}
		if strings.HasSuffix(raw, "k1") || strings.HasSuffix(raw, "k4") || strings.HasSuffix(raw, "k5") {
			if parts++; value != nil {
				t.Errorf("a part of a state is left: %q", raw)
			}
		}
	}
	if parts == 0 {
		t.Error("no state had parts")
	}
	equal(t, before, after)

	b.put(t, lines[2000:]...)
	r = launch(t, compose(t, text))
	b.await(t, "out", 3000, r)
	s := r.halt(t)
	equal(t, [2]int64{1000, 0}, [2]int64{s.Records, s.Rejected}) // no offset has moved

	want := fakeBus(t, 2)
	want.CreateTopic(t, "out", 1, nil)
	want.put(t, lines...)
	expect.OK(t, execute(t, want.config("bounded: true", "detect: true\nincidents: true\n"), quiet))
	expected, got := byKey(t, want.values(t, "out")), byKey(t, b.values(t, "out"))
	for _, key := range f.Keys {
		n := 0
		for _, line := range got[key] {
			if strings.Contains(line, `"n":1,`) {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%s has begun %d times", key, n)
		}
		delete(expected, key)
		delete(got, key)
	}
	equal(t, expected, got)
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
