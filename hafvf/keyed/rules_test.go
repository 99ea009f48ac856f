package keyed

import (
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
	"hafvf/internal/testing/expect"
)

// Stars and question marks match slashes, unlike in path patterns.
func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, key string
		want         bool
	}{
		{"pump-*", "pump-1", true},
		{"pump-*", "pump-a/b/c", true},
		{"*", "a/b", true},
		{"*", "", true},
		{"plant/*/pump", "plant/a/b/pump", true},
		{"plant/?", "plant/a", true},
		{"plant?a", "plant/a", true},
		{"plant/?", "plant/ab", false},
		{"[a-c]/*", "b/x/y", true},
		{"[a-c]/*", "d/x", false},
		{`a\*`, "a*", true},
		{`a\*`, "ab", false},
		{"pump", "pump/", false},
	} {
		if got := (Rule{Match: test.pattern}).Matches(test.key); got != test.want {
			t.Errorf("matches(%q, %q) = %t", test.pattern, test.key, got)
		}
	}
}

// For each part of a filter, the first matching rule that sets it wins. A rule without parts sets all parts that no
// earlier rule sets.
func TestRulesByPart(t *testing.T) {
	parts := []FilterPart{PriorPart, SeasonPart, ZonePart, HolidaysPart, BankPart}
	filter := func(i float64) hafvf.Config {
		return hafvf.Config{
			Family: "normal", Prior: expfam.Params{"kappa": i}, WarmUp: int(i), Member: &hafvf.Member{Top: i / 100},
			Season: &usual.RhythmConfig{Seasons: []usual.Season{{Period: time.Duration(i) * time.Hour, Harmonics: 1}}, Zone: string(rune('A' + int(i))), Holidays: []string{time.Unix(int64(i)*86400, 0).UTC().Format(time.DateOnly)}},
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Filter: filter(1)}
		for i := range rapid.IntRange(0, 5).Draw(t, "rules") {
			r := Rule{Match: rapid.SampledFrom([]string{"*", "a*", "a/b", "b"}).Draw(t, "match"), Filter: filter(float64(i + 2))}
			if !rapid.Bool().Draw(t, "whole") {
				r.Sets = rapid.SliceOfNDistinct(rapid.SampledFrom(parts), 0, 5, func(p FilterPart) FilterPart { return p }).Draw(t, "parts")
				r.Sets = append([]FilterPart{}, r.Sets...)
			}
			cfg.Keys = append(cfg.Keys, r)
		}
		for _, key := range []string{"a/b", "b", "c"} {
			filterFor := func(part FilterPart) hafvf.Config {
				for _, r := range cfg.Keys {
					if r.Matches(key) && (r.Sets == nil || slices.Contains(r.Sets, part)) {
						return r.Filter
					}
				}
				return cfg.Filter
			}
			want := hafvf.Config{
				Family: "normal", Prior: filterFor(PriorPart).Prior, WarmUp: filterFor(PriorPart).WarmUp, Member: filterFor(BankPart).Member,
				Season: &usual.RhythmConfig{Seasons: filterFor(SeasonPart).Season.Seasons, Zone: filterFor(ZonePart).Season.Zone, Holidays: filterFor(HolidaysPart).Season.Holidays},
			}
			if diff := cmp.Diff(want, cfg.ForKey(key).Filter); diff != "" {
				t.Fatalf("%s (-want +got)\n%s", key, diff)
			}
		}
	})
}

// NewEstimator checks the combination of two rules, if a key may match both and the first does not set all parts.
func TestRulePairs(t *testing.T) {
	filter := func(season *usual.RhythmConfig) hafvf.Config { return hafvf.Config{Family: "normal", Season: season} }
	daily := []usual.Season{{Period: 24 * time.Hour, Harmonics: 1}}
	cfg := Config{Filter: filter(nil)}
	part := Rule{Match: "a*", Filter: filter(&usual.RhythmConfig{Zone: "No/Where"}), Sets: []FilterPart{ZonePart}} // zone of a season
	whole := Rule{Match: "*b", Filter: filter(&usual.RhythmConfig{Seasons: daily})}
	other := whole
	other.Match = "b"
	nowhere := Rule{Match: "a*", Filter: filter(&usual.RhythmConfig{Seasons: daily, Zone: "No/Where"}), Sets: []FilterPart{SeasonPart}}
	none := Rule{Match: "*b", Filter: filter(nil), Sets: []FilterPart{SeasonPart}}
	for _, c := range []struct {
		base  *usual.RhythmConfig
		rules []Rule
		fails bool
	}{
		{nil, []Rule{part, whole}, true},
		{nil, []Rule{whole, part}, false},                             // only the whole rule applies
		{nil, []Rule{part, other}, false},                             // no key matches both
		{&usual.RhythmConfig{Seasons: daily}, []Rule{nowhere}, false}, // the zone is that of the base
		{&usual.RhythmConfig{Seasons: daily}, []Rule{nowhere, none}, true},
	} {
		cfg.Filter, cfg.Keys = filter(c.base), c.rules
		if _, err := NewEstimator(cfg); (err != nil) != c.fails {
			t.Errorf("%v", err)
		}
	}
}

