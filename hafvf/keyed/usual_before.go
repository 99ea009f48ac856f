package keyed

import (
	"math"
	"slices"
	"time"

	"hafvf/internal/compact"
	"hafvf/internal/linear"
)

// preAlarmBaseline holds the usual values at the start of an alarm. It exists until the values return to them,
// because the profile may meanwhile adapt to the alarmed values.
type preAlarmBaseline struct {
	usual           Moments   // of every output; nil if there is no baseline
	seasonRange     []float64 // maximum effect of the seasons on usual, in standard deviations
	start           time.Time
	output          int     // output of the alarm
	level           float64 // running mean of its distance, in sd, over half a rest, which also ends an alarm
	alertedDistance float64 // signed distance that the alarm reported, in sd, at least far; grows with level during the rest
	alertedTimes    float64 // multiple of alertedDistance that the alarms have reported
	restObs         float64 // observations since the last of these alarms, at most the rest
}

// maxDistance bounds distances.
const maxDistance = 1e9

// toFloat32 rounds to the nearest float32, which takes less space in a state.
func toFloat32(v float64) float64 {
	return float64(float32(max(-math.MaxFloat32, min(v, math.MaxFloat32))))
}

// fillDistances sets dst to the distances of an observation from the baseline, in standard deviations of every
// output. The baseline follows the seasons since the alarm, but by at most seasonRange, because they may have
// learned from the alarmed values. If the standard deviation has grown, the seasons of the profile before the event
// apply.
func (b *preAlarmBaseline) fillDistances(dst []float64, d *decider, s *decisions, t time.Time, y []float64) []float64 {
	learned := s.profile
	if s.episode.known() && b.spreadGrew(d) {
		learned = s.episode.profile
	}
	season := d.profile(s).Seasonal(learned, s.plan, b.start, t)
	for i, v := range y {
		sd := b.usual.SD[i]
		moved := max(-b.seasonRange[i], min(s.standard[2*i+1]*season[i]/sd, b.seasonRange[i]))
		dst[i] = (v-b.usual.Mean[i])/sd - moved
	}
	return dst
}

// updateLevel updates level with the values of an observation, and returns their distances.
func (b *preAlarmBaseline) updateLevel(d *decider, s *decisions, t time.Time, y []float64) []float64 {
	b.fillDistances(d.deviations, d, s, t, y)
	halfRest := math.Ceil(float64(s.pace.Rest()) / 2)
	limit := min(2*math.Abs(b.nextDistance()), maxDistance)
	b.level = toFloat32(b.level + (max(-limit, min(d.deviations[b.output], limit))-b.level)/max(1, halfRest))
	if b.restObs < float64(s.pace.Rest()) {
		b.restObs++
		switch {
		case b.level/b.alertedDistance <= b.alertedTimes:
		case b.alertedTimes == 1:
			b.alertedDistance = b.level
		default:
			b.alertedTimes = math.Floor(b.level / b.alertedDistance)
		}
	}
	return d.deviations
}

func (b *preAlarmBaseline) known() bool { return b.usual.Mean != nil }

// spreadGrew reports whether the usual standard deviation has grown since the alarm, by more than the factor grown.
func (b *preAlarmBaseline) spreadGrew(d *decider) bool {
	for i, sd := range b.usual.SD {
		if d.usual.SD[i] > grownRatio*sd {
			return true
		}
	}
	return false
}

