package adafvf

import (
	"math"

	"hafvf/hafvf/internal/beta"
	"hafvf/hafvf/internal/special"
)

// A solver learns the weights of a group from its gradient, before the gradient
// itself is learned: it climbs the ELBO over q(w₁), q(w₂) and q(b), of which w₁ and
// w₂ stand under b.
type solver struct {
	prior  *Prior
	naive  [3]beta.Dist
	top    float64
	power  float64 // Pooling
	most   int     // Coordinates
	rounds int
	levels [3]beta.Level // w₁, w₂, b
	sys    beta.System
	delta  [3][2]float64
}

// newSolver is that of a complete configuration, which has to stay in its place.
func newSolver(c *Config) solver {
	s := solver{
		naive: [3]beta.Dist{beta.Dist(c.W1), beta.Dist(c.W2), beta.Dist(c.B)},
		prior: &Prior{c.Prior.Kappa, c.Prior.Alpha, c.Prior.Beta},
		top:   c.Top, power: c.Pooling, most: c.Coordinates, rounds: rounds,
		sys: beta.NewSystem(2, 2, 3),
	}
	for i := range s.levels {
		s.levels[i].Naive, s.levels[i].Elapsed = s.naive[i], 1
	}
	return s
}

// rounds is how many Newton steps are taken, each at most maxStep long in the
// logit of a mean or the log of a concentration. The weights move little from one
// gradient to the next, and what a step leaves to be done the next one does.
const (
	rounds  = 2
	maxStep = 2
)

// learn moves the group's q(w₁), q(w₂) and q(b), and returns the means of the
// first two.
func (s *solver) learn(g *group, grads []float64, step int) Decays {
	for i := range s.levels {
		l := &s.levels[i]
		l.DA, l.DB = g.phi[i].Alpha-l.Naive.Alpha, g.phi[i].Beta-l.Naive.Beta
	}
	// From the priors under the prior mean of b.
	w := s.top
	for i := len(s.levels) - 1; i >= 0; i-- {
		l := &s.levels[i]
		p := l.PriorAt(w)
		l.Move(math.Log(p.Alpha/p.Beta), math.Log(p.Alpha+p.Beta))
		if i == 2 {
			w = l.M
		}
	}
	for range s.rounds {
		s.evaluate(g, grads, step)
		s.sys.Solve(s.delta[:])
		size := 0.0
		for i := range s.levels {
			// From (ln α, ln β) to (logit of the mean, log of the concentration).
			l, d := &s.levels[i], &s.delta[i]
			*d = [2]float64{d[0] - d[1], l.M*d[0] + l.M1*d[1]}
			size = math.Max(size, math.Max(math.Abs(d[0]), math.Abs(d[1])))
		}
		if !(size < math.Inf(1)) {
			break
		}
		t := math.Min(1, maxStep/size)
		for i := range s.levels {
			l, d := &s.levels[i], &s.delta[i]
			l.Move(clamp(l.X+t*d[0]), clamp(l.Y+t*d[1]))
		}
	}
	for i := range s.levels {
		g.phi[i] = beta.Dist{Alpha: s.levels[i].A, Beta: s.levels[i].B}
	}
	return Decays{s.levels[0].M, s.levels[1].M}
}

// clamp keeps φ far from where it cannot be represented.
func clamp(v float64) float64 { return math.Max(-30, math.Min(30, v)) }

// evaluate derives the system where the levels stand.
func (s *solver) evaluate(g *group, grads []float64, step int) {
	w1, w2, b := &s.levels[0], &s.levels[1], &s.levels[2]
	b.Place(b.X, b.Y)
	b.SetPrior(s.top, false)
	for _, l := range []*beta.Level{w1, w2} {
		l.Place(l.X, l.Y)
		l.SetPrior(b.M, true)
	}
	w1.Child, w2.Child = s.pool(g, grads, step).children(w1.M, w2.M)
	b.Child = w1.AsChild().Add(w2.AsChild())
	for i := range s.levels {
		s.levels[i].Derive(&s.sys, i)
	}
	w1.Couple(&s.sys, 0, b)
	w2.Couple(&s.sys, 1, b)
}

// pool is the curve of the group's ELBO at the levels' means.
func (s *solver) pool(g *group, grads []float64, step int) curve {
	n := len(grads)
	stride := (n + s.most - 1) / s.most
	c := pooled(s.prior, g, Decays{s.levels[0].M, s.levels[1].M}, grads, step%stride, stride)
	c.scale(math.Pow(float64(n), s.power))
	return c
}

// A curve is how the ELBO of a group depends on ρ and ω: the slopes of its optimum
// over the posterior of the gradient, and along each of both directions the second
// to fourth derivative of the log-partition before the gradient, and the second
// after it.
type curve struct {
	rho, omega                   float64 // δ
	rho2, rho3, rho4             float64 // S_ρρ and its derivatives in ρ
	omega2, omega3, omega4       float64 // S_ωω and its derivatives in ω
	rhoAfter, omegaAfter, across float64 // S_ρρ, S_ωω, S_ρω after the gradient
}

