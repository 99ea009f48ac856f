package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/testing/expect"
)

// always returns a quiet time of matching keys that started long ago and does not end.
func always(match string) string {
	return fmt.Sprintf("{\"match\":%q,\"from\":\"2000-01-01\",\"to\":\"2100-01-01\"}\n", match)
}

// replace replaces a file by renaming another one.
func replace(t testing.TB, path string, lines ...string) {
	t.Helper()
	save(t, path+".new", lines...)
	expect.OK(t, os.Rename(path+".new", path))
}

// aLog collects the log of a run. It is safe for concurrent use.
type aLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *aLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *aLog) contains(text string) func() bool {
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return strings.Contains(l.b.String(), text)
	}
}

func (l *aLog) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// A changed file of quiet times is read again: if another file replaces it, if it has an invalid line, and if it
// vanishes and returns. A removed entry has no further effect. The log has the number of observations in a new entry
// that were already learned.
func TestQuietFileChanges(t *testing.T) {
	expect.Waits(t, "clocks")
	b := fakeBus(t, 1, "out", "rejected")
	file := filepath.Join(t.TempDir(), "maintenance.jsonl")
	save(t, file, always("a"))
	text := b.config("group: g, changelog: states", "detect: true\nquiet: [{match: own, from: 2000-01-01, to: 2100-01-01}, {file: "+file+"}]\n")
	clock, n := time.Now().AddDate(0, 0, -200).UTC().Truncate(time.Second), 0
	var log *aLog
	var r *running
	begin := func() {
		log = &aLog{}
		r = launchRun(t, Run{Graph: compose(t, text), Log: log.logger()})
	}
	shows := func(want ...string) { // keys that are quiet
		t.Helper()
		clock = clock.Add(time.Minute)
		keys := []string{"a", "b", "own"}
		for _, key := range keys {
			b.put(t, event{key, clock, float64(n % 7)}.json())
		}
		n += len(keys)
		b.await(t, "out", n, r)
		var got []string
		for _, line := range b.values(t, "out")[n-len(keys):] {
			if o := unmarshalled[struct {
				Key   string
				Quiet bool
			}](t, line); o.Quiet {
				got = append(got, o.Key)
			}
		}
		slices.Sort(got)
		equal(t, want, got)
	}
	begin()
	shows("a", "own")
	replace(t, file, always("b"), "{\"match\":\"a\"}\n", always("none"))
	expect.Soon(t, "other entries", log.contains(" entries=2"))
	if !log.contains("line is not a quiet time: the other lines apply\" file="+file+" line=\"2: from missing")() || !log.contains(`observations="about 1" keys=1`)() {
		t.Errorf("log: %s", &log.b)
	}
	for range 40 {
		shows("b", "own")
	}
	expect.OK(t, os.Remove(file))
	expect.Soon(t, "no file", log.contains("cannot read quiet times: keeping the entries read before"))
	shows("b", "own")
	save(t, file, fmt.Sprintf("{\"match\":\"[ab]\",\"from\":%q,\"to\":%q}\n", clock.Add(-9*time.Minute).Format(time.RFC3339), clock.Format(time.RFC3339)), always("none"), always("no"))
	expect.Soon(t, "other entries", log.contains(" entries=3"))
	if !log.contains(`observations="about 9" keys=1`)() { // b was already quiet
		t.Errorf("log: %s", &log.b)
	}
	shows("own")
	r.halt(t)
	begin() // uses the stored entries; none is new
	shows("own")
	if log.contains("quiet times of files applied")() {
		t.Errorf("log: %s", &log.b)
	}
	r.halt(t)
}

// The clock of a silence stops while an entry is in effect, and continues after its removal, also for keys without new
// records.
func TestQuietFileSilence(t *testing.T) {
	expect.Waits(t, "clocks")
	b := fakeBus(t, 1, "out", "rejected", "alerts")
	file := filepath.Join(t.TempDir(), "maintenance.jsonl")
	save(t, file)
	text := b.config("group: g, changelog: states", "silence: {after: 4s}\nquiet: [{file: "+file+"}]\n") +
		"alerts: {kafka: {topic: alerts}, kinds: [silent], max_age: none}\n"
	log := &aLog{}
	r := launchRun(t, Run{Graph: compose(t, text), Log: log.logger()})
	now := time.Now().UTC()
	b.put(t, event{"a", now, 1}.json(), event{"b", now, 1}.json(), event{"c", now.Add(time.Hour), 1}.json())
	b.await(t, "out", 3, r)
	replace(t, file, always("a"))
	expect.Soon(t, "an entry", log.contains(" entries=1"))
	silent := func() (keys []string) {
		for _, line := range b.values(t, "alerts") {
			keys = append(keys, eventOf(t, line).key)
		}
		return keys
	}
	expect.Soon(t, "b is silent", func() bool { return len(silent()) > 0 })
	equal(t, []string{"b"}, silent())
	replace(t, file)
	expect.Soon(t, "a is silent", func() bool { return len(silent()) > 1 })
	equal(t, []string{"b", "a"}, silent())
	r.halt(t)
}

