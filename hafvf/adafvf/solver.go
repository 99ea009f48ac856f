package adafvf

import (
	"math"

	"hafvf/internal/beta"
	"hafvf/internal/special"
)

// A solver learns the weights of a group from its gradient, before the gradient itself is learned: it maximises
// the ELBO over q(w₁), q(w₂) and q(b), where b is the level above w₁ and w₂.
type solver struct {
	prior          *Prior
	naive          [3]beta.Dist
	top            float64
	power          float64       // Pooling
	maxCoordinates int           // Coordinates
	levels         [3]beta.Level // w₁, w₂, b
	sys            beta.System

	// The group and its gradient. Only every stride-th coordinate counts.
	group         *group
	grads         []float64
	first, stride int
	factor        float64 // N^Pooling
}

// newSolver returns the solver for a complete configuration.
func newSolver(c *Config) solver {
	s := solver{
		naive: [3]beta.Dist{beta.Dist(c.W1), beta.Dist(c.W2), beta.Dist(c.B)},
		prior: &Prior{c.Prior.Kappa, c.Prior.Alpha, c.Prior.Beta},
		top:   c.Top, power: c.Pooling, maxCoordinates: c.Coordinates,
		sys: beta.NewSystem(2, 2, 3),
	}
	for i := range s.levels {
		s.levels[i].Naive, s.levels[i].Elapsed = s.naive[i], 1
	}
	return s
}

// A point is the position of the levels: (logit of the mean, log of the concentration) per level.
type point [3][2]float64

const (
	// minVarianceMemory is the minimum memory of the variance, in gradients, for learning the weights; below it
	// they stay at their priors. After a single gradient the variance is the prior's, whose scale is a guess,
	// so that any second gradient is a surprise: a pooled sum would forget the first one, and so on for ever.
	minVarianceMemory = 1.5
	// maxRounds is the maximum number of Newton steps, and maxStep the maximum length of one in any coordinate
	// of a point. After a step shorter than tolerance, the next gradient continues with the remaining error:
	// weights are then within 0.01 of their maximum under the mean, and within 0.2 under the sum.
	maxRounds = 30
	maxStep   = 2
	tolerance = 0.1
	// If the logit of a weight is more than doubt below its naive value, the solver searches for another
	// maximum.
	doubt = 1
)

// learn moves the group's q(w₁), q(w₂) and q(b), and returns the means of the first two.
func (s *solver) learn(g *group, grads []float64, step int) Decays {
	n := len(grads)
	s.group, s.grads = g, grads
	s.stride = 1 + (n-1)/s.maxCoordinates
	s.first = step % s.stride
	s.factor = math.Pow(float64(n), s.power)

	// From the priors, under the prior mean of b.
	var start point
	w := s.top
	for i := len(s.levels) - 1; i >= 0; i-- {
		l := &s.levels[i]
		l.DA, l.DB = g.phi[i].Alpha-l.Naive.Alpha, g.phi[i].Beta-l.Naive.Beta
		p := l.PriorAt(w)
		start[i] = coordinates(p)
		if i == 2 {
			w = p.Mean()
		}
	}
	if 2*(g.alpha-s.prior.Alpha) < minVarianceMemory {
		s.move(&start)
	} else {
		s.maximise(start)
	}
	for i := range s.levels {
		g.phi[i] = beta.Dist{Alpha: s.levels[i].A, Beta: s.levels[i].B}
	}
	return s.means()
}

// maximise climbs from start. If the climb ends at weights that forget, the naive weights can be on the slope
// of a higher maximum that the climb misses; maximise then also climbs from there.
func (s *solver) maximise(start point) {
	found := s.climb(start, tolerance)
	low := false
	for i := range 2 {
		low = low || found[i][0] < coordinates(s.naive[i])[0]-doubt
	}
	if low {
		value := s.value(&found)
		other := point{coordinates(s.naive[0]), coordinates(s.naive[1]), {math.Min(start[2][0], -2), start[2][1]}}
		other = s.climb(other, tolerance)
		if s.value(&other) > value {
			found = other
		}
	}
	s.move(&found)
}

