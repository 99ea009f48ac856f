package keyed

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
)

func newEstimator(t testing.TB, cfg Config) *Estimator {
	t.Helper()
	est, err := NewEstimator(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return est
}

// jumping returns 200 observations with gaps, an outlier at 80 and a change at 100.
func jumping() []Observation {
	rng := rand.New(rand.NewPCG(1, 3))
	all := make([]Observation, 200)
	for i := range all {
		x := rng.NormFloat64()
		switch {
		case i%17 == 3:
			x = nan
		case i == 80:
			x += 20
		case i >= 100:
			x += 8
		}
		all[i] = Value(time.Unix(int64(i+i/7), 0).UTC(), "id", x)
	}
	return all
}

// lagging is detecting with a member on the last value.
var lagging = func() Config {
	cfg := detecting
	cfg.Filter.Bank = hafvf.DefaultBankOf("normal")
	return cfg
}()

// A track that is saved and restored in another estimator goes on as if nothing had
// happened: the rest of its estimates are the same, byte for byte.
func TestTrackRestores(t *testing.T) {
	in := jumping()
	for name, cfg := range map[string]Config{
		"default":              {Filter: hafvf.Config{Family: "normal"}},
		"arrival":              {Filter: hafvf.Config{Family: "normal"}, Order: Arrival},
		"rule":                 {Filter: hafvf.Config{Family: "normal"}, Keys: []Rule{{Match: "k*", Filter: hafvf.Config{Family: "normal", Member: &hafvf.Member{Top: .9}}}}},
		"sequence":             {Filter: hafvf.Config{Family: "ar", Prior: expfam.Params{"order": 3}}},
		"detecting":            detecting,
		"last value":           lagging,
		"season":               seasonal,
		"season, no detection": {Filter: hafvf.Config{Family: "normal", Season: daily}},
		"cooldown":             {Filter: detecting.Filter, Alerts: AlertConfig{Cooldown: time.Minute}},
	} {
		// Before anything, in the warm-up, in an outlier, and at a change.
		for _, split := range []int{0, 1, 5, 81, 103} {
			straight, before := newEstimator(t, cfg), newEstimator(t, cfg)
			want, track := straight.NewTrack("k"), before.NewTrack("k")
			for _, o := range in[:split] {
				straight.Estimate(want, o)
				before.Estimate(track, o)
			}
			saved, err := track.AppendBinary([]byte("head"))
			if err != nil || string(saved[:4]) != "head" {
				t.Fatal(err)
			}
			after := newEstimator(t, cfg)
			got, err := after.RestoreTrack("k", saved[4:])
			if err != nil {
				t.Fatal(err)
			}
			for i, o := range in[split:] {
				a, b := appendEstimate(nil, straight.Estimate(want, o)), appendEstimate(nil, after.Estimate(got, o))
				if !bytes.Equal(a, b) {
					t.Fatalf("%s, saved after %d: estimate %d is another", name, split, split+i)
				}
			}
			a, _ := want.AppendBinary(nil)
			if b, _ := got.AppendBinary(nil); !bytes.Equal(a, b) {
				t.Errorf("%s, saved after %d: the tracks end different", name, split)
			}
		}
	}
}

// What is not a track of the key under the configuration is refused.
func TestRestoreTrackRefuses(t *testing.T) {
	est, e := keeping(t, detecting)
	saved, _ := e.Track.AppendBinary(nil)
	if _, err := est.RestoreTrack("k", saved); err != nil {
		t.Fatal(err)
	}
	other := detecting
	other.Filter.Bank = other.Filter.Bank[:2]
	if _, err := newEstimator(t, other).RestoreTrack("k", saved); !errors.Is(err, ErrOtherConfig) {
		t.Errorf("another configuration: %v", err)
	}
	for name, other := range map[string]*usual.RhythmConfig{"none": nil, "of a week": {Seasons: usual.DefaultSeasons()}} {
		cfg := seasonal
		_, e := keeping(t, cfg)
		saved, _ := e.Track.AppendBinary(nil)
		if _, err := newEstimator(t, cfg).RestoreTrack("k", saved); err != nil {
			t.Fatal(err)
		}
		if _, err := newEstimator(t, cfg).RestoreTrack("k", saved[:len(saved)-1]); err == nil {
			t.Error("a state cut short is accepted")
		}
		cfg.Filter.Season = other
		if _, err := newEstimator(t, cfg).RestoreTrack("k", saved); !errors.Is(err, ErrOtherConfig) {
			t.Errorf("season %s: %v", name, err)
		}
	}
	ruled := detecting
	ruled.Keys = []Rule{{Match: "r*", Filter: other.Filter}}
	if _, err := newEstimator(t, ruled).RestoreTrack("k", saved); err != nil {
		t.Errorf("another key's rule: %v", err)
	}
	if _, err := newEstimator(t, ruled).RestoreTrack("r", saved); !errors.Is(err, ErrOtherConfig) {
		t.Errorf("a key of another rule: %v", err)
	}
	if _, err := est.RestoreTrack("k", e.append(nil)); err == nil || !strings.Contains(err.Error(), "1 observations wait in the state") {
		t.Errorf("a state in which an observation waits: %v", err)
	}
	for n := range saved {
		if _, err := est.RestoreTrack("k", saved[:n]); err == nil {
			t.Errorf("%d of %d bytes are accepted", n, len(saved))
		}
	}
	wide := Entity{Track: est.NewTrack("k")}
	wide.settled, wide.warmUp = false, []numbered{{1, Observation{X: [][]float64{{1, 2}}}}}
	plain := newEstimator(t, Config{Filter: hafvf.Config{Family: "normal"}})
	cold := Entity{Track: plain.NewTrack("k")}
	cold.settled = false
	for what, c := range map[string]struct {
		est *Estimator
		b   []byte
	}{"a warm-up of other vectors": {est, wide.append(nil)}, "a warm-up without one": {plain, cold.append(nil)}} {
		if _, err := c.est.RestoreTrack("k", c.b); err == nil || !strings.Contains(err.Error(), "corrupt") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// An estimator has the documented defaults, whoever makes it.
func TestEstimatorDefaults(t *testing.T) {
	if est := newEstimator(t, Config{Filter: hafvf.Config{Family: "normal"}}); est.cfg.Order != EventTime {
		t.Errorf("order %q, documented %q", est.cfg.Order, EventTime)
	}
	sm, err := NewSmoother(SmoothConfig{Filter: hafvf.Config{Family: "normal"}, Gap: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if sm.cfg.Max != 10_000_000 || sm.cfg.Odds != 10 {
		t.Errorf("max %d, odds %g", sm.cfg.Max, sm.cfg.Odds)
	}
}
