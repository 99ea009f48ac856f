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
type usualBefore struct {
	usual   Moments   // of every output; nil where nothing is kept
	swing   []float64 // by which the seasons raise or lower that at most, standard deviations
	at      time.Time
	output  int     // that is followed, the one of the alarm
	level   float64 // the running mean of its distance, standard deviations, over as many observations as ends an alarm
	alerted float64 // the distance that the alarm and its rest have told, at least far, with its sign
	times   float64 // how often it has been told
	n       float64 // observations since the last of these alarms, at most the rest
}

// farthest bounds distances.
const farthest = 1e9

// short is the nearest number that a float32 has, which is shorter in a state.
func short(v float64) float64 {
	return float64(float32(max(-math.MaxFloat32, min(v, math.MaxFloat32))))
}

// distances fills in how far the values of an observation are from what was usual, in standard
// deviations of every output. The seasons have gone on since. They may have learned from what the
// alarm was about: therefore they count by no more than they did before, and if the scatter has grown
// they are those of before.
func (b *usualBefore) distances(to []float64, d *decider, s *decisions, at time.Time, y []float64) []float64 {
	learned := s.profile
	if s.episode.known() && b.grew(d) {
		learned = s.episode.profile
	}
	season := d.profile(s).Seasonal(learned, s.plan, b.at, at)
	for i, v := range y {
		sd := b.usual.SD[i]
		on := max(-b.swing[i], min(s.standard[2*i+1]*season[i]/sd, b.swing[i]))
		to[i] = (v-b.usual.Mean[i])/sd - on
	}
	return to
}

// away notes the values of an observation, and returns their distances.
func (b *usualBefore) away(d *decider, s *decisions, at time.Time, y []float64) []float64 {
	b.distances(d.deviations, d, s, at, y)
	half := math.Ceil(float64(s.pace.Rest()) / 2)
	most := min(2*math.Abs(b.next()), farthest)
	b.level = short(b.level + (max(-most, min(d.deviations[b.output], most))-b.level)/max(1, half))
	if b.n < float64(s.pace.Rest()) {
		b.n++
		switch {
		case b.level/b.alerted <= b.times:
		case b.times == 1:
			b.alerted = b.level
		default:
			b.times = math.Floor(b.level / b.alerted)
		}
	}
	return d.deviations
}

func (b *usualBefore) known() bool { return b.usual.Mean != nil }

// grew reports whether what is usual of the scatter has grown since.
func (b *usualBefore) grew(d *decider) bool {
	for i, sd := range b.usual.SD {
		if d.usual.SD[i] > grownRatio*sd {
			return true
		}
	}
	return false
}

// begin is what is usual at the observation, which begins the alarm.
func (d *decider) begin(s *decisions, at time.Time, a *Alert) usualBefore {
	b := usualBefore{usual: Moments{slices.Clone(d.usual.Mean), slices.Clone(d.usual.SD)}, swing: make([]float64, d.outputs), at: at, output: a.Output}
	const steps = 56 // of three hours in a week
	for _, season := range d.cfg.Seasons {
		for k := range steps {
			ahead := d.profile(s).Seasonal(s.profile, s.plan, at, at.Add(season.Period/steps*time.Duration(k+1)))
			for i := range b.swing {
				b.swing[i] = max(b.swing[i], math.Abs(s.standard[2*i+1]*ahead[i]/b.usual.SD[i]))
			}
		}
	}
	for i := range b.swing {
		b.usual.SD[i], b.swing[i] = max(short(b.usual.SD[i]), math.SmallestNonzeroFloat32), short(b.swing[i])
	}
	b.setAlerted(max(-farthest, min((d.y[a.Output]-d.usual.Mean[a.Output])/d.usual.SD[a.Output], farthest)), a.Size)
	return b
}

// since notes an observation, if there is something that was usual before an alarm, and returns its
// score. While the alarm lasts, that is at most the score of the value alone by what was usual before:
// below 1 for one that was. That the values return is no alarm, although the means over several still
// have those before. Equal values in a row are unusual all the same.
func (d *decider) since(s *decisions, at time.Time, y []float64, score float64) float64 {
	b := &s.before
	if !b.known() || !d.cfg.Lasting {
		return score
	}
	all := b.away(d, s, at, y)
	d.escalated = !d.stuck && b.farther(all[b.output], s.pace.Rest())
	if !s.lasting.lasts || d.stuck {
		return score
	}
	most := 0.
	for _, z := range all {
		most = max(most, math.Abs(z))
	}
	return min(score, -math.Log10(math.Erfc(most/math.Sqrt2)))
}

// next is the distance from which on the values are as far again.
func (b *usualBefore) next() float64 { return b.alerted * (b.times + 1) }

// farther reports whether they are, the last one among them.
func (b *usualBefore) farther(z float64, rest int) bool {
	beyond := func(v float64) bool { return v*b.alerted > 0 && math.Abs(v) >= math.Abs(b.next()) }
	return b.n >= float64(rest) && beyond(z) && beyond(b.level)
}

// moments are what was usual, as the seasons have gone on since, at the last observation.
func (b *usualBefore) moments(d *decider) Moments {
	m := Moments{slices.Clone(d.y), slices.Clone(b.usual.SD)}
	for i, z := range d.deviations {
		m.Mean[i] -= z * m.SD[i]
	}
	return m
}

// setAlerted notes an alarm, which has told a distance on that side of usual, and what the level of its rest
// will be.
func (b *usualBefore) setAlerted(distance, side float64) {
	b.alerted, b.times, b.n = math.Copysign(max(far, math.Abs(short(distance))), side), 1, 0
}

// repeat notes an alarm of values that are as far again.
func (b *usualBefore) repeat() { b.times, b.n = math.Floor(b.level/b.alerted), 0 }

func (b *usualBefore) form(c *coder, outputs int) {
	if c.near(&b.at); !c.Writes {
		b.usual, b.swing = Moments{make([]float64, outputs), make([]float64, outputs)}, make([]float64, outputs)
	}
	c.Pack(b.usual.Mean)
	for _, all := range [...][]float64{b.usual.SD, b.swing} {
		for i := range all {
			c.Shorts(&all[i])
		}
	}
	c.Shorts(&b.level, &b.alerted)
	compact.Unsigned(&c.Codec, &b.output)
	compact.Unsigned(&c.Codec, &b.times, &b.n)
	finite := linear.Finite(b.usual.Mean) && linear.Finite(b.usual.SD) && linear.Finite(b.swing) && !notFinite(b.level) && !notFinite(b.alerted)
	c.Check(finite && b.output >= 0 && b.output < outputs && b.alerted != 0 && slices.Min(b.usual.SD) > 0)
}
