package incidents_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf/incidents"
	"hafvf/internal/testing/expect"
)

// sites registers 40 keys in each of five sites.
func sites(t expect.T, cfg incidents.Config, name func(site string, i int) string) (f *incidents.Fleet, names []string) {
	f = newFleet(t, cfg)
	for _, site := range []string{"a", "b", "c", "d", "e"} {
		for i := range 40 {
			names = append(names, name(site, i))
			f.Register(names[len(names)-1], begin, time.Minute, week)
		}
	}
	return f, names
}

func ofSite(site string, i int) string { return fmt.Sprintf("%s/%d", site, i) }

// pagesOf returns the groups of the pages of two causes with 40 keys each. The cause of b comes later.
func pagesOf(f *incidents.Fleet, names []string, after, over time.Duration, seed uint64) (groups []string, opened int) {
	rng := rand.New(rand.NewPCG(seed, 9))
	cause := begin.Add(10 * 24 * time.Hour)
	for i, name := range names[:80] {
		when := cause.Add(time.Duration(rng.Int64N(int64(over))))
		if i >= 40 {
			when = when.Add(after)
		}
		f.Add(incidents.Alarm{ID: fmt.Sprint(i), Key: name, Kind: "novelty", Time: when, Score: 4 + rng.ExpFloat64()})
	}
	for _, e := range f.Advance(cause.Add(3 * time.Hour)).Events {
		switch {
		case e.State == incidents.Opened:
			opened++
		case e.State == incidents.Merged:
			opened--
		}
		if e.Page && (e.State == incidents.Opened || e.State == incidents.Update) {
			groups = append(groups, e.Group)
		}
	}
	return groups, opened
}

// Two causes in different parts of the fleet are two pages, however short the time between them. One cause with mixed
// alarms is one incident.
func TestFleetTwoCauses(t *testing.T) {
	for seed := range uint64(20) {
		for _, after := range []time.Duration{5 * time.Minute, 19 * time.Minute, 32 * time.Minute, time.Hour} {
			f, names := sites(t, incidents.Config{}, ofSite)
			if groups, opened := pagesOf(f, names, after, 2*time.Minute, seed); opened != 2 || !slices.Equal(groups, []string{"a", "b"}) {
				t.Errorf("seed %d, after %v: %d incidents, pages of %q", seed, after, opened, groups)
			}
		}
		for _, over := range []time.Duration{5 * time.Minute, 10 * time.Minute} {
			f, names := sites(t, incidents.Config{}, ofSite)
			if groups, opened := pagesOf(f, names, 0, over, seed); opened != 1 {
				t.Errorf("seed %d, one over %v: %d incidents, pages of %q", seed, over, opened, groups)
			}
		}
	}
}

// Groups of series are groups by their labels.
func TestFleetLabelGroups(t *testing.T) {
	series := func(site string, i int) string {
		return fmt.Sprintf(`up{instance="i%d",job="svc \"%s\"",more="x,y",no="%d"}`, i/8, site, i)
	}
	f, names := sites(t, incidents.Config{By: []string{"job", "instance"}}, series)
	groups, _ := pagesOf(f, names, 19*time.Minute, 2*time.Minute, 1)
	expect.Same(t, []string{`job="svc \"a\""`, `instance="i0",job="svc \"b\""`, `job="svc \"b\""`}, groups, "pages")
	b, _ := f.AppendBinary(nil)
	if _, err := incidents.Restore(incidents.Config{By: []string{"instance", "job"}}, b); err != nil {
		t.Errorf("labels in another order: %v", err)
	}
	if _, err := incidents.Restore(incidents.Config{By: []string{"instance"}}, b); err == nil || !strings.Contains(err.Error(), "instance,job") {
		t.Errorf("other labels: %v", err)
	}
	restored, err := incidents.RestoreAny(b)
	expect.OK(t, err)
	restoredBytes, _ := restored.AppendBinary(nil)
	expect.Same(t, string(b), string(restoredBytes))

	f, names = sites(t, incidents.Config{By: []string{"job", "none"}}, series)
	cause := begin.Add(10 * 24 * time.Hour)
	for i, name := range slices.Concat(names[:6], names[40:46]) {
		f.Add(incidents.Alarm{ID: fmt.Sprint(i), Key: name, Time: cause.Add(time.Duration(i*7%12) * time.Second), Score: 5})
	}
	events := f.Advance(cause.Add(time.Hour)).Events
	if last := events[len(events)-1].Message; !strings.HasPrefix(last, `12 of 80 series of job="svc \"a\"", job="svc \"b\"" alarmed`) {
		t.Error(last)
	}
}

// A key with three separate alarms in the week before is not the first key of an incident, and not among the first
// members.
func TestEventNoisyMembersLast(t *testing.T) {
	for times, last := range map[int]bool{2: false, 3: true} {
		f, names := sites(t, incidents.Config{}, ofSite)
		cause := begin.Add(10 * 24 * time.Hour)
		for i := range times {
			f.Add(incidents.Alarm{ID: fmt.Sprint("early", i), Key: names[0], Time: cause.Add(-time.Duration(1+i) * 30 * time.Hour), Score: 9})
		}
		for i := range 6 {
			f.Add(incidents.Alarm{ID: fmt.Sprint(i), Key: names[i], Time: cause.Add(time.Duration(i) * time.Second), Score: 9 - float64(i)})
		}
		events := f.Advance(cause.Add(time.Minute)).Events
		e := events[len(events)-1]
		if (e.Members[len(e.Members)-1].Key == names[0]) != last || strings.Contains(e.Message, "First and clearest alarm: a/0.") == last {
			t.Errorf("%d alarms before: %s", times, e.Message)
		}
	}
}
