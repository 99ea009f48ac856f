package transforms

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// An agenda with few keys gives the same due times as one with all keys: no key is checked too late, and all keys
// that are due are found.
func TestAgenda(t *testing.T) {
	rng := rand.New(rand.NewPCG(36, 8))
	for range 50 {
		n := 1 + rng.IntN(3000)
		dueTimes := map[string]time.Time{}
		a := agenda{first: map[string]time.Time{}}
		now, cuts := time.Unix(0, 0), 0
		set := func(key string, due time.Time, until time.Time) {
			if a.Set(key, due, n, until); !a.until.IsZero() {
				cuts++
			}
			if dueTimes[key] = due; due.IsZero() {
				delete(dueTimes, key)
			}
		}
		for range 5 * n {
			key := fmt.Sprint(rng.IntN(n))
			due := now.Add(time.Duration(1+rng.IntN(50)) * time.Second)
			if rng.IntN(5) == 0 {
				due = time.Time{}
			}
			set(key, due, time.Time{})
			if rng.IntN(1+n/5) > 0 {
				continue
			}
			now = now.Add(time.Duration(rng.IntN(8)) * time.Second)
			if !a.Covers(now) {
				a = agenda{first: map[string]time.Time{}}
				for key, due := range dueTimes {
					a.Set(key, due, n, now)
				}
			}
			next, found := a.Next(), a.Due(now)
			for key, due := range dueTimes {
				if due.Before(next) || next.IsZero() {
					t.Fatalf("%d keys: the next check is at %v, and %s is due at %v", n, next, key, due)
				}
				if !due.After(now) {
					if !slices.Contains(found, key) {
						t.Fatalf("%d keys: %s is due at %v and is not found at %v", n, key, due, now)
					}
					set(key, time.Time{}, time.Time{}) // checked
				}
			}
		}
		if bound := max(64, 2*n/firstParts); len(a.first) > bound+n/10 {
			t.Errorf("%d keys: the agenda has %d", n, len(a.first))
		}
		if n > 1500 && cuts == 0 {
			t.Errorf("%d keys: the agenda has all", n)
		}
	}
}
