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
	most []float64 // the largest since it began
}

// rise takes in a value of a coordinate, and returns by how much the counter has risen. If it has
// fallen, or makes up for a fall, odd is by how much the rise may be wrong, else it is negative.
func (c *counter) rise(i int, v float64) (by, wrongBy float64) {
	last, most := c.last[i], c.most[i]
	c.last[i] = v
	switch {
	case last > 0 && v < last/2: // it has begun anew, at 0
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
func (a *aggregator) increase(x []float64, c *counter, t *accumulator, start time.Time, dim int) (all []float64, doubtful bool) {
	x = append(x, make([]float64, dim)...)
	doubt := slices.Repeat([]float64{-1}, dim)
	known := false
	for k, at := range t.times {
		v, share := t.values[k*dim:(k+1)*dim], 1.
		if c.at.IsZero() {
			*c = counter{at, slices.Clone(v), slices.Clone(v)}
			continue
		}
		if k == 0 && a.grid.Next(c.at).Before(start) {
			within := a.Every - t.times[len(t.times)-1].Sub(at)
			share = max(0, min(1, float64(within)/float64(at.Sub(c.at))))
		}
		for i := range dim {
			by, wrongBy := c.rise(i, v[i])
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
	return x, doubtful
}

// mostValues is from how many values of an interval on those are dropped that say little.
const mostValues = 256

// place takes in a value of a counter by its time, after others of that time.
func (t *accumulator) place(at time.Time, x []float64) {
	k := len(t.times)
	for k > 0 && at.Before(t.times[k-1]) {
		k--
	}
	t.times = slices.Insert(t.times, k, at)
	t.values = slices.Insert(t.values, k*len(x), x...)
	if n := len(t.times); n >= mostValues && n&(n-1) == 0 {
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

func (k *counter) form(c *compact.Codec, dim int) {
	most := k.most
	if slices.Equal(k.most, k.last) {
		most = nil
	}
	c.Times(&k.at)
	if c.Lists(&k.last, &most); c.Writes {
		return
	}
	if k.most = most; len(most) == 0 {
		k.most = slices.Clone(k.last)
	}
	if k.at.IsZero() {
		dim = 0
	}
	if len(k.last) != dim || len(k.most) != dim {
		c.Fail()
	}
}
