package keyed

import (
	"math"
	"slices"

	"hafvf/hafvf"
)

// An event is what an alarm that lasts is about. If it has raised what is usual of the scatter, the key
// forgets it when the values have returned: it goes on with the profile of before. Otherwise what comes next
// would be missed. The values have returned when as many are usual as the event was long, or as end an
// alarm. What lasts longer than longest, about a tenth of what a profile remembers, is no event. Another one
// within habit is learned: a stream may have them.
type event struct {
	profile hafvf.State // before the first observation; nil if nothing is to be forgotten
	n       float64     // observations since
	back    float64     // the last ones of these that lie within nearby of what was usual before
	sum     float64     // of their distances in the output of the alarm
	since   float64     // observations since an event was forgotten, within habit; 0: none was
}

const (
	grown   = 1.2
	nearby  = 3.   // standard deviations
	longest = 600  // observations
	habit   = 1200 // observations
)

func (e *event) kept() bool { return e.profile != nil }

// begin notes the profile of before an alarm.
func (e *event) begin(profile hafvf.State) {
	if e.since == 0 {
		e.profile = slices.Clone(profile)
	}
}

func (e *event) end() { *e = event{since: e.since} }

// forgets notes an observation, of which d has the distances from what was usual before the alarm. It
// reports whether the key is to go on with the profile of before.
func (e *event) forgets(d *decider, was *before, rest int) bool {
	switch {
	case !e.kept() && e.since > 0:
		if e.since++; e.since > habit {
			e.since = 0
		}
		return false
	case !e.kept():
		return false
	case !was.kept() || e.n == longest:
		e.end()
		return false
	}
	e.n++
	for _, z := range d.distances {
		if math.Abs(z) > nearby {
			e.back, e.sum = 0, 0
			return false
		}
	}
	e.back++
	e.sum += d.distances[was.output]
	if !was.grew(d) || e.back < min(e.n-e.back, math.Ceil(float64(rest)/2)) || !returned(e.sum, e.back) {
		return false
	}
	e.since = 1
	return true
}

// read reads an event but for its profile, which it returns encoded.
func (e *event) read(r *reader) (profile string) {
	var v [4]float64
	r.Packed(v[:])
	e.n, e.back, e.sum, e.since = v[0], v[1], v[2], v[3]
	if !(e.n >= e.back && e.back >= 0 && e.since >= 0) || math.IsNaN(e.sum) {
		r.Fail()
	}
	return r.Text()
}