// climb runs Newton's method from z until a step is shorter than the tolerance, and returns the end point.
func (s *solver) climb(z point, tolerance float64) point {
	var delta, last point
	reach := float64(maxStep)
	for range maxRounds {
		s.evaluate(&z)
		s.sys.Solve(delta[:])
		size, turn := 0.0, 0.0
		for i := range delta {
			// From (ln α, ln β) to (logit of the mean, log of the concentration).
			l, d := &s.levels[i], &delta[i]
			*d = [2]float64{d[0] - d[1], l.M*d[0] + l.M1*d[1]}
			size = math.Max(size, math.Max(math.Abs(d[0]), math.Abs(d[1])))
			turn += d[0]*last[i][0] + d[1]*last[i][1]
		}
		if !(size < math.Inf(1)) {
			return z
		}
		if turn < 0 {
			reach /= 2 // the last step went too far
		}
		last = delta
		t := math.Min(1, reach/size)
		for i := range z {
			z[i][0] = clamp(z[i][0] + t*delta[i][0])
			z[i][1] = clamp(z[i][1] + t*delta[i][1])
		}
		if size < tolerance {
			return z
		}
	}
	return z
}

func coordinates(p beta.Dist) [2]float64 {
	return [2]float64{math.Log(p.Alpha / p.Beta), math.Log(p.Alpha + p.Beta)}
}

// clamp keeps φ representable.
func clamp(v float64) float64 { return math.Max(-30, math.Min(30, v)) }

// means returns the means of w₁ and w₂ at the present point.
func (s *solver) means() Decays { return Decays{s.levels[0].M, s.levels[1].M} }

func (s *solver) move(z *point) {
	for i := range s.levels {
		s.levels[i].Move(z[i][0], z[i][1])
	}
}

// evaluate moves the levels to z and derives the system there.
func (s *solver) evaluate(z *point) {
	w1, w2, b := &s.levels[0], &s.levels[1], &s.levels[2]
	for i := range s.levels {
		s.levels[i].Place(z[i][0], z[i][1])
	}
	b.SetPrior(s.top, false)
	w1.SetPrior(b.M, true)
	w2.SetPrior(b.M, true)
	c := pooled(s.prior, s.group, s.means(), s.grads, s.first, s.stride)
	w1.Child, w2.Child = c.children(w1.M, w2.M, s.factor)
	b.Child = w1.AsChild().Add(w2.AsChild())
	for i := range s.levels {
		s.levels[i].Derive(&s.sys, i)
	}
	w1.Couple(&s.sys, 0, b)
	w2.Couple(&s.sys, 1, b)
}

// value moves the levels to z and returns the ELBO there.
func (s *solver) value(z *point) float64 {
	s.evaluate(z)
	v := s.factor * evidence(s.prior, s.group, s.means(), s.grads, s.first, s.stride)
	for i := range s.levels {
		l := &s.levels[i]
		v -= 0.5*l.V*l.Child.S0 + l.Divergence()
	}
	return v
}

// A curve describes how the ELBO of a group depends on ρ and ω: the slopes of its optimum over the posterior of
// the gradient and, along each direction, the second to fourth derivative of the log-partition before the
// gradient and the second derivative after it.
type curve struct {
	rho, omega                   float64 // δ
	rho2, rho3, rho4             float64 // S_ρρ and its derivatives in ρ
	omega2, omega3, omega4       float64 // S_ωω and its derivatives in ω
	rhoAfter, omegaAfter, across float64 // S_ρρ, S_ωω, S_ρω after the gradient
}

// children returns the children of w₁ and w₂, the curve times factor: ρ = w₁w₂ and ω = w₂ by the chain rule.
func (c *curve) children(w1, w2, factor float64) (first, second beta.Child) {
	p1, p2 := w1*w1, w2*w2
	rho := c.rhoAfter - c.rho2
	f := factor
	first = beta.Child{A1: f * w2 * c.rho, A2: f * p2 * rho, S0: f * p2 * c.rho2, S1: f * p2 * w2 * c.rho3, S2: f * p2 * p2 * c.rho4}
	second = beta.Child{
		A1: f * (w1*c.rho + c.omega), A2: f * (p1*rho + 2*w1*c.across + c.omegaAfter - c.omega2),
		S0: f * (p1*c.rho2 + c.omega2), S1: f * (p1*w1*c.rho3 + c.omega3), S2: f * (p1*p1*c.rho4 + c.omega4),
	}
	return first, second
}

