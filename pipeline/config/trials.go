package config

import (
	"slices"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/pipeline/settings"
)

// wholeKey is a gap that no session of finished data has.
const wholeKey = 250 * 365 * 24 * time.Hour

// As returns the config for the other transform, for what is compared observation by observation. It has
// the same source, model and keys, and nothing that belongs to one transform alone.
//
// A config of the filter smooths a key as one session, in segments. One of sessions without levels has the
// default filters of its family, which take the observations of a key in the order of their times or, without
// times, as they come.
func (c *Config) As(transform string) *Config {
	if c.Transform == transform {
		return c
	}
	to := *c
	to.Transform, to.Records = transform, settings.Brief
	to.Detect, to.Silence, to.Incidents, to.Alerts, to.State = nil, nil, nil, nil, ""
	to.TimeUnit, to.Interval, to.Expire, to.Odds = 0, 0, 0, 0
	to.Session = settings.Session{Max: keyed.DefaultMax}
	to.Keys = slices.Clone(c.Keys)
	to.Source.Origins = slices.Clone(c.Source.Origins)
	var of *Fields
	if files := c.Source.Files(); files != nil {
		copied := *files
		to.Source.Origins, of = []SourceKind{&copied}, &copied.Fields
	}
	if transform == settings.Smooth {
		to.smooth(of)
	} else {
		to.filter(of)
	}
	return &to
}

// smooth makes sessions of keys. Seasons go by times.
func (c *Config) smooth(of *Fields) {
	c.Levels, c.Top, c.Bank, c.Lateness = nil, 0, nil, 0
	timed := c.Order == settings.EventTime || c.Model.Season != nil
	for i := range c.Keys {
		k := &c.Keys[i]
		k.Levels, k.Top, k.Bank = nil, 0, nil
		timed = timed || k.Season != nil
	}
	if timed {
		c.Order, c.Session.Gap = settings.EventTime, wholeKey
		return
	}
	if of != nil {
		of.Untimed = true
	}
}

// filter makes filters of the sessions of keys.
func (c *Config) filter(of *Fields) {
	if c.Levels == nil {
		c.Levels, c.Top, c.Bank = c.DefaultFilter()
	}
	for i := range c.Keys {
		if k := &c.Keys[i]; k.Levels == nil {
			k.Levels, k.Top, k.Bank = c.DefaultFilter()
		}
	}
	if of != nil {
		of.By = nil
		if of.TimeFormat == Trial {
			of.TimeFormat, of.Untimed, c.Order = "", true, settings.Arrival
		}
	}
	if c.Order == settings.EventTime {
		c.Lateness = wholeKey // sessions sort their observations
	}
}
