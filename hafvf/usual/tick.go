package usual

import (
	"math"
	"slices"
	"time"

	"hafvf/internal/linear"
)

// ticks is the number of ticks that a profile stores: enough for two groups of streams with the same times, if 64
// observations of each stream are filtered in a round.
const ticks = 128

// A tick caches the result of one observation for the regressors that the coordinates share. It depends only on the
// times of this and the previous observations: streams that are observed at the same times, as in one scrape, have the
// same ticks, to the last bit.
type tick struct {
	time          time.Time
	before, after []float64 // n and the moments
	n             float64   // decayed, before the observation
	u, precision  []float64 // of the shared regressors, as are the next fields
	factor        [][]float64
	inverse       []float64
}

// hashOf returns the index in Profile.places for a tick at t with weight n before it.
func hashOf(t time.Time, n float64) uint64 {
	const odd = 0x9e3779b97f4a7c15 // 2⁶⁴ by the golden ratio
	return ((uint64(t.Unix())*odd ^ math.Float64bits(n)) + uint64(t.Nanosecond())) * odd >> 56
}

// matches reports whether k is the tick at t after the observations of sums.
func (k *tick) matches(t time.Time, sums []float64) bool {
	return k.time.Equal(t) && slices.Equal(k.before, sums)
}

// share updates sums by an observation at t, and sets the leading entries of u, π and L for the shared regressors. It
// returns the decayed n before the observation.
func (p *Profile) share(sums []float64, t time.Time) (n float64) {
	i := (p.tick + 1) % ticks // the next tick of the previous stream
	if !p.ticks[i].matches(t, sums) {
		place := &p.places[hashOf(t, sums[0])]
		if p.ticks[*place].matches(t, sums) {
			i = *place
		} else {
			p.fill(&p.ticks[i], t, sums)
			*place = i
		}
	}
	p.tick = i
	k := &p.ticks[i]
	copy(sums, k.after)
	copy(p.u, k.u)
	copy(p.precision, k.precision)
	copy(p.factor, k.factor)
	copy(p.inverse, k.inverse)
	return k.n
}

// fill computes the tick k of an observation at t after the observations of sums.
func (p *Profile) fill(k *tick, t time.Time, sums []float64) {
	if k.u == nil {
		k.u, k.factor = slices.Clone(p.u[:p.common]), rowsOf(p.common)
	}
	k.time, k.before = t, append(k.before[:0], sums...)
	k.after = append(k.after[:0], sums...)
	if len(p.seasons) > 0 {
		seasonal(k.u[1:], p.seasons, p.calendar, t)
	}
	linear.Scale(k.after, profileForgetting)
	k.n = k.after[0]
	p.setPrecisions(k.after)
	copy(p.factor, k.factor)
	p.moments.expand(p.shared, k.after)
	p.factorize(p.shared, 0, p.common)
	k.precision = append(k.precision[:0], p.precision[:p.common]...)
	k.inverse = append(k.inverse[:0], p.inverse[:p.common]...)
	p.moments.add(k.after, k.u)
}

// rowsOf returns the rows of a lower triangle of the given size.
func rowsOf(size int) (rows [][]float64) {
	for j := range size {
		rows = append(rows, make([]float64, j+1))
	}
	return rows
}
