package keyed

import (
	"math"
	"slices"
	"time"

	"hafvf/internal/compact"
	"hafvf/internal/linear"
)

// usualBefore is what was usual when an alarm began. It is kept until the values are back there: until
// then the profile may become used to what the alarm was about.
type preAlarmBaseline struct {
	usual           Moments   // of every output; nil where nothing is kept
	seasonRange     []float64 // by which the seasons raise or lower that at most, standard deviations
	start           time.Time
	output          int     // that is followed, the one of the alarm
	level           float64 // the running mean of its distance, standard deviations, over as many observations as ends an alarm
	alertedDistance float64 // the distance that the alarm and its rest have told, at least far, with its sign
	alertedTimes    float64 // how often it has been told
	restObs         float64 // observations since the last of these alarms, at most the rest
}

// farthest bounds distances.
const maxDistance = 1e9

// short is the nearest number that a float32 has, which is shorter in a state.
func toFloat32(v float64) float64 {
	return float64(float32(max(-math.MaxFloat32, min(v, math.MaxFloat32))))
}

// distances fills in how far the values of an observation are from what was usual, in standard
// deviations of every output. The seasons have gone on since. They may have learned from what the
// alarm was about: therefore they count by no more than they did before, and if the scatter has grown
// they are those of before.
func (b *preAlarmBaseline) fillDistances(dst []float64, d *decider, s *decisions, t time.Time, y []float64) []float64 {
	learned := s.profile
	if s.event.known() && b.spreadGrew(d) {
		learned = s.event.profile
	}
	season := d.profile(s).Seasonal(learned, s.plan, b.start, t)
	for i, v := range y {
		sd := b.usual.SD[i]
		moved := max(-b.seasonRange[i], min(s.standard[2*i+1]*season[i]/sd, b.seasonRange[i]))
		dst[i] = (v-b.usual.Mean[i])/sd - moved
	}
	return dst
}

// away notes the values of an observation, and returns their distances.
func (b *preAlarmBaseline) updateLevel(d *decider, s *decisions, t time.Time, y []float64) []float64 {
	b.fillDistances(d.distances, d, s, t, y)
	halfRest := math.Ceil(float64(s.pace.Rest()) / 2)
	limit := min(2*math.Abs(b.nextDistance()), maxDistance)
	b.level = toFloat32(b.level + (max(-limit, min(d.distances[b.output], limit))-b.level)/max(1, halfRest))
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
	return d.distances
}

func (b *preAlarmBaseline) known() bool { return b.usual.Mean != nil }

// grew reports whether what is usual of the scatter has grown since.
func (b *preAlarmBaseline) spreadGrew(d *decider) bool {
	for i, sd := range b.usual.SD {
		if d.usual.SD[i] > grown*sd {
			return true
		}
	}
	return false
}

// begin is what is usual at the observation, which begins the alarm.
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

// since notes an observation, if there is something that was usual before an alarm, and returns its
// score. While the alarm lasts, that is at most the score of the value alone by what was usual before:
// below 1 for one that was. That the values return is no alarm, although the means over several still
// have those before. Equal values in a row are unusual all the same.
func (d *decider) capScore(s *decisions, t time.Time, y []float64, score float64) float64 {
	b := &s.before
	if !b.known() || !d.cfg.Lasting {
		return score
	}
	distances := b.updateLevel(d, s, t, y)
	d.farther = !d.stuck && b.escalates(distances[b.output], s.pace.Rest())
	if !s.lasting.lasts || d.stuck {
		return score
	}
	largest := 0.
	for _, z := range distances {
		largest = max(largest, math.Abs(z))
	}
	return min(score, -math.Log10(math.Erfc(largest/math.Sqrt2)))
}

// next is the distance from which on the values are as far again.
func (b *preAlarmBaseline) nextDistance() float64 { return b.alertedDistance * (b.alertedTimes + 1) }

// farther reports whether they are, the last one among them.
func (b *preAlarmBaseline) escalates(z float64, rest int) bool {
	beyond := func(v float64) bool { return v*b.alertedDistance > 0 && math.Abs(v) >= math.Abs(b.nextDistance()) }
	return b.restObs >= float64(rest) && beyond(z) && beyond(b.level)
}

// moments are what was usual, as the seasons have gone on since, at the last observation.
func (b *preAlarmBaseline) current(d *decider) Moments {
	m := Moments{slices.Clone(d.y), slices.Clone(b.usual.SD)}
	for i, z := range d.distances {
		m.Mean[i] -= z * m.SD[i]
	}
	return m
}

// setAlerted notes an alarm, which has told a distance on that side of usual, and what the level of its rest
// will be.
func (b *preAlarmBaseline) recordAlarm(distance, side float64) {
	b.alertedDistance, b.alertedTimes, b.restObs = math.Copysign(max(far, math.Abs(toFloat32(distance))), side), 1, 0
}

// repeat notes an alarm of values that are as far again.
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
