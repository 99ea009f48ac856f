package hafvf

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Scale is an increasing function that is applied to values before a filter sees them. With the logarithm,
// for example, factors between values become differences.
type Scale string

// Scales. The empty Scale is Linear.
const (
	Linear Scale = "linear"
	Log    Scale = "log"   // for values above 0
	Log1p  Scale = "log1p" // log(1 + x), for values above −1, such as counts
	Sqrt   Scale = "sqrt"  // for values of at least 0
)

// A transformation implements a scale.
type transformation struct {
	scale    Scale
	contains func(x float64) bool
	reason   string // text after "x = …" in the error for an x outside the scale
	forward  func(x float64) float64
	inverse  func(y float64) float64 // inverse of forward
	logSlope func(x float64) float64 // log of the derivative of forward
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

// Scales returns the names of all scales.
func Scales() (names []string) {
	for _, t := range transformations {
		names = append(names, string(t.scale))
	}
	return names
}

// transformation returns the transformation of s. It panics if s is unknown.
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

// linear reports whether the scale leaves values unchanged.
func (s Scale) linear() bool { return s == "" || s == Linear }

// Scalable returns an error if values of the family support only the linear scale, and nil if they support the
// others.
func Scalable(family string) error {
	switch family {
	case "normal", "mvnormal", "regression", "ar":
		return nil
	}
	return fmt.Errorf("%s supports only the linear scale: use it, or one of the families normal, mvnormal, regression and ar", family)
}

// check returns an error if values of the family cannot have the scale.
func (s Scale) check(family string) error {
	switch {
	case s.linear():
		return nil
	case !slices.Contains(Scales(), string(s)):
		return fmt.Errorf("%q is not one of %s", s, strings.Join(Scales(), ", "))
	}
	return Scalable(family)
}

// Check returns an error if x is outside the domain of the scale. Check and the methods below panic if s is
// unknown.
func (s Scale) Check(x float64) error {
	if t := s.transformation(); !t.contains(x) {
		return fmt.Errorf("x = %g%s", x, t.reason)
	}
	return nil
}

// Transform converts x to the scale.
func (s Scale) Transform(x float64) float64 { return s.transformation().forward(x) }

// Value returns the inverse of Transform. For y below the range of Transform, it returns the smallest value.
func (s Scale) Value(y float64) float64 { return s.transformation().inverse(y) }

// LogSlope returns the logarithm of the derivative of Transform at x, which converts the log density of Transform(x) to
// the log density of x. For Sqrt at 0 it is +Inf.
func (s Scale) LogSlope(x float64) float64 { return s.transformation().logSlope(x) }
