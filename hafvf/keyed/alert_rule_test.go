package keyed

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Of each field the first rule that matches a key and sets it holds.
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
			r := AlertRule{Match: rapid.SampledFrom([]string{"*", "a*", "a/b", "b"}).Draw(t, "match"), MinChange: optional("change"), MinAbs: optional("abs"), MinRel: optional("rel")}
			if rapid.Bool().Draw(t, "others") {
				r.None, r.Cooldown, r.Direction = new(rapid.Bool().Draw(t, "none")), new(time.Minute), new(Up)
			}
			cfg.AlertRules = append(cfg.AlertRules, r)
		}
		for _, key := range []string{"a/b", "b", "c"} {
			want := AlertConfig{
				None:      firstThat(cfg, key, false, func(r AlertRule) *bool { return r.None }),
				Cooldown:  firstThat(cfg, key, time.Hour, func(r AlertRule) *time.Duration { return r.Cooldown }),
				MinChange: firstThat(cfg, key, 10, func(r AlertRule) *float64 { return r.MinChange }),
				MinAbs:    firstThat(cfg, key, 11, func(r AlertRule) *float64 { return r.MinAbs }),
				MinRel:    firstThat(cfg, key, 12, func(r AlertRule) *float64 { return r.MinRel }),
				Direction: firstThat(cfg, key, Both, func(r AlertRule) *Direction { return r.Direction }),
			}
			if diff := cmp.Diff(&want, cfg.alertsOf(key)); diff != "" {
				t.Fatalf("%s (-want +got)\n%s", key, diff)
			}
		}
	})
}

// firstThat is the value of the first rule that matches the key and has one.
func firstThat[T any](cfg Config, key string, otherwise T, field func(AlertRule) *T) T {
	for _, r := range cfg.AlertRules {
		if v := field(r); v != nil && (Rule{Match: r.Match}).Matches(key) {
			return *v
		}
	}
	return otherwise
}
