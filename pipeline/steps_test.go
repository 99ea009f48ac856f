package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// Runs that are killed at any moment repeat decisions that depend on the clock: which observations have waited long
// enough or are late, and whether a key is silent, an interval closed or an incident over. Repeated records, alerts and
// rejections are equal, and no record is both learned and rejected. The topic pauses, its records are in the past, and
// some are later than lateness allows.
func TestRepeatsAfterKills(t *testing.T) {
	expect.Waits(t, "clocks")
	for name, settings := range map[string]string{
		"lateness":  "lateness: 1s\nsilence: {after: 1500ms}\ndetect: {season: []}\nincidents: true\n",
		"intervals": "aggregate: {every: 2s, value: count, wait: 1s}\nsilence: {after: 4s}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := fakeBus(t, 2, "out", "rejected", "alerts")
			text := b.config("group: g, changelog: states", settings) +
				"alerts: {kafka: {topic: alerts}, kinds: [novelty, change, silent, recovered], max_age: none}\n"
			rng := rand.New(rand.NewPCG(49, 1))
			begin := time.Now().AddDate(0, 0, -200).UTC().Truncate(time.Second)
			var feeding sync.WaitGroup
			fed := make(chan struct{})
			repeated := func() bool {
				values := slices.Sorted(slices.Values(b.values(t, "out")))
				n := len(values)
				return len(slices.Compact(values)) < n
			}
			feeding.Go(func() {
				defer close(fed)
				for n := 0; n < 6 || n < 30 && !repeated(); n++ { // a kill may come late on a busy machine
					var lines []string
					for i := range 150 {
						key := rng.IntN(12)
						if i < 75 {
							key %= 6 // the other keys are silent for a while
						}
						lag := time.Duration(rng.IntN(1500)) * time.Millisecond
						if rng.IntN(20) == 0 {
							lag *= 4
						}
						begin = begin.Add(20 * time.Millisecond)
						lines = append(lines, event{fmt.Sprint("k", key), begin.Add(-lag), rng.NormFloat64() + float64(rng.IntN(200)/199*20)}.json())
					}
					b.put(t, lines...)
					time.Sleep(time.Duration(500+rng.IntN(2000)) * time.Millisecond)
				}
			})
			killRuns(t, text, fed, 49, 200, 1500)
			feeding.Wait()
			r := launch(t, compose(t, text))
			b.put(t, event{"k0", begin, 0}.json(), event{"k1", begin, 0}.json())
			b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
			time.Sleep(3 * time.Second) // one or two steps
			r.halt(t)
			quoted := map[string]string{} // by topic, kind, state and ID
			repeats, late, silent := 0, 0, 0
			outcome := map[string]string{} // topic of each record
			for _, topic := range []string{"out", "rejected", "alerts"} {
				for _, line := range b.values(t, topic) {
					e := unmarshalled[struct{ ID, Kind, State, Key, Reason string }](t, line)
					name := topic + " " + e.Kind + " " + e.State + " " + e.ID
					if prev, known := quoted[name]; known && prev != line {
						t.Fatalf("%s, and then %s", prev, line)
					} else if known {
						repeats++
					}
					quoted[name] = line
					if topic == "alerts" {
						if e.Kind == "silent" {
							silent++
						}
						continue
					}
					if strings.Contains(e.Reason, "late") {
						late++
					}
					if prev, known := outcome[e.ID]; known && prev != topic {
						t.Fatalf("%s is in %s and in %s", e.ID, prev, topic)
					}
					outcome[e.ID] = topic
				}
			}
			t.Logf("%d outputs, %d repeats, %d late, %d silent", len(quoted), repeats, late, silent)
			if repeats == 0 || late == 0 || silent == 0 && name == "lateness" {
				t.Error("the runs do not show what they are to show")
			}
		})
	}
}

// killRuns runs a config repeatedly until fed is closed. It kills each run a random time after its first record, at
// least least and less than least+spread milliseconds.
func killRuns(t *testing.T, text string, fed <-chan struct{}, seed uint64, least, spread int) {
	t.Helper()
	kills := rand.New(rand.NewPCG(seed, 2))
	for {
		ctx, kill := context.WithTimeout(context.Background(), 5*time.Second)
		within := time.Duration(least+kills.IntN(spread)) * time.Millisecond
		var once sync.Once
		_, _ = (Run{Graph: compose(t, text), Progress: func(p Progress) {
			if p.Read > 0 { // the start may be slow on a busy machine
				once.Do(func() { time.AfterFunc(within, kill) })
			}
		}}).Execute(ctx, nil)
		kill()
		select {
		case <-fed:
			return
		default:
		}
	}
}
