// Package domain has the sets of numbers that settings may have. Each is stated once, for the
// library that checks a setting and for the config that explains it.
package domain

import (
	"fmt"
	"math"
)

// A Domain is the set of numbers that a setting may have, all of them finite.
type Domain struct {
	Name     string // as in "must be in [0, 1]"
	Contains func(v float64) bool
}

// The domains of the settings.
var (
	Top        = Domain{"in [0, 1]", func(v float64) bool { return v >= 0 && v <= 1 }}
	Level      = Domain{"greater than 0", positive} // alpha and beta
	Forgetting = Domain{"in (0, 1]", func(v float64) bool { return v > 0 && v <= 1 }}
	Interval   = Domain{"in (0, 1)", inside} // probability of an interval
	Commit     = Domain{"in (0, 1)", inside}
	Budget     = Domain{"at least 1", func(v float64) bool { return v >= 1 && v < math.Inf(1) }} // in observations
	Odds       = Domain{"greater than 0", positive}
	MinChange  = Domain{"at least 0", func(v float64) bool { return v >= 0 && v < math.Inf(1) }} // least sizes of alarms
	Finite     = Domain{"finite", func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }}
)

func positive(v float64) bool { return v > 0 && v < math.Inf(1) }
func inside(v float64) bool   { return v > 0 && v < 1 }

// Check returns an error with the setting's name if v is outside the domain.
func (d Domain) Check(name string, v float64) error {
	if d.Contains(v) {
		return nil
	}
	return fmt.Errorf("%s: must be %s, not %g", name, d.Name, v)
}