func collect(estimates iter.Seq2[Estimate, error]) (list []Estimate) {
	for e := range estimates {
		list = append(list, e)
	}
	return list
}

// The estimates of a key with rules equal those of its own configuration, also after decoding its state. Settings
// that an AlertRule changes are not in the state.
func TestRulesEqualOwnConfig(t *testing.T) {
	cfg := Recommended("normal")
	cfg.Silence = &SilenceConfig{}
	slow := cfg.Filter
	slow.Prior, slow.WarmUp = expfam.Params{"beta": 4.}, 0
	level := cfg.Filter
	level.Bank, level.Forgetting, level.Member = nil, 0, &hafvf.Member{Levels: []hafvf.Beta{{Alpha: 9, Beta: 1}}, Top: 1}
	cfg.Keys = []Rule{{Match: "*b", Filter: slow, Sets: []FilterPart{PriorPart}}, {Match: "a*", Filter: level, Sets: []FilterPart{BankPart}}}
	cfg.AlertRules = []AlertRule{{Match: "*c", Budget: new(20.), Rest: new(0), Settling: new(time.Duration(0)), Seasons: &[]usual.Season{}, Zone: new("Asia/Tokyo")}}
	shared := expect.Get(NewEstimator(cfg))(t)
	alarms := map[string]int{}
	for _, key := range []string{"a", "b", "ab", "abc", "c", "d"} {
		own := expect.Get(NewEstimator(cfg.ForKey(key)))(t)
		x, y := expect.Get(shared.Open(key, nil))(t), expect.Get(own.Open(key, nil))(t)
		values := rand.New(rand.NewPCG(1, 2))
		for i := range 600 {
			o := Value(sunday.Add(time.Duration(i)*time.Minute), "", values.ExpFloat64())
			if i == 300 {
				x = expect.Get(shared.Open(key, expect.Get(x.AppendBinary(nil))(t)))(t)
			}
			want := collect(y.Estimates(o))
			got := collect(x.Estimates(o))
			if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
				t.Fatalf("%s %d (-want +got)\n%s", key, i, diff)
			}
			for _, e := range got {
				if e.Alarm != nil {
					alarms[key]++
				}
			}
		}
		if a, b := expect.Get(x.AppendBinary(nil))(t), expect.Get(y.AppendBinary(nil))(t); !slices.Equal(a, b) {
			t.Errorf("%s has another state", key)
		}
		if _, a := cfg.Settings()(key); a != cfg.ForKey(key).AllSettings().String() {
			t.Errorf("%s has the settings\n%s\nand alone\n%s", key, a, cfg.ForKey(key).AllSettings())
		}
	}
	if alarms["c"] <= alarms["d"] {
		t.Errorf("a budget of 20 observations: %v alarms", alarms)
	}
}

// With other alarm seasons a key relearns its usual values; with another budget it does not.
func TestResetsProfile(t *testing.T) {
	cfg := Recommended("normal")
	before := expect.Get(NewEstimator(cfg))(t)
	cfg.AlertRules = []AlertRule{{Match: "a", Zone: new("Asia/Tokyo")}, {Match: "b", Budget: new(99.)}}
	after := expect.Get(NewEstimator(cfg))(t)
	for key, want := range map[string]bool{"a": true, "b": false, "c": false} {
		k := expect.Get(before.Open(key, nil))(t)
		for i := range 200 {
			collect(k.Estimates(Value(sunday.Add(time.Duration(i)*time.Hour), "", float64(i*i%17))))
		}
		state := expect.Get(k.AppendBinary(nil))(t)
		if got := after.ResetsProfile(key, state); got != want || before.ResetsProfile(key, state) {
			t.Errorf("%s: %t, and as it was %t", key, got, before.ResetsProfile(key, state))
		}
	}
}
