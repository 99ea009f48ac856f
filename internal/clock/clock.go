// Package clock divides the time of a zone with clock changes into intervals, and compares times.
package clock

import "time"

// A Grid is the intervals of the local time of Zone that begin at multiples of Every, counted from a Monday at
// midnight.
type Grid struct {
	Every time.Duration
	Zone  *time.Location
}

// monday is the local time at which the multiples of all lengths begin.
const monday = 4 * 24 * 60 * 60 // 1970-01-05, in Unix seconds

// floor returns the local time at which the interval of t begins, in nanoseconds since monday, and the time from
// there to t.
func (g Grid) floor(t time.Time) (wall int64, past time.Duration) {
	_, offset := t.Zone()
	elapsed := time.Duration(t.Unix()+int64(offset)-monday)*time.Second + time.Duration(t.Nanosecond())
	if past = elapsed % g.Every; past < 0 {
		past += g.Every
	}
	return int64(elapsed - past), past
}

// Start returns the start of the interval that contains t: the last time not after t at which the clock showed a
// multiple of Every, or skipped one as it was set forward. So an interval that contains a clock change is shorter
// or longer. A repeated hour makes two intervals of an hour.
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

// Next returns the end of the interval that contains t, which is the start of the next one.
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

// At returns the instant at which a clock in zone shows the wall time of shown. For a repeated time it returns the
// first; for a skipped time it uses the offset before the change.
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

// Earlier returns the earlier of two times. A zero time does not count.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Shows reports whether a clock in the zone of t shows the wall time of shown, which is in UTC.
func Shows(t, shown time.Time) bool {
	_, offset := t.Zone()
	return t.Unix()+int64(offset) == shown.Unix()
}

// Forward reports whether the clock of a zone was set forward in the hour before t. A skipped local time is
// converted to a time in that hour.
func Forward(t time.Time, zone *time.Location) bool {
	_, after := t.In(zone).Zone()
	_, before := t.Add(-time.Hour).In(zone).Zone()
	return after > before
}
