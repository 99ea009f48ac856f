package keyed

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hafvf/hafvf"
	"hafvf/internal/clock"
)

// Nobody sees that keys are dropped: an entity that is forgotten as soon as its log has passed
// KeyState.Expiry, or at any time after that, says what one says that is never forgotten. Keys come out
// of order, one after the other as in an export, and behind their log.
func TestDroppedKeysAreNotSeen(t *testing.T) {
	const expire, lateness = 90 * 24 * time.Hour, time.Hour
	est := newEstimator(t, Config{Filter: hafvf.Config{Family: "poisson"}, Expire: expire, Lateness: lateness})
	rapid.Check(t, func(t *rapid.T) {
		entities, kept := map[string]*KeyState{}, map[string]*KeyState{}
		of := func(all map[string]*KeyState, key string) *KeyState {
			if all[key] == nil {
				e := must(est.Open(key, nil))
				all[key] = &e
			}
			return all[key]
		}
		learned := func(e *KeyState, more ...Observation) (said string) {
			for _, o := range append(due(e), more...) {
				var out Estimate
				learnNow(e, &out, &o)
				said += fmt.Sprintf(" n %d of %v, %v", out.N, o.Time, out.Estimate.Mean)
			}
			return said
		}
		say := func(e *KeyState, o Observation) string {
			now, err := e.take(&o)
			switch {
			case err != nil:
				return err.Error() + learned(e)
			case now:
				return learned(e, o)
			}
			return learned(e)
		}
		at := map[string]time.Time{}
		passed := time.Time{}
		begin := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
		for i := range rapid.IntRange(1, 60).Draw(t, "records") {
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
			if at[key].IsZero() {
				at[key] = begin.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "begins")) * 24 * time.Hour)
			}
			at[key] = at[key].Add(time.Duration(rapid.SampledFrom([]int{-1, 1, 24, 24 * 20, 24 * 85, 24 * 91, 24 * 200}).Draw(t, "later")) * time.Hour)
			o := Value(at[key], "", float64(i%5))
			o.Log, o.Seq = "log-0", int64(i)
			if passed.After(o.Time) {
				o.LogTime = passed
			}
			want := say(of(kept, key), o)
			if got := say(of(entities, key), o); got != want {
				t.Fatalf("record %d of %s at %v, the log at %v: %s\nwithout drops: %s", i, key, o.Time, passed, got, want)
			}
			passed = clock.Later(passed, o.Time)
			released := map[string]string{}
			for key, e := range kept {
				e.Release(passed.Add(-lateness))
				released[key] = learned(e)
			}
			for key, e := range entities {
				e.Release(passed.Add(-lateness))
				if got := learned(e); got != released[key] {
					t.Fatalf("%s of %s is released, without drops %s", got, key, released[key])
				}
				if first, _ := e.Waiting(); first.IsZero() && passed.After(e.Expiry()) && rapid.Bool().Draw(t, "drops") {
					delete(entities, key)
					continue
				}
				b, _ := e.AppendBinary(nil)
				if again := est.Expiry(b); !again.Equal(e.Expiry()) {
					t.Fatalf("the state expires at %v, and the entity at %v", again, e.Expiry())
				}
				e := must(est.Open(key, b))
				entities[key] = &e
			}
		}
	})
}