// evidence returns the mean over coordinates first, first+stride, … of log p(g) under NormalGamma(m̄, κ̄, ᾱ,
// β̄), up to a constant.
func evidence(p *Prior, s *group, w Decays, grads []float64, first, stride int) float64 {
	f := s.forget(p, w)
	sum, n := 0.0, 0
	for i := first; i < len(grads); i += stride {
		n++
		b := p.Beta + w.W2*(s.beta[i]-p.Beta) + f.drift*s.m[i]*s.m[i]
		e := grads[i] - f.keep*s.m[i]
		x := f.half * e * e
		sum -= 0.5*math.Log(b) + (f.alpha+0.5)*math.Log1p(x/b)
	}
	return sum/float64(n) + special.LgammaDelta(f.alpha, 0.5) + 0.5*math.Log(f.kappa*f.gain)
}

// pooled returns the mean over coordinates first, first+stride, … of the curve of
//
//	log p(g) under NormalGamma(m̄, κ̄, ᾱ, β̄), minus ½Var[w]·S,
//
// whose slopes are δ = (E[T] after g − E[T] before)·d with T = (τμ, −½τμ², ln τ, −τ),
// d_ρ = (κm, κ−κ₀, 0, ½κm²), d_ω = (0, 0, α−α₀, β−β₀), and S = dᵀ Cov[T] d. The curvature along ρ is taken in the
// limit κ₀ → 0.
func pooled(p *Prior, s *group, w Decays, grads []float64, first, stride int) (c curve) {
	f := s.forget(p, w)
	kappa, alpha, alpha1 := f.kappa, f.alpha, f.alpha+0.5
	keep, drift, gain, half, omega := f.keep, f.drift, f.gain, f.half, w.W2
	n := 0
	// Sums of m²/β̄, m′²/β′, q = (m′−m)²/β′, q², qy, and of the powers of x = (β−β₀)/β̄ and y = (β−β₀)/β′.
	var before, after, q1, q2, qy float64
	var x1, x2, x3, x4, y1, y2 float64
	logs, product := 0.0, 1.0 // Σ ln β′/β̄
	for i := first; i < len(grads); i += stride {
		n++
		m, excess := s.m[i], s.beta[i]-p.Beta
		mean := keep * m
		e := grads[i] - mean
		b := p.Beta + omega*excess + drift*m*m
		b1 := b + half*e*e
		mean1 := mean + gain*e
		r, r1 := 1/b, 1/b1
		ratio := b1 * r
		if next := product * ratio; next < 1e150 {
			product = next
		} else {
			logs += math.Log(product) + math.Log(ratio)
			product = 1
		}
		before += r * m * m
		after += r1 * mean1 * mean1
		d := mean1 - m
		q := r1 * d * d
		q1 += q
		q2 += q * q
		x, y := excess*r, excess*r1
		xx := x * x
		x1 += x
		x2 += xx
		x3 += xx * x
		x4 += xx * xx
		y1 += y
		y2 += y * y
		qy += q * y
	}
	logs += math.Log(product)
	mean := 1 / float64(n)

	dk, da := s.kappa-p.Kappa, s.alpha-p.Alpha
	k := s.kappa
	before, after, q1, q2, qy = mean*before, mean*after, mean*q1, mean*q2, mean*qy
	c.rho = 0.5*k*(alpha*(1-keep)*(1-keep)*before-alpha1*q1) +
		0.5*p.Kappa*(alpha1*after-alpha*keep*keep*before) + 0.5*dk*(1/kappa-gain)
	r := dk / kappa
	c.rho2 = 0.5 * r * r
	c.rho3 = -r * r * r
	c.rho4 = 3 * r * r * r * r
	c.rhoAfter = k * k * (alpha1*(q2/4+gain*q1) + gain*gain/2)

	_, _, p1, p2, p3 := special.Polygammas(alpha, true)
	psi, psi1 := special.DigammaDelta(alpha, 0.5)
	x1, x2, x3, x4, y1, y2 = mean*x1, mean*x2, mean*x3, mean*x4, mean*y1, mean*y2
	c.omega = da*(psi-mean*logs) - alpha1*y1 + alpha*x1
	c.omega2 = p1*da*da - 2*da*x1 + alpha*x2
	c.omega3 = p2*da*da*da + 3*da*x2 - 2*alpha*x3
	c.omega4 = p3*da*da*da*da - 8*da*x3 + 6*alpha*x4
	c.omegaAfter = (p1+psi1)*da*da - 2*da*y1 + alpha1*y2
	c.across = -0.5 * k * (da*q1 - alpha1*qy)
	return c
}
