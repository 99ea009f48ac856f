package keyed

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/usual"
	"hafvf/internal/testing/expect"
)

// What Learn and Predict say is what the estimates say, bit for bit, and takes no memory of its own for an
// observation. Predict leaves the track as it is.
func TestLearn(t *testing.T) {
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
		track, learned := est.NewTrack("k"), est.NewTrack("k")
		for i, o := range all {
			to := Moments{make([]float64, 1), make([]float64, 1)}
			est.Predict(learned, o.Time, to)
			e := est.Estimate(track, o)
			expect.Same(t, fmt.Sprint(e.Predicted), fmt.Sprint(to), name, ", observation ", i)
			nats := est.Learn(learned, o)
			if e.Missing {
				e.LogPredictive = 0
			}
			expect.Same(t, e.LogPredictive, nats, name, ", observation ", i)
		}
	}
	est := expect.Get(NewEstimator(Config{Filter: hafvf.Config{Family: "normal"}}))(t)
	track, to := est.NewTrack("k"), Moments{make([]float64, 1), make([]float64, 1)}
	if n := testing.AllocsPerRun(20, func() { est.Predict(track, at, to); est.Learn(track, all[1]) }); n > 0 {
		t.Errorf("%g allocations for an observation", n)
	}
}
