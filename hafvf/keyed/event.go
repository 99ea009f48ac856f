package keyed

import (
	"math"
	"slices"
	"time"

	"hafvf/hafvf"
	"hafvf/internal/compact"
)

// An event is what an alarm is about, and those that follow before the values have returned. If it has
// changed what is usual, the key forgets it when they have: it goes on with the profile of before. Otherwise
// what comes next would be missed. The values have returned when as many are usual as the event was long, or
// as end an alarm. What lasts longer than longest, about a tenth of what a profile remembers, is no event.
// Another one within habit is learned: a stream may have them.
type event struct {
	profile hafvf.State // before the first observation; nil if nothing is to be forgotten
	was     usualBefore // what was usual then
	n       float64     // observations since
	back    float64     // the last ones of these that lie within nearby of what was usual
	sum     float64     // of their distances in the output of the alarm
	since   float64     // observations since an event was forgotten, within habit; 0: none was
}

const (
	grown   = 1.2
	nearby  = 2.5  // standard deviations
	longest = 600  // observations
	habit   = 1200 // observations
)

func (e *event) known() bool { return e.profile != nil }

// begin notes the profile of before an alarm, and what was usual, unless an event goes on.
func (e *event) begin(profile hafvf.State, was *usualBefore) {
	if e.since == 0 && !e.known() && was.known() {
		e.profile, e.was = slices.Clone(profile), *was
	}
}

func (e *event) end() { *e = event{since: e.since} }

// over reports whether the values have returned.
func (e *event) over(rest int) bool {
	return e.known() && e.back >= max(1, min(e.n-e.back, math.Ceil(float64(rest)/2))) && returned(e.sum, e.back)
}

// forgets notes the observation at hand. It reports whether the key is to go on with the profile of before.
func (e *event) forgets(d *decider, s *decisions, at time.Time) bool {
	switch {
	case math.IsNaN(d.usual.Mean[0]):
		return false // it is missing
	case !e.known() && e.since > 0:
		if e.since++; e.since > habit {
			e.since = 0
		}
		return false
	case !e.known():
		return false
	case e.n == longest:
		e.end()
		return false
	}
	e.n++
	if e.far(d, s, at, d.y) {
		e.back, e.sum = 0, 0
		return false
	}
	e.back++
	if e.sum += d.eventDeviations[e.was.output]; !e.over(s.pace.Rest()) {
		return false
	}
	s.plan.ForgetScatter()
	if !e.was.grew(d) && (s.pace.Fine() || !e.far(d, s, at, d.usual.Mean)) { // bursts at fine steps are a habit
		return false
	}
	e.since = 1
	return true
}

// far reports whether one of the values is far from what was usual.
func (e *event) far(d *decider, s *decisions, at time.Time, y []float64) bool {
	return slices.ContainsFunc(e.was.distances(d.eventDeviations, d, s, at, y), func(z float64) bool { return math.Abs(z) > nearby })
}

// form is that of an event whose profile is encoded.
func (e *event) form(c *coder, profile *string, outputs int) {
	c.Packs(&e.n, &e.back, &e.sum, &e.since)
	c.Check(e.n >= e.back && e.back >= 0 && e.since >= 0 && !math.IsNaN(e.sum))
	if compact.Texts(&c.Codec, profile); *profile != "" {
		e.was.form(c, outputs)
	}
}
