package keyed

import (
	"math"
	"slices"
	"time"

	"hafvf/internal/compact"
)

// before is what was usual when an alarm began. It is kept until the values are back there: until
// then the profile may become used to what the alarm was about.
type before struct {
	usual  Moments // of every output; nil where nothing is kept
	at     time.Time
	output int     // that is followed, the one of the alarm
	level  float64 // the running mean of its distance, standard deviations, over as many observations as ends an alarm
	told   float64 // the distance that the alarm and its rest have told, with its sign; 0 where it was that of no value
	times  float64 // how often it has been told
	n      float64 // observations since the last of these alarms, at most the rest
}

// farthest bounds distances.
const farthest = 1e9

// usually is the distance, in standard deviations, from which on a value has a score of 1.
const usually = 1.6448536269514722

// away notes the values of an observation. They are as far from what was usual as it returns, in
// standard deviations of every output. The seasons have gone on since.
func (b *before) away(d *decider, s *decisions, at time.Time, y []float64) []float64 {
	season := d.profile(s).Seasonal(s.profile, b.at, at)
	for i, v := range y {
		d.distances[i] = (v - b.usual.Mean[i] - s.standard[2*i+1]*season[i]) / b.usual.SD[i]
	}
	half := math.Ceil(float64(s.pace.Rest()) / 2)
	most := min(2*max(far, math.Abs(b.next())), farthest)
	b.level = float64(float32(b.level + (max(-most, min(d.distances[b.output], most))-b.level)/max(1, half)))
	if b.n < float64(s.pace.Rest()) {
		b.n++
		if b.told != 0 && b.level*math.Copysign(1, b.told) > math.Abs(b.told) {
			b.told = b.level
		}
	}
	return d.distances
}

func (b *before) kept() bool { return b.usual.Mean != nil }

// since notes an observation, if there is something that was usual before an alarm, and returns its
// score. While the alarm lasts, a value that was usual before has one below 1: that the values return
// is no alarm. Equal values in a row are unusual all the same.
func (d *decider) since(s *decisions, at time.Time, y []float64, score float64) float64 {
	b := &s.before
	if !b.kept() || !d.cfg.Lasting {
		return score
	}
	all := b.away(d, s, at, y)
	d.farther = b.farther(all[b.output], s.pace.Rest())
	if !s.lasting.lasts || d.stuck {
		return score
	}
	most := 0.
	for _, z := range all {
		most = max(most, math.Abs(z))
	}
	if most < usually {
		score = min(score, -math.Log10(math.Erfc(most/math.Sqrt2)))
	}
	return score
}

// next is the distance from which on the values are as far again.
func (b *before) next() float64 { return b.told * (b.times + 1) }

// farther reports whether they are, the last one among them.
func (b *before) farther(z float64, rest int) bool {
	beyond := func(v float64) bool { return v*b.told > 0 && math.Abs(v) >= math.Abs(b.next()) }
	return b.n >= float64(rest) && beyond(z) && beyond(b.level)
}

// moments are what was usual, as the seasons have gone on since, at the last observation.
func (b *before) moments(d *decider) Moments {
	m := Moments{slices.Clone(d.y), slices.Clone(b.usual.SD)}
	for i, z := range d.distances {
		m.Mean[i] -= z * m.SD[i]
	}
	return m
}

// shift is that of the last observation from there.
func (b *before) shift(d *decider, sc *scaling) shift {
	i := b.output
	from := sc.value(d.y[i] - d.distances[i]*b.usual.SD[i])
	return shift{d.distances[i], sc.value(d.y[i]) - from, from, i}
}

// tell notes an alarm of the output at a distance, from which on it is followed.
func (b *before) tell(distance float64) {
	b.told, b.times, b.level, b.n = 0, 0, 0, 0
	if math.Abs(distance) >= far {
		b.told, b.times = float64(float32(max(-farthest, min(distance, farthest)))), 1
		b.level = b.told
	}
}

// again notes an alarm of values that are as far again.
func (b *before) again() { b.times, b.n = math.Floor(b.level/b.told), 0 }

func (b *before) append(to []byte, clock time.Time) []byte {
	to = compact.AppendTimeNear(to, b.at, clock)
	to = compact.AppendPacked(to, b.usual.Mean)
	to = compact.AppendPacked(to, b.usual.SD)
	return compact.AppendPacked(to, []float64{float64(b.output), b.level, b.told, b.times, b.n})
}

func (b *before) read(r *reader, outputs int) {
	b.at, b.usual = r.near(), Moments{make([]float64, outputs), make([]float64, outputs)}
	r.Packed(b.usual.Mean)
	r.Packed(b.usual.SD)
	var v [5]float64
	r.Packed(v[:])
	output := v[0]
	b.level, b.told, b.times, b.n = v[1], v[2], v[3], v[4]
	if b.output = int(output); !(output >= 0 && output < float64(outputs) && b.times >= 0 && b.n >= 0) || math.IsNaN(b.level+b.told) {
		r.Fail()
	}
}
