package keyed

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/expect"
)

// migrated feeds observations to a key under oldCfg, and migrates its state to newCfg.
func migrated(t *testing.T, oldCfg, newCfg Config, observations []Observation) (b []byte, carried string, err error) {
	t.Helper()
	est := newEstimator(t, oldCfg)
	track := est.NewTrack("k")
	for _, o := range observations {
		est.Estimate(track, o)
	}
	state, _ := track.AppendBinary(nil)
	_, written := oldCfg.Settings()("k")
	m := newMigrator(t, newCfg)
	b, parts, err := m.Migrate("k", state, written)
	if carried = parts.String(); carried == "" && err == nil && !bytes.Equal(b, state) {
		t.Error("a state that needs no migration has changed")
	}
	return b, carried, err
}

func TestMigrateRefuses(t *testing.T) {
	normal := Config{Filter: hafvf.Config{Family: "normal"}}
	in := shifting(30)
	for want, newCfg := range map[string]Config{
		"another Filter.Family": {Filter: hafvf.Config{Family: "bernoulli"}},
		"another Filter.Scale":  {Filter: hafvf.Config{Family: "normal", Scale: hafvf.Log}},
	} {
		if _, _, err := migrated(t, normal, newCfg, in); !errors.Is(err, ErrOtherConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	ar := func(order int) Config {
		return Config{Filter: hafvf.Config{Family: "ar", Prior: expfam.Params{"order": order}}}
	}
	if _, _, err := migrated(t, ar(2), ar(3), in); !errors.Is(err, ErrOtherConfig) || !strings.Contains(err.Error(), "other dimensions") {
		t.Error(err)
	}

	if _, carried, err := migrated(t, normal, normal, in); err != nil || carried != "" {
		t.Errorf("the same: %s, %v", carried, err)
	}
	// Columns fix the dimension, which messages leave open. Here it stays the same.
	if _, carried, err := migrated(t, normal, Config{Filter: hafvf.Config{Family: "normal", Dim: 1}}, in); err != nil || carried != "samples and levels kept" {
		t.Errorf("%s, %v", carried, err)
	}

	waits := Config{Filter: hafvf.Config{Family: "normal"}, Lateness: time.Hour}
	est := newEstimator(t, waits)
	e := KeyState{Track: est.NewTrack("k"), est: est}
	if _, err := e.admit(&in[0]); err != nil {
		t.Fatal(err)
	}
	_, written := waits.Settings()("k")
	m, _ := NewMigrator(Config{Filter: waits.Filter, Order: Arrival})
	if _, _, err := m.Migrate("k", e.append(nil), written); !errors.Is(err, ErrOtherConfig) || !strings.Contains(err.Error(), "1 observation waits in it") {
		t.Error(err)
	}
	if _, _, err := m.Migrate("k", e.append(nil), `{"order":"event_time","colour":1}`); err == nil || !strings.Contains(err.Error(), "colour") {
		t.Error(err)
	}
}

// Errors name the settings that differ as the user wrote them: fields in the library, keys in a config.
func TestErrorsNameSettings(t *testing.T) {
	before := Recommended("normal")
	for _, c := range []struct {
		change      func(*Config)
		field, keys string
	}{
		{func(c *Config) { c.Filter.WarmUp = 60 }, "Filter.WarmUp", "model.warm_up"},
		{func(c *Config) { c.Filter.WarmUp = 0 }, "Filter.Prior", "model.prior"},
		{func(c *Config) { c.Filter.Forgetting, c.TimeUnit = .5, time.Hour }, "Filter.Forgetting and TimeUnit", "bank_forgetting and time_unit"},
	} {
		state := expect.Get(newEstimator(t, before).NewTrack("k").AppendBinary(nil))(t)
		_, written := before.Settings()("k")
		after := before
		c.change(&after)
		for nameKeys, want := range map[bool]string{false: c.field, true: c.keys} {
			after.NameKeys = nameKeys
			_, err := newMigrator(t, after).Check("k", state, written)
			if err == nil || !strings.HasSuffix(err.Error(), "it was written with other "+want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
	before.Keys = []Rule{{Match: "t*"}}
	_, err := NewEstimator(before)
	expect.Error(t, err, "Keys[0].Filter has no Family: it needs all settings of its filter, and the family of all other keys, normal")
}