// A query stores entries in its file of states as soon as they take effect. It does not replace the file while an alert
// waits for its receiver, and continues without the entries until then. Records repeated after a crash are equal.
func TestQuietFileOfQuery(t *testing.T) {
	expect.Waits(t, "a receiver")
	begin := time.Now().Add(-100 * time.Hour).UTC().Truncate(time.Minute)
	gate := make(chan struct{})
	var refused atomic.Bool
	o := &oracle{series: threeWaves(begin), maxSteps: 20, heard: func(int) { time.Sleep(5 * time.Millisecond) }}
	url := o.serve(t)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-gate:
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
			refused.Store(true)
		}
	}))
	t.Cleanup(hook.Close)
	dir := t.TempDir()
	out, state, file := filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "states"), filepath.Join(dir, "maintenance.jsonl")
	save(t, file)
	text := queryConfig + fmt.Sprintf("source: {prometheus: {url: %q, query: load, start: %s}}\nstate: %s\nquiet: [{file: %s}]\nsink: {jsonl: {path: %s}}\ndead_letter: {jsonl: {path: %s}}\nalerts: {webhook: {url: %q}, max_age: none}\n",
		url, begin.Format(time.RFC3339), state, file, out, filepath.Join(dir, "dead.jsonl"), hook.URL)
	lines := func() (result []string) {
		b, _ := os.ReadFile(out)
		return strings.SplitAfter(string(b), "\n")
	}
	log := &aLog{}
	ctx, crash := context.WithCancel(t.Context())
	defer crash()
	done := make(chan error, 1)
	go func() {
		_, err := Run{Graph: compose(t, text), Log: log.logger()}.Execute(ctx, nil)
		done <- err
	}()
	isQuiet := func(line string) bool { return strings.Contains(line, `"quiet":true`) }
	expect.Soon(t, "an alert waits", refused.Load)
	replace(t, file, always("*"))
	n := len(lines())
	expect.Soon(t, "it goes on", func() bool { return len(lines()) > n+100 })
	if log.contains("quiet times of files applied")() || slices.ContainsFunc(lines(), isQuiet) {
		t.Error("the entry is in force, and an alert waits")
	}
	close(gate)
	expect.Soon(t, "the entry", func() bool { return slices.ContainsFunc(lines(), isQuiet) })
	n = len(lines())
	expect.Soon(t, "records after it", func() bool { return len(lines()) > n+100 })
	crash()
	<-done
	if stored := storedIn(t, state)[statestore.QuietKey]; !strings.Contains(stored, `"match":"*"`) {
		t.Errorf("the file of states has %q", stored)
	}
	n = len(lines())
	expect.OK(t, watchQuery(t, text, false, func() bool { return len(lines()) > n+300 }))
	byID, repeats := map[string]string{}, 0
	for _, line := range trimmed(lines()) {
		id := unmarshalled[struct{ ID string }](t, line).ID
		if prev, twice := byID[id]; twice && prev != line {
			t.Fatalf("repeated with another content:\n%s\n%s", prev, line)
		} else if twice {
			repeats++
		}
		byID[id] = line
	}
	if repeats == 0 {
		t.Error("nothing is repeated")
	}
}

// storedIn returns the states in a file, by key.
func storedIn(t *testing.T, path string) map[string]string {
	t.Helper()
	states, _, err := readStateFile(path)
	expect.OK(t, err)
	byKey := map[string]string{}
	for _, s := range states {
		byKey[s.Key] = string(s.Bytes)
	}
	return byKey
}

// A run of files applies its file of quiet times from the first record on. The file of states has the entries at the
// end of the run. A later run without quiet files removes them, and its states equal those of runs that never had a
// quiet file.
func TestQuietFileOfFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var lines []string
	for i := range 300 {
		lines = append(lines, event{fmt.Sprint("k", i%2), start.Add(time.Duration(i) * time.Minute), float64(i * 7919 % 11)}.json())
	}
	file := write(t, "maintenance.jsonl", fmt.Sprintf("{\"match\":\"k1\",\"from\":%q,\"to\":%q}\n", start.Add(100*time.Minute).Format(time.RFC3339), start.Add(120*time.Minute).Format(time.RFC3339)))
	path := write(t, "in.jsonl", lines...)
	run := func(state, quiet string) Summary {
		text := fmt.Sprintf("model: {family: normal}\nsource: {jsonl: {path: %s}}\nsink: {jsonl: {path: %s}}\nstate: %s\n%s", path, filepath.Join(dir, "out.jsonl"), filepath.Join(dir, state), quiet)
		return runWell(t, text)
	}
	keys := func(state string) []string { return slices.Sorted(maps.Keys(storedIn(t, filepath.Join(dir, state)))) }
	if s := run("states", "quiet: [{file: "+file+"}]\n"); s.Quiet != 10 || !strings.Contains(s.String(), "300 records (0 missing, 10 quiet)") {
		t.Errorf("%d quiet: %s", s.Quiet, s)
	}
	equal(t, []string{statestore.QuietKey, "k0", "k1"}, keys("states"))
	run("states", "quiet: [{file: "+file+"}]\n")
	equal(t, []string{statestore.QuietKey, "k0", "k1"}, keys("states"))
	run("states", "")
	equal(t, []string{"k0", "k1"}, keys("states"))
	run("others", "quiet: [{match: k1, from: "+start.Add(100*time.Minute).Format(time.RFC3339)+", to: "+start.Add(120*time.Minute).Format(time.RFC3339)+"}]\n")
	equal(t, readFile(t, filepath.Join(dir, "others")), readFile(t, filepath.Join(dir, "states")))
}
