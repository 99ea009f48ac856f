// Package adafvf trains by stochastic gradients: an optimizer with Adam's interface that learns, per group of
// parameters, how fast to forget the mean and the variance of the gradient. It is the AdaFVF of Moens (2018),
// experiment 3, with the Beta levels of package hafvf. The paper's supplement is not published; the derivation
// here replaces it.
//
// Per coordinate the gradient is g ~ N(μ, 1/τ), and the optimizer keeps a Normal-Gamma posterior (m, κ, α, β)
// of it: κ and α are one number per group, m and β one per coordinate. Every step moves it towards the prior
// (0, κ₀, α₀, β₀), the mean with ρ = w₁w₂ and the variance with ω = w₂, and then learns g:
//
//	κ̄ = κ₀ + ρ(κ−κ₀)   m̄ = ρκm/κ̄
//	ᾱ = α₀ + ω(α−α₀)   β̄ = β₀ + ω(β−β₀) + ½ρ(1−ρ)κκ₀m²/κ̄
//	κ′ = κ̄ + 1          m′ = m̄ + (g−m̄)/κ′
//	α′ = ᾱ + ½          β′ = β̄ + ½(κ̄/κ′)(g−m̄)²
//
// The parameter moves by −rate·m′/√(m′² + s²(1+1/κ′)), s² = β′/(α′−1), which is never more than the rate. Both
// weights are Beta distributed. One b per group, above both, is the weight of their previous posteriors. Each
// step maximises their ELBO, pooled over the group's coordinates, before it learns g.
//
// Its benefit was measured (hafvf-lab experiment sgd and the tests of this package). With the default pooling
// it performs like Adam with a short memory of the variance, near β₂ = 0.95. With Pooling 1 the decays react to
// single corrupt batches, which costs precision if there are none.
package adafvf

import (
	"fmt"
	"math"

	"hafvf/hafvf"
	"hafvf/internal/beta"
)

// A Group is a set of parameters that share their decays, such as one weight matrix or one vector of biases,
// with their gradient. The slices belong to the caller: Step reads Grads, and modifies Params in place. For a
// *mat.Dense, pass its RawMatrix().Data.
type Group struct {
	Name   string // in Stats and errors
	Params []float64
	Grads  []float64 // as long as Params
}

// Config configures an Optimizer. Its zero value is the usual configuration.
type Config struct {
	// Rate is the learning rate: the maximum distance that a step moves a parameter. 0 means 1e-3.
	Rate float64
	// Schedule returns a factor of Rate for steps 1, 2, …, finite and at least zero. Nil means 1 at every step.
	Schedule func(step int) float64
	// WeightDecay multiplies the parameters by 1 − rate·WeightDecay before each
	// step: decoupled from the gradient, as in AdamW (Loshchilov and Hutter 2019).
	WeightDecay float64

	// W1 and W2 are the naive priors φ₁ and φ₂ of the weights; zero means {9, 1} and {9.5, 0.5}. B is the naive
	// prior of the b above both; zero means {1, 1}.
	W1, W2, B hafvf.Beta
	// Top is γ, the weight of the previous posterior of b, in (0, 1]. 0 means 0.999.
	Top float64
	// Fixed sets constant weights. If it is nil, the weights are learned.
	Fixed *Decays

	// Pooling is the exponent p in the factor N^(p−1) of the sum over the N coordinates of a group, from which
	// the group's weights are learned. 0 gives the mean. 1 gives the sum, which is the exact ELBO and reacts to
	// single corrupt batches.
	Pooling float64
	// Coordinates is the maximum number of a group's coordinates from which its weights are learned: every
	// ⌈N/Coordinates⌉-th, with another offset at each step. 0 means 256.
	Coordinates int
	// Prior is the prior of the gradient.
	Prior Prior
}

// Decays holds the weights w₁ and w₂, both in [0, 1].
type Decays struct{ W1, W2 float64 }

