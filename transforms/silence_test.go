package transforms

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"hafvf/internal/states"
)

// timersSet counts the timers that are set.
type timersSet int

func (n *timersSet) Set(timers.TimerMap) { *n++ }

// A cell has one timer, however many keys, blocks and observations it has. It is set
// again when it has fired.
func TestCellsHaveOneTimer(t *testing.T) {
	due := timers.InEventTime("due")
	fn := &node{due: &due}
	c := &opened{cell: &cell{Cell: states.NewCell(), deadlines: deadlines{first: map[string]time.Time{}}}}
	var set timersSet
	speak := func(key string, second, deadline int64) {
		for range 3 { // blocks that wait for their turn
			fn.guard(&set, c, key, time.Unix(second, 0))
		}
		c.deadlines.set(key, time.Unix(deadline, 0), 2, time.Time{})
	}
	want := func(n timersSet, at int64) {
		t.Helper()
		if set != n || c.watched.Unix() != at {
			t.Errorf("%d timers, the last at %v; want %d, %d", set, c.watched, n, at)
		}
	}
	for i := range int64(100) {
		speak("a", i, i+10)
		speak("b", i+1, i+20)
	}
	want(1, 0)
	fn.watch(&set, c) // it fires
	want(2, 109)
	c.deadlines.set("a", time.Time{}, 2, time.Time{}) // is told
	fn.watch(&set, c)
	want(3, 119)
	speak("a", 115, 125)
	want(4, 115)
	c.watched = time.Time{} // another worker, which has not got a copy of the cell
	speak("c", 130, 140)
	want(5, 119)
}

// Deadlines of few keys are as those of all: none is looked at too late, and all that are over by a
// time are found.
func TestDeadlines(t *testing.T) {
	rng := rand.New(rand.NewPCG(36, 8))
	for range 50 {
		n := 1 + rng.IntN(3000)
		all := map[string]time.Time{}
		d := deadlines{first: map[string]time.Time{}}
		now, cuts := time.Unix(0, 0), 0
		set := func(key string, at time.Time, until time.Time) {
			if d.set(key, at, n, until); !d.until.IsZero() {
				cuts++
			}
			if all[key] = at; at.IsZero() {
				delete(all, key)
			}
		}
		find := func() {
			d = deadlines{first: map[string]time.Time{}}
			for key, at := range all {
				d.set(key, at, n, now)
			}
		}
		for range 5 * n {
			key := fmt.Sprint(rng.IntN(n))
			at := now.Add(time.Duration(1+rng.IntN(50)) * time.Second)
			if rng.IntN(5) == 0 {
				at = time.Time{}
			}
			set(key, at, time.Time{})
			if rng.IntN(1+n/5) > 0 {
				continue
			}
			now = now.Add(time.Duration(rng.IntN(8)) * time.Second)
			if !d.until.IsZero() && !d.until.After(now) {
				find()
			}
			next := d.next()
			for key, at := range all {
				if at.Before(next) {
					t.Fatalf("%d keys: the next is looked at %v, and %s is due %v", n, next, key, at)
				}
				if !at.After(now) {
					if got := d.first[key]; got != at {
						t.Fatalf("%d keys: %s is due %v and is not found: %v", n, key, at, got)
					}
					set(key, time.Time{}, time.Time{}) // told
				}
			}
		}
		if bound := max(64, 2*n/firstParts); len(d.first) > bound+n/10 {
			t.Errorf("%d keys: %d are the first", n, len(d.first))
		}
		if n > 1500 && cuts == 0 {
			t.Errorf("%d keys: none was left out", n)
		}
	}
}
