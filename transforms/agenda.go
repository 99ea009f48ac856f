package transforms

import (
	"maps"
	"slices"
	"time"

	"hafvf/internal/clock"
)

// An agenda has the times at which the keys of a cell must be checked. It contains only the earliest keys: a map of
// all keys would take as much memory as their states. It reads no clock: callers pass the watermark.
type agenda struct {
	first  map[string]time.Time // due times of the earliest keys; nil before buildAgenda has set them
	until  time.Time            // no key outside first is due before this time; zero if first is complete
	maxLen int                  // length of first from which Set cuts it
}

// An agenda keeps about 1/firstParts of the keys of a cell.
const firstParts = 16

// Covers reports whether the agenda contains all keys that are due at the watermark. If not, it must be rebuilt
// from the states.
func (a *agenda) Covers(watermark time.Time) bool {
	return a.first != nil && (a.until.IsZero() || a.until.After(watermark))
}

// Set sets the time at which a key must be checked; zero means not before its next observation. n is the number of
// keys in the cell. Set never removes a key that is due at the watermark.
func (a *agenda) Set(key string, t time.Time, n int, watermark time.Time) {
	if t.IsZero() || !a.until.IsZero() && !t.Before(a.until) {
		delete(a.first, key)
		return
	}
	if a.first[key] = t; len(a.first) < max(a.maxLen, 64) {
		return
	}
	times := slices.SortedFunc(maps.Values(a.first), time.Time.Compare)
	nDue, _ := slices.BinarySearchFunc(times, watermark.Add(1), time.Time.Compare)
	if keep := max(nDue, n/firstParts); keep < len(times) {
		a.until = times[keep]
		maps.DeleteFunc(a.first, func(_ string, t time.Time) bool { return !t.Before(a.until) })
		a.first = maps.Collect(maps.All(a.first)) // frees memory
	}
	a.maxLen = 2 * max(len(a.first), n/firstParts)
}

// Due returns the keys that must be checked at the watermark. The agenda must cover it.
func (a *agenda) Due(watermark time.Time) (due []string) {
	for key, t := range a.first {
		if !t.After(watermark) {
			due = append(due, key)
		}
	}
	return due
}

// Next returns the time at which the next key must be checked or the agenda must be rebuilt; zero if there is none.
func (a *agenda) Next() (next time.Time) {
	for _, t := range a.first {
		next = clock.Earlier(next, t)
	}
	return clock.Earlier(next, a.until)
}

// A schedule computes when a key must be checked: because a waiting observation is due, because the key becomes
// silent, or because it expires.
type schedule struct {
	waits      bool // observations wait until patience after their time or after the end of their interval
	patience   time.Duration
	silences   bool          // silent keys are reported
	expire     time.Duration // time without observations after which a key is forgotten; zero means never
	expiryStep time.Duration // resolution of expiry checks: see keyed.Config.ExpiryPart
}

// keyDue returns the time at which to check a key; zero means not before its next observation. firstWaiting is the
// time of its first waiting observation, deadline the time at which it becomes silent, and expiry the time at which
// it expires; each can be zero.
func (s schedule) keyDue(firstWaiting, deadline, expiry, watermark time.Time) (due time.Time) {
	if s.waits && !firstWaiting.IsZero() {
		due = firstWaiting.Add(s.patience)
	}
	if s.silences {
		due = clock.Earlier(due, deadline)
	}
	if s.expire > 0 && !expiry.IsZero() {
		// A key expires after expiry, not at it. A key that was kept at the watermark is not checked again at once.
		due = clock.Earlier(due, s.roundToExpiryStep(clock.Later(expiry, watermark).Add(time.Millisecond)))
	}
	return due
}

// blockDue returns the time at which to check a key before its block of observations is processed. first is the
// time of the first observation and end the end of its interval. silent is the time at which the key becomes
// silent, if it is not later than first; otherwise zero. now is the time of the machine: the time of the
// observation may be wrong.
func (s schedule) blockDue(first, end, silent, watermark, now time.Time) (due time.Time) {
	if s.waits {
		due = end.Add(s.patience)
	}
	if due = clock.Earlier(due, silent); s.expire > 0 {
		due = clock.Earlier(due, s.roundToExpiryStep(clock.Later(clock.Earlier(first, now), watermark).Add(s.expiryStep)))
	}
	return due
}

// roundToExpiryStep rounds t up to a time at which keys are checked for expiry, so that keys are checked together.
// A check only frees the state's memory: the next observation resets an expired key in any case, see
// keyed.KeyState.Expiry.
func (s schedule) roundToExpiryStep(t time.Time) time.Time {
	return t.Add(s.expiryStep - 1).Truncate(s.expiryStep)
}
