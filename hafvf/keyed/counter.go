package keyed

import (
	"math"
	"slices"
	"time"

	"hafvf/internal/compact"
)

// A counter is what is known of a cumulative counter at its last value, by coordinate.
type counter struct {
	at   time.Time // zero before the first value
	last []float64
	most []float64   // the largest since it began
	past []pastRises // of falls; nil before the first rise
}

// lastRises is how many rises tell a wrap from a restart, and wrapFactor how much larger than the largest of them that of a
// wrap may be.
const (
	lastRises  = 20
	wrapFactor = 3
)

// pastRises are what is known of the last rises of a coordinate, and what it was before its last fall.
type pastRises struct {
	largest []pastRise // those of lastRises that no later one reaches, the oldest and largest first
	before  float64
	since   int // values since then; 0 if there was no fall of late
}

// A pastRise is one after which there were so many others.
type pastRise struct {
	by  float32
	age uint8
}

func (p *pastRises) add(by float64) {
	for i := range p.largest {
		p.largest[i].age++
	}
	p.largest = slices.DeleteFunc(p.largest, func(r pastRise) bool { return r.age == lastRises || r.by <= float32(by) })
	p.largest = append(p.largest, pastRise{by: float32(by)})
}

// moduli are the numbers at which counters of 32 and 64 bits begin anew.
var moduli = []float64{1 << 32, 1 << 64}

// wrap is the rise of a fall from last to v that goes over a modulus: over the one that is given, or over one of moduli if
// that makes it at most wrapFactor times the largest of the last rises.
func (p *pastRises) wrap(last, v, modulus float64) (by float64, wraps bool) {
	if modulus > 0 {
		return v - last + modulus, last < modulus
	}
	for _, m := range moduli {
		if by := v - last + m; last < m && v >= 0 && len(p.largest) > 0 && by <= wrapFactor*float64(p.largest[0].by) {
			return by, true
		}
	}
	return 0, false
}

// A CounterFalls counts falls of a counter.
type CounterFalls struct {
	Wraps    int
	Restarts int // falls to less than half, which are no wraps
	MadeUp   int // falls after which one of three values is as large as before
}

// rise takes in a value of a coordinate, and returns by how much the counter has risen. If it has
// fallen, or makes up for a fall, odd is by how much the rise may be wrong, else it is negative.
func (c *counter) rise(i int, v, modulus float64, falls *CounterFalls) (by, wrongBy float64) {
	if c.past == nil {
		c.past = make([]pastRises, len(c.last))
	}
	last, p := c.last[i], &c.past[i]
	if v < last {
		if by, wraps := p.wrap(last, v, modulus); wraps {
			falls.Wraps++
			c.last[i], c.most[i] = v, v
			p.add(by)
			p.since = 0
			return by, -1
		}
	}
	if p.since > 0 {
		if v >= p.before {
			falls.MadeUp++
			p.since = 0
		} else if p.since++; p.since > 3 {
			p.since = 0
		}
	}
	if v < last && p.since == 0 {
		p.before, p.since = last, 1
	}
	by, wrongBy = c.climb(i, v, falls)
	if by > 0 && v > last {
		p.add(by)
	}
	return by, wrongBy
}

// climb is rise of a value that is no wrap.
func (c *counter) climb(i int, v float64, falls *CounterFalls) (by, wrongBy float64) {
	last, most := c.last[i], c.most[i]
	c.last[i] = v
	switch {
	case last > 0 && v < last/2: // it has begun anew, at 0
		falls.Restarts++
		c.most[i] = v
		return max(v, 0), max(v, 0)
	case v < last:
		return 0, last - v
	case v <= most:
		return 0, -1
	}
	c.most[i] = v
	if last < most {
		return v - most, most - last
	}
	return v - most, -1
}

