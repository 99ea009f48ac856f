// Package hafvftest is the acceptance suite of models: it tests the laws of conjugate models that the filter
// relies on. Run it on your own model before you use the model.
package hafvftest

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/diff/fd"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
)

// TestModel checks the laws of conjugate models for m on observations from draw. draw must return vectors that
// m.Check accepts; for a Sequential model these are whole rows.
func TestModel(t *testing.T, m expfam.Model, draw func(rng *rand.Rand) []float64) {
	s := suite{m: m, draw: draw}
	t.Run("Jet", s.jet)
	t.Run("ScaleMergeObserve", s.addition)
	t.Run("PermutationInvariance", s.permutation)
	t.Run("ChainRule", s.chain)
	t.Run("EmptySample", s.empty)
	t.Run("Resume", s.resume)
	t.Run("Allocations", s.allocations)
	t.Run("Moments", s.moments)
}

type suite struct {
	m    expfam.Model
	draw func(rng *rand.Rand) []float64
}

func (s suite) sample(rng *rand.Rand, n int) []float64 {
	d := make([]float64, s.m.Len())
	for range n {
		s.m.Observe(d, s.draw(rng), 1)
	}
	return d
}

func (s suite) posterior(d []float64) []float64 {
	n := 0
	for _, p := range s.m.Params() {
		n += p.Size()
	}
	out := make([]float64, n)
	s.m.Posterior(out, d)
	return out
}

func near(a, b, tolerance float64) bool {
	return math.Abs(a-b) <= tolerance*(1+math.Abs(a)+math.Abs(b))
}

func (s suite) equal(t *testing.T, what string, d, e []float64) {
	t.Helper()
	p, q := s.posterior(d), s.posterior(e)
	for i := range p {
		if !near(p[i], q[i], 1e-10) {
			t.Errorf("%s: posterior %v, want %v", what, p, q)
			return
		}
	}
}

// jet compares derivatives with finite differences of the gain, of Q1, F2 and F3, and compares F2 with Q1
// for small multiples of the sample as new statistics.
func (s suite) jet(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		d, x := s.sample(rng, 1+rng.IntN(12)), s.sample(rng, 1)
		line := s.m.NewLine()
		line.Set(d, x)
		s0 := 0.2 + 0.6*rng.Float64()
		jet := line.Jet(s0)
		settings := &fd.Settings{Formula: fd.Central, Step: 1e-3}
		derivative := func(f func(float64) float64) float64 {
			// Richardson's extrapolation of the central difference.
			settings.Step = 2e-3
			wide := fd.Derivative(f, s0, settings)
			settings.Step = 1e-3
			return (4*fd.Derivative(f, s0, settings) - wide) / 3
		}
		check := func(name string, got, want float64) {
			t.Helper()
			if !near(got, want, 1e-6) {
				t.Errorf("%s = %.10g, want %.10g", name, got, want)
			}
		}
		check("Q1", jet.Q1, derivative(line.Gain))
		check("Q2", jet.Q2, derivative(func(u float64) float64 { return line.Jet(u).Q1 }))
		check("F3", jet.F3, derivative(func(u float64) float64 { return line.Jet(u).F2 }))
		check("F4", jet.F4, derivative(func(u float64) float64 { return line.Jet(u).F3 }))

		// f″ from the gain of small multiples of d itself: with T = ε·d, q′(s) = f′(s+ε) − f′(s).
		slope := func(eps float64) float64 {
			e := append([]float64(nil), d...)
			s.m.Scale(e, eps)
			l := s.m.NewLine()
			l.Set(d, e)
			return l.Jet(s0).Q1 / eps
		}
		const eps = 1e-3
		// Richardson's scheme with three terms leaves an error of order ε³.
		a, b, c := slope(eps), slope(eps/2), slope(eps/4)
		ab, bc := 2*b-a, 2*c-b
		check("F2", jet.F2, (4*bc-ab)/3)
	}
}

// addition: merging samples equals observing both, and scaling is linear.
func (s suite) addition(t *testing.T) {
	for n := range 8 {
		xs := rand.New(rand.NewPCG(2, uint64(n)))
		both := s.sample(xs, 2*n+3)
		xs = rand.New(rand.NewPCG(2, uint64(n)))
		first, second := s.sample(xs, n), s.sample(xs, n+3)
		s.m.Merge(first, second)
		s.equal(t, "merge", first, both)

		// w·(d + e) = w·d + w·e, where the right side observes with the weight w.
		const w = 0.37
		xs = rand.New(rand.NewPCG(2, uint64(n)))
		weighted := s.sample(xs, n)
		s.m.Scale(weighted, w)
		for range n + 3 {
			s.m.Observe(weighted, s.draw(xs), w)
		}
		s.m.Scale(both, w)
		s.equal(t, "scale", weighted, both)
		if m := s.m.Memory(both); !near(m, s.m.Memory(weighted), 1e-12) {
			t.Errorf("memory %g after scaling", m)
		}
	}
}

