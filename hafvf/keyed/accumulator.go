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

// An accumulator summarizes the events of one interval. The result does not depend on the order of arrival, except
// for Increase with equal times.
type accumulator struct {
	events int64
	n      int64 // vectors without a missing number

	// For each coordinate, the data that the aggregate needs:
	sums     []exactSum
	values   []float64 // one vector for Min, Max and Last; for Increase all vectors, by time
	sketches []*ddsketch.DDSketch
	last     Observation // time and position of the vector for Last
	times    []time.Time // times of values, for Increase
}

// quantileError is the maximum relative error of a Median or a percentile.
const quantileError = 0.001

// buckets maps values to the buckets of the sketches.
var buckets mapping.IndexMapping = checked(mapping.NewLogarithmicMapping(quantileError))

// add adds an event. It skips vectors with a missing number.
func (acc *accumulator) add(aggregate Aggregate, o *Observation) {
	acc.events++
	if aggregate.Counts() {
		return
	}
	for _, x := range o.X {
		if slices.ContainsFunc(x, math.IsNaN) {
			continue
		}
		acc.n++
		switch aggregate {
		case Sum, Mean, Share:
			if acc.sums == nil {
				acc.sums = make([]exactSum, len(x))
			}
			for i, v := range x {
				acc.sums[i].add(v)
			}
		case Min, Max:
			if acc.values == nil {
				acc.values = slices.Clone(x)
			}
			for i, v := range x {
				if aggregate == Min {
					acc.values[i] = min(acc.values[i], v)
				} else {
					acc.values[i] = max(acc.values[i], v)
				}
			}
		case Last:
			if acc.values == nil || !after(&acc.last, o) {
				acc.values = append(acc.values[:0], x...)
				acc.last = Observation{Time: o.Time, Seq: o.Seq, Log: o.Log}
			}
		case Increase:
			acc.insert(o.Time, x)
		default:
			if acc.sketches == nil {
				for range x {
					acc.sketches = append(acc.sketches, ddsketch.NewDDSketchFromStoreProvider(buckets, store.BufferedPaginatedStoreConstructor))
				}
			}
			for i, v := range x {
				// A number that is too large for the sketch counts as the largest that the sketch accepts.
				maxValue := acc.sketches[i].MaxIndexableValue()
				if err := acc.sketches[i].Add(max(-maxValue, min(v, maxValue))); err != nil {
					panic("keyed: " + err.Error())
				}
			}
		}
	}
}

// after reports whether event a is later than b. At equal times it compares log and position.
func after(a, b *Observation) bool {
	switch {
	case !a.Time.Equal(b.Time):
		return a.Time.After(b.Time)
	case a.Log != b.Log:
		return a.Log > b.Log
	}
	return a.Seq > b.Seq
}

// value appends the interval's value, a vector of dim numbers, to x. It appends NaN if the
// interval has no value or a sum overflows, and zeros if the interval has no events and Zero is set.
func (acc *accumulator) value(x []float64, cfg *Aggregation, dim int) []float64 {
	empty := math.NaN()
	if acc.events == 0 && cfg.Zero {
		empty = 0
	}
	switch {
	case cfg.Value == Count && acc.events > 0:
		return append(x, float64(acc.events))
	case cfg.Value == Rate && acc.events > 0:
		return append(x, float64(acc.events)/cfg.Every.Seconds())
	case acc.n == 0:
		return append(x, slices.Repeat([]float64{empty}, dim)...)
	}
	for i := range dim {
		switch cfg.Value {
		case Sum, Share, Mean:
			sum := acc.sums[i].value()
			if cfg.Value == Mean {
				sum /= float64(acc.n)
			}
			if math.IsInf(sum, 0) {
				sum = math.NaN()
			}
			x = append(x, sum)
		case Min, Max, Last:
			x = append(x, acc.values[i])
		default:
			x = append(x, atRank(acc.sketches[i], math.Floor(quantiles[cfg.Value]*float64(acc.n-1))))
		}
	}
	return x
}

// atRank returns the value of a rank; the lowest rank is 0. The sketch's own quantiles round a rank between two
// values up for negative values, and down for others.
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

func (acc *accumulator) form(c *compact.Codec, aggregate Aggregate) {
	if compact.Unsigned(c, &acc.events); aggregate.Counts() {
		return
	}
	if compact.Unsigned(c, &acc.n); acc.n == 0 || c.Bad {
		return
	}
	switch aggregate {
	case Sum, Mean, Share:
		compact.List(c, &acc.sums, 1, func(s *exactSum) { c.Lists((*[]float64)(s)) })
	case Min, Max:
		c.Lists(&acc.values)
	case Last:
		c.Lists(&acc.values)
		c.Times(&acc.last.Time)
		compact.Signed(c, &acc.last.Seq)
		compact.Texts(c, &acc.last.Log)
	case Increase:
		timesForm(c, &acc.times, acc.n)
		c.Lists(&acc.values)
		c.Check(len(acc.values) == len(acc.times)*acc.dim())
	default:
		compact.List(c, &acc.sketches, 1, func(s **ddsketch.DDSketch) {
			var text []byte
			if c.Writes {
				(*s).Encode(&text, true)
				c.B = compact.AppendString(c.B, text)
				return
			}
			var err error
			*s, err = ddsketch.DecodeDDSketch(c.Part(), store.BufferedPaginatedStoreConstructor, buckets)
			if err != nil || (*s).GetCount() != float64(acc.n) {
				c.Fail()
			}
		})
	}
}

// dim returns the number of coordinates, or 0 if there is no value.
func (acc *accumulator) dim() int {
	return max(len(acc.sums), len(acc.values)/max(len(acc.times), 1), len(acc.sketches))
}

// An exactSum is a sum without rounding. It is a list of numbers that do not overlap, the smallest first (Shewchuk,
// Adaptive precision floating-point arithmetic, Discrete & Computational Geometry 18 (1997), 305–363). The sum of
// events therefore does not depend on their order.
type exactSum []float64

func (s *exactSum) add(v float64) {
	if n := len(*s); n > 0 && math.IsInf((*s)[n-1], 0) {
		return // an overflow is final
	}
	parts := (*s)[:0]
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
			parts = append(parts, rest)
		}
		v = sum
	}
	*s = append(parts, v)
}

// value returns the sum, rounded once.
func (s exactSum) value() float64 {
	i := len(s) - 1
	if i < 0 {
		return 0
	}
	sum, rest := s[i], 0.
	for i--; i >= 0; i-- {
		prev := sum
		sum = prev + s[i]
		if rest = s[i] - (sum - prev); rest != 0 {
			break
		}
	}
	// Half of a unit in the last place was rounded to even. The next smaller number decides the correct direction.
	if i > 0 && (rest < 0 && s[i-1] < 0 || rest > 0 && s[i-1] > 0) {
		if twice := 2 * rest; twice == sum+twice-sum {
			sum += twice
		}
	}
	return sum
}
