package keyed_test

import (
	"fmt"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/compact"
)

func fingerprint(c keyed.Config) string {
	_, text := c.Settings()("k")
	return fmt.Sprintf("%x", compact.FingerprintOf(text))
}

// Settings that change the meaning of a state have another fingerprint. A value that means the default has the
// fingerprint of the default.
func TestFingerprint(t *testing.T) {
	seen := map[string]keyed.Config{}
	for _, f := range []hafvf.Config{
		{Family: "normal"},
		{Family: "normal", Member: &hafvf.Member{}},
		{Family: "normal", Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: .9, Beta: .1}}, Top: 1}},
		{Family: "normal", Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: .9, Beta: .1}}, Top: 1}, Detect: &hafvf.Detect{}},
		{Family: "normal", Bank: hafvf.DefaultBank()},
		{Family: "normal", Bank: hafvf.DefaultBankFor("normal")},
		{Family: "normal", Bank: hafvf.DefaultBank(), Forgetting: .99},
		{Family: "normal", Bank: hafvf.DefaultBank(), Detect: &hafvf.Detect{}},
		{Family: "normal", Bank: hafvf.DefaultBank(), Detect: &hafvf.Detect{MinLength: 8}},
		{Family: "normal", Season: &usual.RhythmConfig{Seasons: usual.DefaultSeasons()}},
		{Family: "normal", Season: &usual.RhythmConfig{Seasons: usual.DefaultSeasons(), Zone: "Europe/Berlin"}},
	} {
		for _, c := range []keyed.Config{{Filter: f}, {Filter: f, Order: keyed.Arrival}, {Filter: f, TimeUnit: 1}} {
			id := fingerprint(c)
			if other, ok := seen[id]; ok {
				t.Errorf("%+v and %+v have the fingerprint %s", c, other, id)
			}
			seen[id] = c
		}
	}
	paper := hafvf.Config{Family: "normal", Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: .9, Beta: .1}, {Alpha: 1, Beta: 1}}, Top: 1}}
	if a, b := fingerprint(keyed.Config{Filter: hafvf.Config{Family: "normal"}}), fingerprint(keyed.Config{Filter: paper, Order: keyed.EventTime}); a != b {
		t.Errorf("defaults have the fingerprint %s, their explicit values %s", a, b)
	}
	// A state does not depend on holidays, which users add every year, nor on the lateness.
	season := hafvf.Config{Family: "normal", Season: &usual.RhythmConfig{Seasons: usual.DefaultSeasons()}}
	holidays := season
	holidays.Season = &usual.RhythmConfig{Seasons: usual.DefaultSeasons(), Holidays: []string{"2026-12-25"}}
	for _, c := range []keyed.Config{{Filter: holidays}, {Filter: season, Lateness: time.Hour}} {
		if fingerprint(keyed.Config{Filter: season}) != fingerprint(c) {
			t.Errorf("%+v has another fingerprint", c)
		}
	}
}
