package keyed

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/usual"
	"hafvf/internal/testing/expect"
)

// The evidence is the sum of what the estimates say, bit for bit, and takes no memory of its own for
// an observation.
func TestEvidence(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var all []Observation
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 200 {
		at = at.Add(time.Duration(1+rng.IntN(3)) * time.Hour)
		x := 1 + float64(rng.IntN(3))
		if i%17 == 0 {
			x = math.NaN()
		}
		all = append(all, Value(at, "", x))
	}
	for name, cfg := range map[string]Config{
		"normal":           {Filter: hafvf.Config{Family: "normal"}},
		"a scale, a unit":  {Filter: hafvf.Config{Family: "normal", Scale: hafvf.Log}, TimeUnit: time.Hour},
		"poisson":          {Filter: hafvf.Config{Family: "poisson"}},
		"ar":               {Filter: hafvf.Config{Family: "ar", Prior: hafvf.Params{"order": 2.}}},
		"normal, a season": {Filter: hafvf.Config{Family: "normal", Season: &usual.RhythmConfig{Seasons: []usual.Season{{Period: 24 * time.Hour, Harmonics: 2}}, Zone: "UTC"}}},
	} {
		est := expect.Get(NewEstimator(cfg))(t)
		track, want := est.NewTrack("k"), 0.
		for _, o := range all {
			if e := est.Estimate(track, o); !e.Missing {
				want += e.LogPredictive
			}
		}
		expect.Same(t, want, est.Evidence("k", all), name)
	}
	est := expect.Get(NewEstimator(Config{Filter: hafvf.Config{Family: "normal"}}))(t)
	few, many := testing.AllocsPerRun(5, func() { est.Evidence("k", all[:20]) }), testing.AllocsPerRun(5, func() { est.Evidence("k", all) })
	if many > few+5 {
		t.Errorf("%g allocations for 20 observations, %g for 200", few, many)
	}
}