// increase takes in the values of an interval, and appends its increase: NaN if there is none, or
// nothing to compare it with. It reports whether at least a quarter of that may be wrong, as the
// counter has fallen.
//
// A rise over intervals without a value is taken to be even in time. Of it counts what lies within
// Every before the interval's last value, so that it is as long as others. The rest is left out:
// the intervals that it belongs to are closed.
func (a *aggregator) increase(x []float64, c *counter, t *accumulator, start time.Time, dim int) (all []float64, falls CounterFalls, doubtful bool) {
	x = append(x, make([]float64, dim)...)
	doubt := slices.Repeat([]float64{-1}, dim)
	known := false
	for k, at := range t.times {
		v, share := t.values[k*dim:(k+1)*dim], 1.
		if c.at.IsZero() {
			*c = counter{at: at, last: slices.Clone(v), most: slices.Clone(v)}
			continue
		}
		if k == 0 && a.grid.Next(c.at).Before(start) {
			within := a.Every - t.times[len(t.times)-1].Sub(at)
			share = max(0, min(1, float64(within)/float64(at.Sub(c.at))))
		}
		for i := range dim {
			by, wrongBy := c.rise(i, v[i], a.Modulus, &falls)
			if share < 1 {
				if by *= share; a.whole {
					by = math.Round(by)
				}
			}
			if x[i] += by; wrongBy >= 0 {
				doubt[i] = max(doubt[i], 0) + wrongBy
			}
		}
		c.at, known = at, true
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

// mostValues is from how many values of an interval on those are dropped that say little.
const maxCounterValues = 256

// place takes in a value of a counter by its time, after others of that time.
func (t *accumulator) insert(at time.Time, x []float64) {
	k := len(t.times)
	for k > 0 && at.Before(t.times[k-1]) {
		k--
	}
	t.times = slices.Insert(t.times, k, at)
	t.values = slices.Insert(t.values, k*len(x), x...)
	if n := len(t.times); n >= maxCounterValues && n&(n-1) == 0 {
		t.thin(len(x))
	}
	t.n = int64(len(t.times))
}

// thin drops values between others on a rise. They change nothing, unless a value that comes late
// is a reset between them.
func (t *accumulator) thin(dim int) {
	kept := 1
	for k := 1; k < len(t.times); k++ {
		v := t.values[k*dim : (k+1)*dim]
		rises := k+1 < len(t.times)
		for i := 0; i < dim && rises; i++ {
			rises = t.values[(kept-1)*dim+i] <= v[i] && v[i] <= t.values[(k+1)*dim+i]
		}
		if !rises {
			t.times[kept] = t.times[k]
			copy(t.values[kept*dim:], v)
			kept++
		}
	}
	t.times, t.values = t.times[:kept], t.values[:kept*dim]
}

// timesForm are the times of n values, each near to the one before.
func timesForm(c *compact.Codec, all *[]time.Time, n int64) {
	var before time.Time
	for i := 0; int64(i) < n && !c.Bad; i++ {
		if !c.Writes {
			*all = append(*all, before)
		}
		at := &(*all)[i]
		c.TimesNear(before, at)
		c.Check(!at.Before(before))
		before = *at
	}
}

// form has the past behind the largest values, which are as many as the last ones in states without one.
func (k *counter) form(c *compact.Codec, dim int) {
	most := k.most
	if k.past == nil && slices.Equal(k.most, k.last) {
		most = nil
	}
	for i := range k.past {
		most = k.past[i].append(most)
	}
	c.Times(&k.at)
	if c.Lists(&k.last, &most); c.Writes {
		return
	}
	if k.at.IsZero() {
		dim = 0
	}
	k.most = most[:min(dim, len(most))]
	if most = most[len(k.most):]; len(k.most) == 0 {
		k.most = slices.Clone(k.last)
	}
	for len(most) > 0 && len(k.past) < dim {
		var p pastRises
		var ok bool
		if most, ok = p.read(most); !ok {
			break
		}
		k.past = append(k.past, p)
	}
	if len(k.last) != dim || len(k.most) != dim || len(most) > 0 || k.past != nil && len(k.past) != dim {
		c.Fail()
	}
}

// append appends what read reads: how many rises there are and values since a fall, the value before it, and the rises.
func (p *pastRises) append(to []float64) []float64 {
	to = append(slices.Clip(to), float64(len(p.largest)+100*p.since))
	if p.since > 0 {
		to = append(to, p.before)
	}
	for _, r := range p.largest {
		to = append(to, math.Float64frombits(uint64(r.age)<<32|uint64(math.Float32bits(r.by))))
	}
	return to
}

// read returns what is left, and reports whether the rest is what append has appended.
func (p *pastRises) read(of []float64) (rest []float64, ok bool) {
	if !(of[0] >= 0 && of[0] < 400) {
		return of, false
	}
	n := int(of[0]) % 100
	p.since = int(of[0]) / 100
	if of = of[1:]; p.since > 0 && len(of) > 0 {
		p.before, of = of[0], of[1:]
	}
	if n > lastRises || n > len(of) {
		return of, false
	}
	ok = true
	for _, v := range of[:n] {
		bits := math.Float64bits(v)
		p.largest = append(p.largest, pastRise{math.Float32frombits(uint32(bits)), uint8(bits >> 32)})
		ok = ok && p.largest[len(p.largest)-1].age < lastRises
	}
	return of[n:], ok
}

// FallsOf are the falls of the values of a counter in their order. NaN is no value.
func FallsOf(values []float64, modulus float64) (falls CounterFalls) {
	var c counter
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			continue
		case c.last == nil:
			c = counter{last: []float64{v}, most: []float64{v}}
			continue
		}
		c.rise(0, v, modulus, &falls)
	}
	return falls
}
