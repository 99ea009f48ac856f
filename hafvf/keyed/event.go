package keyed

import (
	"math"
	"slices"
	"time"

	"hafvf/hafvf"
	"hafvf/internal/compact"
)

// An episode is the stretch of observations from an alarm until the values have returned; it includes later alarms in
// the stretch. If the episode has increased the usual SD or, except at fine steps, moved the usual values, the profile
// from before the episode is restored at its end. Otherwise, the next deviation would be missed. The values have
// returned after as many consecutive usual observations as the deviation had, or after as many as end an alarm. A
// stretch of more than maxEpisodeObs, about a tenth of the memory of a profile, is not an episode. If another episode
// starts within habitObs after a restored one, it is learned, because episodes may be normal for the stream.
type episode struct {
	profile       hafvf.State      // profile before the first observation; nil outside an episode
	before        preAlarmBaseline // usual values before the first observation
	n             float64          // observations in the episode
	nearObs       float64          // number of observations at its end that lie within nearSD of the earlier usual values
	sum           float64          // sum of their deviations in the output of the alarm, sd
	sinceRestored float64          // observations since the last restored episode, at most habitObs; 0 if there was none
}

const (
	grownRatio    = 1.2  // ratio from which an SD counts as grown
	nearSD        = 2.5  // standard deviations
	maxEpisodeObs = 600  // observations
	habitObs      = 1200 // observations
)

// known reports whether an episode lasts.
func (e *episode) known() bool { return e.profile != nil }

// begin starts an episode with the profile and the usual values before an alarm. It does nothing if an episode lasts,
// or if one was restored within habitObs.
func (e *episode) begin(profile hafvf.State, before *preAlarmBaseline) {
	if e.sinceRestored == 0 && !e.known() && before.known() {
		e.profile, e.before = slices.Clone(profile), *before
	}
}

// end ends the episode without restoring the profile.
func (e *episode) end() { *e = episode{sinceRestored: e.sinceRestored} }

// over reports whether the values have returned. rest is the rest after an alarm, in observations.
func (e *episode) over(rest int) bool {
	return e.known() && e.nearObs >= max(1, min(e.n-e.nearObs, math.Ceil(float64(rest)/2))) && returned(e.sum, e.nearObs)
}

// restores adds the current observation to the episode. It reports whether the values have returned and the caller must
// restore the profile from before the episode.
func (e *episode) restores(d *decider, s *decisions, t time.Time) bool {
	switch {
	case math.IsNaN(d.usual.Mean[0]):
		return false // the observation is missing
	case !e.known() && e.sinceRestored > 0:
		if e.sinceRestored++; e.sinceRestored > habitObs {
			e.sinceRestored = 0
		}
		return false
	case !e.known():
		return false
	case e.n == maxEpisodeObs:
		e.end()
		return false
	}
	e.n++
	if e.far(d, s, t, d.y) {
		e.nearObs, e.sum = 0, 0
		return false
	}
	e.nearObs++
	if e.sum += d.episodeDeviations[e.before.output]; !e.over(s.pace.Rest()) {
		return false
	}
	s.plan.ResetRecentSpread()
	if !e.before.spreadGrew(d) && (s.pace.Fine() || !e.far(d, s, t, d.usual.Mean)) { // bursts at fine steps are normal
		return false
	}
	e.sinceRestored = 1
	return true
}

// far reports whether one of the values deviates by more than nearSD from the usual value before the episode.
func (e *episode) far(d *decider, s *decisions, t time.Time, y []float64) bool {
	return slices.ContainsFunc(e.before.fillDistances(d.episodeDeviations, d, s, t, y), func(z float64) bool { return math.Abs(z) > nearSD })
}

// form encodes or decodes the episode. profile is its encoded profile, empty outside an episode.
func (e *episode) form(c *coder, profile *string, outputs int) {
	c.Packs(&e.n, &e.nearObs, &e.sum, &e.sinceRestored)
	c.Check(e.n >= e.nearObs && e.nearObs >= 0 && e.sinceRestored >= 0 && !math.IsNaN(e.sum))
	if compact.Texts(&c.Codec, profile); *profile != "" {
		e.before.form(c, outputs)
	}
}
