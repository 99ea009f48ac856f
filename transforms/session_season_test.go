package transforms

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hafvf/hafvf"
)

// A daily rhythm is neither drift nor edges: with the season a session of ten days has the
// one change that was made, in the level, and estimates follow the rhythm.
func TestSessionsHaveSeasons(t *testing.T) {
	const perDay, days = 96, 10
	const n = perDay * days
	edge := 6*perDay + 30
	wave := func(i int) float64 {
		at := 2 * math.Pi * float64(i) / perDay
		return math.Sin(at) + .5*math.Cos(2*at)
	}
	poisson := func(rng *rand.Rand, mean float64) float64 {
		k := 0.
		for at := rng.ExpFloat64(); at < mean; at += rng.ExpFloat64() {
			k++
		}
		return k
	}
	for family, c := range map[string]struct {
		prior hafvf.Params
		mean  func(i int, after float64) float64 // after is 1 from the edge on
		draw  func(rng *rand.Rand, mean float64) []float64
	}{
		"normal": {nil, func(i int, after float64) float64 { return 50 + 5*wave(i) + 3*after },
			func(rng *rand.Rand, mean float64) []float64 { return []float64{mean + rng.NormFloat64()} }},
		"mvnormal": {hafvf.Params{"mu": []float64{0, 0}}, func(i int, after float64) float64 { return 50 + 5*wave(i) + 3*after },
			func(rng *rand.Rand, mean float64) []float64 {
				return []float64{mean + rng.NormFloat64(), rng.NormFloat64()}
			}},
		"poisson": {nil, func(i int, after float64) float64 { return 20 * math.Exp(.8*wave(i)+.7*after) },
			func(rng *rand.Rand, mean float64) []float64 { return []float64{poisson(rng, mean)} }},
		"exponential": {nil, func(i int, after float64) float64 { return 20 * math.Exp(.8*wave(i)+3*after) },
			func(rng *rand.Rand, mean float64) []float64 { return []float64{mean * rng.ExpFloat64()} }},
	} {
		t.Run(family, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 30))
			var observations []Observation
			for i := range n {
				x := c.draw(rng, c.mean(i, float64(min(1, i/edge))))
				switch {
				case i%211 == 100:
					x = []float64{math.NaN()}
				case i%173 == 90 && (family == "normal" || family == "mvnormal"):
					x[0] += 30
				}
				observations = append(observations, Observation{Time: time.Unix(int64(i)*86400/perDay, 0).UTC(), X: [][]float64{x}})
			}
			for _, parts := range []int{1, 3} {
				cfg := SmoothConfig{Gap: time.Hour, Max: (n + parts - 1) / parts, Filter: hafvf.Config{
					Family: family, Prior: c.prior, WarmUp: 50, Season: &hafvf.RhythmConfig{Seasons: []hafvf.Season{{Period: 24 * time.Hour, Harmonics: 2}}},
				}}
				sm, err := NewSmoother(cfg)
				if err != nil {
					t.Fatal(err)
				}
				var changes []int
				off, covered := 0., 0
				sm.Smooth("k", observations, 0, func(s Smoothed) {
					i := int(s.N - 1)
					if s.Change {
						changes = append(changes, i)
					}
					mean := c.mean(i, float64(min(1, i/edge)))
					relative := (s.Estimate.Mean[0] - mean) / mean
					if max(i-edge, edge-i) > 10 { // its place is uncertain
						off += relative * relative / n
					}
					if math.Abs(s.Estimate.Mean[0]-mean) <= 2*s.Estimate.SD[0] {
						covered++
					}
				})
				if !slices.EqualFunc(changes, []int{edge}, func(a, b int) bool { return max(a-b, b-a) <= 3 }) {
					t.Errorf("%d parts: changes %v, want one about %d", parts, changes, edge)
				}
				limit := map[string]float64{"normal": .005, "mvnormal": .005, "poisson": .03, "exponential": .15}[family]
				if !(math.Sqrt(off) < limit) {
					t.Errorf("%d parts: estimates are off by %.3g of the mean", parts, math.Sqrt(off))
				}
				t.Logf("off by %.3g, %d of %d covered", math.Sqrt(off), covered, n)
			}
		})
	}
}

// A session shorter than two periods has no season that could be told from its segments.
func TestShortSessionsHaveNoSeason(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 30))
	var observations []Observation
	for i := range 200 {
		observations = append(observations, Value(time.Unix(int64(i)*600, 0).UTC(), "", rng.NormFloat64()+6*float64(i/100)))
	}
	for _, family := range []string{"normal", "poisson"} {
		if family == "poisson" {
			for i := range observations {
				observations[i].X[0][0] = math.Floor(math.Abs(observations[i].X[0][0]) * 5)
			}
		}
		run := func(season *hafvf.RhythmConfig) (all []Smoothed) {
			sm, err := NewSmoother(SmoothConfig{Gap: time.Hour, Filter: hafvf.Config{Family: family, WarmUp: 50, Season: season}})
			if err != nil {
				t.Fatal(err)
			}
			sm.Smooth("k", observations, 0, func(s Smoothed) { all = append(all, s) })
			return all
		}
		with, without := run(&hafvf.RhythmConfig{Seasons: hafvf.DefaultSeasons()}), run(nil)
		for i := range with {
			if a, b := with[i], without[i]; math.Abs(a.Estimate.Mean[0]-b.Estimate.Mean[0]) > 1e-9 || a.Change != b.Change {
				t.Fatalf("%s, %d: %+v, without a season %+v", family, i, a, b)
			}
		}
	}
}
