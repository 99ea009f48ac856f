package config

import (
	"slices"

	"hafvf/pipeline/settings"
)

// ForTransform returns the config for the other transform, as Settings.ForTransform does. The result has the same source.
func (c *Config) ForTransform(transform string) *Config {
	if c.Transform == transform {
		return c
	}
	result := *c
	result.Incidents, result.Alerts, result.State = nil, nil, ""
	result.Source.Origins = slices.Clone(c.Source.Origins)
	fields := &Fields{}
	if files := c.Source.Files(); files != nil {
		copied := *files
		result.Source.Origins, fields = []SourceKind{&copied}, &copied.Fields
	}
	converted, untimed := c.Settings.ForTransform(transform, fields.TimeFormat == Trial)
	result.Settings, fields.Untimed = converted, fields.Untimed || untimed
	if transform == settings.Filter {
		fields.By = nil
		if fields.TimeFormat == Trial {
			fields.TimeFormat = ""
		}
	}
	return &result
}
