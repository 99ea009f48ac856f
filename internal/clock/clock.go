// Package clock has the intervals of a clock that goes forward and back, and the order of times.
package clock

import "time"

// A Grid are the intervals of the clock of a zone, which begin at multiples of Every from a Monday
// at midnight.
type Grid struct {
	Every time.Duration
	Zone  *time.Location
}

// monday is where the multiples of all lengths begin, on any clock.
const monday = 4 * 24 * 60 * 60 // 1970-01-05, in Unix seconds

// floor is the beginning of the interval of t on the clock of the zone, in nanoseconds since
// monday, and how far behind it t is.
func (g Grid) floor(t time.Time) (wall int64, past time.Duration) {
	_, offset := t.Zone()
	elapsed := time.Duration(t.Unix()+int64(offset)-monday)*time.Second + time.Duration(t.Nanosecond())
	if past = elapsed % g.Every; past < 0 {
		past += g.Every
	}
	return int64(elapsed - past), past
}

// Start is the beginning of the interval that t lies in: the last moment not after t at which
// the clock showed a multiple of the length, or passed over one as it went forward. An interval
// over a change of the clock is so shorter or longer; the hour that the clock shows twice makes
// two intervals of an hour.
func (g Grid) Start(t time.Time) time.Time {
	t = t.In(g.Zone)
	for {
		wall, past := g.floor(t)
		start := t.Add(-past)
		zoneStart, _ := t.ZoneBounds()
		if zoneStart.IsZero() || !start.Before(zoneStart) {
			return start.UTC()
		}
		before := zoneStart.Add(-1)
		if earlier, _ := g.floor(before); earlier != wall {
			return zoneStart.UTC()
		}
		t = before
	}
}

// Next is the end of the interval that t lies in: the beginning of the one after it.
func (g Grid) Next(t time.Time) time.Time {
	t = t.In(g.Zone)
	for {
		_, past := g.floor(t)
		end := t.Add(g.Every - past)
		_, zoneEnd := t.ZoneBounds()
		if zoneEnd.IsZero() || end.Before(zoneEnd) {
			return end.UTC()
		}
		if g.Start(zoneEnd).Equal(zoneEnd) {
			return zoneEnd.UTC()
		}
		t = zoneEnd
	}
}

// At is when the clock of a zone shows what shown shows in UTC. Of two times it is the first. If the clock leaves it out, the
// offset before the change counts.
func At(shown time.Time, zone *time.Location) time.Time {
	withOffsetAt := func(t time.Time) time.Time {
		_, offset := t.In(zone).Zone()
		return shown.Add(-time.Duration(offset) * time.Second)
	}
	before := withOffsetAt(shown.Add(-24 * time.Hour))
	if after := withOffsetAt(before); withOffsetAt(after).Equal(after) && !withOffsetAt(before).Equal(before) {
		return after
	}
	return before
}

// Earlier is the earlier of two times, of which zero is none.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Later is the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Shows reports whether the clock of a time's zone shows what shown shows in UTC.
func Shows(t, shown time.Time) bool {
	_, offset := t.Zone()
	return t.Unix()+int64(offset) == shown.Unix()
}

// Forward reports whether the clock of a zone has gone forward in the hour before t: a time that it leaves out then counts as
// one in that hour.
func Forward(t time.Time, zone *time.Location) bool {
	_, after := t.In(zone).Zone()
	_, before := t.Add(-time.Hour).In(zone).Zone()
	return after > before
}
