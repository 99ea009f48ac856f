package keyed

import (
	"math"
	"slices"
	"time"

	"hafvf/internal/compact"
)

// A counter is the state of a cumulative counter after its last value. The slices are by coordinate.
type counter struct {
	time   time.Time // time of the last value; zero before the first value
	last   []float64
	maxima []float64   // maxima since the last restart
	rises  []pastRises // nil before the second value
}

// A fall is a wrap instead of a restart if its rise is at most wrapFactor times the largest of the last lastRises
// rises.
const (
	lastRises  = 20
	wrapFactor = 3
)

// pastRises are the recent rises of a coordinate, and its value before the last fall.
type pastRises struct {
	largest    []pastRise // of the last lastRises rises, those above every later one, the largest first
	beforeFall float64    // value before the last fall
	sinceFall  int        // number of values from the fall on, 1 to 3; 0 if there was no recent fall
}

// A pastRise is a rise that age other rises followed.
type pastRise struct {
	size float32
	age  uint8
}

// add adds a rise, and removes rises that are too old or not larger than the new one.
func (p *pastRises) add(size float64) {
	for i := range p.largest {
		p.largest[i].age++
	}
	p.largest = slices.DeleteFunc(p.largest, func(r pastRise) bool { return r.age == lastRises || r.size <= float32(size) })
	p.largest = append(p.largest, pastRise{size: float32(size)})
}

// moduli are the numbers at which counters of 32 and 64 bits wrap.
var moduli = []float64{1 << 32, 1 << 64}

// wrap returns the rise of a fall from last to v if the fall is a wrap. With a modulus above 0, the fall is a wrap if
// last is below the modulus. Otherwise it is a wrap at the first of moduli above last for which the rise is at most
// wrapFactor times the largest of the last rises.
func (p *pastRises) wrap(last, v, modulus float64) (size float64, wraps bool) {
	if modulus > 0 {
		return v - last + modulus, last < modulus
	}
	for _, m := range moduli {
		if size := v - last + m; last < m && v >= 0 && len(p.largest) > 0 && size <= wrapFactor*float64(p.largest[0].size) {
			return size, true
		}
	}
	return 0, false
}

// CounterFalls counts the falls of a counter.
type CounterFalls struct {
	Wraps     int
	Restarts  int // falls to less than half that are not wraps
	Recovered int // falls with a recovery: within three values, the counter reaches its value before the fall
}

// rise adds value v of coordinate i, and returns the rise of the counter. If the counter has fallen or recovers from a
// fall, wrongBy is the possible error of the rise, else it is negative.
func (c *counter) rise(i int, v, modulus float64, falls *CounterFalls) (size, wrongBy float64) {
	if c.rises == nil {
		c.rises = make([]pastRises, len(c.last))
	}
	last, p := c.last[i], &c.rises[i]
	if v < last {
		if size, wraps := p.wrap(last, v, modulus); wraps {
			falls.Wraps++
			c.last[i], c.maxima[i] = v, v
			p.add(size)
			p.sinceFall = 0
			return size, -1
		}
	}
	if p.sinceFall > 0 {
		if v >= p.beforeFall {
			falls.Recovered++
			p.sinceFall = 0
		} else if p.sinceFall++; p.sinceFall > 3 {
			p.sinceFall = 0
		}
	}
	if v < last && p.sinceFall == 0 {
		p.beforeFall, p.sinceFall = last, 1
	}
	size, wrongBy = c.climb(i, v, falls)
	if size > 0 && v > last {
		p.add(size)
	}
	return size, wrongBy
}

// climb is rise for a value that is not a wrap.
func (c *counter) climb(i int, v float64, falls *CounterFalls) (size, wrongBy float64) {
	last, maximum := c.last[i], c.maxima[i]
	c.last[i] = v
	switch {
	case last > 0 && v < last/2: // a restart at 0
		falls.Restarts++
		c.maxima[i] = v
		return max(v, 0), max(v, 0)
	case v < last:
		return 0, last - v
	case v <= maximum:
		return 0, -1
	}
	c.maxima[i] = v
	if last < maximum {
		return v - maximum, maximum - last
	}
	return v - maximum, -1
}

// increase adds the values of an interval, and appends the interval's increase to x. The increase is NaN if the
// interval has no value, or if there is no earlier value. doubtful reports that falls of the counter make at least a
// quarter of the increase uncertain.
//
// A rise over intervals without a value is treated as even in time. Only the part within Every before the interval's
// last value counts, so that the interval is as long as others. The rest is dropped, because its intervals are closed.
func (a *aggregator) increase(x []float64, c *counter, acc *accumulator, start time.Time, dim int) (increases []float64, falls CounterFalls, doubtful bool) {
	x = append(x, make([]float64, dim)...)
	doubt := slices.Repeat([]float64{-1}, dim)
	known := false
	for k, when := range acc.times {
		v, share := acc.values[k*dim:(k+1)*dim], 1.
		if c.time.IsZero() {
			*c = counter{time: when, last: slices.Clone(v), maxima: slices.Clone(v)}
			continue
		}
		if k == 0 && a.grid.Next(c.time).Before(start) {
			within := a.Every - acc.times[len(acc.times)-1].Sub(when)
			share = max(0, min(1, float64(within)/float64(when.Sub(c.time))))
		}
		for i := range dim {
			rise, wrongBy := c.rise(i, v[i], a.Modulus, &falls)
			if share < 1 {
				if rise *= share; a.whole {
					rise = math.Round(rise)
				}
			}
			if x[i] += rise; wrongBy >= 0 {
				doubt[i] = max(doubt[i], 0) + wrongBy
			}
		}
		c.time, known = when, true
	}
	for i := range x {
		doubtful = doubtful || doubt[i] >= x[i]/4
		if a.Per > 0 {
			x[i] *= a.Per.Seconds() / a.Every.Seconds()
		}
		if !known || math.IsInf(x[i], 0) {
			x[i] = math.NaN()
		}
	}
	return x, falls, doubtful
}