// A Prior is the Normal-Gamma prior of a coordinate's gradient, with mean zero. Zeros mean κ₀ = 1e-10, α₀ = 2
// and β₀ = 1e-6: gradients of about 1e-3, with hardly any confidence in their mean. Far smaller gradients need
// a smaller Beta.
type Prior struct {
	Kappa float64
	Alpha float64 // above ½, so that the variance has a mean after one gradient
	Beta  float64
}

// Stats describes the posterior of a group's gradient.
type Stats struct {
	Name string
	// W1, W2 and B are the means of the weights after the last step. With fixed decays, W1 and W2 are the fixed
	// ones and B is NaN.
	W1, W2, B float64
	// MeanMemory and VarianceMemory are the effective numbers of gradients behind the estimates of mean and
	// variance: κ − κ₀ and 2(α − α₀). Under constant weights they converge to 1/(1−w₁w₂) and 1/(1−w₂).
	MeanMemory, VarianceMemory float64
	Skipped                    int // steps without the group, because its gradient was not finite
}

// An Optimizer is AdaFVF over groups of parameters. It is not safe for concurrent use.
type Optimizer struct {
	base
	config Config // with defaults in place of zeros
	groups []group
	solver solver
}

// A group is the state of one Group.
type group struct {
	kappa, alpha float64
	m, beta      []float64
	phi          [3]beta.Dist // posteriors of w₁, w₂ and b
}

// New returns an optimizer of the groups. The error names the invalid setting or group.
func New(config Config, groups ...Group) (*Optimizer, error) {
	c, err := config.complete()
	if err != nil {
		return nil, err
	}
	o := &Optimizer{config: c, solver: newSolver(&c)}
	if o.base, err = newBase(c.Rate, c.Schedule, c.WeightDecay, groups); err != nil {
		return nil, err
	}
	for _, g := range groups {
		n := len(g.Params)
		state := group{kappa: c.Prior.Kappa, alpha: c.Prior.Alpha, m: make([]float64, n), beta: make([]float64, n), phi: o.solver.naive}
		for i := range state.beta {
			state.beta[i] = c.Prior.Beta
		}
		o.groups = append(o.groups, state)
	}
	return o, nil
}

// complete replaces zeros by their defaults, and checks the settings.
func (c Config) complete() (Config, error) {
	set := func(v *float64, standard float64) {
		if *v == 0 {
			*v = standard
		}
	}
	set(&c.Rate, 1e-3)
	set(&c.Top, 0.999)
	set(&c.Prior.Kappa, 1e-10)
	set(&c.Prior.Alpha, 2)
	set(&c.Prior.Beta, 1e-6)
	if c.Coordinates == 0 {
		c.Coordinates = 256
	}
	for _, l := range []struct {
		name     string
		phi      *hafvf.Beta
		standard hafvf.Beta
	}{
		{"W1", &c.W1, hafvf.Beta{Alpha: 9, Beta: 1}},
		{"W2", &c.W2, hafvf.Beta{Alpha: 9.5, Beta: 0.5}},
		{"B", &c.B, hafvf.Beta{Alpha: 1, Beta: 1}},
	} {
		if *l.phi == (hafvf.Beta{}) {
			*l.phi = l.standard
		}
		if !computable(l.phi.Alpha, l.phi.Beta) {
			return c, fmt.Errorf("adafvf: %s = {%g, %g} must have numbers from 1e-30 to 1e30", l.name, l.phi.Alpha, l.phi.Beta)
		}
	}
	for _, v := range []struct {
		name string
		v    float64
		min  float64
		max  float64
	}{
		{"Top", c.Top, 0, 1},
		{"Prior.Kappa", c.Prior.Kappa, 0, huge},
		{"Prior.Alpha", c.Prior.Alpha, 0.5, huge},
		{"Prior.Beta", c.Prior.Beta, 0, huge},
	} {
		if !(v.v > v.min && v.v <= v.max) {
			return c, fmt.Errorf("adafvf: %s = %g is outside (%g, %g]", v.name, v.v, v.min, v.max)
		}
	}
	if !(c.Pooling >= 0 && c.Pooling <= 1) {
		return c, fmt.Errorf("adafvf: Pooling = %g is outside [0, 1]", c.Pooling)
	}
	if c.Coordinates < 0 {
		return c, fmt.Errorf("adafvf: Coordinates = %d is below zero", c.Coordinates)
	}
	if f := c.Fixed; f != nil {
		if !(f.W1 >= 0 && f.W1 <= 1 && f.W2 >= 0 && f.W2 <= 1) {
			return c, fmt.Errorf("adafvf: Fixed = {%g, %g} is outside [0, 1]", f.W1, f.W2)
		}
		c.Fixed = new(*f)
	}
	return c, nil
}

