package keyed

import (
	"math"
	"slices"
)

// A band scales the standard deviations of the usual values in estimates and alerts, so that .95 of the key's values
// lie within 1.96 of them. The profile's own standard deviations contain fewer: the tails of most keys are heavier than
// those of a normal distribution. Scores, sizes and decisions use the profile's.
//
// By output, the band is the logarithm of a factor f. The n-th value of the key, z reported standard deviations from
// usual, raises it by
//
//	r·(4·([z > 1.96] − .05) + [z > 1.28] − .2),  r = max(.009, .4/n)
//
// whose mean is zero if .05 and .2 of the values are outside, as for a normal distribution. The second quantile lets the
// band fall soon after it was too wide. Values beyond 40 do not count: they say nothing about the width. While the usual
// values before an episode are known, the band is at most .5 above its value at the onset: the width of the incident is
// not usual.
type band []float64

const (
	bandRate    = .009 // smallest r
	bandGross   = 40.
	minBand     = -.7
	maxBand     = 1.4
	episodeBand = .5
)

// bandQuantiles are the quantiles that the band aims at: the share of the values outside of ±z standard deviations.
var bandQuantiles = [...]struct{ z, outside, weight float64 }{{1.96, .05, 4}, {1.28, .2, 1}}

// scale multiplies the standard deviations of m by f, in place. Before the first value, f is 1.
func (b band) scale(m Moments) {
	for i, v := range b {
		m.SD[i] *= math.Exp(v)
	}
}

// toData converts the estimate to the scale of the data, after the decision. It scales the standard deviations of the
// usual values by the key's band, which learns the values of the observation.
func (t *Track) toData(e *Estimate, before regime) {
	t.stages.toData(e, before)
	if e.Detection == nil || math.IsNaN(e.Detection.Score) {
		return
	}
	d, s, m := t.stages.decider, &t.decisions, e.Detection.Usual
	if s.band == nil {
		s.band = make(band, d.outputs)
	}
	s.band.scale(m)
	r := max(bandRate, .4/float64(t.steps))
	for i, y := range d.y {
		z := math.Abs(t.stages.scale.value(y)-m.Mean[i]) / m.SD[i]
		if !(z < bandGross) {
			continue
		}
		limit, step := maxBand, 0.
		if at := s.episode.band; at != nil {
			limit = max(s.band[i], min(limit, at[i]+episodeBand))
		}
		for _, q := range bandQuantiles {
			if step -= q.weight * q.outside; z > q.z {
				step += q.weight
			}
		}
		s.band[i] = toFloat32(max(minBand, min(s.band[i]+r*step, limit)))
	}
}

// form encodes or decodes a band. States of before formatTag have none.
func (b *band) form(c *coder, outputs int) {
	if c.format <= formatOfWeekends {
		return
	}
	present := *b != nil
	if c.Bits(&present); !present {
		return
	}
	if !c.Writes {
		*b = make(band, outputs)
	}
	for i := range *b {
		c.Shorts(&(*b)[i])
	}
	c.Check(slices.Min(*b) >= toFloat32(minBand) && slices.Max(*b) <= toFloat32(maxBand))
}
