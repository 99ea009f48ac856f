package incidents_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf/incidents"
)

// The fleet has 48 series of eight jobs in six racks. An incident is named by the job or rack with an outage, in any
// order of the labels.
func TestFleetLabelOutage(t *testing.T) {
	right := map[string]int{}
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var names []string
		var alarms []incidents.Alarm
		job, rack := rng.IntN(8), rng.IntN(6)
		kind := []string{"job", "rack", "pair"}[seed%3]
		outage := begin.Add(2*week + time.Duration(rng.IntN(1440))*time.Minute)
		for j := range 8 {
			for r := range 6 {
				for m := range 3 {
					key := fmt.Sprintf(`p95{instance="%s",job="j%d",rack="r%d"}`, string(rune('a'+m)), j, r)
					names = append(names, key)
					for now := begin; now.Before(begin.Add(3 * week)); {
						now = now.Add(time.Duration(rng.ExpFloat64() / perWeek * float64(week)))
						alarms = append(alarms, incidents.Alarm{ID: fmt.Sprint(len(alarms)), Key: key, Time: now.Truncate(time.Minute), Score: 5})
					}
					if hit := map[string]bool{"job": j == job, "rack": r == rack, "pair": j == job && r == rack}[kind]; hit && rng.Float64() < .9 {
						alarms = append(alarms, incidents.Alarm{ID: fmt.Sprint(len(alarms)), Key: key, Time: outage.Add(time.Duration(rng.IntN(3)) * time.Minute), Score: 9})
					}
				}
			}
		}
		want := map[string]string{
			"job": fmt.Sprintf(`job="j%d"`, job), "rack": fmt.Sprintf(`rack="r%d"`, rack), "pair": fmt.Sprintf(`job="j%d",rack="r%d"`, job, rack),
		}[kind]
		var prev []incidents.Event
		for _, labels := range [][]string{{"job", "rack"}, {"rack", "job"}} {
			f := newFleet(t, incidents.Config{By: labels})
			for _, k := range names {
				f.Register(k, begin, time.Minute, week)
			}
			for _, a := range alarms {
				f.Add(a)
			}
			events := f.Advance(begin.Add(3 * week)).Events
			if prev != nil {
				differ(t, "in the other order", events, prev)
			}
			prev = events
		}
		got := ""
		for _, e := range prev {
			if e.Page && e.State != incidents.Closed && !e.Time.Before(outage) && e.Time.Before(outage.Add(5*time.Minute)) {
				got = e.Group
				if e.Group != want {
					t.Log(kind, e.Group, want, e.Message)
				}
			}
		}
		if got == want {
			right[kind]++
		}
	}
	if t.Log(right); right["job"] < 33 || right["rack"] < 32 || right["pair"] < 25 {
		t.Error("want 33 of 34, 32 of 33, and 25 of 33 of the pairs, which have three series")
	}
}
