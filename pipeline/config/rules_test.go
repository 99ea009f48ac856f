package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
	"hafvf/internal/testing/expect"
)

// Each field of an exception is independent. Fields of the filter that a later exception now sets are named.
func TestRulesByField(t *testing.T) {
	c := parse(t, `source: {jsonl: {path: a}}
model: {family: normal, season: [24h], zone: Europe/Berlin}
detect: {budget: 24h}
keys:
  - {match: "a*", model: {zone: Asia/Tokyo}, detect: {budget: 99, zone: Asia/Tokyo}}
  - {match: "*b", model: {prior: {mu: 3}, season: [168h]}, detect: {rest: 2h, budget: 9h}}
  - {match: "*", top: 0.5, levels: [], detect: {rest: 5, settling: 0s, season: []}}
`)
	configOf := func(key string) keyed.Config { return c.Filter().ForKey(key) }
	ab, a, x := configOf("ab"), configOf("a"), configOf("x")
	day, week := usual.Season{Period: 24 * time.Hour, Harmonics: 4}, usual.Season{Period: 168 * time.Hour, Harmonics: 3}
	if s := ab.Filter.Season; s.Zone != "Asia/Tokyo" || !slices.Equal(s.Seasons, []usual.Season{week}) || ab.Filter.Prior["mu"] != 3.0 || ab.Filter.WarmUp != 0 || ab.Filter.Member.Top != .5 {
		t.Errorf("ab: %+v, %+v", ab.Filter, s)
	}
	if s := a.Filter.Season; s.Zone != "Asia/Tokyo" || !slices.Equal(s.Seasons, []usual.Season{day}) {
		t.Errorf("a: %+v, %+v", a.Filter, s)
	}
	if s := x.Filter.Season; s.Zone != "Europe/Berlin" || x.Alarms.BudgetTime != 24*time.Hour || x.Alarms.Rest != 5 || x.Alarms.Settling != 0 || len(x.Alarms.Seasons) != 0 || x.Alarms.Zone != "Europe/Berlin" {
		t.Errorf("x: %+v, %+v", x.Alarms, s)
	}
	if ab.Alarms.Budget != 99 || ab.Alarms.BudgetTime != 0 || ab.Alarms.RestTime != 2*time.Hour || ab.Alarms.Zone != "Asia/Tokyo" {
		t.Errorf("ab: %+v", ab.Alarms)
	}
	later := c.SetLater()
	expect.Same(t, []string{"model.prior", "model.season", "levels", "bank", "bank_forgetting"}, later("ab"), "ab")
	expect.Same(t, []string{"levels", "bank", "bank_forgetting"}, later("a"), "a")
	expect.Same(t, []string(nil), later("x"), "x")
}

// Labels match as patterns: of series, or of the labels that a query joins to keys.
func TestPatternsOfLabels(t *testing.T) {
	rules := "keys: [{match: {job: 'auth-*', env: test}, detect: false}]\nquiet: [{match: {env: a/b}, weekly: Sun 02:00/2h}]\nalerts: {jsonl: {path: told}, except: {env: test}}\nmodel: {family: normal}\ndetect: true\n"
	query := func(key string) string {
		return "source: {prometheus: {url: 'http://a', query: up" + key + "}}\n"
	}
	patterns := func(config string) []string {
		c := parse(t, config)
		return []string{c.Keys[0].Match, c.Quiet[0].Match, c.Alerts[0].Except}
	}
	series := []string{domain.LabelPattern(map[string]string{"job": "auth-*", "env": "test"}), domain.LabelPattern(map[string]string{"env": "a/b"}), domain.LabelPattern(map[string]string{"env": "test"})}
	expect.Same(t, series, patterns(rules+"source: {jsonl: {path: a}}\n"))
	expect.Same(t, series, patterns(rules+query("")))
	expect.Same(t, []string{"auth-*/*/test", "*/*/a%2Fb", "*/*/test"}, patterns(rules+query(", key: [job, instance, env]")))
	for config, want := range map[string]string{
		rules + query(", key: [env]"):                                          "keys.0.match: no key has the label job: source.prometheus.key has env",
		strings.Replace(rules, "env: test}, d", "env: '['}, d", 1) + query(""): `keys.0.match.env: "[" is not a pattern`,
		strings.Replace(rules, "{env: a/b}", "{}", 1) + query(""):              "quiet.0.match: has no label",
	} {
		if _, err := Parse("a.yaml", []byte(config), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
