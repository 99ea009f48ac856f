package incidents_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf/incidents"
	"hafvf/internal/testing/expect"
)

// A lasting state becomes usual: keys that alarm every hour for weeks are not an incident for long. The state keeps to
// the size in the comment of AppendBinary.
func TestFleetLastingStorm(t *testing.T) {
	expect.Long(t, "a storm of days")
	f := newFleet(t, incidents.Config{})
	rng := rand.New(rand.NewPCG(8, 9))
	const keys, weeks = 240, 4
	var names []string
	for i := range keys {
		names = append(names, fmt.Sprintf("s%d/r%d/h%d:m%d", i/120, i/30%4, i/6%5, i%6))
		f.Register(names[i], begin, time.Minute, week)
	}
	openedAt := map[string]time.Time{}
	var open time.Duration // time with open incidents in the last two weeks
	from, end := begin.Add((weeks-2)*week), begin.Add(weeks*week)
	most, n := 0, 0
	for now := begin; now.Before(end); now = now.Add(time.Minute) {
		for range keys / 60 {
			f.Add(incidents.Alarm{ID: fmt.Sprint(n), Key: names[rng.IntN(keys)], Time: now, Score: 5})
			n++
		}
		for _, e := range f.Advance(now).Events {
			if e.NumMembers > keys {
				t.Fatalf("%d members", e.NumMembers)
			}
			switch e.State {
			case incidents.Opened:
				openedAt[e.ID] = e.Time
			case incidents.Closed, incidents.Merged:
				if e.Time.After(from) {
					open += min(e.Time.Sub(openedAt[e.ID]), e.Time.Sub(from))
				}
				delete(openedAt, e.ID)
			}
		}
		if n%2000 == 0 {
			b, _ := f.AppendBinary(nil)
			most = max(most, len(b))
		}
	}
	for _, start := range openedAt {
		open += min(end.Sub(start), end.Sub(from))
	}
	if open > 14*time.Hour {
		t.Errorf("incidents were open for %v in the last two weeks", open)
	}
	// 51 groups, an alarm every 15 seconds.
	if bound := 20*keys + 51*240 + 4*1440*25 + 4*32*100 + 60*keys; most > bound {
		t.Errorf("%d bytes, want at most %d", most, bound)
	}
}
