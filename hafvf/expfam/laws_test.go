package expfam_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/hafvftest"
	"hafvf/internal/testing/familytest"
)

// Every family satisfies the laws of conjugate models. Its statements on the next observation are sums over the
// density of that observation: exp(Gain + LogBase).
func TestLaws(t *testing.T) {
	for _, c := range familytest.All() {
		t.Run(c.Name, func(t *testing.T) {
			m := c.New(t)
			hafvftest.TestModel(t, m, c.Draw)
			rng := rand.New(rand.NewPCG(1, 11))
			for _, size := range []struct {
				n int
				s float64
			}{{0, 1}, {1, .3}, {1, 1}, {8, 0}, {30, .3}, {8, 1}} {
				if c.Kind == familytest.Real && m.Outputs() > 1 && (size.n == 1 || size.s == 0) {
					continue // each takes a second
				}
				l := law{c: c, m: m, row: c.Draw(rng), d: sample(c, m, rng, size.n), s: size.s}
				t.Run(fmt.Sprintf("n=%d,s=%g", size.n, size.s), func(t *testing.T) {
					l.T = t
					l.prediction(float64(size.n) * size.s)
					if size.s == 1 {
						l.posterior(rng)
						l.estimate(size.n)
					}
				})
			}
			if c.Kind == familytest.Category { // also test an almost certain category
				x := c.Draw(rng)
				l := law{T: t, c: c, m: m, row: x, d: sample(c, m, rng, 5), s: 1}
				for range 10_000 {
					m.Observe(l.d, x, 1)
				}
				l.prediction(10_000)
			}
			if seq, ok := m.(expfam.Sequential); ok {
				window, row := []float64{3, 4}, make([]float64, m.Dim())
				seq.Row(row, window, 5)
				if !slices.Equal(row[:seq.Window()], window) || row[len(row)-1] != 5 {
					t.Errorf("the row of 5 after %v, the latest first, is %v", window, row)
				}
			}
		})
	}
}

// sample draws a sample of n observations with different weights.
func sample(c familytest.Family, m expfam.Model, rng *rand.Rand, n int) []float64 {
	d := make([]float64, m.Len())
	for range n {
		m.Observe(d, c.Draw(rng), 1-.2*rng.Float64())
	}
	return d
}

// A law tests the sample d, scaled by s, and the next observation. row has its regressors, or its trials, and a
// target.
type law struct {
	*testing.T
	c      familytest.Family
	m      expfam.Model
	row, d []float64
	s      float64
}

// output returns output k of the model for x.
func (l law) output(x []float64, k int) float64 {
	if c, ok := l.m.(expfam.Counted); ok {
		return c.Share(x)
	}
	if n := l.m.Outputs(); l.c.Kind == familytest.Category && n > 1 {
		if x[0] == float64(k) {
			return 1
		}
		return 0
	}
	return x[len(x)-l.m.Outputs()+k]
}

// density returns the density at x.
func (l law) density(x []float64) float64 {
	statistics := make([]float64, l.m.Len())
	l.m.Observe(statistics, x, 1)
	line := l.m.NewLine()
	line.Set(l.d, statistics)
	return math.Exp(line.Gain(l.s) + l.m.LogBase(x))
}

// each calls f with all possible observations of the row and their probabilities. It enumerates whole numbers,
// and uses the trapezoidal rule with double exponential nodes for continuous values. In the coordinate output,
// it stops at bound.
func (l law) each(output int, bound float64, f func(x []float64, p float64)) {
	x := slices.Clone(l.row)
	visit := func(weight float64) { f(x, weight*l.density(x)) }
	whole := func(last int) {
		for v := range last + 1 {
			if x[0] = float64(v); l.m.Check(x) == nil && l.output(x, output) <= bound {
				visit(1)
			}
		}
	}
	switch first := len(x) - l.m.Outputs(); l.c.Kind {
	case familytest.Category:
		whole(l.m.Outputs())
	case familytest.Count:
		whole(2000)
	case familytest.Trials:
		whole(int(x[1]))
	default:
		h, reach := 1./16, 30.
		if l.m.Outputs() > 1 {
			h, reach = 1./6, 18 // a grid
		}
		var axis func(i int, weight float64)
		axis = func(i int, weight float64) {
			if i == len(x) {
				visit(weight)
				return
			}
			for y := -reach; y <= reach; y += h {
				switch {
				case i-first == output && !math.IsInf(bound, 1):
					x[i] = bound - math.Exp(y)
					if l.c.Kind == familytest.Positive { // between 0 and the bound
						x[i] = bound / (1 + math.Exp(y))
						axis(i+1, weight*h*x[i]/(1+math.Exp(-y)))
					} else {
						axis(i+1, weight*h*math.Exp(y))
					}
				case l.c.Kind == familytest.Positive:
					x[i] = math.Exp(y)
					axis(i+1, weight*h*x[i])
				default:
					x[i] = 1 + math.Sinh(y)
					axis(i+1, weight*h*math.Cosh(y))
				}
			}
		}
		axis(first, 1)
	}
}

