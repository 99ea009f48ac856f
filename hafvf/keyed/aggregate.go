package keyed

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"hafvf/internal/domain"
	"hafvf/internal/message"
)

// An Aggregation combines the events of an interval into one observation.
type Aggregation struct {
	// Every is the length of an interval, from minEvery to maxEvery. Intervals start at multiples of Every in the
	// local time of Zone, counted from a Monday at midnight.
	Every time.Duration `json:"every"`
	Value Aggregate     `json:"value"`
	// Per scales an Increase to this duration. Default: the increase of the interval.
	Per time.Duration `json:"per,omitempty"`
	// Modulus is the number at which the counter of an Increase wraps to 0; every fall is then a wrap. Default: a
	// fall is a wrap at 2³² or 2⁶⁴ if the rise is then at most three times the largest of the last 20 rises.
	Modulus float64 `json:"modulus,omitempty"`
	// Zero makes an interval without events an observation of zeros. Default: a missing observation. Increase does
	// not allow Zero.
	Zero bool   `json:"zero,omitempty"`
	Zone string `json:"zone,omitempty"` // an IANA name; empty for UTC
}

// An AggregateConfig configures how events become the observations of a Config.
type AggregateConfig struct {
	Aggregation
	// Wait is how long an interval stays open after its end, in addition to Config.Lateness.
	Wait time.Duration
	// Watermark closes intervals by the watermark alone. Default: the key's own latest event also closes them, as
	// for files, in which another key's clock makes no event late.
	Watermark bool
	// Unbounded produces intervals without events as the watermark advances. Default: they are produced up to the
	// key's next event, and with transforms.Host.AtEnd up to the last event of any key.
	Unbounded bool `json:"Endless"`
}

// An Aggregate is the function that an Aggregation applies to the values of an interval.
type Aggregate string

const (
	Count Aggregate = "count" // number of events
	Rate  Aggregate = "rate"  // events per second of Every
	Sum   Aggregate = "sum"
	Mean  Aggregate = "mean"
	Min   Aggregate = "min"
	Max   Aggregate = "max"
	Last  Aggregate = "last" // by time
	// Median and the percentiles are computed by a DDSketch: the value of rank ⌊q·(n−1)⌋, counted from 0, with a
	// relative error of at most quantileError.
	Median Aggregate = "median"
	P90    Aggregate = "p90"
	P95    Aggregate = "p95"
	P99    Aggregate = "p99"
	// Share adds up pairs (k, n), for the family binomial.
	Share Aggregate = "share"
	// Increase is the increase of a cumulative counter: the last value in the interval minus the last value before
	// it. A fall may be a wrap, see Aggregation.Modulus. Otherwise a fall to less than half is a restart, and the
	// increase is the new value. A smaller fall adds no increase until the counter exceeds its previous maximum. An
	// interval without a value is missing, and so is the interval of a key's first value if it has no other value.
	// A rise over missing intervals is treated as even in time, and only the share of the next interval counts. An
	// interval with a fall, or with the recovery from a fall, raises no alarm if the fall is at least a quarter of
	// the interval's increase.
	Increase Aggregate = "increase"
)

// Aggregates returns all aggregates.
func Aggregates() []Aggregate {
	return []Aggregate{Count, Sum, Mean, Min, Max, Last, Median, P90, P95, P99, Rate, Share, Increase}
}

// quantiles maps the aggregates that use a sketch to their quantiles.
var quantiles = map[Aggregate]float64{Median: .5, P90: .9, P95: .95, P99: .99}

// Counts reports whether a is computed from the number of events, without their values.
func (a Aggregate) Counts() bool { return a == Count || a == Rate }

// Averages reports whether the value of an interval varies less if the interval has more events.
func (a Aggregate) Averages() bool { return a == Mean || quantiles[a] > 0 }

// EmptyIsZero reports whether the value of an interval without events is zero unless the user sets it otherwise.
func (a Aggregate) EmptyIsZero() bool { return a.Counts() || a == Sum }

const (
	minEvery = time.Second
	maxEvery = 31 * 24 * time.Hour
)

// maxEmptyIntervals is the maximum number of consecutive intervals without events of a key. It limits the cost of one
// wrong time in the future.
const maxEmptyIntervals = 100_000

// Check returns an error that describes the first invalid field, or nil.
func (a *Aggregation) Check() error {
	if err := a.CheckEvery(); err != nil {
		return fmt.Errorf("every %w", err)
	}
	if !slices.Contains(Aggregates(), a.Value) {
		return fmt.Errorf("unknown value %q: use one of %v", a.Value, Aggregates())
	}
	switch {
	case a.Value == Increase && a.Zero:
		return errors.New("zero is not allowed with an increase: an unknown increase is missing")
	case a.Modulus < 0 || a.Modulus > 0 && a.Value != Increase || math.IsInf(a.Modulus, 0) || math.IsNaN(a.Modulus):
		return fmt.Errorf("modulus %g must be a positive number, and needs value %s", a.Modulus, Increase)
	case a.Per < 0 || a.Per > 0 && a.Value != Increase:
		return fmt.Errorf("per %v must be a positive duration, and needs value %s", a.Per, Increase)
	}
	_, err := domain.Zone(a.Zone)
	return err
}

// CheckEvery returns an error if Every is not a valid length of an interval.
func (a *Aggregation) CheckEvery() error {
	if a.Every < minEvery || a.Every > maxEvery {
		return fmt.Errorf("must be within %s and %s (31 days), not %s", message.Duration(minEvery), message.Duration(maxEvery), message.Duration(a.Every))
	}
	return nil
}

// CheckIntervals returns an error if the order does not allow intervals.
func (o Order) CheckIntervals() error {
	if o != EventTime {
		return fmt.Errorf("intervals use the times of events: order must be %s", EventTime)
	}
	return nil
}

func (a *AggregateConfig) validate(order Order) error {
	switch {
	case a == nil:
		return nil
	case a.Wait < 0:
		return fmt.Errorf("wait %v is negative", a.Wait)
	}
	return cmp.Or(order.CheckIntervals(), a.Check())
}
