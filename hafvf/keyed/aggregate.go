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

// An Aggregation makes one observation of the events of an interval.
type Aggregation struct {
	// Every is the length of an interval, leastEvery to mostEvery. Intervals begin at multiples
	// of it on the clock of Zone, counted from a Monday at midnight.
	Every time.Duration `json:"every"`
	Value Aggregate     `json:"value"`
	// Per makes an Increase one per this time. Default: it is that of the interval.
	Per time.Duration `json:"per,omitempty"`
	// Modulus is the number at which the counter of an Increase begins anew: each fall goes over it. Default: a fall goes over
	// 2³² or 2⁶⁴ if that makes a rise of at most three times the largest of the last 20, and else is a restart.
	Modulus float64 `json:"modulus,omitempty"`
	// Zero makes an interval without events an observation of zeros. Default: a missing one, as
	// Increase always has.
	Zero bool   `json:"zero,omitempty"`
	Zone string `json:"zone,omitempty"` // an IANA name; empty for UTC
}

// An AggregateConfig says how events become the observations of a Config.
type AggregateConfig struct {
	Aggregation
	// Wait is how long an interval stays open after its end, besides Config.Lateness.
	Wait time.Duration
	// Watermark closes intervals by the watermark alone. Default: also by the key's own latest
	// event, as for files, of which nothing is late by another key's clock.
	Watermark bool
	// Endless has intervals without events go on with the watermark. Default: they go on up to
	// the key's next event, and with transforms.Host.AtEnd up to the last one of any key.
	Endless bool
}

// An Aggregate is what an Aggregation takes of the values of an interval.
type Aggregate string

const (
	Count Aggregate = "count" // events
	Rate  Aggregate = "rate"  // events per second of Every
	Sum   Aggregate = "sum"
	Mean  Aggregate = "mean"
	Min   Aggregate = "min"
	Max   Aggregate = "max"
	Last  Aggregate = "last" // by time
	// Median and the percentiles are values of a DDSketch: that of rank ⌊q·(n−1)⌋, from 0, to
	// within quantileError of it.
	Median Aggregate = "median"
	P90    Aggregate = "p90"
	P95    Aggregate = "p95"
	P99    Aggregate = "p99"
	// Share adds up pairs (k, n), for the family binomial.
	Share Aggregate = "share"
	// Increase is that of a cumulative counter: the last value in the interval less the last one
	// before it. A fall may go over a Modulus. Else one to less than half is a restart, and the increase is the new value. A smaller
	// fall is no increase, up to the former maximum. An interval without a value is missing, as is
	// that of a key's first value if it has no other. Of a rise over missing intervals only the
	// share of the next interval counts, as if it were even in time. An interval with a fall, or that
	// makes up for one, raises no alarm if the fall is a quarter of its increase or more.
	Increase Aggregate = "increase"
)

// Aggregates are those that there are.
func Aggregates() []Aggregate {
	return []Aggregate{Count, Sum, Mean, Min, Max, Last, Median, P90, P95, P99, Rate, Share, Increase}
}

// quantiles are those of a sketch.
var quantiles = map[Aggregate]float64{Median: .5, P90: .9, P95: .95, P99: .99}

// Counts reports whether the values of events are of no account.
func (a Aggregate) Counts() bool { return a == Count || a == Rate }

// Averages reports whether the value of an interval scatters the less the more events it has.
func (a Aggregate) Averages() bool { return a == Mean || quantiles[a] > 0 }

// EmptyIsZero reports whether an interval without events is one of zero, unless the user says
// otherwise.
func (a Aggregate) EmptyIsZero() bool { return a.Counts() || a == Sum }

// Bounds of Aggregation.Every.
const (
	leastEvery = time.Second
	mostEvery  = 31 * 24 * time.Hour
)

// mostEmpty is how many intervals without events a key has in a row at most. It bounds what one
// wrong time in the future costs.
const mostEmpty = 100_000

// Check says what is wrong with the aggregation.
func (a *Aggregation) Check() error {
	if err := a.CheckEvery(); err != nil {
		return fmt.Errorf("every %w", err)
	}
	if !slices.Contains(Aggregates(), a.Value) {
		return fmt.Errorf("value %q is none of %v", a.Value, Aggregates())
	}
	switch {
	case a.Value == Increase && a.Zero:
		return errors.New("an increase that is not known is missing, not zero")
	case a.Modulus < 0 || a.Modulus > 0 && a.Value != Increase || math.IsInf(a.Modulus, 0) || math.IsNaN(a.Modulus):
		return fmt.Errorf("modulus %g is not a positive number, or not of %s", a.Modulus, Increase)
	case a.Per < 0 || a.Per > 0 && a.Value != Increase:
		return fmt.Errorf("per %v is not a positive time, or not of %s", a.Per, Increase)
	}
	_, err := domain.Zone(a.Zone)
	return err
}

// CheckEvery says why Every is no length of an interval.
func (a *Aggregation) CheckEvery() error {
	if a.Every < leastEvery || a.Every > mostEvery {
		return fmt.Errorf("must be within %s and %s (31 days), not %s", message.Duration(leastEvery), message.Duration(mostEvery), message.Duration(a.Every))
	}
	return nil
}

// CheckIntervals says why there are no intervals under the order.
func (o Order) CheckIntervals() error {
	if o != EventTime {
		return fmt.Errorf("intervals are by the times of events: order must be %s", EventTime)
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
