package hafvf

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
	"hafvf/internal/testing/streams"
)

// bruteForce returns the best value of many climbs, from a grid of means and concentrations of w and means of
// b. It uses another filter's scratch.
func bruteForce(f, g *Filter, s State) float64 {
	copy(g.stats, f.stats)
	g.line.Set(f.Sample(s), g.stats)
	for i := range g.levels {
		l, prev := &g.levels[i], f.Level(s, i)
		l.DA, l.DB = prev.Alpha-l.Naive.Alpha, prev.Beta-l.Naive.Beta
	}
	start := make([][2]float64, len(g.levels))
	w := g.top
	for i := len(g.levels) - 1; i >= 0; i-- {
		p := g.levels[i].PriorAt(w)
		start[i] = [2]float64{math.Log(p.Alpha / p.Beta), math.Log(p.Alpha + p.Beta)}
		w = p.Mean()
	}
	best := math.Inf(-1)
	tops := []float64{0}
	if len(start) > 1 {
		tops = []float64{-4, 0, 4}
	}
	for _, b := range tops {
		for _, mean := range []float64{-8, -4, -2, -1, 0, 1, 2, 4, 8} {
			for _, concentration := range []float64{-1, 1, 3, 6} {
				m := &g.other
				copy(m.point, start)
				m.point[0] = [2]float64{mean, concentration}
				if len(start) > 1 && b != 0 {
					m.point[1][0] = b
				}
				m.iterations = 0
				g.climb(m, nil)
				if m.converged {
					best = math.Max(best, m.value)
				}
			}
		}
	}
	return best
}

// hardStreams are streams on which the objective is known to have two maxima.
var hardStreams = []struct {
	family, kind string
	draw         func(rng *rand.Rand, t int) float64
}{
	{"normal", "stationary", func(rng *rand.Rand, t int) float64 { return rng.NormFloat64() }},
	{"normal", "jumping", func(rng *rand.Rand, t int) float64 { return rng.NormFloat64() + 5*float64(t/100%3) }},
	{"normal", "drifting", func(rng *rand.Rand, t int) float64 { return rng.NormFloat64() + 0.02*float64(t) }},
	{"normal", "outliers", func(rng *rand.Rand, t int) float64 {
		if rng.Float64() < 0.02 {
			return 8 * float64(2*rng.IntN(2)-1)
		}
		return rng.NormFloat64()
	}},
	{"bernoulli", "jumping", func(rng *rand.Rand, t int) float64 {
		return streams.Toss(rng, []float64{.05, .95}[t/100%2])
	}},
	{"poisson", "jumping", func(rng *rand.Rand, t int) float64 {
		return streams.Poisson(rng, []float64{2, 12}[t/100%2])
	}},
}

var seed = flag.Uint64("seed", 1, "seed of the streams, and of the search for missed maxima")

// TestGlobalMaximum compares the objective with brute force at every step of the filter's own path.
func TestGlobalMaximum(t *testing.T) {
	expect.Long(t, "searches by brute force")
	steps, missed, iterations := 0, 0, 0
	phis := []Beta{{.9, .1}, {9, 1}, {4.5, .5}, {99, 1}, {.99, .01}}
	each := length(100_000)/(len(hardStreams)*len(phis)*2) + 1
	each = max(each, 40)
	for _, hs := range hardStreams {
		for _, phi := range phis {
			for depth := 1; depth <= 2; depth++ {
				m := familytest.New(t, hs.family, nil)
				lv := []Beta{phi, {1, 1}}[:depth]
				f, g := NewFilter(m, lv, 1), NewFilter(m, lv, 1)
				s := f.NewState()
				rng := rand.New(rand.NewPCG(*seed, uint64(depth)))
				offset := rng.IntN(100)
				for i := range each {
					x := []float64{hs.draw(rng, i+offset)}
					before := append(State(nil), s...)
					step := f.Update(s, x)
					want := bruteForce(f, g, before)
					steps++
					iterations += step.Iterations
					if miss := want - (step.ELBO - m.LogBase(x)); miss > 1e-6 {
						missed++
						t.Errorf("%s %s φ₀ %v, %d levels, step %d, x %v: %.3g nats below the maximum %.6g (room %.3g), state %.6g",
							hs.family, hs.kind, phi, depth, i, x, miss, want, math.Max(f.line.Gain(0), f.line.Gain(1))-f.best.value, before)
					}
				}
			}
		}
	}
	t.Logf("%d steps, %d below the global maximum, %.2f evaluations per step", steps, missed, float64(iterations)/float64(steps))
}
