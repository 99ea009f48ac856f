// Package domain defines the allowed numbers and texts of settings. Each constraint is defined once, for the
// library that checks a setting and for the config that explains it.
package domain

import (
	"errors"
	"fmt"
	"math"
	"time"

	"hafvf/internal/message"
)

// A Domain is the set of numbers that a setting may have. All of them are finite.
type Domain struct {
	Name     string // as in "must be in [0, 1]"
	Contains func(v float64) bool
}

// Domains of settings.
var (
	Top        = Domain{"in [0, 1]", func(v float64) bool { return v >= 0 && v <= 1 }}
	Level      = Domain{"greater than 0", positive} // alpha and beta
	Forgetting = Domain{"in (0, 1]", func(v float64) bool { return v > 0 && v <= 1 }}
	Interval   = Domain{"in (0, 1)", inside} // probability of an interval
	Commit     = Domain{"in (0, 1)", inside}
	Budget     = Domain{"at least 1", func(v float64) bool { return v >= 1 && v < math.Inf(1) }} // in observations
	Odds       = Domain{"greater than 0", positive}
	Positive   = Domain{"greater than 0", positive}
	MinChange  = Domain{"at least 0", func(v float64) bool { return v >= 0 && v < math.Inf(1) }} // minimum sizes of alarms
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

// Zone returns the time zone with an IANA name; "" means UTC. "Local" is an error: the zone of the machine would
// differ between workers.
func Zone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("%s is not a time zone: use an IANA name such as UTC or Europe/Berlin", message.Quote(name))
	}
	return zone, nil
}

// Date returns the start of a date, such as 2026-12-25, in UTC.
func Date(text string) (time.Time, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return t, fmt.Errorf("%s is not a date such as 2026-12-25", message.Quote(text))
	}
	return t, nil
}

// CheckGap returns an error if d cannot end sessions: windows of Beam have whole milliseconds.
func CheckGap(d time.Duration) error {
	if d < time.Millisecond || d%time.Millisecond != 0 {
		return fmt.Errorf("must be a number of milliseconds above zero, not %v", d)
	}
	return nil
}

// MaxKey is the maximum length of a key in bytes. A state, an estimate and an alarm each contain their key.
const MaxKey = 64 << 10

var errEmptyKey = errors.New("empty key")

// CheckKey returns an error if key is empty or longer than MaxKey.
func CheckKey(key string) error {
	switch {
	case key == "":
		return errEmptyKey
	case len(key) > MaxKey:
		return fmt.Errorf("the key has %d bytes; at most %d are allowed", len(key), MaxKey)
	}
	return nil
}
