package keyed

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/usual"
	"hafvf/internal/testing/expect"
)

func newEstimator(t expect.T, cfg Config) *Estimator {
	t.Helper()
	return expect.Get(NewEstimator(cfg))(t)
}

func newMigrator(t expect.T, cfg Config) *Migrator {
	t.Helper()
	return expect.Get(NewMigrator(cfg))(t)
}

// open returns the KeyState of key k from a state; nil for a new key.
func open(t expect.T, est *Estimator, state []byte) KeyState {
	t.Helper()
	return expect.Get(est.Open("k", state))(t)
}

// restored returns the track of key k from a state.
func restored(t expect.T, est *Estimator, state []byte) *Track {
	t.Helper()
	return expect.Get(est.RestoreTrack("k", state))(t)
}

// fed returns the estimates of a key under cfg, with a value every step.
func fed(t expect.T, cfg Config, n int, step time.Duration, x func(i int) float64) (estimates []Estimate) {
	t.Helper()
	est := newEstimator(t, cfg)
	track := est.NewTrack("k")
	for i := range n {
		estimates = append(estimates, est.Estimate(track, Value(time.Unix(0, 0).UTC().Add(time.Duration(i)*step), "", x(i))))
	}
	return estimates
}

// take passes an observation that is not late to a KeyState.
func take(t expect.T, e *KeyState, o *Observation) {
	t.Helper()
	expect.Get(e.take(o))(t)
}

func fatal(t expect.T, err error) {
	t.Helper()
	expect.OK(t, err)
}

// lagging is detecting with the default bank, which has a member on the last value.
var lagging = func() Config {
	cfg := detecting
	cfg.Filter.Bank = hafvf.DefaultBankFor("normal")
	return cfg
}()

// RestoreTrack rejects bytes that are not a track of the key under the configuration.
func TestRestoreTrackRefuses(t *testing.T) {
	est, e := filledKeyState(t, detecting)
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
		_, e := filledKeyState(t, cfg)
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
	wide := KeyState{Track: est.NewTrack("k")}
	wide.priorSet, wide.warmUp = false, []numberedObservation{{1, Observation{X: [][]float64{{1, 2}}}}}
	plain := newEstimator(t, Config{Filter: hafvf.Config{Family: "normal"}})
	cold := KeyState{Track: plain.NewTrack("k")}
	cold.priorSet = false
	for what, c := range map[string]struct {
		est *Estimator
		b   []byte
	}{"a warm-up of other vectors": {est, wide.append(nil)}, "a warm-up without one": {plain, cold.append(nil)}} {
		if _, err := c.est.RestoreTrack("k", c.b); err == nil || !strings.Contains(err.Error(), "corrupt") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// must returns v. It panics on an error, which cannot occur here.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The learning rate of a bank is the mean of its filters' rates, weighted by their shares after the observation. It
// rises after a jump.
func TestLearningRateOfBank(t *testing.T) {
	cfg := Config{Filter: hafvf.Config{Family: "normal", Bank: []hafvf.Member{{Levels: []hafvf.Beta{{Alpha: .9, Beta: .1}, {Alpha: 1, Beta: 1}}, Top: 1}, {Top: .98}}, Forgetting: .999}}
	est := newEstimator(t, cfg)
	track := est.NewTrack("k")
	prior := est.chains.ofKey("k").bank.Model().PriorMemory()
	before := 0.
	for i := range 200 {
		e := est.Estimate(track, Value(time.Unix(int64(i), 0), "", float64(i*7919%101)/50+float64(i/150*20)))
		want := 0.
		for _, m := range e.Bank {
			want += m.Share / (m.Memory + prior) // each filter has learned 1 from one observation
		}
		if math.Abs(e.LearningRate-want) > 1e-12 {
			t.Fatalf("observation %d: %g, want %g", i, e.LearningRate, want)
		}
		if i == 149 {
			before = e.LearningRate
		}
		if i == 150 && e.LearningRate < 5*before {
			t.Errorf("%g before a jump, and %g after it", before, e.LearningRate)
		}
	}
}
