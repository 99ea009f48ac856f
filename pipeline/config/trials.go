package config

import (
	"slices"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/pipeline/settings"
)

// unreachableGap is longer than the gap of any session in stored data.
const unreachableGap = 250 * 365 * 24 * time.Hour

// ForTransform returns the config for the other transform, to compare both observation by observation. The result has
// the same source, model and keys, and no settings that belong to one transform only.
//
// A config of the filter is converted to one session per key, in segments. A config of sessions without levels gets the
// default filters of its family. They take the observations of a key in the order of their times or, without times, of
// their arrival.
func (c *Config) ForTransform(transform string) *Config {
	if c.Transform == transform {
		return c
	}
	result := *c
	result.Transform, result.Records = transform, settings.Brief
	result.Detect, result.Silence, result.Incidents, result.Alerts, result.State = nil, nil, nil, nil, ""
	result.TimeUnit, result.Interval, result.Expire, result.Odds = 0, 0, 0, 0
	result.Session, result.Walk = settings.Session{Max: keyed.DefaultMax}, true
	result.Keys = slices.Clone(c.Keys)
	result.Source.Origins = slices.Clone(c.Source.Origins)
	var fields *Fields
	if files := c.Source.Files(); files != nil {
		copied := *files
		result.Source.Origins, fields = []SourceKind{&copied}, &copied.Fields
	}
	if transform == settings.Smooth {
		result.smooth(fields)
	} else {
		result.filter(fields)
	}
	return &result
}

// smooth converts the settings of a filter to settings of sessions. Seasons require event time.
func (c *Config) smooth(fields *Fields) {
	c.Levels, c.Top, c.Bank, c.Lateness = nil, 0, nil, 0
	timed := c.Order == settings.EventTime || c.Model.Season != nil
	for i := range c.Keys {
		k := &c.Keys[i]
		k.Levels, k.Top, k.Bank = nil, 0, nil
		timed = timed || k.Season != nil
	}
	if timed {
		c.Order, c.Session.Gap = settings.EventTime, unreachableGap
		return
	}
	if fields != nil {
		fields.Untimed = true
	}
}

// filter converts the settings of sessions to settings of a filter.
func (c *Config) filter(fields *Fields) {
	if c.Levels == nil {
		c.Levels, c.Top, c.Bank = c.DefaultFilter()
	}
	for i := range c.Keys {
		if k := &c.Keys[i]; k.Levels == nil {
			k.Levels, k.Top, k.Bank = c.DefaultFilter()
		}
	}
	if fields != nil {
		fields.By = nil
		if fields.TimeFormat == Trial {
			fields.TimeFormat, fields.Untimed, c.Order = "", true, settings.Arrival
		}
	}
	if c.Order == settings.EventTime {
		c.Lateness = unreachableGap // sessions sort their observations
	}
}
