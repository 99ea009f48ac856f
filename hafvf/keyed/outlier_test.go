package keyed

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
	"hafvf/internal/testing/streams"
)

var sequences = flag.Int("sequences", 350, "number of sequences of TestAnyFiniteValue")

// A source generates ordinary observations of a family.
type source struct {
	family     string
	prior      expfam.Params // settings that an automatic prior does not set
	dim        int
	coordinate int // of the outlier
	draw       func(r *rand.Rand, before float64) []float64
}

var ordinary = []source{
	{"normal", nil, 0, 0, func(r *rand.Rand, _ float64) []float64 { return []float64{5 + r.NormFloat64()} }},
	{"poisson", nil, 0, 0, func(r *rand.Rand, _ float64) []float64 { return []float64{streams.Poisson(r, 5)} }},
	{"exponential", nil, 0, 0, func(r *rand.Rand, _ float64) []float64 { return []float64{5 * r.ExpFloat64()} }},
	{"mvnormal", nil, 2, 0, func(r *rand.Rand, _ float64) []float64 { return []float64{5 + r.NormFloat64(), r.NormFloat64() - 3} }},
	{"regression", nil, 3, 2, func(r *rand.Rand, _ float64) []float64 {
		u := r.NormFloat64()
		return []float64{1, u, 5 + 2*u + r.NormFloat64()}
	}},
	{"ar", expfam.Params{"order": 2, "intercept": true}, 0, 0, func(r *rand.Rand, before float64) []float64 {
		return []float64{5 + .6*(before-5) + r.NormFloat64()}
	}},
	{"bernoulli", nil, 0, 0, func(r *rand.Rand, _ float64) []float64 { return []float64{float64(r.IntN(2))} }},
	{"categorical", expfam.Params{"alpha": []float64{1, 1, 1}}, 0, 0, func(r *rand.Rand, _ float64) []float64 { return []float64{float64(r.IntN(3))} }},
}

// A stage feeds a source into tracks, with one observation every five minutes.
type stage struct {
	source
	est  *Estimator
	rng  *rand.Rand
	now  time.Time
	last float64
}

func newStage(t testing.TB, s source, cfg Config, seed uint64) *stage {
	t.Helper()
	est := newEstimator(t, cfg)
	return &stage{s, est, rand.New(rand.NewPCG(seed, 7)), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 5}
}

func (st *stage) next() Observation {
	st.now = st.now.Add(5 * time.Minute)
	x := st.draw(st.rng, st.last)
	st.last = x[len(x)-1]
	return Observation{Time: st.now, X: [][]float64{x}}
}

// config returns the configuration of a source: with an automatic prior, and with detection or the default levels.
func (s source) config(detect, season bool, scale hafvf.Scale) Config {
	cfg := Recommended(s.family)
	f := &cfg.Filter
	f.Dim, f.Prior, f.Scale = s.dim, s.prior, scale
	if !detect {
		f.Bank, f.Forgetting, f.Detect = nil, 0, nil
	}
	if season {
		f.Season = &usual.RhythmConfig{Seasons: usual.DefaultSeasons()}
	}
	return cfg
}

// One outlier of any size moves predictions by less than half a standard deviation, in the root mean square over
// streams, after ten ordinary observations; after twelve for an AR of order 2. With detection the outlier is not
// learned. Without detection, a filter with the default levels forgets at 10 standard deviations and more. It then
// knows the mean from ten observations, with an error of .3 to 1.2 standard deviations, so a larger outlier moves
// it no further. Without detection there is no such bound for a regression, which needs more than ten observations,
// and for an exponential distribution, in which large values are likely.
func TestOneOutlier(t *testing.T) {
	if testing.Short() {
		t.Skip("long under the race detector, which it gives nothing to see")
	}
	for _, s := range ordinary[:6] {
		for _, detect := range []bool{false, true} {
			if !detect && (s.family == "exponential" || s.family == "regression") {
				continue
			}
			for _, season := range []bool{false, true} {
				for _, scale := range []hafvf.Scale{hafvf.Linear, hafvf.Log1p} {
					if scale == hafvf.Log1p && s.family != "normal" {
						continue
					}
					t.Run(fmt.Sprintf("%s/detect=%v/season=%v/%s", s.family, detect, season, scale), func(t *testing.T) {
						t.Parallel()
						bound := .5
						if !detect {
							bound = 1.5
						}
						for _, n := range []int{51, 120} {
							for size, moved := range s.movedBy(t, s.config(detect, season, scale), n) {
								if !(moved < bound) {
									t.Errorf("after %d observations: an outlier of %g moves predictions by %.3g standard deviations", n, size, moved)
								}
							}
						}
					})
				}
			}
		}
	}
}

