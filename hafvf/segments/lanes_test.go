package segments

import (
	"flag"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"

	"hafvf/internal/testing/familytest"
)

// The change evidence of a lane is the log Bayes factor of two samples against one. With
// B(d) − B(0) the log marginal likelihood of a sample, that is checked by numeric
// integration over the parameter.
func TestEvidenceIsTheBayesFactorByIntegration(t *testing.T) {
	normalDensity := func(x, sd float64) float64 { return math.Exp(-x*x/2/sd/sd) / sd / math.Sqrt(2*math.Pi) }
	for family, c := range map[string]struct {
		draw func(rng *rand.Rand, shift float64) float64
		// marginal is the likelihood of the values, each to the power of its weight, under
		// the prior with all parameters 1 (mu 0).
		marginal func(x, weight []float64) float64
	}{
		"bernoulli": {
			func(rng *rand.Rand, shift float64) float64 { return math.Floor(.2 + .5*shift + rng.Float64()) },
			func(x, weight []float64) float64 {
				return quad.Fixed(func(p float64) float64 {
					like := 1.
					for i, v := range x {
						like *= math.Pow(p*v+(1-p)*(1-v), weight[i])
					}
					return like
				}, 0, 1, 400, nil, 0)
			},
		},
		"poisson": {
			func(rng *rand.Rand, shift float64) float64 { return math.Floor((2 + 5*shift) * rng.ExpFloat64()) },
			func(x, weight []float64) float64 {
				return quad.Fixed(func(rate float64) float64 {
					log := -rate
					for i, v := range x {
						log += weight[i] * (v*math.Log(rate) - rate) // but for x!, which cancels
					}
					return math.Exp(log)
				}, 0, 60, 2000, nil, 0)
			},
		},
		"exponential": {
			func(rng *rand.Rand, shift float64) float64 { return rng.ExpFloat64() * (1 + 3*shift) },
			func(x, weight []float64) float64 {
				return quad.Fixed(func(rate float64) float64 {
					like := math.Exp(-rate)
					for i, v := range x {
						like *= math.Pow(rate*math.Exp(-rate*v), weight[i])
					}
					return like
				}, 0, 40, 2000, nil, 0)
			},
		},
		"normal": {
			func(rng *rand.Rand, shift float64) float64 { return rng.NormFloat64() + 3*shift },
			func(x, weight []float64) float64 {
				// Over log σ, with the density σ² ~ InvGamma(1, 1), and over μ.
				return quad.Fixed(func(logSD float64) float64 {
					sd := math.Exp(logSD)
					inner := quad.Fixed(func(mu float64) float64 {
						like := normalDensity(mu, sd)
						for i, v := range x {
							like *= math.Pow(normalDensity(v-mu, sd), weight[i])
						}
						return like
					}, -8*sd-10, 8*sd+10, 200, nil, 0)
					return inner * math.Exp(-1/sd/sd) / (sd * sd) * 2
				}, -3, 6, 200, nil, 0)
			},
		},
	} {
		t.Run(family, func(t *testing.T) {
			m := familytest.New(t, family, nil)
			l := newLanes(m)
			rng := rand.New(rand.NewPCG(1, 20))
			for _, shift := range []float64{0, 1} {
				const n = 6
				var x [][][]float64
				var values []float64
				for i := range 2 * n {
					v := c.draw(rng, shift*float64(i/n))
					values, x = append(values, v), append(x, [][]float64{{v}})
				}
				g := NewSegmenter(m, 10).newSegmentation(nil, x)
				g.regular[3] = .4
				before, after := l.newSet(), l.newSet()
				l.forward(before, g, 0, n)
				l.backward(after, g, n, 2*n)
				for lane, w := range laneWeights {
					weight := make([]float64, 2*n)
					for i := range weight {
						weight[i] = g.regular[i] * math.Pow(w, float64(n-1-i))
						if i >= n {
							weight[i] = g.regular[i] * math.Pow(w, float64(i-n))
						}
					}
					want := math.Log(c.marginal(values[:n], weight[:n])) + math.Log(c.marginal(values[n:], weight[n:])) - math.Log(c.marginal(values, weight))
					if got := l.evidenceOf(lane, before, after); math.Abs(got-want) > 1e-6 {
						t.Errorf("lane %g: evidence %.9g, by integration %.9g", w, got, want)
					}
				}
			}
		})
	}
}