// maxCounterValues is the number of values in an interval from which redundant values are dropped.
const maxCounterValues = 256

// insert inserts a value of a counter by its time, after values of the same time.
func (acc *accumulator) insert(when time.Time, x []float64) {
	k := len(acc.times)
	for k > 0 && when.Before(acc.times[k-1]) {
		k--
	}
	acc.times = slices.Insert(acc.times, k, when)
	acc.values = slices.Insert(acc.values, k*len(x), x...)
	if n := len(acc.times); n >= maxCounterValues && n&(n-1) == 0 {
		acc.thin(len(x))
	}
	acc.n = int64(len(acc.times))
}

// thin drops values in the middle of a rise. This changes the increase only if a late value is a restart between them.
func (acc *accumulator) thin(dim int) {
	n := 1
	for k := 1; k < len(acc.times); k++ {
		v := acc.values[k*dim : (k+1)*dim]
		rises := k+1 < len(acc.times)
		for i := 0; i < dim && rises; i++ {
			rises = acc.values[(n-1)*dim+i] <= v[i] && v[i] <= acc.values[(k+1)*dim+i]
		}
		if !rises {
			acc.times[n] = acc.times[k]
			copy(acc.values[n*dim:], v)
			n++
		}
	}
	acc.times, acc.values = acc.times[:n], acc.values[:n*dim]
}

// timesForm encodes or decodes n ascending times as differences.
func timesForm(c *compact.Codec, times *[]time.Time, n int64) {
	var prev time.Time
	for i := 0; int64(i) < n && !c.Bad; i++ {
		if !c.Writes {
			*times = append(*times, prev)
		}
		t := &(*times)[i]
		c.TimesNear(prev, t)
		c.Check(!t.Before(prev))
		prev = *t
	}
}

// form encodes or decodes the counter. The past rises follow the maxima in one list. The maxima are left out if they
// equal the last values and there are no past rises.
func (cnt *counter) form(c *compact.Codec, dim int) {
	list := cnt.maxima
	if cnt.rises == nil && slices.Equal(cnt.maxima, cnt.last) {
		list = nil
	}
	for i := range cnt.rises {
		list = cnt.rises[i].append(list)
	}
	c.Times(&cnt.time)
	if c.Lists(&cnt.last, &list); c.Writes {
		return
	}
	if cnt.time.IsZero() {
		dim = 0
	}
	cnt.maxima = list[:min(dim, len(list))]
	if list = list[len(cnt.maxima):]; len(cnt.maxima) == 0 {
		cnt.maxima = slices.Clone(cnt.last)
	}
	for len(list) > 0 && len(cnt.rises) < dim {
		var p pastRises
		var ok bool
		if list, ok = p.read(list); !ok {
			break
		}
		cnt.rises = append(cnt.rises, p)
	}
	if len(cnt.last) != dim || len(cnt.maxima) != dim || len(list) > 0 || cnt.rises != nil && len(cnt.rises) != dim {
		c.Fail()
	}
}

// append appends the encoded rises to dst: the number of rises plus 100 times sinceFall, beforeFall if sinceFall is not
// zero, and the rises.
func (p *pastRises) append(dst []float64) []float64 {
	dst = append(slices.Clip(dst), float64(len(p.largest)+100*p.sinceFall))
	if p.sinceFall > 0 {
		dst = append(dst, p.beforeFall)
	}
	for _, r := range p.largest {
		dst = append(dst, math.Float64frombits(uint64(r.age)<<32|uint64(math.Float32bits(r.size))))
	}
	return dst
}

// read decodes the result of append at the start of src, and returns the rest. ok is false if src is corrupt.
func (p *pastRises) read(src []float64) (rest []float64, ok bool) {
	if !(src[0] >= 0 && src[0] < 400) {
		return src, false
	}
	n := int(src[0]) % 100
	p.sinceFall = int(src[0]) / 100
	if src = src[1:]; p.sinceFall > 0 && len(src) > 0 {
		p.beforeFall, src = src[0], src[1:]
	}
	if n > lastRises || n > len(src) {
		return src, false
	}
	ok = true
	for _, v := range src[:n] {
		bits := math.Float64bits(v)
		p.largest = append(p.largest, pastRise{math.Float32frombits(uint32(bits)), uint8(bits >> 32)})
		ok = ok && p.largest[len(p.largest)-1].age < lastRises
	}
	return src[n:], ok
}

// FallsOf counts the falls in the values of a counter, which are in order. It skips NaN.
func FallsOf(values []float64, modulus float64) (falls CounterFalls) {
	var c counter
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			continue
		case c.last == nil:
			c = counter{last: []float64{v}, maxima: []float64{v}}
			continue
		}
		c.rise(0, v, modulus, &falls)
	}
	return falls
}