func (l law) near(what string, got, want, tolerance float64) {
	l.Helper()
	if !(math.Abs(got-want) <= tolerance*(1+math.Abs(want))) {
		l.Errorf("%s %.9g, by the density %.9g", what, got, want)
	}
}

// prediction: the density sums to 1, and has the moments of Predict and the distribution of Predictive.
func (l law) prediction(n float64) {
	outputs := l.m.Outputs()
	mean, sd := make([]float64, outputs), make([]float64, outputs)
	l.m.Predict(mean, sd, l.d, l.s, l.row)
	_, trials := l.m.(expfam.Counted)
	for k := range outputs {
		var p, first, second float64
		l.each(k, math.Inf(1), func(x []float64, px float64) {
			y := l.output(x, k)
			p, first, second = p+px, first+px*y, second+px*y*y
		})
		l.near("the density sums to", 1, p, 1e-7)
		if whole := l.c.Kind != familytest.Real && l.c.Kind != familytest.Positive; n > 6 || whole {
			l.near("mean", mean[k], first, 1e-6)
			l.near("standard deviation", sd[k], math.Sqrt(second-first*first), 1e-5)
		}
		distributions := make([]expfam.Distribution, outputs)
		l.m.(expfam.Predictor).Predictive(distributions, l.d, l.s, l.row)
		distribution := distributions[k]
		toMean, toSD := distribution.Moments()
		for i, moment := range [][2]float64{{mean[k], toMean}, {sd[k], toSD}} {
			if a, b := moment[0], moment[1]; a != b && !(math.Abs(a-b) <= 1e-12*math.Abs(a)) && !(math.IsNaN(a) && math.IsNaN(b)) {
				l.Errorf("moment %d of output %d: %g and %g", i+1, k, a, b)
			}
		}
		for _, bound := range []float64{0, .2, 1, 2} {
			below := 0.
			l.each(k, bound, func(_ []float64, px float64) { below += px })
			tolerance := 1e-6
			if trials {
				tolerance = .05 // a Beta distribution replaces a sum, see betaShare
			}
			if l.c.Kind != familytest.Positive || bound > 0 {
				l.near(fmt.Sprintf("P(x ≤ %g)", bound), distribution.CDF(bound), below, tolerance)
			}
		}
	}
}

// posterior: an observation adds its weight times its statistics.
func (l law) posterior(rng *rand.Rand) {
	x, weight := l.c.Draw(rng), .1+.9*rng.Float64()
	before := l.c.Natural(familytest.Posterior(l.m, l.d))
	memory := l.m.Memory(l.d)
	after := slices.Clone(l.d)
	l.m.Observe(after, x, weight)
	got := l.c.Natural(familytest.Posterior(l.m, after))
	for i, v := range l.c.Statistics(x) {
		if want := before[i] + weight*v; math.Abs(got[i]-want) > 1e-9*(1+math.Abs(want)) {
			l.Errorf("statistic %d of %v with weight %g: %.9g after %.9g, want %.9g", i, x, weight, got[i], before[i], want)
		}
	}
	if _, trials := l.m.(expfam.Counted); !trials {
		l.near("memory", l.m.Memory(after), memory+weight, 1e-12)
	}
}

// estimate: the mean has the expectation and the variance of E[x], because E[E[x]²] equals E[xy] for two
// observations.
func (l law) estimate(n int) {
	if n < 8 && l.c.Kind != familytest.Category && l.c.Kind != familytest.Trials && l.c.Kind != familytest.Count {
		return // infinite
	}
	outputs := l.m.Outputs()
	mean, sd, next, unused := make([]float64, outputs), make([]float64, outputs), make([]float64, outputs), make([]float64, outputs)
	l.m.Estimate(mean, sd, l.d, l.row)
	for k := range outputs {
		var first, product float64
		l.each(k, math.Inf(1), func(x []float64, px float64) {
			d := slices.Clone(l.d)
			l.m.Observe(d, x, 1)
			l.m.Predict(next, unused, d, 1, l.row)
			first += px * l.output(x, k)
			product += px * l.output(x, k) * next[k]
		})
		l.near("estimate", mean[k], first, 1e-6)
		l.near("its standard deviation", sd[k], math.Sqrt(max(0, product-first*first)), 1e-4)
	}
}
