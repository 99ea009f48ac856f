package transforms

import (
	"maps"
	"slices"
	"time"

	"hafvf/internal/clock"
)

// An agenda is when keys of a cell have to be looked at. It has the keys that come first: a map of all
// keys would take as much memory as their states. It has no clock: it is given the watermark, and a
// schedule also the time of the machine.
type agenda struct {
	first  map[string]time.Time // nil before the node has looked for them
	until  time.Time            // no other key comes before; zero: no other does
	maxLen int                  // how many first may have before it is cut
}

// firstParts is the part of a cell's keys, 1/firstParts, that an agenda keeps.
const firstParts = 16

// Covers reports whether the agenda has all keys that are due by the watermark. Else it has to be made
// again of the states.
func (a *agenda) Covers(watermark time.Time) bool {
	return a.first != nil && (a.until.IsZero() || a.until.After(watermark))
}

// Set notes when a key has to be looked at; zero: not before its next observation. The cell has n keys.
// What is due by the watermark is kept in any case.
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
		a.first = maps.Collect(maps.All(a.first)) // gives the room back
	}
	a.maxLen = 2 * max(len(a.first), n/firstParts)
}

// Due are the keys that have to be looked at by the watermark, if the agenda covers it.
func (a *agenda) Due(watermark time.Time) (due []string) {
	for key, t := range a.first {
		if !t.After(watermark) {
			due = append(due, key)
		}
	}
	return due
}

// Next is when some key has to be looked at, or the agenda has to be made again; zero if no key has.
func (a *agenda) Next() (next time.Time) {
	for _, t := range a.first {
		next = clock.Earlier(next, t)
	}
	return clock.Earlier(next, a.until)
}

// A schedule says when a key has to be looked at: because an observation that waits is due, because the
// key becomes silent, or because it expires.
type schedule struct {
	waits      bool // observations wait, until patience after their time or the end of their interval
	patience   time.Duration
	silences   bool          // keys that are silent are reported
	expire     time.Duration // after which keys are forgotten; zero: never
	expiryStep time.Duration // of that, to which the time of a log is known
}

// ofKey is when a key has to be looked at, of the first observation that waits, the time at which it
// becomes silent, and its expiry; zero: not before its next observation.
func (s schedule) keyDue(firstWaiting, deadline, expiry, watermark time.Time) (due time.Time) {
	if s.waits && !firstWaiting.IsZero() {
		due = firstWaiting.Add(s.patience)
	}
	if s.silences {
		due = clock.Earlier(due, deadline)
	}
	if s.expire > 0 && !expiry.IsZero() {
		// After it, not at it, and not again before long if the key was kept.
		due = clock.Earlier(due, s.roundToExpiryStep(clock.Later(expiry, watermark).Add(time.Millisecond)))
	}
	return due
}

// ofBlock is ofKey before a block of observations is processed, of the time of its first one and the end
// of the interval of that. silent is when the key becomes silent, zero if that is not before. now is
// the time of the machine: that of the observation may be wrong.
func (s schedule) blockDue(first, end, silent, watermark, now time.Time) (due time.Time) {
	if s.waits {
		due = end.Add(s.patience)
	}
	if due = clock.Earlier(due, silent); s.expire > 0 {
		due = clock.Earlier(due, s.roundToExpiryStep(clock.Later(clock.Earlier(first, now), watermark).Add(s.expiryStep)))
	}
	return due
}

// onGrid is the first time at which keys are looked at for expiry that is not before t. A key that
// expires begins anew in any case, see keyed.KeyState.Expiry. What a look gives back is the room of its
// state, within a part of that time: so keys are looked at together.
func (s schedule) roundToExpiryStep(t time.Time) time.Time {
	return t.Add(s.expiryStep - 1).Truncate(s.expiryStep)
}