// The elimination, which joins blocks, comes to what joining over all observations anew
// comes to.
func TestEliminationJoinsTheLeastEvident(t *testing.T) {
	m := familytest.New(t, "normal", nil)
	rng := rand.New(rand.NewPCG(3, 20))
	for range 30 {
		n := 66 + 30*rng.IntN(4) + rng.IntN(20) // which ends in a long block
		var x [][][]float64
		for i := range n {
			x = append(x, [][]float64{{rng.NormFloat64() + 3*float64(i/30%2)}})
		}
		s := NewSegmenter(m, 10)
		g := s.newSegmentation(nil, x)
		b := newBuffers(g.lanes, n)
		var cuts []int
		for i := 1; i < n; i++ {
			if rng.IntN(4) == 0 || i%30 == 0 {
				cuts = append(cuts, i)
			}
		}
		const threshold = 5.
		e := elimination{lanes: g.lanes, regular: g.regular, begins: true, ends: true, threshold: threshold, blocks: s.blocks(g, b, cuts)}
		// By the definition: the samples of every block from its observations.
		evidence := func(from, at, end int) float64 {
			f, a := g.lanes.newSet(), g.lanes.newSet()
			g.lanes.forward(f, g, from, at)
			g.lanes.backward(a, g, at, end)
			p := g.sharesAt(at)
			return g.lanes.evidence(f, a, &p)
		}
		bounds := append(append([]int{0}, cuts...), n)
		for len(bounds) > 2 {
			least, at := math.Inf(1), 0
			for k := 1; k+1 < len(bounds); k++ {
				if e := evidence(bounds[k-1], bounds[k], bounds[k+1]); e < least {
					least, at = e, k
				}
			}
			if least > threshold {
				shortest := 0
				for k := 1; k+2 < len(bounds); k++ {
					if length := bounds[k+1] - bounds[k]; length < minSegment && (shortest == 0 || length < bounds[shortest+1]-bounds[shortest]) {
						shortest = k
					}
				}
				if shortest == 0 {
					break
				}
				t.Fatalf("a block of %d remains: choose another seed", bounds[shortest+1]-bounds[shortest])
			}
			bounds = append(bounds[:at:at], bounds[at+1:]...)
		}
		got := e.eliminate()
		want := bounds[1 : len(bounds)-1]
		if len(got) != len(want) {
			t.Fatalf("edges %v, want %v", got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("edges %v, want %v", got, want)
			}
		}
	}
}

// A session takes at most 31 floats an observation, however long it is and wherever it changes.
func TestSmootherMemory(t *testing.T) {
	n := 30_000
	if flag.Lookup("long").Value.String() == "true" {
		n = 1_000_000
	}
	m := familytest.New(t, "normal", nil)
	for _, every := range []int{2000, n / 2} {
		rng := rand.New(rand.NewPCG(4, 20))
		steps := make([][][]float64, n)
		for i := range steps {
			steps[i] = [][]float64{{rng.NormFloat64() + 5*float64(i/every%3)}}
		}
		s := NewSegmenter(m, 10)
		var was, now runtime.MemStats
		runtime.ReadMemStats(&was)
		g := s.Smooth(steps)
		runtime.ReadMemStats(&now)
		if want := (n - 1) / every; len(g.Changes()) != want {
			t.Errorf("%d changes of %d", len(g.Changes()), want)
		}
		if floats := float64(now.TotalAlloc-was.TotalAlloc) / 8 / float64(n); floats > 31 {
			t.Errorf("%g floats an observation", floats)
		}
	}
}
