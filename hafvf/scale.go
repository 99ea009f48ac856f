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
	forward  func(x float64) float64
	inverse  func(y float64) float64 // the inverse
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
	return fmt.Errorf("%s supports only the linear scale: use it, or one of the families normal, mvnormal, regression and ar", family)
}

// check says why values of a family cannot have the scale.
func (s Scale) check(family string) error {
	switch {
	case s.linear():
		return nil
	case !slices.Contains(Scales(), string(s)):
		return fmt.Errorf("%q is not one of %s", s, strings.Join(Scales(), ", "))
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
func (s Scale) Of(x float64) float64 { return s.transformation().forward(x) }

// Value is the value at y, the inverse of Of. Below the scale it is its least value.
func (s Scale) Value(y float64) float64 { return s.transformation().inverse(y) }

// LogSlope is the logarithm of the derivative of Of at x: what the log density of a value
// is above that of its place. That of Sqrt at 0 is +Inf.
func (s Scale) LogSlope(x float64) float64 { return s.transformation().logSlope(x) }
