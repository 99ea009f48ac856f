package settings

import (
	"slices"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
)

// Filter returns the settings of the filters of keys, without the names of the values.
func (c *Settings) Filter() keyed.Config {
	cfg := keyed.Config{
		Filter: c.filterOf(c.Model.Prior, c.Model.WarmUp, c.Model.Season, c.Levels, c.Top, c.Bank),
		Order:  keyed.Order(c.Order), Lateness: c.Lateness, TimeUnit: c.TimeUnit, Interval: c.Interval, Silence: c.Silence, Expire: c.Expire, Aggregate: c.Aggregate,
		NameKeys: true, Quiet: slices.Clone(c.Quiet),
	}
	for _, f := range c.QuietFiles {
		cfg.Quiet = append(cfg.Quiet, f.Times...)
	}
	for _, k := range c.Keys {
		if len(k.Sets) > 0 {
			cfg.Keys = append(cfg.Keys, keyed.Rule{Match: k.Match, Filter: c.filterOf(k.Prior, k.WarmUp, k.Season, k.Levels, k.Top, k.Bank), Sets: k.Sets})
		}
		if detect := k.Detect; detect != (keyed.AlertRule{}) || len(k.Sets) == 0 {
			detect.Match = k.Match
			cfg.AlertRules = append(cfg.AlertRules, detect)
		}
	}
	if d := c.Detect; d != nil {
		cfg.Alarms, cfg.Alerts = &d.AlarmConfig, d.AlertConfig
	} else if c.Silence != nil {
		alarms := keyed.DefaultAlarms()
		alarms.Zone = c.Zone
		cfg.Alarms = &alarms
	}
	return cfg
}

// SetLater returns the function that names what of the filter of a key a later exception sets than the first that matches it:
// that did not count while the first held whole.
func (c *Settings) SetLater() func(key string) []string {
	cfg := c.Filter()
	settings := cfg.Settings()
	return func(key string) []string {
		var matching []keyed.Rule
		for _, r := range cfg.Keys {
			if r.Matches(key) {
				matching = append(matching, r)
			}
		}
		if len(matching) < 2 {
			return nil
		}
		whole := cfg
		whole.Keys = matching[:1]
		before, _ := whole.Settings()(key)
		now, _ := settings(key)
		return before.Differ(now, true)
	}
}

// filterOf returns the settings of the filter, or of the filter of one key rule.
func (c *Settings) filterOf(prior map[string]any, warmUp int, season *usual.RhythmConfig, levels []hafvf.Beta, top float64, bank []hafvf.Member) hafvf.Config {
	f := hafvf.Config{Family: c.Model.Family, Prior: prior, Dim: c.Model.Dim, Bank: bank, WarmUp: warmUp, Season: season}
	if bank == nil && (levels != nil || top != 0) {
		f.Member = &hafvf.Member{Levels: levels, Top: top}
	}
	if c.Model.Scale != hafvf.Linear { // linear is left out of the settings of states
		f.Scale = c.Model.Scale
	}
	if bank != nil {
		f.Forgetting = c.BankForgetting
	}
	if d := c.Detect; d != nil {
		f.Detect = &d.Detect
	}
	return f
}
