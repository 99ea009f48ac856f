package methods

import (
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/internal/special"
	"hafvf/internal/testing/expect"
)

// drawn lists the families, each with data on the scale of its default prior and with outliers.
var drawn = []struct {
	family string
	draw   func(rng *rand.Rand) float64
}{
	{"bernoulli", func(rng *rand.Rand) float64 { return float64(rng.IntN(2)) }},
	{"poisson", func(rng *rand.Rand) float64 { return math.Floor(math.Abs(5 * outlying(rng))) }},
	{"exponential", func(rng *rand.Rand) float64 { return math.Abs(outlying(rng)) }},
	{"normal", outlying},
}

func outlying(rng *rand.Rand) float64 {
	x := rng.NormFloat64()
	if rng.IntN(20) == 0 {
		x *= 20
	}
	return x
}

// standard returns the start of a family with its default prior.
func standard(t *testing.T, family string) Start {
	t.Helper()
	m := expect.Get(expfam.New(family, nil, 0))(t)
	return Start{Family: family, Model: m}
}

// logUniform draws from [lo, hi], uniformly in the logarithm.
func logUniform(rng *rand.Rand, lo, hi float64) float64 {
	return lo * math.Exp(rng.Float64()*math.Log(hi/lo))
}

// marginals holds expectations under the posterior of w and b.
type marginals struct {
	log, w float64
	logs   [2][2]float64 // E[log w] and E[log(1−w)], then the same for b
}

// summed computes marginals by the trapezoidal rule in the logits of w and b, with many nodes.
func summed(c *collapsed) (out marginals) {
	const h, far = .1, 3000
	gains, logistics := make([]float64, 2*far+1), make([]logistic, 2*far+1)
	top := math.Inf(-1)
	for k := range gains {
		logistics[k] = logisticAt(h * float64(k-far))
		gains[k] = c.line.Gain(logistics[k].w)
		top = max(top, gains[k])
	}
	priorB := c.prior(1, 1)
	total, maxTerm := 0.0, math.Inf(-1)
	for x := -60.; x <= 60; x += h {
		b := logisticAt(x)
		share := priorB.a*b.logW + priorB.b*b.log1W - special.LogBeta(priorB.a, priorB.b) + math.Log(h)
		if share < -25 {
			continue
		}
		p := c.prior(0, b.w)
		norm := share - special.LogBeta(p.a, p.b) + math.Log(h)
		for k, g := range gains {
			w := logistics[k]
			t := norm + p.a*w.logW + p.b*w.log1W + g - top
			if t < maxTerm-40 {
				continue
			}
			maxTerm = max(maxTerm, t)
			e := math.Exp(t)
			total += e
			out.w += e * w.w
			for i, l := range [2]logistic{w, b} {
				out.logs[i][0] += e * l.logW
				out.logs[i][1] += e * l.log1W
			}
		}
	}
	out.log = math.Log(total) + top
	for _, v := range []*float64{&out.w, &out.logs[0][0], &out.logs[0][1], &out.logs[1][0], &out.logs[1][1]} {
		*v /= total
	}
	return out
}

// The sums equal sums over many times as many nodes, for every family, with flat and sharp priors.
func TestCollapsed(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for i := range 64 {
		source := drawn[i%len(drawn)]
		c := newCollapsed(standard(t, source.family))
		c.naive = [2]betaPrior{{logUniform(rng, .1, 300), logUniform(rng, .1, 300)}, {logUniform(rng, .2, 20), logUniform(rng, .2, 20)}}
		c.posterior = c.naive
		for range 1 + rng.IntN(40) {
			c.Update(source.draw(rng))
		}
		before := c.posterior
		c.see(source.draw(rng))
		got, want := c.evidence(), summed(c)
		if d := math.Abs(got - want.log); d > 3e-4 {
			t.Errorf("%d: %v %v: log evidence %v, want %v", i, c.naive, before, got, want.log)
			continue
		}
		near(t, c.infer(), want.w, 1e-4, i, ": E[w]")
		for j, p := range c.posterior {
			logW, log1W := p.meanLogs()
			for k, v := range []float64{logW, log1W} {
				w := want.logs[j][k]
				near(t, v, w, 3e-3*max(.1, math.Abs(w)), i, ": level ", j, p, ": expected log")
			}
		}
	}
}

// Sums over weights stay finite for data of any scale, and allocate nothing.
func TestSumsOverWeightsHostile(t *testing.T) {
	expect.Long(t, "hostile streams of the methods")
	rng := rand.New(rand.NewPCG(5, 5))
	for i := range 1000 {
		source := drawn[i%len(drawn)]
		scale := 1.
		if source.family != "bernoulli" {
			scale = math.Round(logUniform(rng, 1, 1e12))
		}
		s := standard(t, source.family)
		for name, f := range map[string]Follower{"collapsed": newCollapsed(s), "grid": newGrid(s, []float64{0, .5, .99, 1}, .99)} {
			for step := range 60 {
				x := source.draw(rng)
				if rng.IntN(2) == 0 {
					x *= scale
				}
				if p := f.Update(x).LogPredictive; math.IsNaN(p) || math.IsInf(p, 0) {
					t.Fatalf("%d, %s of %s: step %d: log predictive %v", i, name, source.family, step, p)
				}
			}
			if n := testing.AllocsPerRun(10, func() { f.Update(1) }); n > 0 {
				t.Errorf("%d, %s of %s: %g allocations", i, name, source.family, n)
			}
		}
	}
}
