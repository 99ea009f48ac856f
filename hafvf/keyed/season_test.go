package keyed

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
)

var daily = &usual.RhythmConfig{Seasons: []usual.Season{{Period: 24 * time.Hour, Harmonics: 2}}}

var seasonal = func() Config {
	cfg := lagging
	cfg.Filter.Season = daily
	return cfg
}()

// seasonalConfigs has every family that supports a season, each with observations.
var seasonalConfigs = map[string]struct {
	cfg hafvf.Config
	x   func(rng *rand.Rand, season float64) []float64
}{
	"normal":          {hafvf.Config{Family: "normal"}, func(rng *rand.Rand, s float64) []float64 { return []float64{100 + 3*s + rng.NormFloat64()} }},
	"normal, detects": {hafvf.Config{Family: "normal", Bank: hafvf.DefaultBankFor("normal"), Detect: &hafvf.Detect{}}, func(rng *rand.Rand, s float64) []float64 { return []float64{3*s + rng.NormFloat64()} }},
	"ar":              {hafvf.Config{Family: "ar", Prior: expfam.Params{"order": 1., "intercept": true}}, func(rng *rand.Rand, s float64) []float64 { return []float64{3*s + rng.NormFloat64()} }},
	"regression": {hafvf.Config{Family: "regression", Dim: 2}, func(rng *rand.Rand, s float64) []float64 {
		u := rng.NormFloat64()
		return []float64{u, 3*s + 2*u + rng.NormFloat64()}
	}},
	"mvnormal": {hafvf.Config{Family: "mvnormal", Dim: 2, Member: &hafvf.Member{Top: 1}}, func(rng *rand.Rand, s float64) []float64 {
		return []float64{3*s + rng.NormFloat64(), 5 - 2*s + rng.NormFloat64()}
	}},
	"exponential": {hafvf.Config{Family: "exponential"}, func(rng *rand.Rand, s float64) []float64 { return []float64{math.Exp(s) * rng.ExpFloat64()} }},
	"poisson": {hafvf.Config{Family: "poisson"}, func(rng *rand.Rand, s float64) []float64 {
		return []float64{distuv.Poisson{Lambda: 5 * math.Exp(s), Src: rng}.Rand()}
	}},
}

// The predictive density integrates to one over x, and has the predicted mean and standard deviation, both while
// the season is hardly known and later.
func TestSeasonalPredictive(t *testing.T) {
	for name, c := range seasonalConfigs {
		for _, n := range []int{12, 100} {
			cfg := c.cfg
			cfg.Season = daily
			if cfg.Detect == nil {
				cfg.Member = &hafvf.Member{Top: 1} // with levels, the moments are at the mean weight
			}
			est := newEstimator(t, Config{Filter: cfg})
			track, rng := est.NewTrack("k"), rand.New(rand.NewPCG(7, 8))
			var next Observation
			for i := range n + 1 {
				now := time.Unix(int64(i)*3600, 0).UTC()
				next = Observation{Time: now, X: [][]float64{c.x(rng, math.Sin(2*math.Pi*float64(i)/24))}}
				if i < n {
					est.Estimate(track, next)
				}
			}
			saved, _ := track.AppendBinary(nil)
			predict := func(x []float64) Estimate {
				track := restored(t, est, saved)
				return est.Estimate(track, Observation{Time: next.Time, X: [][]float64{x}})
			}
			want := predict(next.X[0]).Predicted
			// x = m + sinh u, or eᵘ for a positive value.
			outputs := len(want.Mean)
			step := .02
			if outputs > 1 {
				step = .1
			}
			total, mean, square := 0., 0., 0.
			var sum func(x []float64, free []int, volume float64)
			sum = func(x []float64, free []int, volume float64) {
				if len(free) == 0 {
					p := math.Exp(predict(x).LogPredictive) * volume
					d := x[len(x)-1] - want.Mean[outputs-1]
					total, mean, square = total+p, mean+p*d, square+p*d*d
					return
				}
				if cfg.Family == "poisson" {
					for k := range 400 {
						sum([]float64{float64(k)}, nil, 1)
					}
					return
				}
				for u := -8.; u <= 8; u += step {
					y := append([]float64{}, x...)
					coordinate := free[0]
					if cfg.Family == "exponential" {
						y[coordinate] = math.Exp(u)
						sum(y, free[1:], volume*step*y[coordinate])
						continue
					}
					y[coordinate] = want.Mean[coordinate-(len(x)-outputs)] + math.Sinh(u)
					sum(y, free[1:], volume*step*math.Cosh(u))
				}
			}
			x := append([]float64{}, next.X[0]...)
			free := []int{len(x) - 1}
			if outputs > 1 {
				free = []int{0, 1}
			}
			sum(x, free, 1)
			if math.Abs(total-1) > 1e-3 {
				t.Errorf("%s after %d: the predictive integrates to %g", name, n, total)
			}
			if strings.Contains(name, "detects") {
				continue // the prediction does not include a new excursion
			}
			sd := want.SD[outputs-1]
			if math.Abs(mean) > .01*sd || math.Abs(math.Sqrt(square)/sd-1) > .02 {
				t.Errorf("%s after %d: mean %g and standard deviation %g, predicted %g and %g", name, n, want.Mean[outputs-1]+mean, math.Sqrt(square), want.Mean[outputs-1], sd)
			}
		}
	}
}

// A season needs times.
func TestSeasonNeedsTimes(t *testing.T) {
	est := newEstimator(t, Config{Filter: seasonal.Filter, Order: Arrival})
	if err := est.Check("k", Value(time.Time{}, "", 1)); err == nil || !strings.Contains(err.Error(), "no time") {
		t.Errorf("without a time: %v", err)
	}
	if err := est.Check("k", Value(time.Unix(1, 0), "", 1)); err != nil {
		t.Error(err)
	}
	sessions := SmoothConfig{Filter: hafvf.Config{Family: "normal", Season: daily, Member: &hafvf.Member{Top: 1}}, Gap: time.Minute}
	if _, err := NewSmoother(sessions); err == nil || !strings.Contains(err.Error(), "season") {
		t.Errorf("sessions: %v", err)
	}
}
