package incidents_test

import (
	"fmt"
	"testing"
	"time"

	"hafvf/hafvf/incidents"
)

// A nightly incident is a page, and reported as one, when it has more than twice as many keys as usual.
func TestFleetLargerThanUsual(t *testing.T) {
	f := newFleet(t, incidents.Config{})
	register(f)
	var last incidents.Event
	for night := range 6 {
		keys := 5
		if night == 5 {
			keys = 11
		}
		now := begin.Add(time.Duration(night)*24*time.Hour + 2*time.Hour)
		for i := range keys {
			f.Add(incidents.Alarm{ID: fmt.Sprint(night), Key: tree[i], Time: now.Add(time.Duration(i) * time.Second), Score: 5})
		}
		pages := 0
		for _, e := range f.Advance(now.Add(time.Minute)).Events {
			last = e
			if e.Page && e.State != incidents.Closed {
				pages++
			}
		}
		if want := night < 2 || night == 5; (pages == 1) != want {
			t.Errorf("night %d: %d pages of %d keys", night, pages, last.NumMembers)
		}
	}
	if last.State != incidents.Update || last.NumMembers != 11 {
		t.Errorf("told last: %+v", last)
	}
}

// An alarm that is older than a processed alarm is processed with it if it is at most 8 steps late. Else it is alone.
func TestFleetLateAlarm(t *testing.T) {
	f := newFleet(t, incidents.Config{})
	register(f)
	add := func(id string, key int, after time.Duration) []incidents.Assignment {
		f.Add(incidents.Alarm{ID: id, Key: tree[key], Time: begin.Add(time.Hour + after), Score: 5})
		return f.Advance(begin.Add(time.Hour + after)).Assigned
	}
	for i := range 3 {
		add(fmt.Sprint(i), 3*i, 0)
	}
	opened := add("b", 9, time.Minute)
	if opened[0].Incident == "" {
		t.Fatalf("assigned %+v", opened)
	}
	add("c", 0, 9*time.Minute)
	// Keys 0 and 3 have steps of a minute, key 1 has steps of five minutes.
	for _, late := range []struct {
		id     string
		key    int
		after  time.Duration
		member bool
	}{{"d", 3, time.Minute, true}, {"e", 3, time.Minute - 1, false}, {"f", 1, -31 * time.Minute, true}, {"g", 1, -31*time.Minute - 1, false}} {
		got := add(late.id, late.key, late.after)
		if len(got) != 1 || got[0].ID != late.id || (got[0].Incident == opened[0].Incident) != late.member {
			t.Errorf("alarm %s: %+v", late.id, got)
		}
	}
	for _, m := range f.Advance(begin.Add(week)).Events[0].Members {
		if m.Key == tree[1] && !m.Time.Equal(begin.Add(29*time.Minute)) {
			t.Errorf("member of %v", m.Time)
		}
	}
}
