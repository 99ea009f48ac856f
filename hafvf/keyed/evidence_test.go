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

// Learn and Predict return the numbers of the estimates, bit for bit, without allocating memory. Predict does not
// change the track.
func TestLearnAndPredict(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var observations []Observation
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 200 {
		now = now.Add(time.Duration(1+rng.IntN(3)) * time.Hour)
		x := 1 + float64(rng.IntN(3))
		if i%17 == 0 {
			x = math.NaN()
		}
		observations = append(observations, Value(now, "", x))
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
		for i, o := range observations {
			predicted := Moments{make([]float64, 1), make([]float64, 1)}
			est.Predict(learned, o.Time, predicted)
			e := est.Estimate(track, o)
			expect.Same(t, fmt.Sprint(e.Predicted), fmt.Sprint(predicted), name, ", observation ", i)
			nats := est.Learn(learned, o)
			if e.Missing {
				e.LogPredictive = 0
			}
			expect.Same(t, e.LogPredictive, nats, name, ", observation ", i)
		}
	}
	est := expect.Get(NewEstimator(Config{Filter: hafvf.Config{Family: "normal"}}))(t)
	track, predicted := est.NewTrack("k"), Moments{make([]float64, 1), make([]float64, 1)}
	if n := testing.AllocsPerRun(20, func() { est.Predict(track, now, predicted); est.Learn(track, observations[1]) }); n > 0 {
		t.Errorf("%g allocations for an observation", n)
	}
}
