package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/records"
)

// always is a quiet time of keys that has begun long ago, and does not end.
func always(match string) string {
	return fmt.Sprintf("{\"match\":%q,\"from\":\"2000-01-01\",\"to\":\"2100-01-01\"}\n", match)
}

// replace replaces a file as those do who rename another one.
func replace(t testing.TB, path string, lines ...string) {
	t.Helper()
	save(t, path+".new", lines...)
	expect.OK(t, os.Rename(path+".new", path))
}

// aLog is what a run logs.
type aLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *aLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *aLog) has(text string) func() bool {
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return strings.Contains(l.b.String(), text)
	}
}

func (l *aLog) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// A file of quiet times changes at any moment, while runs are killed and when none goes on. What was written of a record
// comes again with other words only if a commit with other entries lies between. The last that was written of each record
// is what a loop has in which the entries change where the commits have them.
func TestQuietFileAfterKills(t *testing.T) {
	expect.Waits(t, "clocks")
	b := fakeBus(t, 1, "out", "rejected")
	file := filepath.Join(t.TempDir(), "maintenance.jsonl")
	save(t, file)
	const settings = "detect: true\n"
	text := b.config("group: g, changelog: states", settings+"quiet: [{file: "+file+"}]\n")
	rng := rand.New(rand.NewPCG(81, 1))
	at := time.Now().AddDate(0, 0, -200).UTC().Truncate(time.Second)
	put := func(n int) {
		var lines []string
		for range n {
			at = at.Add(20 * time.Millisecond)
			lines = append(lines, event{fmt.Sprint(string("ab"[rng.IntN(2)]), rng.IntN(3)), at, rng.NormFloat64() + float64(rng.IntN(100)/99*20)}.json())
		}
		b.put(t, lines...)
	}
	type output struct {
		line string
		at   time.Time
	}
	outputs := func() (all map[string][]output, repeats int) {
		all = map[string][]output{}
		for _, r := range b.Consume(t, "out") {
			id := unmarshalled[struct{ ID string }](t, string(r.Value)).ID
			if all[id] = append(all[id], output{string(r.Value), r.Timestamp}); len(all[id]) > 1 {
				repeats++
			}
		}
		return all, repeats
	}
	var feeding sync.WaitGroup
	fed, quiet := make(chan struct{}), false
	feeding.Go(func() {
		defer close(fed)
		for n := range 300 { // on a busy machine a kill may come too late
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
	kills := rand.New(rand.NewPCG(81, 2))
	for going := true; going; {
		ctx, kill := context.WithTimeout(context.Background(), 5*time.Second)
		within := time.Duration(100+kills.IntN(1200)) * time.Millisecond
		var once sync.Once
		_, _ = (Run{Graph: compose(t, text), Progress: func(p Progress) {
			if p.Read > 0 {
				once.Do(func() { time.AfterFunc(within, kill) })
			}
		}}).Execute(ctx, nil)
		kill()
		select {
		case <-fed:
			going = false
		default:
		}
	}
	feeding.Wait()
	r := launch(t, compose(t, text))
	put(30)
	b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
	r.halt(t)

	var commits []time.Time
	for _, r := range b.Consume(t, "states") {
		if strings.HasSuffix(string(r.Key), statestore.QuietKey) {
			commits = append(commits, r.Timestamp)
		}
	}
	all, repeats := outputs()
	others := 0
	for id, of := range all {
		for i, o := range of[1:] {
			if was := of[i]; o.line == was.line {
				continue
			} else if others++; !slices.ContainsFunc(commits, func(c time.Time) bool { return !c.Before(was.at) && !c.After(o.at) }) {
				t.Fatalf("%s comes again with other words, at %v and %v, and the entries did not change between:\n%s\n%s", id, was.at, o.at, was.line, o.line)
			}
		}
	}
	cfg := expect.Get(keyed.NewEstimator(composed(t, text)))(t)
	layout := expect.Get(records.NewLayout(composed(t, text).Filter))(t)
	layout.Quiet = true
	states, changes, quiets := map[string][]byte{}, 0, 0
	is := false
	entries := []keyed.QuietTime{{Match: "a*", From: at.AddDate(-1, 0, 0), To: at.AddDate(1, 0, 0)}}
	for _, r := range b.Consume(t, "in") {
		o := observationOf(t, string(r.Value), fmt.Sprintf("in-%d-%d", r.Partition, r.Offset))
		of := all[o.ID]
		if len(of) == 0 {
			t.Fatalf("nothing of %s", o.ID)
		}
		last := of[len(of)-1].line
		if now := strings.Contains(last, `"quiet":true`); strings.HasPrefix(o.key, "a") && now != is {
			is = now
			changes++
			if cfg.SetQuiet(nil); is {
				cfg.SetQuiet(entries)
			}
		}
		state := expect.Get(cfg.Open(o.key, states[o.key]))(t)
		var e keyed.Estimate
		if _, err := state.Take(&o.Observation); err != nil {
			t.Fatal(err)
		}
		state.Learn(nil, &e, &o.Observation)
		if e.Quiet {
			quiets++
		}
		states[o.key], _ = state.AppendBinary(nil)
		if want := strings.TrimSuffix(string(layout.AppendEstimate(nil, records.Object, o.key, &e)), "\n"); want != last {
			t.Fatalf("%s\ninstead of\n%s", last, want)
		}
	}
	t.Logf("%d records, %d of a quiet time, %d repeats, %d with other words, %d commits with entries, which change at %d records", len(all), quiets, repeats, others, len(commits), changes)
	if changes > len(commits) {
		t.Errorf("the entries change %d times, and %d commits have others", changes, len(commits))
	}
	if repeats == 0 || changes < 3 || quiets == 0 || others == repeats {
		t.Error("the runs do not show what they are to show")
	}
}

// composed is what a graph has of the filter of a config.
func composed(t testing.TB, text string) keyed.Config {
	t.Helper()
	return compose(t, text).transform.(filtering).cfg
}
