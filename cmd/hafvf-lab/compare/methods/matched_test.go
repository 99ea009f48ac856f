package methods

import (
	"hafvf/internal/testing/expect"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"
)

// matchedAfter returns the method after 40 observations of a stream of the family, with the given numbers of nodes.
func matchedAfter(t *testing.T, family string, nW, nB int) *matched {
	t.Helper()
	s := expect.Get(Begin(family, []float64{1, 0, 1, 2, 1}))(t)
	c := newMatched(s)
	rng := rand.New(rand.NewPCG(4, 4))
	for range 40 {
		c.Update(float64(rng.IntN(2)))
	}
	c.nodesW, c.nodesB = newNodes(nW), newNodes(nB)
	p := newProjection(s, c.nodesW.w)
	copy(p.theta, c.theta)
	c.projection = p
	c.priorW, c.priorB, c.shareB = make([]float64, nW), make([]float64, nB), make([]float64, nB)
	return c
}

// A step with the nodes of the method equals a step with about thirty times as many.
func TestMatchedQuadrature(t *testing.T) {
	for _, family := range []string{"normal", "bernoulli", "poisson", "exponential"} {
		few, many := matchedAfter(t, family, 41, 11), matchedAfter(t, family, 1201, 301)
		a, b := few.Update(1), many.Update(1)
		near(t, a.LogPredictive, b.LogPredictive, 1e-3, family, ": log predictive")
		for i, v := range few.theta {
			near(t, v, many.theta[i], 5e-3*math.Abs(many.theta[i]), family, ": parameter ", i)
		}
	}
}

// The matched θ has the expected statistics of the mixture, by numeric integration.
func TestMatch(t *testing.T) {
	share := []float64{.2, .5, .3}
	integral := func(density func(x float64) float64, lo, hi float64) func(func(x float64) float64) float64 {
		return func(f func(x float64) float64) float64 {
			return quad.Fixed(func(x float64) float64 { return f(x) * density(x) }, lo, hi, 4000, nil, 0)
		}
	}
	cases := map[string]struct {
		law
		mixture [][]float64
		density func(theta []float64) func(func(x float64) float64) float64
		stats   []func(x float64) float64
	}{
		"beta": {betaLaw{}, [][]float64{{2, 3}, {30, 4}, {8, 9}}, func(theta []float64) func(func(x float64) float64) float64 {
			return integral(func(x float64) float64 {
				return math.Exp((theta[0]-1)*math.Log(x) + (theta[1]-1)*math.Log1p(-x) - betaLaw{}.logPartition(theta))
			}, 0, 1)
		}, []func(x float64) float64{math.Log, func(x float64) float64 { return math.Log1p(-x) }}},
		"gamma": {gammaLaw{}, [][]float64{{2, 3}, {30, 4}, {8, 9}}, func(theta []float64) func(func(x float64) float64) float64 {
			return integral(func(logX float64) float64 {
				return math.Exp(theta[0]*logX - theta[1]*math.Exp(logX) - gammaLaw{}.logPartition(theta))
			}, -30, 8)
		}, []func(logX float64) float64{func(logX float64) float64 { return logX }, math.Exp}},
	}
	for name, c := range cases {
		theta := make([]float64, 2)
		c.match(theta, c.mixture, share)
		for i, stat := range c.stats {
			want := 0.0
			for j, p := range share {
				want += p * c.density(c.mixture[j])(stat)
			}
			near(t, c.density(theta)(stat), want, 1e-6, name, ": statistic ", i)
		}
	}

	// The normal mean given the precision: E[τμ] and E[τμ²], by hand.
	mixture := [][]float64{{1, 2, 3, 4}, {-2, 5, 6, 7}, {3, 30, 8, 2}}
	theta := make([]float64, 4)
	normalLaw{}.match(theta, mixture, share)
	first := func(v []float64) float64 { return v[2] / v[3] * v[0] }
	second := func(v []float64) float64 { return 1/v[1] + v[2]/v[3]*v[0]*v[0] }
	for i, stat := range []func(v []float64) float64{first, second} {
		want := 0.0
		for j, p := range share {
			want += p * stat(mixture[j])
		}
		near(t, stat(theta), want, 1e-10*math.Abs(want), "normal: statistic ", i)
	}
	precisions := make([][]float64, 3)
	for i, v := range mixture {
		precisions[i] = v[2:]
	}
	gamma := make([]float64, 2)
	gammaLaw{}.match(gamma, precisions, share)
	if math.Abs(gamma[0]-theta[2]) > 1e-9 || math.Abs(gamma[1]-theta[3]) > 1e-9 {
		t.Errorf("normal: precision %v, want %v", theta[2:], gamma)
	}
}

// With a single weight there is nothing to mix: the method equals forgetting at that weight.
func TestProjectionOfOneWeight(t *testing.T) {
	for family, x := range map[string][]float64{"normal": normals(100), "bernoulli": coins(100), "poisson": coins(100), "exponential": {1, 2, .5, 3, 1, 1, 7, 2}} {
		s := expect.Get(Begin(family, x[:min(50, len(x))]))(t)
		p, f := newProjection(s, []float64{.9}), newForgetting(s, .9)
		p.share[0] = 1
		for i, v := range x {
			p.see(v)
			var got Step
			got.LogPredictive = p.gain[0]
			p.finish(&got)
			want := f.Update(v)
			if math.Abs(got.LogPredictive-want.LogPredictive) > 1e-9 || math.Abs(got.Mean-want.Mean) > 1e-9 {
				t.Fatalf("%s, observation %d: %v, want %v", family, i, got, want)
			}
		}
	}
}
