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
	first map[string]time.Time // nil before the node has looked for them
	until time.Time            // no other key comes before; zero: no other does
	room  int                  // how many first may have before it is cut
}

// firstParts is the part of a cell's keys, 1/firstParts, that an agenda keeps.
const firstParts = 16

// Covers reports whether the agenda has all keys that are due by the watermark. Else it has to be made
// again of the states.
func (d *agenda) Covers(watermark time.Time) bool {
	return d.first != nil && (d.until.IsZero() || d.until.After(watermark))
}

// Set notes when a key has to be looked at; zero: not before its next observation. The cell has n keys.
// What is due by the watermark is kept in any case.
func (d *agenda) Set(key string, at time.Time, n int, watermark time.Time) {
	if at.IsZero() || !d.until.IsZero() && !at.Before(d.until) {
		delete(d.first, key)
		return
	}
	if d.first[key] = at; len(d.first) < max(d.room, 64) {
		return
	}
	times := slices.SortedFunc(maps.Values(d.first), time.Time.Compare)
	after, _ := slices.BinarySearchFunc(times, watermark.Add(1), time.Time.Compare)
	if keep := max(after, n/firstParts); keep < len(times) {
		d.until = times[keep]
		maps.DeleteFunc(d.first, func(_ string, at time.Time) bool { return !at.Before(d.until) })
		d.first = maps.Collect(maps.All(d.first)) // gives the room back
	}
	d.room = 2 * max(len(d.first), n/firstParts)
}

// Due are the keys that have to be looked at by the watermark, if the agenda covers it.
func (d *agenda) Due(watermark time.Time) (due []string) {
	for key, at := range d.first {
		if !at.After(watermark) {
			due = append(due, key)
		}
	}
	return due
}

// Next is when some key has to be looked at, or the agenda has to be made again; zero if no key has.
func (d *agenda) Next() (next time.Time) {
	for _, at := range d.first {
		next = clock.Earlier(next, at)
	}
	return clock.Earlier(next, d.until)
}

// A schedule says when a key has to be looked at: because an observation that waits is due, because the
// key becomes silent, or because it expires.
type schedule struct {
	waits    bool // observations wait, until patience after their time or the end of their interval
	patience time.Duration
	silences bool          // keys that are silent are reported
	expire   time.Duration // after which keys are forgotten; zero: never
	part     time.Duration // of that, to which the time of a log is known
}

// ofKey is when a key has to be looked at, of the first observation that waits, the time at which it
// becomes silent, and its expiry; zero: not before its next observation.
func (s schedule) ofKey(waits, deadline, expiry, watermark time.Time) (at time.Time) {
	if s.waits && !waits.IsZero() {
		at = waits.Add(s.patience)
	}
	if s.silences {
		at = clock.Earlier(at, deadline)
	}
	if s.expire > 0 && !expiry.IsZero() {
		// After it, not at it, and not again before long if the key was kept.
		at = clock.Earlier(at, s.onGrid(clock.Later(expiry, watermark).Add(time.Millisecond)))
	}
	return at
}

// ofBlock is ofKey before a block of observations is processed, of the time of its first one and the end
// of the interval of that. silent is when the key becomes silent, zero if that is not before. now is
// the time of the machine: that of the observation may be wrong.
func (s schedule) ofBlock(first, end, silent, watermark, now time.Time) (at time.Time) {
	if s.waits {
		at = end.Add(s.patience)
	}
	if at = clock.Earlier(at, silent); s.expire > 0 {
		at = clock.Earlier(at, s.onGrid(clock.Later(clock.Earlier(first, now), watermark).Add(s.part)))
	}
	return at
}

// onGrid is the first time at which keys are looked at for expiry that is not before t. A key that
// expires begins anew in any case, see keyed.KeyState.Expiry. What a look gives back is the room of its
// state, within a part of that time: so keys are looked at together.
func (s schedule) onGrid(t time.Time) time.Time {
	return t.Add(s.part - 1).Truncate(s.part)
}
