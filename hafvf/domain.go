package hafvf

import (
	"fmt"
	"math"
)

// A Domain is the set of numbers that a setting may have, all of them finite.
type Domain struct {
	Name     string // as in "must be in [0, 1]"
	Contains func(v float64) bool
}

// Domains of the settings of a Config.
var (
	TopDomain        = Domain{"in [0, 1]", func(v float64) bool { return v >= 0 && v <= 1 }}
	LevelDomain      = Domain{"greater than 0", func(v float64) bool { return v > 0 && v < math.Inf(1) }} // alpha and beta
	ForgettingDomain = Domain{"in (0, 1]", func(v float64) bool { return v > 0 && v <= 1 }}
	IntervalDomain   = Domain{"in (0, 1)", func(v float64) bool { return v > 0 && v < 1 }} // probability of an interval
	CommitDomain     = Domain{"in (0, 1)", func(v float64) bool { return v > 0 && v < 1 }}
)

// check returns an error where v is outside the domain, with the setting's name.
func (d Domain) check(name string, v float64) error {
	if d.Contains(v) {
		return nil
	}
	return fmt.Errorf("%s: must be %s, not %g", name, d.Name, v)
}
