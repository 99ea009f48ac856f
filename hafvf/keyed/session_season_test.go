package keyed

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
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
		prior expfam.Params
		mean  func(i int, after float64) float64 // after is 1 from the edge on
		draw  func(rng *rand.Rand, mean float64) []float64
	}{
		"normal": {nil, func(i int, after float64) float64 { return 50 + 5*wave(i) + 3*after },
			func(rng *rand.Rand, mean float64) []float64 { return []float64{mean + rng.NormFloat64()} }},
		"mvnormal": {expfam.Params{"mu": []float64{0, 0}}, func(i int, after float64) float64 { return 50 + 5*wave(i) + 3*after },
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
					Family: family, Prior: c.prior, WarmUp: 50, Season: &usual.RhythmConfig{Seasons: []usual.Season{{Period: 24 * time.Hour, Harmonics: 2}}},
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

// Regressions and autoregressions have a season too: the change is the one that was made,
// estimates follow the rhythm, and the coefficients are those of the data, also where the
// regressor has a rhythm of its own.
func TestSeasonsOfRegressors(t *testing.T) {
	const perDay, days = 96, 10
	const n, edge = perDay * days, 6*perDay + 30
	wave := func(i int, shift float64) float64 { return math.Sin(2*math.Pi*float64(i)/perDay + shift) }
	season := &usual.RhythmConfig{Seasons: []usual.Season{{Period: 24 * time.Hour, Harmonics: 2}}}
	for name, c := range map[string]struct {
		filter hafvf.Config
		// step returns the observation and the mean that it has, given its regressors.
		step         func(rng *rand.Rand, i int) (x []float64, mean float64)
		coefficients [2]float64 // the first one, before the change and after it
	}{
		"regression": {
			hafvf.Config{Family: "regression", Dim: 3, Season: season},
			func(rng *rand.Rand, i int) ([]float64, float64) {
				u := 20 + 3*wave(i, 1) + rng.NormFloat64()
				mean := 2*u + 10 + 5*wave(i, 0) + 4*float64(min(1, i/edge))
				return []float64{u, 1, mean + rng.NormFloat64()}, mean
			},
			[2]float64{2, 2},
		},
		"ar": {
			hafvf.Config{Family: "ar", Prior: expfam.Params{"order": 1, "intercept": true}, Season: season},
			func() func(rng *rand.Rand, i int) ([]float64, float64) {
				last := 0.
				return func(rng *rand.Rand, i int) ([]float64, float64) {
					before := .6 * last * float64(1-2*min(1, i/edge))
					last = before + rng.NormFloat64()
					level := 5 * wave(i, 0)
					return []float64{level + last}, level + before
				}
			}(),
			[2]float64{.6, -.6},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 30))
			var observations []Observation
			means := make([]float64, n)
			for i := range n {
				var x []float64
				x, means[i] = c.step(rng, i)
				if i%211 == 100 {
					x = []float64{math.NaN()}
				}
				observations = append(observations, Observation{Time: time.Unix(int64(i)*86400/perDay, 0).UTC(), X: [][]float64{x}})
			}
			c.filter.WarmUp = 50
			sm, err := NewSmoother(SmoothConfig{Gap: time.Hour, Filter: c.filter})
			if err != nil {
				t.Fatal(err)
			}
			var changes []int
			square, covered, count := 0., 0., 0.
			sm.Smooth("k", observations, 0, func(s Smoothed) {
				i := int(s.N - 1)
				if s.Change {
					changes = append(changes, i)
				}
				if s.Missing || max(i-edge, edge-i) <= 10 {
					return
				}
				off := s.Estimate.Mean[0] - means[i]
				square += off * off
				count++
				if math.Abs(off) <= 2*s.Estimate.SD[0] {
					covered++
				}
				if i == edge/2 || i == (n+edge)/2 {
					if want := c.coefficients[i/edge]; math.Abs(s.Posterior[0]-want) > .15 {
						t.Errorf("coefficient at %d is %.3f, want %g", i, s.Posterior[0], want)
					}
				}
			})
			if !slices.EqualFunc(changes, []int{edge}, func(a, b int) bool { return max(a-b, b-a) <= 5 }) {
				t.Errorf("changes %v, want one at %d", changes, edge)
			}
			if rmse := math.Sqrt(square / count); !(rmse < .4) {
				t.Errorf("estimates are off by %.3g, the noise by 1", rmse)
			}
			if !(covered > .85*count) {
				t.Errorf("%g of %g means within two standard deviations", covered, count)
			}
			t.Logf("off by %.3g, %.3g covered", math.Sqrt(square/count), covered/count)
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
		run := func(season *usual.RhythmConfig) (all []Smoothed) {
			sm, err := NewSmoother(SmoothConfig{Gap: time.Hour, Filter: hafvf.Config{Family: family, WarmUp: 50, Season: season}})
			if err != nil {
				t.Fatal(err)
			}
			sm.Smooth("k", observations, 0, func(s Smoothed) { all = append(all, s) })
			return all
		}
		with, without := run(&usual.RhythmConfig{Seasons: usual.DefaultSeasons()}), run(nil)
		for i := range with {
			if a, b := with[i], without[i]; math.Abs(a.Estimate.Mean[0]-b.Estimate.Mean[0]) > 1e-9 || a.Change != b.Change {
				t.Fatalf("%s, %d: %+v, without a season %+v", family, i, a, b)
			}
		}
	}
}
