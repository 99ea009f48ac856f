package keyed

import (
	"math"
	"slices"
	"time"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/DataDog/sketches-go/ddsketch/store"

	"hafvf/internal/compact"
)

// An accumulator is what an aggregation keeps of the events of an interval. It does not depend on
// the order in which they come, but for Increase at equal times.
type accumulator struct {
	events int64
	n      int64 // vectors without a missing number

	// Of each coordinate, what the aggregate needs:
	sums     []exactSum
	values   []float64 // of Min, Max and Last one, of Increase all, by time
	sketches []*ddsketch.DDSketch
	last     Observation // of Last: its time and place
	times    []time.Time // of Increase: those of values
}

// quantileError is the largest relative error of a Median or a percentile.
const quantileError = 0.001

// buckets are those of the sketches.
var buckets mapping.IndexMapping = checked(mapping.NewLogarithmicMapping(quantileError))

// add takes in an event.
func (t *accumulator) add(of Aggregate, o *Observation) {
	t.events++
	if of.Counts() {
		return
	}
	for _, x := range o.X {
		if slices.ContainsFunc(x, math.IsNaN) {
			continue
		}
		t.n++
		switch of {
		case Sum, Mean, Share:
			if t.sums == nil {
				t.sums = make([]exactSum, len(x))
			}
			for i, v := range x {
				t.sums[i].add(v)
			}
		case Min, Max:
			if t.values == nil {
				t.values = slices.Clone(x)
			}
			for i, v := range x {
				if of == Min {
					t.values[i] = min(t.values[i], v)
				} else {
					t.values[i] = max(t.values[i], v)
				}
			}
		case Last:
			if t.values == nil || !after(&t.last, o) {
				t.values = append(t.values[:0], x...)
				t.last = Observation{Time: o.Time, Seq: o.Seq, Log: o.Log}
			}
		case Increase:
			t.place(o.Time, x)
		default:
			if t.sketches == nil {
				for range x {
					t.sketches = append(t.sketches, ddsketch.NewDDSketchFromStoreProvider(buckets, store.BufferedPaginatedStoreConstructor))
				}
			}
			for i, v := range x {
				// A number that is too large for the sketch counts as the largest that is not.
				most := t.sketches[i].MaxIndexableValue()
				if err := t.sketches[i].Add(max(-most, min(v, most))); err != nil {
					panic("keyed: " + err.Error())
				}
			}
		}
	}
}

// after reports whether an event is later than another, at equal times by its place.
func after(a, b *Observation) bool {
	switch {
	case !a.Time.Equal(b.Time):
		return a.Time.After(b.Time)
	case a.Log != b.Log:
		return a.Log > b.Log
	}
	return a.Seq > b.Seq
}

// value appends the observation's vector of dim numbers to x: NaN if there is none, and of a sum
// that is too large.
func (t *accumulator) value(x []float64, of *Aggregation, dim int) []float64 {
	empty := math.NaN()
	if t.events == 0 && of.Zero {
		empty = 0
	}
	switch {
	case of.Value == Count && t.events > 0:
		return append(x, float64(t.events))
	case of.Value == Rate && t.events > 0:
		return append(x, float64(t.events)/of.Every.Seconds())
	case t.n == 0:
		return append(x, slices.Repeat([]float64{empty}, dim)...)
	}
	for i := range dim {
		switch of.Value {
		case Sum, Share, Mean:
			sum := t.sums[i].value()
			if of.Value == Mean {
				sum /= float64(t.n)
			}
			if math.IsInf(sum, 0) {
				sum = math.NaN()
			}
			x = append(x, sum)
		case Min, Max, Last:
			x = append(x, t.values[i])
		default:
			x = append(x, atRank(t.sketches[i], math.Floor(quantiles[of.Value]*float64(t.n-1))))
		}
	}
	return x
}

// atRank is the value of a rank, from 0. The sketch's own quantiles take the value above a rank
// between two if they are negative, and the one below if they are not.
func atRank(s *ddsketch.DDSketch, rank float64) float64 {
	negative := s.GetNegativeValueStore()
	below := negative.TotalCount()
	switch {
	case rank < below:
		return -s.Value(negative.KeyAtRank(below - 1 - rank))
	case rank < below+s.GetZeroCount():
		return 0
	}
	return s.Value(s.GetPositiveValueStore().KeyAtRank(rank - below - s.GetZeroCount()))
}

func (t *accumulator) form(c *compact.Codec, of Aggregate) {
	if compact.Unsigned(c, &t.events); of.Counts() {
		return
	}
	if compact.Unsigned(c, &t.n); t.n == 0 || c.Bad {
		return
	}
	switch of {
	case Sum, Mean, Share:
		compact.List(c, &t.sums, 1, func(s *exactSum) { c.Lists((*[]float64)(s)) })
	case Min, Max:
		c.Lists(&t.values)
	case Last:
		c.Lists(&t.values)
		c.Times(&t.last.Time)
		compact.Signed(c, &t.last.Seq)
		compact.Texts(c, &t.last.Log)
	case Increase:
		timesForm(c, &t.times, t.n)
		c.Lists(&t.values)
		c.Check(len(t.values) == len(t.times)*t.dim())
	default:
		compact.List(c, &t.sketches, 1, func(s **ddsketch.DDSketch) {
			var text []byte
			if c.Writes {
				(*s).Encode(&text, true)
				c.B = compact.AppendString(c.B, text)
				return
			}
			var err error
			*s, err = ddsketch.DecodeDDSketch(c.Part(), store.BufferedPaginatedStoreConstructor, buckets)
			if err != nil || (*s).GetCount() != float64(t.n) {
				c.Fail()
			}
		})
	}
}

// dim is the number of coordinates, 0 if there is no value.
func (t *accumulator) dim() int {
	return max(len(t.sums), len(t.values)/max(len(t.times), 1), len(t.sketches))
}

// An exactSum is a sum without rounding: numbers that do not overlap, the smallest first
// (Shewchuk, Adaptive precision floating-point arithmetic, Discrete & Computational Geometry 18
// (1997), 305–363). So the sum of events does not depend on their order.
type exactSum []float64

func (s *exactSum) add(v float64) {
	if n := len(*s); n > 0 && math.IsInf((*s)[n-1], 0) {
		return // it has overflowed, and stays so
	}
	kept := (*s)[:0]
	for _, p := range *s {
		if math.Abs(v) < math.Abs(p) {
			v, p = p, v
		}
		sum := v + p
		if math.IsInf(sum, 0) {
			*s = append((*s)[:0], sum)
			return
		}
		if rest := p - (sum - v); rest != 0 {
			kept = append(kept, rest)
		}
		v = sum
	}
	*s = append(kept, v)
}

// value is the sum, rounded once.
func (s exactSum) value() float64 {
	i := len(s) - 1
	if i < 0 {
		return 0
	}
	sum, rest := s[i], 0.
	for i--; i >= 0; i-- {
		was := sum
		sum = was + s[i]
		if rest = s[i] - (sum - was); rest != 0 {
			break
		}
	}
	// Half of a unit in the last place was rounded to even: what is below it says which way
	// is right.
	if i > 0 && (rest < 0 && s[i-1] < 0 || rest > 0 && s[i-1] > 0) {
		if twice := 2 * rest; twice == sum+twice-sum {
			sum += twice
		}
	}
	return sum
}
