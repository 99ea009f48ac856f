package keyed

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hafvf/hafvf/usual"
	"hafvf/internal/testing/expect"
)

// For each field, the first matching rule that sets it wins.
func TestAlertRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		optional := func(name string) *float64 {
			if rapid.Bool().Draw(t, name) {
				return new(float64(rapid.IntRange(1, 9).Draw(t, name)))
			}
			return nil
		}
		cfg := Config{Alerts: AlertConfig{MinChange: 10, MinAbs: 11, MinRel: 12, Direction: Both, Cooldown: time.Hour}}
		for range rapid.IntRange(0, 5).Draw(t, "rules") {
			r := AlertRule{Match: rapid.SampledFrom([]string{"*", "a*", "a/b", "b"}).Draw(t, "match"), MinChange: optional("change"), MinAbs: optional("abs"), MinRel: optional("rel"), Budget: optional("budget")}
			if rapid.Bool().Draw(t, "others") {
				r.Disabled, r.Cooldown, r.Direction = new(rapid.Bool().Draw(t, "none")), new(time.Minute), new(Up)
				r.RestTime, r.Settling = new(time.Hour), new(time.Duration(rapid.IntRange(0, 3).Draw(t, "settling")))
				r.Seasons, r.Zone = &[]usual.Season{}, new("Europe/Berlin")
			}
			cfg.AlertRules = append(cfg.AlertRules, r)
		}
		for _, key := range []string{"a/b", "b", "c"} {
			want := AlertConfig{
				Disabled:  firstThat(cfg, key, false, func(r AlertRule) *bool { return r.Disabled }),
				Cooldown:  firstThat(cfg, key, time.Hour, func(r AlertRule) *time.Duration { return r.Cooldown }),
				MinChange: firstThat(cfg, key, 10, func(r AlertRule) *float64 { return r.MinChange }),
				MinAbs:    firstThat(cfg, key, 11, func(r AlertRule) *float64 { return r.MinAbs }),
				MinRel:    firstThat(cfg, key, 12, func(r AlertRule) *float64 { return r.MinRel }),
				Direction: firstThat(cfg, key, Both, func(r AlertRule) *Direction { return r.Direction }),
			}
			got := cfg.ForKey(key)
			if diff := cmp.Diff(want, got.Alerts); diff != "" {
				t.Fatalf("%s (-want +got)\n%s", key, diff)
			}
			alarms := DefaultAlarms()
			alarms.Budget = firstThat(cfg, key, 0, func(r AlertRule) *float64 { return r.Budget })
			if alarms.Budget > 0 {
				alarms.BudgetTime = 0
			}
			if rest := firstThat(cfg, key, 0, func(r AlertRule) *time.Duration { return r.RestTime }); rest > 0 {
				alarms.Rest, alarms.RestTime = 0, rest
			}
			alarms.Settling = firstThat(cfg, key, alarms.Settling, func(r AlertRule) *time.Duration { return r.Settling })
			alarms.Zone = firstThat(cfg, key, "UTC", func(r AlertRule) *string { return r.Zone })
			alarms.Seasons = firstThat(cfg, key, alarms.Seasons, func(r AlertRule) *[]usual.Season { return r.Seasons })
			if diff := cmp.Diff(&alarms, got.Alarms); diff != "" {
				t.Fatalf("%s (-want +got)\n%s", key, diff)
			}
		}
	})
}

// firstThat returns the value of the first rule that matches the key and sets the field.
func firstThat[T any](cfg Config, key string, otherwise T, field func(AlertRule) *T) T {
	for _, r := range cfg.AlertRules {
		if v := field(r); v != nil && (Rule{Match: r.Match}).Matches(key) {
			return *v
		}
	}
	return otherwise
}

// The first matching rule that sets Silence wins.
func TestSilenceOfRules(t *testing.T) {
	cfg := Recommended("normal")
	cfg.Silence = &SilenceConfig{After: time.Hour}
	cfg.AlertRules = []AlertRule{
		{Match: "a", MinAbs: new(1.0)},
		{Match: "a*", Silence: &SilenceConfig{After: 25 * time.Hour}},
		{Match: "*b", Silence: &SilenceConfig{Disabled: true}},
		{Match: "c", Silence: &SilenceConfig{}}, // bound from the rhythm
	}
	est := expect.Get(NewEstimator(cfg))(t)
	minuteTime := func(minute int) time.Time { return sunday.Add(time.Duration(minute) * time.Minute) }
	for key, want := range map[string]time.Duration{"a": 25 * time.Hour, "ab": 25 * time.Hour, "b": 0, "c": -1, "d": time.Hour} {
		k := expect.Get(est.Open(key, nil))(t)
		for i := range 1000 {
			for range k.Estimates(Value(minuteTime(i), "", float64(i%7))) {
			}
		}
		k = expect.Get(est.Open(key, expect.Get(k.AppendBinary(nil))(t)))(t)
		got := time.Duration(0)
		if deadline := k.Deadline(); !deadline.IsZero() {
			got = deadline.Sub(minuteTime(999))
		}
		if got != want && (want >= 0 || got < time.Minute || got > 30*time.Minute) {
			t.Errorf("%s: silent after %v, want %v", key, got, want)
		}
		_, silent := k.ReportSilence(minuteTime(999).Add(24 * time.Hour))
		if silent != (want < 24*time.Hour && want != 0) {
			t.Errorf("%s: silent %v after a day", key, silent)
		}
		for e := range k.Estimates(Value(minuteTime(999).Add(30*time.Hour), "", 3)) {
			if (e.Silence != nil) != (want != 0) {
				t.Errorf("%s: silence %+v", key, e.Silence)
			}
		}
	}
	for _, bad := range []Config{
		{Filter: cfg.Filter, AlertRules: cfg.AlertRules},
		{Filter: cfg.Filter, Silence: cfg.Silence, AlertRules: []AlertRule{{Match: "a", Silence: &SilenceConfig{After: -1}}}},
	} {
		if _, err := NewEstimator(bad); err == nil {
			t.Errorf("%+v is accepted", bad.AlertRules)
		}
	}
}

// Checking rules does not build the tables that their keys need: with 48 harmonics these take 30,000 allocations per
// rule.
func TestManyAlertRules(t *testing.T) {
	const rules = 200
	cfg := Recommended("normal")
	for i := range rules {
		cfg.AlertRules = append(cfg.AlertRules, AlertRule{Match: fmt.Sprint("k", i), Seasons: &[]usual.Season{{Period: 24 * time.Hour, Harmonics: 4}, {Period: 168 * time.Hour, Harmonics: 1 + i%48}}})
	}
	baseline := testing.AllocsPerRun(1, func() { expect.Get(NewEstimator(Recommended("normal")))(t) })
	if n := testing.AllocsPerRun(1, func() { expect.Get(NewEstimator(cfg))(t) }); n > baseline+20*rules {
		t.Errorf("%g allocations for %d rules, %g without rules", n, rules, baseline)
	}
}