// permutation: without levels and with top = 1, the filter equals the batch posterior.
func (s suite) permutation(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	f := hafvf.NewFilter(s.m, nil, 1)
	if _, ok := s.m.(expfam.Sequential); ok {
		t.Skip("rows depend on the order")
	}
	xs := make([][]float64, 20)
	batch := make([]float64, s.m.Len())
	for i := range xs {
		xs[i] = s.draw(rng)
		s.m.Observe(batch, xs[i], 1)
	}
	for range 3 {
		rng.Shuffle(len(xs), func(i, j int) { xs[i], xs[j] = xs[j], xs[i] })
		state := f.NewState()
		for _, x := range xs {
			f.Update(state, x)
		}
		s.equal(t, "permuted", f.Sample(state), batch)
	}
}

// chain: log p(x₁, x₂) = log p(x₁) + log p(x₂|x₁).
func (s suite) chain(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for n := range 10 {
		d := s.sample(rng, n)
		x1, x2 := s.sample(rng, 1), s.sample(rng, 1)
		gain := func(d, x []float64) float64 {
			l := s.m.NewLine()
			l.Set(d, x)
			return l.Gain(1)
		}
		both := append([]float64(nil), x1...)
		s.m.Merge(both, x2)
		after := append([]float64(nil), d...)
		s.m.Merge(after, x1)
		if joint, parts := gain(d, both), gain(d, x1)+gain(after, x2); !near(joint, parts, 1e-10) {
			t.Errorf("log p(x₁, x₂) = %.12g, log p(x₁) + log p(x₂|x₁) = %.12g", joint, parts)
		}
	}
}

// empty: the posterior of the empty sample is the prior, and forgetting everything leads back to it.
func (s suite) empty(t *testing.T) {
	d := s.sample(rand.New(rand.NewPCG(5, 1)), 7)
	s.m.Scale(d, 0)
	s.equal(t, "forgotten", d, make([]float64, s.m.Len()))
	if m := s.m.Memory(d); m != 0 {
		t.Errorf("the empty sample has memory %g", m)
	}
}

func (s suite) levels() []hafvf.Beta {
	return []hafvf.Beta{{Alpha: .9, Beta: .1}, {Alpha: 1, Beta: 1}}
}

// stream draws an observation for a filter, which is the target of a row for a Sequential model.
func (s suite) stream(rng *rand.Rand) []float64 {
	x := s.draw(rng)
	if _, ok := s.m.(expfam.Sequential); ok {
		return x[len(x)-1:]
	}
	return x
}

// resume: a state that is encoded and decoded continues bit by bit like the original.
func (s suite) resume(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	f, g := hafvf.NewFilter(s.m, s.levels(), 1), hafvf.NewFilter(s.m, s.levels(), 1)
	straight, resumed := f.NewState(), g.NewState()
	for i := range 30 {
		x := s.stream(rng)
		f.Update(straight, x)
		g.Update(resumed, x)
		var err error
		if resumed, err = g.DecodeState(resumed.Append(nil)); err != nil {
			t.Fatal(err)
		}
		for k := range straight {
			if math.Float64bits(straight[k]) != math.Float64bits(resumed[k]) {
				t.Fatalf("step %d: entry %d is %v, want %v", i, k, resumed[k], straight[k])
			}
		}
	}
}

func (s suite) allocations(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	f := hafvf.NewFilter(s.m, s.levels(), 1)
	state := f.NewState()
	xs := make([][]float64, 64)
	for i := range xs {
		xs[i] = s.stream(rng)
		f.Update(state, xs[i])
	}
	i := 0
	if n := testing.AllocsPerRun(100, func() {
		f.Update(state, xs[i%len(xs)])
		i++
	}); n != 0 {
		t.Errorf("Update allocates %g times", n)
	}
}

// moments: no mean is −Inf, and no standard deviation is negative. After more than five observations neither is NaN.
func (s suite) moments(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	mean, sd := make([]float64, s.m.Outputs()), make([]float64, s.m.Outputs())
	for n := range 10 {
		d, x := s.sample(rng, n), s.draw(rng)
		check := func(what string) {
			t.Helper()
			for i := range mean {
				if sd[i] < 0 || math.IsInf(sd[i], -1) || math.IsInf(mean[i], -1) {
					t.Errorf("%s after %d observations: %v ± %v", what, n, mean, sd)
				}
				if n > 5 && (math.IsNaN(mean[i]) || math.IsNaN(sd[i])) {
					t.Errorf("%s after %d observations is undefined", what, n)
				}
			}
		}
		s.m.Estimate(mean, sd, d, x)
		check("Estimate")
		s.m.Predict(mean, sd, d, 0.5, x)
		check("Predict")
	}
}
