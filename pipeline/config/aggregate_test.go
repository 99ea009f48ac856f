package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
)

const aggregateText = "{model: {family: %family}, aggregate: {%aggregate}, source: {csv: {path: events.csv}}%more}"

func parseAggregate(family, aggregate, extra string) (*Config, error) {
	text := strings.NewReplacer("%family", family, "%aggregate", aggregate, "%more", extra).Replace(aggregateText)
	return Parse("a.yaml", []byte(text), nil)
}

func TestAggregate(t *testing.T) {
	for _, c := range []struct {
		family, aggregate string
		want              keyed.AggregateConfig
		values            []string
	}{
		{"poisson", "every: 5m, value: count", keyed.AggregateConfig{Aggregation: keyed.Aggregation{Every: 5 * time.Minute, Value: keyed.Count, Zero: true}}, nil},
		{"normal", "every: 24h, value: sum, empty: missing, zone: Europe/Berlin", keyed.AggregateConfig{Aggregation: keyed.Aggregation{Every: 24 * time.Hour, Value: keyed.Sum, Zone: "Europe/Berlin"}}, []string{"x"}},
		{"normal", "every: 1s, value: p95, empty: 0, wait: 1m, zone: UTC", keyed.AggregateConfig{Aggregation: keyed.Aggregation{Every: time.Second, Value: keyed.P95, Zero: true}, Wait: time.Minute}, []string{"x"}},
		{"poisson", "every: 1h, value: increase", keyed.AggregateConfig{Aggregation: keyed.Aggregation{Every: time.Hour, Value: keyed.Increase}}, []string{"x"}},
		{"normal", "every: 1h, value: increase, per: 1s, empty: missing", keyed.AggregateConfig{Aggregation: keyed.Aggregation{Every: time.Hour, Value: keyed.Increase, Per: time.Second}}, []string{"x"}},
		{"binomial", "every: 744h, value: share, of: errors, to: requests", keyed.AggregateConfig{Aggregation: keyed.Aggregation{Every: 31 * 24 * time.Hour, Value: keyed.Share}}, []string{"errors", "requests"}},
	} {
		got, err := parseAggregate(c.family, c.aggregate, "")
		if err != nil {
			t.Errorf("%s: %v", c.aggregate, err)
			continue
		}
		if *got.Aggregate != c.want || !slices.Equal(got.Source.Files().Values, c.values) {
			t.Errorf("%s: %+v of %q", c.aggregate, *got.Aggregate, got.Source.Files().Values)
		}
	}
}

func TestAggregateErrors(t *testing.T) {
	for _, c := range []struct{ family, aggregate, extra, want string }{
		{"poisson", "every: 500ms, value: count", "", "aggregate.every: must be within 1s and 744h (31 days), not 500ms"},
		{"poisson", "every: 745h, value: count", "", "aggregate.every: must be within 1s and 744h (31 days), not 745h"},
		{"poisson", "value: count", "", "aggregate.every: missing"},
		{"poisson", "every: 1m", "", "aggregate.value: missing"},
		{"normal", "every: 1m, value: p50", "", "aggregate.value: unknown value"},
		{"normal", "every: 1m, value: mean, empty: 1", "", "aggregate.empty: must be 0 or missing"},
		{"normal", "every: 1m, value: mean, wait: -1s", "", "aggregate.wait: must not be negative"},
		{"normal", "every: 1m, value: mean", ", order: arrival", "aggregate: intervals use the times of events"},
		{"normal", "every: 1m, value: mean, of: a", "", "aggregate.of: belongs to value: share"},
		{"binomial", "every: 1m, value: share, of: a", "", "aggregate.to: missing; a share is the ratio of two fields"},
		{"binomial", "every: 1m, value: mean", "", "share and the family binomial belong together"},
		{"normal", "every: 1m, value: share, of: a, to: b", "", "share and the family binomial belong together"},
		{"poisson", "every: 1m, value: p95", "", "a p95 is not a whole number, which the family poisson takes"},
		{"poisson", "every: 1m, value: rate", "", "a rate is not a whole number: the family poisson takes count"},
		{"normal", "every: 1m, value: sum, per: 1s", "", "aggregate.per: belongs to value: increase"},
		{"normal", "every: 1m, value: increase, per: 0s", "", "aggregate.per: must be"},
		{"normal", "every: 1m, value: increase, empty: 0", "", "aggregate.empty: must be missing"},
		{"poisson", "every: 1m, value: increase, per: 1s", "", "aggregate.per: an increase per time is not a whole number"},
		{"bernoulli", "every: 1m, value: increase", "", "the values of the family bernoulli are not counters"},
		{"binomial", "every: 1m, value: increase", "", "share and the family binomial belong together"},
		{"regression, prior: {mean: [0]}", "every: 1m, value: increase", "", "the values of the family regression are not counters"},
		{"normal, scale: log", "every: 1m, value: increase", "", "an increase may be 0"},
		{"normal, scale: log", "every: 1m, value: count", "", "an interval without events is 0, which has no logarithm"},
		{"normal", "every: 1h, value: mean", ", transform: smooth, session: {gap: 30m}", "session.gap: must be at least aggregate.every, 1h"},
		{"normal", "every: 1m, value: mean, wait: 1m", ", transform: smooth", "aggregate.wait: is for transform: filter"},
	} {
		_, err := parseAggregate(c.family, c.aggregate, c.extra)
		expect.Error(t, err, c.want, c.family, ", ", c.aggregate, ", ", c.extra)
	}
}
