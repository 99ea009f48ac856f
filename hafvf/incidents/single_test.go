package incidents

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hafvf/internal/testing/expect"
)

var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// In T weeks there are at most 3T + 6 pages of alarms outside incidents, for any alarms.
func TestSinglesBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		rising := rapid.Bool().Draw(t, "rising")
		perDay := rapid.SampledFrom([]float64{.3, 2, 50}).Draw(t, "a day")
		s := newSingles(3)
		var pages []moment
		now := momentOf(monday)
		for i := range 400 {
			now += moment(rng.ExpFloat64() / perDay * float64(day))
			score := 4 + rng.ExpFloat64()
			if rising {
				score = float64(i)
			}
			if s.page(now, scoreOfKey{fmt.Sprint(i % 70), score}) {
				pages = append(pages, now)
			}
		}
		for i := range pages {
			for j := range pages[i:] {
				if weeks := pages[i+j].seconds(pages[i]) / week.seconds(0); float64(j+1) > 3*weeks+6+1e-9 {
					t.Fatalf("%d pages in %.2f weeks", j+1, weeks)
				}
			}
		}
		if rising && perDay < 1 && len(pages) < 10 {
			t.Fatalf("%d pages of scores that rise", len(pages))
		}
	})
}

// An alarm is a page eight steps later if it is in no incident by then, its key was in none in the 32 steps before, and
// it is clearer than earlier alarms. In the first week there is at most one such page a day. A restart changes nothing.
func TestSingles(t *testing.T) {
	cfg := Config{MaxSinglePages: 3}
	f := expect.Get(New(cfg))(t)
	for i := range 40 {
		f.Register(fmt.Sprintf("g%d/%d", i/10, i%10), monday, time.Minute, 7*24*time.Hour)
	}
	n := 0
	alarm := func(key string, after time.Duration, score float64) {
		n++
		f.Add(Alarm{ID: fmt.Sprint(n), Key: key, Kind: "change", Time: monday.Add(after), Score: score, Threshold: 1})
	}
	pages := func(after time.Duration) (keys []string) {
		for _, s := range f.Advance(monday.Add(after)).Singles {
			if s.Page {
				keys = append(keys, s.Key)
			}
		}
		f = expect.Get(Restore(cfg, expect.Get(f.AppendBinary(nil))(t)))(t)
		return keys
	}
	const minute, day = time.Minute, 24 * time.Hour
	want := func(what string, got []string, want ...string) {
		t.Helper()
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: pages %q, want %q", what, got, want)
		}
	}
	alarm("g0/0", 0, 5)
	want("before eight steps", pages(7*minute))
	want("after eight steps", pages(8*minute), "g0/0")
	alarm("g1/0", 100*minute, 9)
	want("a second one on the first day", pages(200*minute))
	for i := range 4 {
		alarm(fmt.Sprint("g2/", i), 2*day, 9)
	}
	want("of an incident", pages(2*day+10*minute))
	alarm("g2/0", 2*day+31*minute, 9)
	want("of a key that was in an incident 31 steps before", pages(3*day))
	alarm("g2/1", 4*day, 9)
	want("of a key that was in an incident long before", pages(4*day+10*minute), "g2/1")
	alarm("g0/1", 8*day, 8.9)
	alarm("g1/1", 8*day+time.Hour, 9.1)
	alarm("g3/1", 8*day+2*time.Hour, 4)
	want("in the second week, of which one is not among the three highest", pages(9*day), "g0/1", "g1/1")
	f.Add(Alarm{ID: "habit", Key: "g3/2", Kind: "novelty", Time: monday.Add(9 * day), Score: 30, Threshold: 16})
	want("of a key that alarms often", pages(9*day+10*minute))
	alarm("g0/2", 9*day+11*minute, 9.2)
	f.Advance(monday.Add(9*day + 12*minute))
	f.Forget("g0/2")
	want("of a key that was forgotten", pages(10*day))
}
