package incidents_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hafvf/hafvf/incidents"
	"hafvf/internal/testing/expect"
)

// An unevenStorm reaches the racks of half of the zones of a fleet of 10 jobs on 12 racks. Its alarms have sizes, and
// outages in it are larger.
type unevenStorm struct {
	step         time.Duration
	prefixes     bool    // groups are prefixes, not labels
	byKey, byJob float64 // standard deviations of the logarithm of the sizes
	spreads      int     // steps in which the storm reaches its keys
	front        bool    // it reaches one job after another, not at random
	outages      []int   // steps from the storm's first alarm to each outage
	inside       bool    // the outages are in the zone of the storm
	times        float64 // size of an outage in units of the key's size
}

// pages returns the number of pages of the storm, and how many outages had a page with their rack within three steps.
// During an episode a key reports only values twice as large as before.
func (s unevenStorm) pages(t testing.TB, seed uint64) (pages, named int) {
	rng := rand.New(rand.NewPCG(seed, 99))
	cfg := incidents.Config{By: []string{"zone", "rack", "job"}}
	key := func(job, rack int) string {
		return fmt.Sprintf(`x{job="j%d",rack="r%d",zone="z%d"}`, job, rack, rack/6)
	}
	group := func(rack int) string { return fmt.Sprintf(`rack="r%d"`, rack) }
	if s.prefixes {
		cfg.By = nil
		key = func(job, rack int) string { return fmt.Sprintf("z%d/r%d/j%d", rack/6, rack, job) }
		group = func(rack int) string { return fmt.Sprintf("z%d/r%d", rack/6, rack) }
	}
	f := newFleet(t, cfg)
	jobSizes := make([]float64, 10)
	for j := range jobSizes {
		jobSizes[j] = 5 * math.Exp(s.byJob*rng.NormFloat64())
	}
	sizes := map[string]float64{}
	for job, size := range jobSizes {
		for rack := range 12 {
			sizes[key(job, rack)] = size * math.Exp(s.byKey*rng.NormFloat64())
			f.Register(key(job, rack), begin, s.step, week)
		}
	}
	n := 0
	episodes := map[string]incidents.Alarm{} // the last report of the episode of a key
	alarm := func(key string, at time.Time, size float64) {
		a := incidents.Alarm{ID: fmt.Sprint(n), Key: key, Kind: "novelty", Time: at.Truncate(s.step), Score: 4 + rng.ExpFloat64(), Size: size}
		a.Episode = &incidents.Episode{ID: a.ID}
		if last, ok := episodes[key]; ok && at.Before(last.Time.Add(100*s.step)) {
			if size < 2*last.Size {
				return
			}
			a.Episode = last.Episode
		}
		episodes[key] = a
		f.Add(a)
		n++
	}
	in := func(steps int) time.Duration { return time.Duration(rng.Int64N(int64(steps) * int64(s.step))) }
	storm := begin.Add(week + in(int(24*time.Hour/s.step)+1)).Truncate(s.step)
	type due struct {
		key  string
		at   time.Time
		size float64
	}
	var all []due
	share := .4 + .6*rng.Float64()
	for job := range 10 {
		for rack := range 12 {
			k := key(job, rack)
			for at := begin; at.Before(storm.Add(60 * s.step)); {
				at = at.Add(time.Duration(rng.ExpFloat64() / perWeek * float64(week)))
				all = append(all, due{k, at, sizes[k] * (1 + .3*rng.ExpFloat64())})
			}
			if rack >= 6 || rng.Float64() > share {
				continue
			}
			at := storm.Add(in(s.spreads))
			if s.front {
				at = storm.Add(time.Duration(job*s.spreads/10)*s.step + in(2))
			}
			for size := sizes[k] * (1 + .3*rng.ExpFloat64()); at.Before(storm.Add(60*s.step)) && rng.Float64() < .7; at = at.Add(s.step + in(30)) {
				all = append(all, due{k, at, size})
				if rng.Float64() < .3 {
					size *= 2
				}
			}
		}
	}
	racks := rng.Perm(6)
	for i, after := range s.outages {
		if !s.inside {
			racks[i] += 6
		}
		for job := range 10 {
			if k := key(job, racks[i]); rng.Float64() < .9 {
				all = append(all, due{k, storm.Add(time.Duration(after)*s.step + in(2)), sizes[k] * s.times})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b due) int { return a.at.Compare(b.at) })
	for _, d := range all {
		alarm(d.key, d.at, d.size)
	}
	found := map[int]bool{}
	for _, e := range f.Advance(storm.Add(24 * time.Hour)).Events {
		if !e.Page || e.Time.Before(storm) || e.Time.After(storm.Add(100*s.step)) || e.State != incidents.Opened && e.State != incidents.Update {
			continue
		}
		pages++
		for i, after := range s.outages {
			if d := e.Time.Sub(storm.Add(time.Duration(after) * s.step)); e.Group == group(racks[i]) && d >= 0 && d < 3*s.step {
				found[i] = true
			}
		}
	}
	return pages, len(found)
}

// What stands out of a storm opens its own incident: soon after the storm began, if its keys are members that got worse,
// and outside the storm's group. Alarms of the storm's size, and new alarms of members that are no worse, do not.
func TestFleetStandsOut(t *testing.T) {
	const none, same, worse = 0, 1, 2 // the rack's earlier alarms: none, other episodes, or the same
	for name, c := range map[string]struct {
		after      time.Duration
		size, prev float64 // of the outage, and of the rack in the storm
		rack       int
		earlier    int
		want       string
	}{
		"soon":                     {2 * time.Minute, 40, 0, 5, none, `rack="r5"`},
		"members that got worse":   {12 * time.Minute, 40, 6, 5, worse, `rack="r5"`},
		"members, larger":          {12 * time.Minute, 40, 6, 5, same, `rack="r5"`},
		"members, as before":       {2 * time.Minute, 40, 30, 5, same, ""},
		"outside the storm":        {2 * time.Minute, 40, 0, 1, none, `rack="r1"`},
		"of the size of the storm": {2 * time.Minute, 8, 0, 5, none, ""},
	} {
		f := newFleet(t, incidents.Config{By: []string{"zone", "rack", "job"}})
		n := 0
		onsets := map[string]string{}
		alarm := func(job, rack int, at time.Time, size float64) {
			key := fmt.Sprintf(`x{job="j%d",rack="r%d",zone="z%d"}`, job, rack, rack/5)
			f.Register(key, begin, time.Minute, week)
			if size == 0 {
				return
			}
			n++
			a := incidents.Alarm{ID: fmt.Sprint(n), Key: key, Kind: "novelty", Time: at, Score: 9, Size: size}
			if onsets[key] == "" || c.earlier != worse {
				onsets[key] = a.ID
			}
			a.Episode = &incidents.Episode{ID: onsets[key]}
			f.Add(a)
		}
		storm := begin.Add(week)
		for job := range 6 {
			for rack := 1; rack < 9; rack++ {
				size := 0.
				switch {
				case rack == c.rack:
					size = c.prev
				case rack >= 5:
					size = 5 + float64(job)
				}
				alarm(job, rack, storm.Add(time.Duration(job%2)*time.Minute), size)
			}
			alarm(job, c.rack, storm.Add(c.after+time.Duration(job/4)*time.Minute), c.size)
		}
		got := ""
		for _, e := range f.Advance(storm.Add(c.after + time.Minute)).Events {
			if e.State == incidents.Opened && e.Page && e.Labels["rack"] != "" {
				got = e.Group
			}
		}
		expect.Same(t, c.want, got, name)
		for _, e := range f.Open() {
			if e.Group == c.want {
				expect.Same(t, 6, e.NumMembers, name)
			}
		}
		b, _ := f.AppendBinary(nil)
		useRestored(t, b)
	}
}

// go test ./hafvf/incidents -run - -bench UnevenStorm -benchtime 1x
//
// Storms by the number of their pages, and outages within storms that have a page with their name within three steps.
func BenchmarkUnevenStorm(b *testing.B) {
	const storms = 50
	for b.Loop() {
		for _, s := range []unevenStorm{
			{byKey: .3}, {byKey: .8}, {byKey: .3, byJob: .5}, {byKey: .5, byJob: 1},
			{byKey: .3, prefixes: true}, {byKey: .3, step: 5 * time.Minute}, {byKey: .3, step: time.Hour},
		} {
			if s.step == 0 {
				s.step = time.Minute
			}
			for _, spreads := range []int{1, 3, 20} {
				for _, s.front = range []bool{false, true} {
					s.spreads = spreads
					pages := map[int]int{}
					for i := range uint64(storms) {
						n, _ := s.pages(b, *seed+i)
						pages[n]++
					}
					b.Logf("step %v, prefixes %v, sizes ±%g by key, ±%g by job, over %d steps, job after job %v: storms by pages %v", s.step, s.prefixes, s.byKey, s.byJob, spreads, s.front, pages)
				}
			}
			s.spreads, s.front, s.times = 3, false, 8
			for _, outages := range [][]int{{2}, {6}, {20}, {2, 10, 20}} {
				for _, s.inside = range []bool{true, false} {
					s.outages = outages
					named := 0
					for i := range uint64(storms) {
						_, n := s.pages(b, *seed+i)
						named += n
					}
					b.Logf("  outages 8 times as large after %v steps, in the storm's zone %v: named %d of %d", outages, s.inside, named, storms*len(outages))
				}
			}
		}
	}
}
