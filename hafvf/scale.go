package hafvf

import (
	"fmt"
	"math"
	"slices"
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

// Scales are all of them.
func Scales() []Scale { return []Scale{Linear, Log, Log1p, Sqrt} }

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
	case !slices.Contains(Scales(), s):
		return fmt.Errorf("%q is none of linear, log, log1p, sqrt", s)
	}
	return Scalable(family)
}

// Check says why x has no place on the scale.
func (s Scale) Check(x float64) error {
	switch {
	case s == Log && x <= 0:
		return fmt.Errorf("x = %g has no logarithm: the scale log needs values above 0", x)
	case s == Log1p && x <= -1:
		return fmt.Errorf("x = %g: the scale log1p needs values above -1", x)
	case s == Sqrt && x < 0:
		return fmt.Errorf("x = %g: the scale sqrt needs values of at least 0", x)
	}
	return nil
}

// Of is the place of x on the scale.
func (s Scale) Of(x float64) float64 {
	switch s {
	case Log:
		return math.Log(x)
	case Log1p:
		return math.Log1p(x)
	case Sqrt:
		return math.Sqrt(x)
	}
	return x
}

// Value is the value at y, the inverse of Of. Below the scale it is its least value.
func (s Scale) Value(y float64) float64 {
	switch s {
	case Log:
		return math.Exp(y)
	case Log1p:
		return math.Expm1(y)
	case Sqrt:
		return math.Max(y, 0) * math.Max(y, 0)
	}
	return y
}

// LogSlope is the logarithm of the derivative of Of at x: what the log density of a value
// is above that of its place. That of Sqrt at 0 is +Inf.
func (s Scale) LogSlope(x float64) float64 {
	switch s {
	case Log:
		return -math.Log(x)
	case Log1p:
		return -math.Log1p(x)
	case Sqrt:
		return -math.Ln2 - math.Log(x)/2
	}
	return 0
}
