package usual

import (
	"math"
	"slices"
	"time"

	"hafvf/internal/linear"
)

// ticks is how many a profile keeps: those of two lots of streams of which a round of the filter's
// takes 64 observations each.
const ticks = 128

// A tick is what the regressors that the coordinates share make of one observation. That depends
// on its time and on the times before it alone: streams that are observed at the same times, such as
// those of one scrape, have the same ticks, to the last bit.
type tick struct {
	at            time.Time
	before, after []float64 // n and the moments
	n             float64   // forgotten, before the observation
	u, precision  []float64 // of the regressors, as are the others
	factor        [][]float64
	inverse       []float64
}

// placeOf is where it is noted which tick is that at a time, if n is that before it.
func placeOf(at time.Time, n float64) uint64 {
	const odd = 0x9e3779b97f4a7c15 // 2⁶⁴ by the golden ratio
	return ((uint64(at.Unix())*odd ^ math.Float64bits(n)) + uint64(at.Nanosecond())) * odd >> 56
}

// is reports whether k is the tick at that time after the observations of sums.
func (k *tick) is(at time.Time, sums []float64) bool {
	return k.at.Equal(at) && slices.Equal(k.before, sums)
}

// share makes sums those after an observation at a time, and has u, π and L begin with what is of the
// shared regressors. It returns n before the observation.
func (p *Profile) share(sums []float64, at time.Time) (n float64) {
	i := (p.tick + 1) % ticks // that of the stream before
	if !p.ticks[i].is(at, sums) {
		place := &p.places[placeOf(at, sums[0])]
		if p.ticks[*place].is(at, sums) {
			i = *place
		} else {
			p.fill(&p.ticks[i], at, sums)
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

// fill makes k the tick of an observation at a time after those of sums.
func (p *Profile) fill(k *tick, at time.Time, sums []float64) {
	if k.u == nil {
		k.u, k.factor = slices.Clone(p.u[:p.common]), rowsOf(p.common)
	}
	k.at, k.before = at, append(k.before[:0], sums...)
	k.after = append(k.after[:0], sums...)
	if len(p.seasons) > 0 {
		seasonal(k.u[1:], p.seasons, p.calendar, at)
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

// rowsOf returns the rows of a lower triangle.
func rowsOf(size int) (rows [][]float64) {
	for j := range size {
		rows = append(rows, make([]float64, j+1))
	}
	return rows
}