// Step learns the gradients of all groups and moves their parameters. If a gradient of a group is not finite or
// beyond 1e100, Step skips the group and counts it in Skipped. Step allocates nothing.
func (o *Optimizer) Step() {
	rate := o.begin()
	for i := range o.groups {
		g := &o.inputs[i]
		if !o.admit(i) {
			continue
		}
		s := &o.groups[i]
		var w Decays
		if o.config.Fixed != nil {
			w = *o.config.Fixed
		} else {
			w = o.solver.learn(s, g.Grads, o.steps)
		}
		o.shrink(g.Params, rate)
		s.learn(&o.config.Prior, w, rate, g.Params, g.Grads)
	}
}

// computable reports whether the derivatives at the parameters of a weight's distribution are finite.
func computable(alpha, beta float64) bool {
	const smallest, largest = 1e-30, 1e30
	return smallest <= alpha && alpha <= largest && smallest <= beta && beta <= largest
}

// forgotten is the state of a group after forgetting, in numbers that all coordinates share: κ̄ and ᾱ,
// m̄ = keep·m, β̄ = β₀ + ω(β−β₀) + drift·m², and for the gradient 1/κ′ = gain and ½κ̄/κ′ = half.
type forgotten struct{ kappa, alpha, keep, drift, gain, half float64 }

func (s *group) forget(p *Prior, w Decays) (f forgotten) {
	rho := w.W1 * w.W2
	f.kappa = p.Kappa + rho*(s.kappa-p.Kappa)
	f.alpha = p.Alpha + w.W2*(s.alpha-p.Alpha)
	f.keep = rho * s.kappa / f.kappa
	f.drift = 0.5 * (1 - rho) * f.keep * p.Kappa
	f.gain = 1 / (f.kappa + 1)
	f.half = 0.5 * f.kappa * f.gain
	return f
}

// learn forgets with w, learns the gradient and moves the parameters.
func (s *group) learn(p *Prior, w Decays, rate float64, params, grads []float64) {
	f := s.forget(p, w)
	s.kappa, s.alpha = f.kappa+1, f.alpha+0.5
	omega, beta0 := w.W2, p.Beta*(1-w.W2)
	spread := (1 + f.gain) / (s.alpha - 1) // s²(1+1/κ′) = β′·spread
	m, beta := s.m[:len(grads)], s.beta[:len(grads)]
	params = params[:len(grads)]
	for i, g := range grads {
		prev := m[i]
		mean := f.keep * prev
		e := g - mean
		mean += f.gain * e
		b := beta0 + omega*beta[i] + f.drift*prev*prev + f.half*e*e
		m[i], beta[i] = mean, b
		params[i] -= rate * (mean / math.Sqrt(mean*mean+spread*b))
	}
}

// Stats returns the statistics of group i.
func (o *Optimizer) Stats(i int) Stats {
	s, p := &o.groups[i], &o.config.Prior
	stats := Stats{
		Name: o.inputs[i].Name, W1: s.phi[0].Mean(), W2: s.phi[1].Mean(), B: s.phi[2].Mean(),
		MeanMemory: s.kappa - p.Kappa, VarianceMemory: 2 * (s.alpha - p.Alpha), Skipped: o.skipped[i],
	}
	if f := o.config.Fixed; f != nil {
		stats.W1, stats.W2, stats.B = f.W1, f.W2, math.NaN()
	}
	return stats
}