// movedBy returns by the size of an outlier how far one outlier at observation n moves the predictions, ten
// observations plus the order later: the root mean square over streams, in standard deviations of the predictions.
func (s source) movedBy(t *testing.T, cfg Config, n int) map[float64]float64 {
	t.Helper()
	const streams = 10
	moved := map[float64]float64{}
	for seed := range uint64(streams) {
		st := newStage(t, s, cfg, seed)
		track := st.est.NewTrack("k")
		for range n {
			st.est.Estimate(track, st.next())
		}
		before, _ := track.AppendBinary(nil)
		next := []Observation{st.next()}
		for range 11 {
			next = append(next, st.next())
		}
		if s.family == "ar" {
			next = append(next, st.next(), st.next())
		}
		predicted := func() (last Moments) { // returns the prediction of the last observation
			track := restored(t, st.est, before)
			for _, o := range next {
				last = st.est.Estimate(track, o).Predicted
			}
			return last
		}
		baseline := predicted()
		for _, size := range []float64{5e-324, 15, 255, math.MaxUint32, math.MaxUint64, 9.97e36, 1e139, -9999, -1e12} {
			if next[0].X[0][s.coordinate] = size; st.est.Check("k", next[0]) != nil {
				continue
			}
			largest := 0.
			for j, mean := range predicted().Mean {
				sd := baseline.SD[j]
				if notFinite(sd) {
					sd = baseline.Mean[j] // a scale, or a distribution without variance
				}
				if d := math.Abs(mean-baseline.Mean[j]) / sd; !(d <= largest) {
					largest = d
				}
			}
			moved[size] = math.Sqrt(moved[size]*moved[size] + largest*largest/streams)
		}
	}
	return moved
}

// oddValues are values that programs and sensors write, and the limits of floats.
var oddValues = []float64{
	0, math.Copysign(0, -1), 5e-324, -5e-324, 1e-310, 1e-200, 1e-160, -1e-160, 1e-20, 1, 2, -1, -9999, 255, 32767, 65535,
	math.MaxUint32, math.MaxInt64, math.MaxUint64, 1 << 53, 1e12, 1e25, -1e25, 9.97e36, -9.97e36, 1e100, -1e100, 1e139, -1e139, 1e154, 1e200,
	math.MaxFloat64, -math.MaxFloat64, math.NaN(),
}

// configs returns configurations of all kinds.
func (s source) configs() (list []Config) {
	for _, detect := range []bool{false, true} {
		for _, season := range []bool{false, true} {
			if season && usual.Seasonal(s.family) != nil {
				continue
			}
			for _, scale := range []hafvf.Scale{hafvf.Linear, hafvf.Log, hafvf.Log1p, hafvf.Sqrt} {
				cfg := s.config(detect, season, scale)
				if _, err := NewEstimator(cfg); err != nil {
					continue // the family does not support that scale
				}
				list = append(list, cfg)
				fixedPrior := cfg
				fixedPrior.Filter.WarmUp = 0
				list = append(list, fixedPrior)
				if detect {
					continue
				}
				for _, m := range []hafvf.Member{{Top: 1}, {Top: .999}, {Levels: []hafvf.Beta{{Alpha: .9, Beta: .1}}, Top: .9}, {Levels: []hafvf.Beta{{Alpha: 9, Beta: .1}, {Alpha: 1, Beta: 1}, {Alpha: 2, Beta: 1}}, Top: 1}} {
					withMember := cfg
					withMember.Filter.Member = &m
					list = append(list, withMember)
				}
				timed := cfg
				timed.TimeUnit = time.Minute
				list = append(list, timed)
			}
		}
	}
	return list
}

// For any finite values, in any order, of any family and under any settings: the state is finite and can be
// decoded, and a key with an automatic prior and levels or detection learns ordinary values again after some of
// them.
func TestAnyFiniteValue(t *testing.T) {
	if testing.Short() {
		t.Skip("long under the race detector, which it gives nothing to see")
	}
	type setting struct {
		source
		cfg Config
	}
	var settings []setting
	for _, s := range ordinary {
		for _, cfg := range s.configs() {
			settings = append(settings, setting{s, cfg})
		}
	}
	t.Logf("%d settings", len(settings))
	each := max(1, *sequences/len(settings))
	unlearned := 0
	for i, s := range settings {
		for k := range each {
			seed := uint64(i*each + k)
			st := newStage(t, s.source, s.cfg, seed)
			name := fmt.Sprintf("%s, %+v, season %v, sequence %d", s.family, s.cfg.Filter, s.cfg.Filter.Season != nil, seed)
			track := st.est.NewTrack("k")
			share := []float64{.05, .3, 1}[seed%3]
			counter := 0.
			for step := range 10 + st.rng.IntN(60) {
				o := st.next()
				if st.rng.Float64() < share {
					v := oddValues[st.rng.IntN(len(oddValues))]
					if seed%5 == 0 { // a counter that wraps
						counter = math.Mod(counter+1e9*st.rng.Float64(), math.MaxUint32)
						v = math.Floor(counter)
					}
					o.X[0][st.rng.IntN(len(o.X[0]))] = v
				}
				if st.est.Check("k", o) != nil {
					continue
				}
				e := st.est.Estimate(track, o)
				if e.SkipReason != "" {
					unlearned++
				}
				if !track.finite() {
					t.Fatalf("%s: step %d, x = %v: the state is not finite", name, step, o.X)
				}
				if step%10 == 0 {
					b, _ := track.AppendBinary(nil)
					decoded, err := st.est.RestoreTrack("k", b)
					if err != nil {
						t.Fatalf("%s: step %d, x = %v: %v", name, step, o.X, err)
					}
					track = decoded
				}
			}
			skipped := 0
			for range 20 {
				if e := st.est.Estimate(track, st.next()); e.SkipReason != "" {
					skipped++
				}
			}
			if skipped > 5 {
				t.Fatalf("%s: of 20 ordinary values afterwards %d are not learned", name, skipped)
			}
		}
	}
	t.Logf("%d values were not learned", unlearned)
}
