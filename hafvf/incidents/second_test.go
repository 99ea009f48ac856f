package incidents_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf/incidents"
	"hafvf/internal/testing/expect"
)

// A second is a storm of most of a fleet's keys, of which one group has an outage later.
type second struct {
	step   time.Duration
	after  int // steps from the storm's first alarm to the outage; 0 without an outage
	random bool
	spread int // steps in which the storm comes to all groups, one after the other; 0: three at random
	cfg    incidents.Config
	name   func(group, i int) string
}

// pages are those that a fleet of about 200 keys in groups of 5 to 10 tells after two weeks of
// alarms of its own, from the storm on: of all groups, and of that of the outage within two steps of it.
func (s second) pages(t expect.T, seed uint64) (all, own, inTime int) {
	rng := rand.New(rand.NewPCG(seed, 72))
	f := newFleet(t, s.cfg)
	var groups [][]string
	for keys := 0; keys < 200; {
		var group []string
		for i := range 5 + rng.IntN(6) {
			group = append(group, s.name(len(groups), i))
			f.Register(group[i], begin, s.step, week)
		}
		groups = append(groups, group)
		keys += len(group)
	}
	n := 0
	alarm := func(key string, at time.Time) {
		f.Add(incidents.Alarm{ID: fmt.Sprint(n), Key: key, Kind: "novelty", Time: at, Score: 4 + rng.ExpFloat64()})
		n++
	}
	in := func(steps int) time.Duration { return time.Duration(rng.IntN(steps)) * s.step }
	storm := begin.Add(2*week + in(int(24*time.Hour/s.step)))
	for _, group := range groups {
		for _, key := range group {
			for at := begin.Add(time.Duration(rng.ExpFloat64() / perWeek * float64(week))); at.Before(storm.Add(24 * time.Hour)); at = at.Add(time.Duration(rng.ExpFloat64() / perWeek * float64(week))) {
				alarm(key, at.Truncate(s.step))
			}
		}
	}
	share := .3 + .7*rng.Float64()
	for g, group := range groups {
		for _, key := range group {
			if rng.Float64() > share {
				continue
			}
			at := storm.Add(in(3))
			if s.random {
				at = storm.Add(in(s.spread))
			} else if s.spread > 0 {
				at = storm.Add(time.Duration(g*s.spread/len(groups))*s.step + in(3))
			}
			alarm(key, at)
			if rng.Float64() < .2 { // its end, or a relapse
				alarm(key, at.Add(s.step+in(32)))
			}
		}
	}
	var outage time.Time
	name := ""
	if s.after > 0 {
		outage = storm.Add(time.Duration(s.after) * s.step)
		group := groups[rng.IntN(len(groups))]
		for _, key := range group {
			alarm(key, outage.Add(in(2)))
		}
		name = s.name(0, 0) // replaced below
		name = groupOf(group[0])
	}
	for _, e := range f.Advance(storm.Add(24 * time.Hour)).Events {
		if !e.Page || e.Time.Before(storm) || e.State != incidents.Opened && e.State != incidents.Update {
			continue
		}
		if testing.Verbose() && s.spread > 0 && s.step == time.Minute {
			fmt.Println(seed, e.Time.Sub(storm), e.State, e.Message, e.Score, e.Threshold, e.Expected, e.Window)
		}
		all++
		if name != "" && e.Group == name {
			own++
			if !e.Time.After(outage.Add(2 * s.step)) {
				inTime++
			}
		}
	}
	return all, own, inTime
}

func groupOf(key string) string { return key[:2+len("00")-1] }

func TestSecond(t *testing.T) {
	slash := func(group, i int) string { return fmt.Sprintf("g%02d/%d", group, i) }
	for _, c := range []struct {
		step       time.Duration
		from, most int
	}{{5 * time.Minute, 8, 24}, {time.Minute, 8, 120}} {
		random := 0
		inTime, twice, noPage, alone, spread := 0, 0, 0, 0, 0
		for seed := range uint64(100) {
			after := c.from + int(seed)%(c.most-c.from+1)
			all, own, ok := second{step: c.step, after: after, name: slash}.pages(t, seed)
			if ok > 0 {
				inTime++
			}
			if own > 1 {
				twice++
			}
			if all == 0 {
				noPage++
			}
			if all, _, _ := (second{step: c.step, name: slash}).pages(t, seed); all <= 1 {
				alone++
			}
			if all, _, _ := (second{step: c.step, random: true, spread: 20, name: slash}).pages(t, seed); all <= 2 {
				random++
			}
			if all, _, _ := (second{step: c.step, spread: 20, name: slash}).pages(t, seed); all <= 2 {
				spread++
			}
		}
		t.Logf("random %d %v: outage paged in time %d, twice %d, none %d; storms alone with one page %d; spreading with two at most %d", random, c.step, inTime, twice, noPage, alone, spread)
	}
}
