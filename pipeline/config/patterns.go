package config

import (
	"fmt"
	"maps"
	"slices"

	"hafvf/internal/domain"
	"hafvf/internal/message"
	"hafvf/internal/series"
)

// joinedPatterns has patterns of labels match the keys that a query joins of labels.
func (d *decoder) joinedPatterns(c *Config) {
	p := c.Source.Prometheus()
	if p == nil || len(p.Key) == 0 {
		return
	}
	join := func(path string, pattern *string) {
		labels := domain.PatternLabels(*pattern)
		if labels == nil {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			if !slices.Contains(p.Key, name) {
				d.Fail(path, "no key has the label %s: source.prometheus.key has %s", name, message.List(p.Key))
			}
		}
		parts := make([]string, len(p.Key))
		for i, name := range p.Key {
			parts[i] = "*"
			if of, is := labels[name]; is {
				parts[i] = of
			}
		}
		if *pattern = parts[0]; len(parts) > 1 {
			*pattern = series.Join(parts)
		}
	}
	for i := range c.Keys {
		join(fmt.Sprintf("keys.%d.match", i), &c.Keys[i].Match)
	}
	for i := range c.Quiet {
		join("quiet", &c.Quiet[i].Match)
	}
	for i := range c.Alerts {
		r := &c.Alerts[i]
		join(r.At+".keys", &r.Keys)
		join(r.At+".except", &r.Except)
	}
}
