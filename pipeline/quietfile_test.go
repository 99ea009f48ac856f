package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
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

// A file of quiet times changes at any moment, during runs that are killed and between them. Repeated outputs of a
// record differ only if a commit with other entries lies between them. The entries change only at such commits.
func TestQuietFileAfterKills(t *testing.T) {
	expect.Waits(t, "clocks")
	b := fakeBus(t, 1, "out", "rejected")
	file := filepath.Join(t.TempDir(), "maintenance.jsonl")
	save(t, file)
	const settings = "detect: true\n"
	text := b.config("group: g, changelog: states", settings+"quiet: [{file: "+file+"}]\n")
	rng := rand.New(rand.NewPCG(81, 1))
	origin := time.Now().AddDate(0, 0, -200).UTC().Truncate(time.Second)
	put := func(n int) {
		var lines []string
		for range n {
			origin = origin.Add(20 * time.Millisecond)
			lines = append(lines, event{fmt.Sprint(string("ab"[rng.IntN(2)]), rng.IntN(3)), origin, rng.NormFloat64() + float64(rng.IntN(100)/99*20)}.json())
		}
		b.put(t, lines...)
	}
	type output struct {
		line string
		time time.Time
	}
	outputs := func() (byID map[string][]output, repeats int) {
		byID = map[string][]output{}
		for _, r := range b.Consume(t, "out") {
			id := unmarshalled[struct{ ID string }](t, string(r.Value)).ID
			if byID[id] = append(byID[id], output{string(r.Value), r.Timestamp}); len(byID[id]) > 1 {
				repeats++
			}
		}
		return byID, repeats
	}
	var feeding sync.WaitGroup
	fed, quiet := make(chan struct{}), false
	feeding.Go(func() {
		defer close(fed)
		for n := range 300 { // a kill may come late on a busy machine
			put(30)
			time.Sleep(time.Duration(20+rng.IntN(60)) * time.Millisecond)
			if rng.IntN(8) == 0 {
				if quiet = !quiet; quiet {
					replace(t, file, always("a*"))
				} else {
					replace(t, file)
				}
			}
			if _, repeats := outputs(); n >= 100 && n%20 == 0 && repeats > 200 {
				return
			}
		}
	})
	killRuns(t, text, fed, 81, 100, 1200)
	feeding.Wait()
	r := launch(t, compose(t, text))
	put(30)
	b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
	r.halt(t)

	var commits []time.Time
	for _, r := range b.ConsumeCommitted(t, "states") {
		if strings.HasSuffix(string(r.Key), statestore.QuietKey) {
			commits = append(commits, r.Timestamp)
		}
	}
	byID, repeats := outputs()
	unrelated := 0
	for id, sameID := range byID {
		for i, o := range sameID[1:] {
			if prev := sameID[i]; o.line == prev.line {
				continue
			} else if unrelated++; !slices.ContainsFunc(commits, func(c time.Time) bool { return !c.Before(prev.time) && !c.After(o.time) }) {
				t.Fatalf("%s comes again with other words, at %v and %v, and the entries did not change between:\n%s\n%s", id, prev.time, o.time, prev.line, o.line)
			}
		}
	}
	changes, quiets, inQuiet := 0, 0, false
	for _, r := range b.Consume(t, "in") {
		sameID := byID[fmt.Sprintf("in-%d-%d", r.Partition, r.Offset)]
		if len(sameID) == 0 {
			t.Fatalf("nothing of %s", r.Value)
		}
		last := sameID[len(sameID)-1].line
		isQuiet := strings.Contains(last, `"quiet":true`)
		if isQuiet {
			quiets++
		}
		if strings.Contains(last, `"key":"a`) && isQuiet != inQuiet {
			inQuiet = isQuiet
			changes++
		}
	}
	t.Logf("%d records, %d of a quiet time, %d repeats, %d with other words, %d commits with entries, which change at %d records", len(byID), quiets, repeats, unrelated, len(commits), changes)
	if changes > len(commits) {
		t.Errorf("the entries change %d times, and %d commits have others", changes, len(commits))
	}
	if repeats == 0 || changes < 3 || quiets == 0 || unrelated == repeats {
		t.Error("the runs do not show what they are to show")
	}
}

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
	save(t, file)
	expect.Soon(t, "no entry", log.contains(" entries=0"))
	r.halt(t)
	for _, s := range statesOf(t, b) {
		if s == statestore.QuietKey {
			t.Error("the changelog has entries, and there are none")
		}
	}
}

// statesOf returns the keys with states in the changelog.
func statesOf(t testing.TB, b *bus) (keys []string) {
	t.Helper()
	last := map[string]bool{}
	for _, r := range b.Consume(t, "states") {
		last[strings.TrimPrefix(string(r.Key), "\x00")] = r.Value != nil
	}
	for key, state := range last {
		if state {
			keys = append(keys, key)
		}
	}
	return keys
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
	var stored string
	expect.Get(statestore.ReadFile(state, func(s statestore.State) bool {
		if s.Key == statestore.QuietKey {
			stored = string(s.Bytes)
		}
		return true
	}))(t)
	if !strings.Contains(stored, `"match":"*"`) {
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
	keys := func(state string) (keys []string) {
		expect.Get(statestore.ReadFile(filepath.Join(dir, state), func(s statestore.State) bool {
			keys = append(keys, s.Key)
			return true
		}))(t)
		slices.Sort(keys)
		return keys
	}
	if s := run("states", "quiet: [{file: "+file+"}]\n"); s.Quiet != 10 {
		t.Errorf("%d quiet", s.Quiet)
	}
	equal(t, []string{statestore.QuietKey, "k0", "k1"}, keys("states"))
	run("states", "quiet: [{file: "+file+"}]\n")
	equal(t, []string{statestore.QuietKey, "k0", "k1"}, keys("states"))
	var states []statestore.State // damages the stored entries
	source := expect.Get(statestore.ReadFile(filepath.Join(dir, "states"), func(s statestore.State) bool {
		if s.Key == statestore.QuietKey {
			s.Bytes = []byte("{}")
		}
		states = append(states, s)
		return true
	}))(t)
	expect.OK(t, expect.Get(statestore.PrepareFile(filepath.Join(dir, "states"), source, slices.Values(states)))(t).Commit())
	log := &aLog{}
	text := fmt.Sprintf("model: {family: normal}\nsource: {jsonl: {path: %s}}\nsink: none\nstate: %s\nquiet: [{file: %s}]\n", path, filepath.Join(dir, "states"), file)
	expect.Get(Run{Graph: compose(t, text), Log: log.logger()}.Execute(t.Context(), nil))(t)
	if !log.contains("cannot read the stored quiet times: using those of the files")() || !log.contains(" entries=1")() {
		t.Errorf("log: %s", &log.b)
	}
	run("states", "")
	equal(t, []string{"k0", "k1"}, keys("states"))
	run("others", "quiet: [{match: k1, from: "+start.Add(100*time.Minute).Format(time.RFC3339)+", to: "+start.Add(120*time.Minute).Format(time.RFC3339)+"}]\n")
	equal(t, readFile(t, filepath.Join(dir, "others")), readFile(t, filepath.Join(dir, "states")))
}
