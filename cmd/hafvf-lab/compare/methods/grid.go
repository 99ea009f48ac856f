package methods

import (
	"math"

	"hafvf/internal/special"
)

// HAFVF with a few values of the weight instead of levels (Moens 2018, outlook). The weight has a Dirichlet
// distribution over these values. The naive prior counts each value once, and the counts are forgotten at a fixed
// weight. With the evidence e^q(w) as in collapsed,
//
//	p(w|x…x) ∝ p(w) e^q(w),  θ ← θ₀ + E[w](θ − θ₀) + T(x)
var grids = []Method{
	{Name: "grid", About: "HAFVF, a few weights in place of levels", Setting: "ten weights from 0 to 1, .99", Source: "Moens 2018, outlook",
		New: func(s Start) Follower {
			return newGrid(s, []float64{0, .5, .8, .9, .95, .98, .99, .995, .999, 1}, .99)
		}},
}

type grid struct {
	conjugate
	d       []float64
	weights []float64
	top     float64
	counts  []float64 // counts in addition to the naive prior
	share   []float64 // log p(w) + q(w), then p(w|x…x)
}

func newGrid(s Start, weights []float64, top float64) *grid {
	n := len(weights)
	return &grid{newConjugate(s.Model), make([]float64, s.Model.Len()), weights, top, make([]float64, n), make([]float64, n)}
}

func (g *grid) Update(x float64) Step {
	g.see(x)
	g.line.Set(g.d, g.stats)
	total := float64(len(g.counts))
	for _, n := range g.counts {
		total += g.top * n
	}
	maxLog := math.Inf(-1)
	for i, w := range g.weights {
		g.share[i] = special.Log((1+g.top*g.counts[i])/total) + g.line.Gain(w)
		maxLog = max(maxLog, g.share[i])
	}
	sum := 0.0
	for i, l := range g.share {
		g.share[i] = special.Exp(l - maxLog)
		sum += g.share[i]
	}
	mean := 0.0
	for i, w := range g.weights {
		g.share[i] /= sum
		g.counts[i] = g.top*g.counts[i] + g.share[i]
		mean += g.share[i] * w
	}
	step := Step{LogPredictive: special.Log(sum) + maxLog + g.base, Age: -1}
	g.learn(g.d, mean)
	step.Mean, step.SD = g.estimate(g.d)
	return step
}

func (g *grid) Bytes() int { return word * (len(g.d) + len(g.counts)) }
