package settings

import (
	"slices"
	"time"

	"hafvf/hafvf/keyed"
)

// unreachableGap is longer than the gap of any session in stored data.
const unreachableGap = 250 * 365 * 24 * time.Hour

// ForTransform returns the settings for the other transform, to compare both observation by observation. The result has
// the same model and keys, and no settings that belong to one transform only. trials says that times are trial numbers.
// If untimed is true, the transform takes observations without times.
//
// The settings of the filter are converted to one session per key, in segments. Those of sessions without levels get the
// default filters of the family. They take the observations of a key in the order of their times or, without times, of
// their arrival.
func (c *Settings) ForTransform(transform string, trials bool) (result Settings, untimed bool) {
	result = *c
	if c.Transform == transform {
		return result, false
	}
	result.Transform, result.Records = transform, Brief
	result.Detect, result.Silence = nil, nil
	result.TimeUnit, result.Interval, result.Expire, result.Odds = 0, 0, 0, 0
	result.Session, result.Walk = Session{Max: keyed.DefaultMax}, true
	result.Keys = slices.Clone(c.Keys)
	if transform == Smooth {
		return result, result.smooth()
	}
	return result, result.filter(trials)
}

// smooth converts the settings of a filter to settings of sessions. Seasons require event time.
func (c *Settings) smooth() (untimed bool) {
	c.Levels, c.Top, c.Bank, c.Lateness = nil, 0, nil, 0
	timed := c.Order == EventTime || c.Model.Season != nil
	for i := range c.Keys {
		k := &c.Keys[i]
		k.Levels, k.Top, k.Bank = nil, 0, nil
		timed = timed || k.Season != nil
	}
	if timed {
		c.Order, c.Session.Gap = EventTime, unreachableGap
	}
	return !timed
}

// filter converts the settings of sessions to settings of a filter.
func (c *Settings) filter(trials bool) (untimed bool) {
	if c.Levels == nil {
		c.Levels, c.Top, c.Bank = c.DefaultFilter()
	}
	for i := range c.Keys {
		if k := &c.Keys[i]; k.Levels == nil {
			k.Levels, k.Top, k.Bank = c.DefaultFilter()
		}
	}
	if trials {
		c.Order = Arrival
	}
	if c.Order == EventTime {
		c.Lateness = unreachableGap // sessions sort their observations
	}
	return trials
}

// Smoothing returns the configuration of the smoother of sessions in an order.
func (c *Settings) Smoothing(order keyed.Order) keyed.SmoothConfig {
	filter := c.Filter()
	s := keyed.SmoothConfig{
		Filter: filter.Filter, Keys: filter.Keys, Order: order, Gap: c.Session.Gap, AllowedLateness: c.Session.AllowedLateness,
		Max: c.Session.Max, Odds: c.Odds, LevelsOnly: !c.Walk,
	}
	if c.Aggregate != nil {
		s.Aggregate = &c.Aggregate.Aggregation
	}
	return s
}
