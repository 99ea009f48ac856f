package times

import (
	"sync"
	"time"
)

// Folds tells which of two moments a time without an offset is, in the hour that a clock shows
// twice as it goes back. The order of the records of a key tells it, and for a key that begins
// there the order of all records. The zero Folds has seen none. It is safe for concurrent use.
type Folds struct {
	mu     sync.Mutex
	keys   map[string]foldPass // that were last seen near a moment at which a clock goes back
	second bool                // the record before was in the second pass, or later

	quiet [2]time.Time // a time in which no clock goes back
}

// A foldPass is where a key is.
type foldPass struct {
	back   time.Time     // when the clock goes back
	last   time.Time     // latest of the key
	step   time.Duration // to it, from the time before; 0 if there was none
	second bool          // the second pass has begun
}

// nearFold is how far from such an hour the times of a key are followed: an hourly series has
// one in each pass, and the time before tells that it is hourly.
const nearFold = 6 * time.Hour

// Resolve returns a key's time, given in a zone, in UTC.
func (f *Folds) Resolve(key string, t time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	back, by := f.near(t)
	if by == 0 {
		delete(f.keys, key)
		f.second = false
		return t.UTC()
	}
	p, seen := f.keys[key]
	if seen && !p.back.Equal(back) {
		p, seen = foldPass{}, false
	}
	p.back = back
	first := t // of the moments that it can be
	if !t.Before(back) && t.Before(back.Add(by)) {
		first = t.Add(-by)
	}
	switch {
	case first.Before(back.Add(-by)):
		f.second = false
	case !first.Before(back):
		f.second = true
	default:
		if t = first; p.inSecond(seen, f.second, first, by) {
			t, p.second = first.Add(by), true
		}
		f.second = !t.Before(back)
	}
	if !seen || t.After(p.last) {
		if seen {
			p.step = t.Sub(p.last)
		}
		p.last = t
	}
	if f.keys == nil {
		f.keys = map[string]foldPass{}
	}
	f.keys[key] = p
	return t.UTC()
}

// inSecond reports whether a time is in the second pass, that could be first or, by later, there.
func (p *foldPass) inSecond(seen, others bool, first time.Time, by time.Duration) bool {
	behind := p.last.Sub(first)
	switch {
	case !seen:
		return others
	case p.second:
		// What is a little out of order at its beginning is of the first one.
		return behind < 0 || behind >= by/12
	}
	// Back by about as much as the clock, less a step: disorder is smaller.
	return behind >= 0 && behind+p.step > by/2
}

// near returns the moment near t at which the clock of its zone goes back, and by how much; 0 if
// there is none.
func (f *Folds) near(t time.Time) (back time.Time, by time.Duration) {
	if t.After(f.quiet[0]) && t.Before(f.quiet[1]) {
		return back, 0
	}
	start, end := t.ZoneBounds()
	for _, at := range []time.Time{start, end} {
		if at.IsZero() || t.Sub(at).Abs() > nearFold {
			continue
		}
		_, before := at.Add(-1).Zone()
		_, after := at.Zone()
		if by := time.Duration(before-after) * time.Second; by > 0 {
			return at, by
		}
	}
	if !start.IsZero() && !end.IsZero() {
		f.quiet = [2]time.Time{start.Add(nearFold), end.Add(-nearFold)}
	}
	return back, 0
}