// newBaseline returns the baseline of alarm a, which starts at the current observation.
func (d *decider) newBaseline(s *decisions, t time.Time, a *Alert) preAlarmBaseline {
	b := preAlarmBaseline{usual: Moments{slices.Clone(d.usual.Mean), slices.Clone(d.usual.SD)}, seasonRange: make([]float64, d.outputs), start: t, output: a.Output}
	const steps = 56 // of three hours in a week
	for _, season := range d.cfg.Seasons {
		for k := range steps {
			ahead := d.profile(s).Seasonal(s.profile, s.plan, t, t.Add(season.Period/steps*time.Duration(k+1)))
			for i := range b.seasonRange {
				b.seasonRange[i] = max(b.seasonRange[i], math.Abs(s.standard[2*i+1]*ahead[i]/b.usual.SD[i]))
			}
		}
	}
	for i := range b.seasonRange {
		b.usual.SD[i], b.seasonRange[i] = max(toFloat32(b.usual.SD[i]), math.SmallestNonzeroFloat32), toFloat32(b.seasonRange[i])
	}
	b.recordAlarm(max(-maxDistance, min((d.y[a.Output]-d.usual.Mean[a.Output])/d.usual.SD[a.Output], maxDistance)), a.Size)
	return b
}

// capScore updates the baseline, if there is one, with an observation, and returns its score. While the alarm lasts,
// the distance from the baseline bounds the score, so a value within the usual range scores below 1. Otherwise values
// that return would raise an alarm, because means over several values still contain the alarmed ones. Equal values in
// a row keep their score.
func (d *decider) capScore(s *decisions, t time.Time, y []float64, score float64) float64 {
	b := &s.before
	if !b.known() || !d.cfg.Lasting {
		return score
	}
	distances := b.updateLevel(d, s, t, y)
	d.escalated = !d.stuck && b.escalates(distances[b.output], s.pace.Rest())
	if !s.lasting.lasts || d.stuck {
		return score
	}
	largest := 0.
	for _, z := range distances {
		largest = max(largest, math.Abs(z))
	}
	return min(score, -math.Log10(math.Erfc(largest/math.Sqrt2)))
}

// nextDistance returns the signed distance from which on the values have moved away by the same distance again.
func (b *preAlarmBaseline) nextDistance() float64 { return b.alertedDistance * (b.alertedTimes + 1) }

// escalates reports whether the rest is over, and both the distance z and level are beyond nextDistance.
func (b *preAlarmBaseline) escalates(z float64, rest int) bool {
	beyond := func(v float64) bool { return v*b.alertedDistance > 0 && math.Abs(v) >= math.Abs(b.nextDistance()) }
	return b.restObs >= float64(rest) && beyond(z) && beyond(b.level)
}

// current returns the baseline at the last observation, including its seasons.
func (b *preAlarmBaseline) current(d *decider) Moments {
	m := Moments{slices.Clone(d.y), slices.Clone(b.usual.SD)}
	for i, z := range d.deviations {
		m.Mean[i] -= z * m.SD[i]
	}
	return m
}

// recordAlarm records an alarm that reports distance, on the side of usual given by the sign of side.
func (b *preAlarmBaseline) recordAlarm(distance, side float64) {
	b.alertedDistance, b.alertedTimes, b.restObs = math.Copysign(max(far, math.Abs(toFloat32(distance))), side), 1, 0
}

// recordEscalation records an alarm for a level beyond nextDistance.
func (b *preAlarmBaseline) recordEscalation() {
	b.alertedTimes, b.restObs = math.Floor(b.level/b.alertedDistance), 0
}

func (b *preAlarmBaseline) form(c *coder, outputs int) {
	if c.near(&b.start); !c.Writes {
		b.usual, b.seasonRange = Moments{make([]float64, outputs), make([]float64, outputs)}, make([]float64, outputs)
	}
	c.Pack(b.usual.Mean)
	for _, list := range [...][]float64{b.usual.SD, b.seasonRange} {
		for i := range list {
			c.Shorts(&list[i])
		}
	}
	c.Shorts(&b.level, &b.alertedDistance)
	compact.Unsigned(&c.Codec, &b.output)
	compact.Unsigned(&c.Codec, &b.alertedTimes, &b.restObs)
	finite := linear.Finite(b.usual.Mean) && linear.Finite(b.usual.SD) && linear.Finite(b.seasonRange) && !notFinite(b.level) && !notFinite(b.alertedDistance)
	c.Check(finite && b.output >= 0 && b.output < outputs && b.alertedDistance != 0 && slices.Min(b.usual.SD) > 0)
}