func (c *curve) scale(by float64) {
	for _, v := range []*float64{&c.rho, &c.omega, &c.rho2, &c.rho3, &c.rho4, &c.omega2, &c.omega3, &c.omega4, &c.rhoAfter, &c.omegaAfter, &c.across} {
		*v *= by
	}
}

// children are what w₁ and w₂ weigh: ρ = w₁w₂ and ω = w₂ by the chain rule.
func (c curve) children(w1, w2 float64) (first, second beta.Child) {
	p1, p2 := w1*w1, w2*w2
	rho := c.rhoAfter - c.rho2
	first = beta.Child{A1: w2 * c.rho, A2: p2 * rho, S0: p2 * c.rho2, S1: p2 * w2 * c.rho3, S2: p2 * p2 * c.rho4}
	second = beta.Child{
		A1: w1*c.rho + c.omega, A2: p1*rho + 2*w1*c.across + c.omegaAfter - c.omega2,
		S0: p1*c.rho2 + c.omega2, S1: p1*w1*c.rho3 + c.omega3, S2: p1*p1*c.rho4 + c.omega4,
	}
	return first, second
}

// pooled is the mean over coordinates first, first+stride, … of the curve of
//
//	log p(g) under NormalGamma(m̄, κ̄, ᾱ, β̄), less ½Var[w]·S,
//
// whose slopes are δ = (E[T] after g − E[T] before)·d with T = (τμ, −½τμ², ln τ,
// −τ), d_ρ = (κm, κ−κ₀, 0, ½κm²), d_ω = (0, 0, α−α₀, β−β₀), and S = dᵀ Cov[T] d. The
// curvature along ρ is that for κ₀ → 0.
func pooled(p *Prior, s *group, w Decays, grads []float64, first, stride int) (c curve) {
	rho, omega := w.W1*w.W2, w.W2
	kappa, alpha := s.predict(p, w)
	keep := rho * s.kappa / kappa
	drift := 0.5 * (1 - rho) * keep * p.Kappa
	kappa1, alpha1 := kappa+1, alpha+0.5
	gain := 1 / kappa1
	half := 0.5 * kappa * gain

	n := 0
	var before, after, naive float64 // Σ t̄(m̄−m)², Σ t′(m′−m)², Σ t′m′² − t̄m̄²
	var after2, across float64       // Σ (t′(m′−m)²)², Σ t′(m′−m)²·(β−β₀)/β′
	var x1, x2, x3, x4, y1, y2 float64
	logs, product := 0.0, 1.0 // Σ ln β′/β̄
	for i := first; i < len(grads); i += stride {
		n++
		m, over := s.m[i], s.beta[i]-p.Beta
		mean := keep * m
		e := grads[i] - mean
		b := p.Beta + omega*over + drift*m*m
		b1 := b + half*e*e
		mean1 := mean + gain*e
		r, r1 := 1/b, 1/b1
		ratio := b1 * r
		if more := product * ratio; more < 1e150 {
			product = more
		} else {
			logs += math.Log(product) + math.Log(ratio)
			product = 1
		}
		d, d1 := mean-m, mean1-m
		before += r * d * d
		q := r1 * d1 * d1
		after += q
		after2 += q * q
		naive += alpha1*r1*mean1*mean1 - alpha*r*mean*mean
		x, y := over*r, over*r1
		xx := x * x
		x1 += x
		x2 += xx
		x3 += xx * x
		x4 += xx * xx
		y1 += y
		y2 += y * y
		across += q * y
	}
	logs += math.Log(product)
	mean := 1 / float64(n)

	dk, da := s.kappa-p.Kappa, s.alpha-p.Alpha
	k := s.kappa
	c.rho = mean*(0.5*k*(alpha*before-alpha1*after)+0.5*p.Kappa*naive) + 0.5*dk*(1/kappa-gain)
	r := dk / kappa
	c.rho2 = 0.5 * r * r
	c.rho3 = -r * r * r
	c.rho4 = 3 * r * r * r * r
	c.rhoAfter = mean*(0.25*k*k*alpha1*after2+k*k*gain*alpha1*after) + 0.5*k*k*gain*gain

	_, p1, p2, p3 := special.Polygamma(alpha)
	psi, psi1 := special.DigammaDelta(alpha, 0.5)
	x1, x2, x3, x4, y1, y2 = mean*x1, mean*x2, mean*x3, mean*x4, mean*y1, mean*y2
	c.omega = da*(psi-mean*logs) - alpha1*y1 + alpha*x1
	c.omega2 = p1*da*da - 2*da*x1 + alpha*x2
	c.omega3 = p2*da*da*da + 3*da*x2 - 2*alpha*x3
	c.omega4 = p3*da*da*da*da - 8*da*x3 + 6*alpha*x4
	c.omegaAfter = (p1+psi1)*da*da - 2*da*y1 + alpha1*y2
	c.across = -0.5 * k * (da*mean*after - alpha1*mean*across)
	return c
}
