package times

import (
	"sync"
	"time"
)

// Folds resolves local times that occur twice because a clock is set back. It uses the order of each key's records,
// and for a key that begins there the order of all records. The zero Folds is ready to use. It is safe for
// concurrent use.
type Folds struct {
	mu         sync.Mutex
	passes     map[string]foldPass // by key, of keys last seen near a time at which a clock is set back
	secondPass bool                // the previous record was in the second pass, or later

	noChange [2]time.Time // bounds of a range in which no clock is set back
}

// A foldPass is the position of a key near a clock change.
type foldPass struct {
	changeTime time.Time     // when the clock is set back
	last       time.Time     // latest time of the key
	step       time.Duration // difference between last and the time before it; 0 without one
	secondPass bool          // the second pass has begun
}

// nearFold is how far before and after a clock change the times of keys are followed. An hourly series has one time
// in each pass; the time before them shows that it is hourly.
const nearFold = 6 * time.Hour

// Resolve returns the time t of a key in UTC. If t occurs twice, Resolve chooses by the order of the records.
func (f *Folds) Resolve(key string, t time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	changeTime, shift := f.near(t)
	if shift == 0 {
		delete(f.passes, key)
		f.secondPass = false
		return t.UTC()
	}
	p, known := f.passes[key]
	if known && !p.changeTime.Equal(changeTime) {
		p, known = foldPass{}, false
	}
	p.changeTime = changeTime
	earlier := t // the earlier candidate
	if !t.Before(changeTime) && t.Before(changeTime.Add(shift)) {
		earlier = t.Add(-shift)
	}
	switch {
	case earlier.Before(changeTime.Add(-shift)):
		f.secondPass = false
	case !earlier.Before(changeTime):
		f.secondPass = true
	default:
		if t = earlier; p.inSecond(known, f.secondPass, earlier, shift) {
			t, p.secondPass = earlier.Add(shift), true
		}
		f.secondPass = !t.Before(changeTime)
	}
	if !known || t.After(p.last) {
		if known {
			p.step = t.Sub(p.last)
		}
		p.last = t
	}
	if f.passes == nil {
		f.passes = map[string]foldPass{}
	}
	f.passes[key] = p
	return t.UTC()
}

// inSecond reports whether a time that is earlier or, in the second pass, earlier plus shift is in the second pass.
func (p *foldPass) inSecond(known, otherKeys bool, earlier time.Time, shift time.Duration) bool {
	setBack := p.last.Sub(earlier)
	switch {
	case !known:
		return otherKeys
	case p.secondPass:
		// A time slightly out of order at the beginning of the second pass belongs to the first pass.
		return setBack < 0 || setBack >= shift/12
	}
	// The time is set back by about the clock's shift, less a step: ordinary disorder is smaller.
	return setBack >= 0 && setBack+p.step > shift/2
}

// near returns the time near t at which the clock of t's zone is set back, and the shift; the shift is 0 if there
// is none.
func (f *Folds) near(t time.Time) (changeTime time.Time, shift time.Duration) {
	if t.After(f.noChange[0]) && t.Before(f.noChange[1]) {
		return changeTime, 0
	}
	start, end := t.ZoneBounds()
	for _, bound := range []time.Time{start, end} {
		if bound.IsZero() || t.Sub(bound).Abs() > nearFold {
			continue
		}
		_, before := bound.Add(-1).Zone()
		_, after := bound.Zone()
		if shift := time.Duration(before-after) * time.Second; shift > 0 {
			return bound, shift
		}
	}
	if !start.IsZero() && !end.IsZero() {
		f.noChange = [2]time.Time{start.Add(nearFold), end.Add(-nearFold)}
	}
	return changeTime, 0
}
