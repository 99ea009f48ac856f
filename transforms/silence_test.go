package transforms

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Deadlines of few keys are as those of all: none is looked at too late, and all that are over by a
// time are found.
func TestDeadlines(t *testing.T) {
	rng := rand.New(rand.NewPCG(36, 8))
	for range 50 {
		n := 1 + rng.IntN(3000)
		all := map[string]time.Time{}
		d := agenda{first: map[string]time.Time{}}
		now, cuts := time.Unix(0, 0), 0
		set := func(key string, at time.Time, until time.Time) {
			if d.Set(key, at, n, until); !d.until.IsZero() {
				cuts++
			}
			if all[key] = at; at.IsZero() {
				delete(all, key)
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
			if !d.Covers(now) {
				d = agenda{first: map[string]time.Time{}}
				for key, at := range all {
					d.Set(key, at, n, now)
				}
			}
			next, due := d.Next(), d.Due(now)
			for key, at := range all {
				if at.Before(next) {
					t.Fatalf("%d keys: the next is looked at %v, and %s is due %v", n, next, key, at)
				}
				if !at.After(now) {
					if !slices.Contains(due, key) {
						t.Fatalf("%d keys: %s is due %v and is not found by %v", n, key, at, now)
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
