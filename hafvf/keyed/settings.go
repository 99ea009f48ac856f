package keyed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hafvf/hafvf"
)

// ErrOtherConfig means that a state was written with another configuration.
var ErrOtherConfig = errors.New("state belongs to another configuration")

// Settings are the settings that the meaning of a key's state depends on. They are stored with it.
type Settings struct {
	// In another order, waiting observations would never be released, or late observations would be learned.
	Order Order `json:"order"`
	// With another time unit, the same pause is a different share of the memory.
	TimeUnit time.Duration `json:"time_unit,omitempty"`
	// With other intervals, or another value of them, no part of the state keeps its meaning.
	Aggregate *Aggregation `json:"aggregate,omitempty"`
	// Filter is canonical.
	Filter hafvf.Config `json:"filter"`
}

// Settings returns a function that returns the settings of a key's state, and their text.
func (c Config) Settings() func(key string) (Settings, string) {
	c = c.withDefaults()
	type written struct {
		Settings
		text string
	}
	byKey, _ := newByRules(c, func(keyCfg Config) (written, error) {
		s := c.settingsOf(keyCfg.Filter)
		return written{s, s.String()}, nil
	})
	return func(key string) (Settings, string) {
		w := byKey.ofKey(key)
		return w.Settings, w.text
	}
}

// settingsOf returns the settings of the keys that have this filter. c has its defaults.
func (c Config) settingsOf(filter hafvf.Config) Settings {
	s := Settings{Order: c.Order, TimeUnit: c.TimeUnit, Filter: filter.Canonical()}
	if c.Aggregate != nil {
		s.Aggregate = &c.Aggregate.Aggregation
	}
	return s
}

// ApplyTo returns c with these settings for all keys.
func (s Settings) ApplyTo(c Config) Config {
	c.Filter, c.Keys, c.Order, c.TimeUnit = s.Filter, nil, s.Order, s.TimeUnit
	if c.Order == Arrival {
		c.Lateness, c.Silence, c.Expire = 0, nil, 0
	}
	if c.Aggregate = nil; s.Aggregate != nil {
		c.Aggregate = &AggregateConfig{Aggregation: *s.Aggregate}
	}
	return c
}

// String returns the settings as JSON.
func (s Settings) String() string { return textOf(s) }

// textOf returns settings as JSON.
func textOf(settings any) string {
	return string(checked(json.Marshal(settings)))
}

// AllSettings are the settings of all keys of a configuration. They are stored with a group of states, such as a
// cell or file.
type AllSettings struct {
	Settings        // of keys that match no rule
	Keys     []Rule `json:"keys,omitempty"`
}

// AllSettings returns the settings of all keys.
func (c Config) AllSettings() AllSettings {
	c = c.withDefaults()
	s := AllSettings{Settings: c.settingsOf(c.Filter)}
	for _, r := range c.Keys {
		s.Keys = append(s.Keys, Rule{Match: r.Match, Filter: r.Filter.Canonical(), Sets: r.Sets})
	}
	return s
}

// String returns the settings as JSON.
func (s AllSettings) String() string { return textOf(s) }

// ApplyTo returns c with these settings.
func (s AllSettings) ApplyTo(c Config) Config {
	c = s.Settings.ApplyTo(c)
	c.Keys = s.Keys
	return c
}

// ParseSettings parses the JSON of Settings, or of a type S that embeds them. Unknown fields are an error.
func ParseSettings[S any](text string) (s S, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("the settings that it was written with cannot be read: %w", err)
	}
	return s, nil
}

// Diff names the settings in which s and other differ: as keys of the program's config if keys is true, else as
// fields of a Config.
func (s Settings) Diff(other Settings, keys bool) (names []string) {
	a, b := s.Filter, other.Filter
	warmUp := [2]int{a.WarmUp, b.WarmUp}
	if !same(a.Prior, b.Prior) || a.WarmUp == 0 || b.WarmUp == 0 {
		warmUp = [2]int{} // the difference of the priors covers it
	}
	for _, part := range []struct {
		field, key string
		a, b       any
	}{
		{"Filter.Family", "model.family", a.Family, b.Family}, {"Filter.Dim", "model.dim", a.Dim, b.Dim}, {"Filter.Scale", "model.scale", a.Scale, b.Scale},
		{"Filter.Prior", "model.prior", []any{a.Prior, a.WarmUp > 0}, []any{b.Prior, b.WarmUp > 0}}, {"Filter.WarmUp", "model.warm_up", warmUp[0], warmUp[1]}, {"Filter.Season", "model.season", a.Season, b.Season},
		{"Filter.Member.Levels", "levels", levels(a), levels(b)}, {"Filter.Member.Top", "top", top(a, b), top(b, a)}, {"Filter.Bank", "bank", a.Bank, b.Bank}, {"Filter.Forgetting", "bank_forgetting", a.Forgetting, b.Forgetting},
		{"Filter.Detect", "detect", a.Detect, b.Detect}, {"Order", "order", s.Order, other.Order}, {"TimeUnit", "time_unit", s.TimeUnit, other.TimeUnit},
		{"Aggregate", "aggregate", s.Aggregate, other.Aggregate},
	} {
		switch {
		case same(part.a, part.b):
		case keys:
			names = append(names, part.key)
		default:
			names = append(names, part.field)
		}
	}
	return names
}

// levels returns the levels of the filter, or nil for a bank.
func levels(c hafvf.Config) []hafvf.Beta {
	if c.Member == nil {
		return nil
	}
	return c.Member.Levels
}

// top returns c's top, or 0 if c or other is a bank.
func top(c, other hafvf.Config) float64 {
	if c.Member == nil || other.Member == nil {
		return 0
	}
	return c.Member.Top
}

// same compares parts of settings by their JSON.
func same(a, b any) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}
