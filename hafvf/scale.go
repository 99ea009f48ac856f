package hafvf

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Scale is on which a filter sees values: an increasing function of them. The filter
// of the logarithm, say, has factors for what are sums to that of the values.
type Scale string

// Scales. The empty one is Linear.
const (
	Linear Scale = "linear"
	Log    Scale = "log"   // of values above 0
	Log1p  Scale = "log1p" // log(1 + x), of values above −1: for counts
	Sqrt   Scale = "sqrt"  // of values of at least 0
)

// A transformation is what a scale does to values.
type transformation struct {
	scale    Scale
	contains func(x float64) bool
	reason   string // why another x has no place, after "x = …"
	of       func(x float64) float64
	value    func(y float64) float64 // the inverse
	logSlope func(x float64) float64 // log of the derivative
}

var transformations = []transformation{
	{Linear, func(float64) bool { return true }, "", identity, identity, func(float64) float64 { return 0 }},
	{Log, func(x float64) bool { return x > 0 }, " has no logarithm: the scale log needs values above 0",
		math.Log, math.Exp, func(x float64) float64 { return -math.Log(x) }},
	{Log1p, func(x float64) bool { return x > -1 }, ": the scale log1p needs values above -1",
		math.Log1p, math.Expm1, func(x float64) float64 { return -math.Log1p(x) }},
	{Sqrt, func(x float64) bool { return x >= 0 }, ": the scale sqrt needs values of at least 0",
		math.Sqrt, func(y float64) float64 { return math.Max(y, 0) * math.Max(y, 0) },
		func(x float64) float64 { return -math.Ln2 - math.Log(x)/2 }},
}

func identity(v float64) float64 { return v }

// Scales are the names of all of them.
func Scales() (names []string) {
	for _, t := range transformations {
		names = append(names, string(t.scale))
	}
	return names
}

// transformation panics where there is no such scale.
func (s Scale) transformation() *transformation {
	if s == "" {
		s = Linear
	}
	i := slices.IndexFunc(transformations, func(t transformation) bool { return t.scale == s })
	if i < 0 {
		panic("hafvf: scale " + string(s) + " is unknown")
	}
	return &transformations[i]
}

// linear reports whether the scale leaves values as they are.
func (s Scale) linear() bool { return s == "" || s == Linear }

// Scalable says why values of a family have the linear scale alone; nil where they may
// have another.
func Scalable(family string) error {
	switch family {
	case "normal", "mvnormal", "regression", "ar":
		return nil
	}
	return fmt.Errorf("%s has the linear scale alone; normal, mvnormal, regression and ar have others", family)
}

// check says why values of a family cannot have the scale.
func (s Scale) check(family string) error {
	switch {
	case s.linear():
		return nil
	case !slices.Contains(Scales(), string(s)):
		return fmt.Errorf("%q is none of %s", s, strings.Join(Scales(), ", "))
	}
	return Scalable(family)
}

// Check says why x has no place on the scale. As the methods below, it panics where there
// is no such scale.
func (s Scale) Check(x float64) error {
	if t := s.transformation(); !t.contains(x) {
		return fmt.Errorf("x = %g%s", x, t.reason)
	}
	return nil
}

// Of is the place of x on the scale.
func (s Scale) Of(x float64) float64 { return s.transformation().of(x) }

// Value is the value at y, the inverse of Of. Below the scale it is its least value.
func (s Scale) Value(y float64) float64 { return s.transformation().value(y) }

// LogSlope is the logarithm of the derivative of Of at x: what the log density of a value
// is above that of its place. That of Sqrt at 0 is +Inf.
func (s Scale) LogSlope(x float64) float64 { return s.transformation().logSlope(x) }

// ScaleOf returns the scale on which the values of most series are about symmetric, if they are far from
// it as they are: Log, Log1p if some are zero, else Linear. By the quartile skewness of Bowley, with
// quantiles that leave three values of a series above, within .01 and .05: 0 of symmetric values, .58 and
// more of exponential ones, .43 of a lognormal with σ = .4 from 300 values on. Series of less than 30
// values have no voice.
func ScaleOf(series [][]float64) Scale {
	const (
		few    = 30
		above  = 3
		skewed = .4
	)
	scale := Log
	for _, x := range series {
		for _, v := range x {
			if v < 0 {
				return Linear
			}
			if v == 0 {
				scale = Log1p
			}
		}
	}
	all, votes := 0, 0
	for _, x := range series {
		if len(x) < few {
			continue
		}
		all++
		tail := min(max(.01, above/float64(len(x))), .05)
		scaled := slices.Clone(x)
		plain := skewness(scaled, tail)
		for i, v := range scaled {
			scaled[i] = scale.Of(v)
		}
		if plain > skewed && math.Abs(skewness(scaled, tail)) < plain/2 {
			votes++
		}
	}
	if 2*votes > all {
		return scale
	}
	return Linear
}

// skewness sorts x. It compares the quantiles tail and 1 − tail with the median.
func skewness(x []float64, tail float64) float64 {
	slices.Sort(x)
	at := func(p float64) float64 { return x[int(p*float64(len(x)-1))] }
	low, middle, high := at(tail), at(.5), at(1-tail)
	if !(high > low) {
		return 0
	}
	return (high + low - 2*middle) / (high - low)
}

// Dispersion is the mean of the values of several series, their variance about a running mean of the same
// hour of their series relative to it, which is 1 for counts of a Poisson process, and the standard
// deviation of all. Each value has its hour of the day.
func Dispersion(series [][]float64, hours [][]int8) (mean, of, sd float64) {
	const memory = 8. // values of a running mean
	var sum, all, squares, expected float64
	n := 0
	for s, values := range series {
		var level, seen [24]float64
		for i, x := range values {
			sum += x
			all += x * x
			n++
			h := hours[s][i]
			if k := seen[h]; k >= 2 {
				k = min(k, memory)
				d := x - level[h]
				squares += d * d / (1 + 1/k) // the mean has an error of its own
				expected += level[h]
			}
			seen[h]++
			level[h] += (x - level[h]) / min(seen[h], memory)
		}
	}
	if n == 0 {
		return 0, 1, 0
	}
	mean, of = sum/float64(n), 1
	if expected > 0 {
		of = squares / expected
	}
	return mean, of, math.Sqrt(max(0, all/float64(n)-mean*mean))
}
