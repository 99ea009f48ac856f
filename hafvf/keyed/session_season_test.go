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
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/streams"
)

// A daily rhythm is neither drift nor a change: with a season, a session of ten days has the one change that was
// made, in the level or in a coefficient, and estimates follow the rhythm. The coefficients are those of the data,
// even if the regressor has a rhythm of its own.
func TestSessionSeason(t *testing.T) {
	expect.Long(t, "sessions of ten days")
	const perDay, days = 96, 10
	const n, edge = perDay * days, 6*perDay + 30
	wave := func(i int, shift float64) float64 { return math.Sin(2*math.Pi*float64(i)/perDay + shift) }
	twice := func(i int) float64 { return wave(i, 0) + .5*math.Cos(4*math.Pi*float64(i)/perDay) }
	after := func(i int) float64 { return float64(min(1, i/edge)) }
	level := func(i int) float64 { return 50 + 5*twice(i) + 3*after(i) }
	last := 0.
	for _, c := range []struct {
		filter hafvf.Config
		// step returns the observation, and its mean given the regressors.
		step         func(rng *rand.Rand, i int) (x []float64, mean float64)
		parts        int       // maximum number of parts of the session
		maxError     float64   // maximum root mean square error of the estimates, relative to the mean if there is no regressor
		coefficients []float64 // first coefficient before and after the change
	}{
		{hafvf.Config{Family: "normal"}, func(rng *rand.Rand, i int) ([]float64, float64) {
			return []float64{level(i) + rng.NormFloat64()}, level(i)
		}, 3, .005, nil},
		{hafvf.Config{Family: "mvnormal", Prior: expfam.Params{"mu": []float64{0, 0}}}, func(rng *rand.Rand, i int) ([]float64, float64) {
			return []float64{level(i) + rng.NormFloat64(), rng.NormFloat64()}, level(i)
		}, 3, .005, nil},
		{hafvf.Config{Family: "poisson"}, func(rng *rand.Rand, i int) ([]float64, float64) {
			mean := 20 * math.Exp(.8*twice(i)+.7*after(i))
			return []float64{streams.Poisson(rng, mean)}, mean
		}, 3, .03, nil},
		{hafvf.Config{Family: "exponential"}, func(rng *rand.Rand, i int) ([]float64, float64) {
			mean := 20 * math.Exp(.8*twice(i)+3*after(i))
			return []float64{mean * rng.ExpFloat64()}, mean
		}, 3, .15, nil},
		{hafvf.Config{Family: "regression", Dim: 3}, func(rng *rand.Rand, i int) ([]float64, float64) {
			u := 20 + 3*wave(i, 1) + rng.NormFloat64()
			mean := 2*u + 10 + 5*wave(i, 0) + 4*after(i)
			return []float64{u, 1, mean + rng.NormFloat64()}, mean
		}, 1, .4, []float64{2, 2}},
		{hafvf.Config{Family: "ar", Prior: expfam.Params{"order": 1, "intercept": true}}, func(rng *rand.Rand, i int) ([]float64, float64) {
			before := .6 * last * (1 - 2*after(i))
			last = before + rng.NormFloat64()
			return []float64{5*wave(i, 0) + last}, 5*wave(i, 0) + before
		}, 1, .4, []float64{.6, -.6}},
	} {
		t.Run(c.filter.Family, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 30))
			var observations []Observation
			means := make([]float64, n)
			for i := range n {
				var x []float64
				x, means[i] = c.step(rng, i)
				switch {
				case i%211 == 100:
					x = []float64{math.NaN()}
				case i%173 == 90 && (c.filter.Family == "normal" || c.filter.Family == "mvnormal"):
					x[0] += 30
				}
				observations = append(observations, Observation{Time: time.Unix(int64(i)*86400/perDay, 0).UTC(), X: [][]float64{x}})
			}
			c.filter.WarmUp, c.filter.Season = 50, daily
			for parts := 1; parts <= c.parts; parts += 2 {
				var changes []int
				square, covered, count := 0., 0., 0.
				for _, s := range smoothed(t, SmoothConfig{Gap: time.Hour, Max: (n + parts - 1) / parts, Filter: c.filter}, observations) {
					i := int(s.N - 1)
					if s.Change {
						changes = append(changes, i)
					}
					if max(i-edge, edge-i) <= 10 || c.coefficients != nil && s.Missing {
						continue // the position of the change is uncertain, or there are no regressors
					}
					diff := s.Estimate.Mean[0] - means[i]
					if count++; math.Abs(diff) <= 2*s.Estimate.SD[0] {
						covered++
					}
					if c.coefficients == nil {
						diff /= means[i]
					} else if want := c.coefficients[i/edge]; (i == edge/2 || i == (n+edge)/2) && math.Abs(s.Posterior[0]-want) > .15 {
						t.Errorf("coefficient at %d is %.3f, want %g", i, s.Posterior[0], want)
					}
					square += diff * diff
				}
				if !slices.EqualFunc(changes, []int{edge}, func(a, b int) bool { return max(a-b, b-a) <= 5 }) {
					t.Errorf("%d parts: changes %v, want one near %d", parts, changes, edge)
				}
				if rms := math.Sqrt(square / count); !(rms < c.maxError) || c.coefficients != nil && !(covered > .85*count) {
					t.Errorf("%d parts: estimates are off by %.3g, %g of %g within two standard deviations", parts, rms, covered, count)
				}
			}
		})
	}
}

// The smoother ignores the season of a session shorter than two periods, which it could not tell from segments.
func TestSessionSeasonShort(t *testing.T) {
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
		run := func(season *usual.RhythmConfig) []Smoothed {
			return smoothed(t, SmoothConfig{Gap: time.Hour, Filter: hafvf.Config{Family: family, WarmUp: 50, Season: season}}, observations)
		}
		withSeason, withoutSeason := run(&usual.RhythmConfig{Seasons: usual.DefaultSeasons()}), run(nil)
		for i := range withSeason {
			if a, b := withSeason[i], withoutSeason[i]; math.Abs(a.Estimate.Mean[0]-b.Estimate.Mean[0]) > 1e-9 || a.Change != b.Change {
				t.Fatalf("%s, %d: %+v, without a season %+v", family, i, a, b)
			}
		}
	}
}

// restore adds the uncertainty of the season to a standard deviation, unless the uncertainty is infinite.
func TestRestoreSeason(t *testing.T) {
	fs := &fittedSeason{sessionSeason: &sessionSeason{coordinates: 1}, mean: []float64{2, 2}, variance: []float64{.25, math.Inf(1)}}
	for i, sd := range []float64{math.Sqrt(5), 1} {
		m := Moments{[]float64{5}, []float64{1}}
		fs.restore(i, m, Moments{}, []float64{4})
		if m.Mean[0] != 7 || math.Abs(m.SD[0]-sd) > 1e-12 {
			t.Errorf("observation %d: %+v, want the mean 7 and the sd %g", i, m, sd)
		}
	}
}
