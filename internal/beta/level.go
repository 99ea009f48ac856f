// Package beta implements the levels of the filter: Beta distributions over weights. A level learns from its child,
// and the level above weighs the last posterior of the level against its naive prior. Five numbers describe a
// child, so the same levels serve the filter, where they are a chain over one family, and the optimizer AdaFVF,
// where one level is above two.
package beta

import (
	"math"

	"hafvf/internal/special"
)

// Dist has the parameters of a Beta distribution over a weight.
type Dist struct{ Alpha, Beta float64 }

// Mean returns alpha/(alpha+beta).
func (d Dist) Mean() float64 { return d.Alpha / (d.Alpha + d.Beta) }

// A Child is the term that a Beta level weighs, along its line: the family for w, the Beta level below for b. With
// mean m and variance V of the weight, it contributes A(m) − ½ V·S(m) to the objective.
type Child struct {
	A1, A2     float64 // A′, A″
	S0, S1, S2 float64 // S, S′, S″
}

// Add returns the child of a level that weighs both c and d.
func (c Child) Add(d Child) Child {
	return Child{c.A1 + d.A1, c.A2 + d.A2, c.S0 + d.S0, c.S1 + d.S1, c.S2 + d.S2}
}

// A Level is one Beta level within one step: q(w) = Beta(φ). Its free coordinates are x, the logit of its mean, and
// y, the log of its concentration; every point (x, y) is a valid φ. Its prior is φ₀ + m·(φₜ₋₁ − φ₀), where m is the
// mean of the level above, or γ. The caller sets Naive, DA, DB, Elapsed and Child, and reads the other fields.
type Level struct {
	Naive  Dist    // φ₀
	DA, DB float64 // φₜ₋₁ − φ₀

	X, Y  float64
	M, M1 float64 // mean, 1 − mean
	A, B  float64 // φ
	V     float64 // Var[w]
	Prior Dist
	Child Child

	Elapsed float64 // units of time over which the weight acts; usually 1

	c             float64   // concentration
	psi           [3]gammas // at a, b and c
	gap           [2]gammas
	priorPsi      [3]gammas // only if the level above is learned
	priorGap      [2]gammas
	elapsedWeight power // the weight over the elapsed time; not set if Elapsed is 1
}

// Memory returns mean and variance of the weight over the elapsed time.
func (l *Level) Memory() (mean, variance float64) {
	if l.Elapsed == 1 {
		return l.M, l.V
	}
	return l.elapsedWeight.m, l.elapsedWeight.v
}

// gammas are ψ = ln z + r0 and ψ₁ … ψ₃ at one point, with ψ₃ only for priors. Or they are a gap, ψ(x) − ψ(c) and
// the same for ψ₁ … ψ₃, where x is a or b, and c is their sum. The Fisher information of a Beta consists of gaps:
// if x is nearly c, it is in digits that the polygammas themselves lack.
type gammas struct{ z, r0, p1, p2, p3 float64 }

// psi returns ψ.
func (g *gammas) psi() float64 { return special.Log(g.z) + g.r0 }

// maxRatio is the ratio of a and b above which the gap is summed term by term.
const maxRatio = 1e3

// setGammas sets the polygammas of Beta(a, b) and their gaps.
func setGammas(a, b float64, third bool, psi *[3]gammas, g *[2]gammas) {
	psi[0].set(a, third)
	psi[1].set(b, third)
	psi[2].set(a+b, third)
	if a > maxRatio*b {
		g[0] = gapAt(a, b)
	} else {
		g[0] = psi[0].gap(&psi[2])
	}
	if b > maxRatio*a {
		g[1] = gapAt(b, a)
	} else {
		g[1] = psi[1].gap(&psi[2])
	}
}

func (g *gammas) set(x float64, third bool) {
	g.z, g.r0, g.p1, g.p2, g.p3 = special.Polygammas(x, third)
}

func (g *gammas) gap(c *gammas) gammas {
	return gammas{g.z / c.z, g.r0 - c.r0, g.p1 - c.p1, g.p2 - c.p2, g.p3 - c.p3}
}

// gapAt returns the gap between x and x + k for k much smaller than x.
func gapAt(x, k float64) gammas {
	d0, d1 := special.DigammaDelta(x, k)
	c := x + k
	if x < special.Asymptotic {
		_, _, _, p2, p3 := special.Polygammas(x, true)
		_, _, _, c2, c3 := special.Polygammas(c, true)
		return gammas{1, -d0, -d1, p2 - c2, p3 - c3}
	}
	// ψ₂(x) = −1/x² − 1/x³ − 1/2x⁴ + …; the differences are k·(x+c)/(xc)² and so on.
	r, q := 1/x, 1/c
	d := k * r * q // r − q
	s1 := r + q
	s2 := r*r + r*q + q*q
	s3 := s1 * (r*r + q*q)
	s5 := s1 * (r*r - r*q + q*q) * s2
	// Only the Hessian uses ψ₃, so two terms suffice.
	return gammas{1, -d0, -d1, -d * (s1 + s2 + s3/2 - s5/6), d * (2*s2 + 3*s3)}
}

// Place moves the level to (x, y) and sets the polygammas.
func (l *Level) Place(x, y float64) {
	l.Move(x, y)
	setGammas(l.A, l.B, false, &l.psi, &l.gap)
}

// Move is Place without the polygammas.
func (l *Level) Move(x, y float64) {
	l.X, l.Y = x, y
	if x < 0 {
		e := special.Exp(x)
		l.M1 = 1 / (1 + e)
		l.M = e * l.M1
	} else {
		e := special.Exp(-x)
		l.M = 1 / (1 + e)
		l.M1 = e * l.M
	}
	l.c = special.Exp(y)
	l.A, l.B = l.M*l.c, l.M1*l.c
	l.V = l.M * l.M1 / (l.c + 1)
	if l.Elapsed != 1 {
		l.elapsedWeight = l.power(l.Elapsed)
	}
}

// SetPrior sets the prior for weight w of the level above. learned is whether the level above is learned.
func (l *Level) SetPrior(w float64, learned bool) {
	l.Prior = l.PriorAt(w)
	if learned && (l.DA != 0 || l.DB != 0) {
		setGammas(l.Prior.Alpha, l.Prior.Beta, true, &l.priorPsi, &l.priorGap)
	}
}

func (l *Level) PriorAt(w float64) Dist {
	return Dist{l.Naive.Alpha + w*l.DA, l.Naive.Beta + w*l.DB}
}

// Price returns a lower bound of KL(q‖prior) over all q with mean m, where w is the weight of the level above. By
// Donsker and Varadhan, the divergence is at least E_q[h] − ln E_prior[e^h] for every h. Price uses a multiple of
// −ln w or −ln(1−w) for h, which is convex: E_q[h] is at least its value at m. The multiple is about the one for
// which m is the mean under e^h.
func (l *Level) Price(m, w float64) float64 {
	p := l.PriorAt(w)
	a, b := p.Alpha, p.Beta
	if m > a/(a+b) {
		a, b, m = b, a, 1-m
	}
	reach := -special.Log(m)
	remaining := min(b, 1) / reach // a, reduced by the exponent of e^h
	if remaining >= a {
		return 0
	}
	return max(0, (a-remaining)*reach-special.LgammaDelta(a, b)+special.LgammaDelta(remaining, b))
}

// AsChild returns the level as a child of the learned level above: A = −KL(φ‖prior).
func (l *Level) AsChild() (ch Child) {
	if l.DA == 0 && l.DB == 0 {
		return ch
	}
	// The sum over (α, β, −(α+β)), written with gaps.
	da, db := l.DA, l.DB
	qa, qb, pa, pb, pc := &l.gap[0], &l.gap[1], &l.priorGap[0], &l.priorGap[1], &l.priorPsi[2]
	cross := da * db
	da2, db2 := da*da, db*db
	ch.A1 = da*(special.Log(qa.z/pa.z)+(qa.r0-pa.r0)) + db*(special.Log(qb.z/pb.z)+(qb.r0-pb.r0))
	ch.S0 = da2*pa.p1 + db2*pb.p1 - 2*cross*pc.p1
	ch.S1 = da2*da*pa.p2 + db2*db*pb.p2 - 3*cross*(da+db)*pc.p2
	ch.S2 = da2*da2*pa.p3 + db2*db2*pb.p3 - cross*(4*da2+6*cross+4*db2)*pc.p3
	ch.A2 = -ch.S0
	return ch
}

// A System is the gradient and the negative Hessian of the objective over all levels, in the basis (u, v) = (ln α,
// ln β) of each level's plane. The Hessian is that for (x, y), only written in this basis: there, α and β of very
// different size keep their own digits. Levels couple only through the mean of the upper level, which moves along
// (1, −1).
type System struct {
	G        [][2]float64
	above    []int
	diag     [][3]float64 // uu, uv, vv
	coupling [][2]float64 // (u, v) of a level against x of the level above it
	// Scratch memory of Solve.
	fill [][3]float64
	rhs  [][2]float64
}

// NewSystem returns a system of len(above) levels, bottom up. above[i] > i is the level above level i; len(above)
// means none.
func NewSystem(above ...int) System {
	n := len(above)
	return System{
		G: make([][2]float64, n), above: above, diag: make([][3]float64, n), coupling: make([][2]float64, n),
		fill: make([][3]float64, n), rhs: make([][2]float64, n),
	}
}

// Chain returns a system of n levels, each under the next.
func Chain(n int) System {
	above := make([]int, n)
	for i := range above {
		above[i] = i + 1
	}
	return NewSystem(above...)
}

// Derive sets row i of the system for a level whose prior and child are set.
func (l *Level) Derive(sys *System, i int) {
	// KL(φ‖prior): gradient C(φ)(φ − prior), Hessian C(φ) + ∂C·(φ − prior).
	ea, eb := l.A-l.Prior.Alpha, l.B-l.Prior.Beta
	e := ea + eb
	ga, gb, pc := &l.gap[0], &l.gap[1], &l.psi[2]
	klu := l.A * (ga.p1*ea - pc.p1*eb)
	klv := l.B * (gb.p1*eb - pc.p1*ea)
	hc := -pc.p1 - pc.p2*e
	mu := l.M * l.M1
	bend := mu * (klu + klv) // the effect of the curvature of x, y in u, v
	kluu := l.A*l.A*(ga.p1+ga.p2*ea-pc.p2*eb) + klu - bend
	kluv := l.A*l.B*hc + bend
	klvv := l.B*l.B*(gb.p1+gb.p2*eb-pc.p2*ea) + klv - bend

	// The child, in (x, y).
	ch := &l.Child
	skew := l.M1 - l.M
	r := l.c / (l.c + 1)
	v := l.V
	vx, vy := v*skew, -v*r
	vxx := v * (skew*skew - 2*mu)
	vxy := -skew * v * r
	vyy := -v * r * (1 - l.c) / (1 + l.c)
	am := ch.A1 - 0.5*v*ch.S1
	x := am*mu - 0.5*ch.S0*vx
	y := -0.5 * ch.S0 * vy
	xx := -(ch.A2-0.5*v*ch.S2)*mu*mu - am*mu*skew + ch.S1*vx*mu + 0.5*ch.S0*vxx
	xy := 0.5*ch.S1*vy*mu + 0.5*ch.S0*vxy
	yy := 0.5 * ch.S0 * vyy
	if l.Elapsed != 1 {
		x, y, xx, xy, yy = l.elapsedWeight.pull(ch)
	}

	sys.G[i] = [2]float64{x + l.M*y - klu, -x + l.M1*y - klv}
	sys.diag[i] = [3]float64{
		xx + l.M*(2*xy+l.M*yy) + kluu,
		-xx + skew*xy + mu*yy + kluv,
		xx - l.M1*(2*xy-l.M1*yy) + klvv,
	}
}

// Bend adds a second-order term to a short Newton step in (u, v): the term that the third derivatives of the
// divergence alone give near the prior. There, the gradient in u is α·I(α)·(α − prior α), with the Fisher
// information I.
func (l *Level) Bend(u, v float64) (float64, float64) {
	return bend(u, l.A*l.gap[0].p2/l.gap[0].p1), bend(v, l.B*l.gap[1].p2/l.gap[1].p1)
}

func bend(u, slope float64) float64 {
	const short = 0.1
	if k := -u * (1.5 + slope); math.Abs(u) < short && math.Abs(k) < short {
		return u + u*k
	}
	return u
}

// Couple sets the coupling of level i, l, and the level above, upper: ∂²(−KL)/∂φ∂m = C(φ)·d.
func (l *Level) Couple(sys *System, i int, upper *Level) {
	mu := upper.M * upper.M1
	sys.coupling[i] = [2]float64{
		-l.A * (l.gap[0].p1*l.DA - l.psi[2].p1*l.DB) * mu,
		-l.B * (l.gap[1].p1*l.DB - l.psi[2].p1*l.DA) * mu,
	}
}

// Solve writes the Newton step, in (u, v), to delta. It eliminates blocks from the bottom up. For pivots that are
// not positive definite it uses the absolute values of their eigenvalues, so that the step always climbs.
func (sys *System) Solve(delta [][2]float64) {
	n := len(sys.G)
	fill, rhs, above, off := sys.fill[:n], sys.rhs[:n], sys.above[:n], sys.coupling[:n]
	delta = delta[:n]
	copy(fill, sys.diag)
	copy(rhs, sys.G)
	for i := range fill {
		m := &fill[i]
		if !(m[0] > 0 && m[2] > 0 && m[0]*m[2]-m[1]*m[1] > definite*m[0]*m[2]) {
			*m = positive(*m)
		}
		// The inverse, in place.
		det := 1 / (m[0]*m[2] - m[1]*m[1])
		m[0], m[1], m[2] = m[2]*det, -m[1]*det, m[0]*det
		up := above[i]
		if up >= n {
			continue
		}
		o, p, q := &off[i], &fill[up], &rhs[up]
		su, sv := m[0]*o[0]+m[1]*o[1], m[1]*o[0]+m[2]*o[1]
		t := o[0]*su + o[1]*sv
		p[0] -= t
		p[1] += t
		p[2] -= t
		t = su*rhs[i][0] + sv*rhs[i][1]
		q[0] -= t
		q[1] += t
	}
	for i := n - 1; i >= 0; i-- {
		u, v := rhs[i][0], rhs[i][1]
		if up := above[i]; up < n {
			x := delta[up][0] - delta[up][1]
			u -= off[i][0] * x
			v -= off[i][1] * x
		}
		m := &fill[i]
		delta[i] = [2]float64{m[0]*u + m[1]*v, m[1]*u + m[2]*v}
	}
}

// definite is the minimum determinant of a block, relative to the product of its diagonal.
const definite = 1e-14

// positive returns the matrix with the absolute values of its eigenvalues, bounded away from zero.
func positive(m [3]float64) [3]float64 {
	half, diff := (m[0]+m[2])/2, (m[0]-m[2])/2
	root := math.Hypot(diff, m[1])
	minAbs := 1e-8*(math.Abs(half)+root) + 1e-300
	hi, lo := math.Max(math.Abs(half+root), minAbs), math.Max(math.Abs(half-root), minAbs)
	// (m − half)/root reflects along the first eigenvector.
	mid, amp := (hi+lo)/2, 0.0
	if root > 0 {
		amp = (hi - lo) / 2 / root
	}
	return [3]float64{mid + amp*diff, amp * m[1], mid - amp*diff}
}

// Divergence returns KL(Beta(φ)‖prior), in nats.
func (l *Level) Divergence() float64 {
	a, b, p := l.A, l.B, l.Prior
	switch {
	case b > maxRatio*a && p.Beta > maxRatio*p.Alpha:
		d, r := bregman(a, p.Alpha, &l.psi[0])
		return d + special.Log(r) + l.lopsidedDivergence(b, a, p.Beta, p.Alpha, 1)
	case a > maxRatio*b && p.Alpha > maxRatio*p.Beta:
		d, r := bregman(b, p.Beta, &l.psi[1])
		return d + special.Log(r) + l.lopsidedDivergence(a, b, p.Alpha, p.Beta, 0)
	}
	// The three terms share the logarithm of the factors that lift small arguments.
	da, ra := bregman(a, p.Alpha, &l.psi[0])
	db, rb := bregman(b, p.Beta, &l.psi[1])
	dc, rc := bregman(l.c, p.Alpha+p.Beta, &l.psi[2])
	d := da + db - dc
	if ra != 1 || rb != 1 || rc != 1 {
		d += special.Log(ra * rb / rc)
	}
	return d
}

// lopsidedDivergence returns the difference of two Bregman divergences, from x and from x + k, to X and to X + K,
// where k and K are small:
//
//	lnΓ(x+k) − lnΓ(x) − (lnΓ(X+K) − lnΓ(X)) + (K−k)ψ(x) + (X+K−x−k)(ψ(x+k) − ψ(x))
func (l *Level) lopsidedDivergence(x, k, X, K float64, i int) float64 {
	return special.LgammaDelta(x, k) - special.LgammaDelta(X, K) + (K-k)*l.psi[i].psi() - (X-x+K-k)*l.gap[i].psi()
}

// bregman returns lnΓ(end) − lnΓ(start) − (end − start)ψ(start), less the logarithm of lift. For close points it
// uses the Taylor series, whose polygammas are known and where the difference would lose digits.
func bregman(start, end float64, g *gammas) (d, lift float64) {
	k := end - start
	if math.Abs(k) < 2e-3*start {
		_, _, _, _, p3 := special.Polygammas(start, true)
		return k * k * (g.p1/2 + k*(g.p2/6+k*p3/24)), 1
	}
	lift = 1
	if start < special.Lift || end < special.Lift {
		if max(start, end) > 1e30 {
			return special.LgammaDelta(min(start, end), math.Abs(k))*math.Copysign(1, k) - k*g.psi(), 1
		}
		lift = special.Product(start) / special.Product(end)
		if start >= special.Lift {
			// ψ at the lifted argument, for r0 below.
			z, r0, _, _, _ := special.Polygammas(start+special.Lift, false)
			return difference(z, end+special.Lift, k, r0) + k*(special.Log(z)+r0-g.psi()), lift
		}
		start, end = start+special.Lift, end+special.Lift
	}
	return difference(start, end, k, g.r0), lift
}

// difference returns lnΓ(end) − lnΓ(z) − k·(ln z + r0), for z, end ≥ Lift and end = z + k.
func difference(z, end, k, r0 float64) float64 {
	r, q := 1/z, 1/end
	var grow float64 // ln end/z
	if k > 0 {
		grow = special.Log1p(k * r)
	} else {
		grow = -special.Log1p(-k * q)
	}
	return (end-0.5)*grow - k*(1+r0) + special.Stirling(q) - special.Stirling(r)
}

// An Increment has the terms of Proposition 1 for one level: φ = φ̂ + U1 + U2 + U3, each for (alpha, beta).
type Increment struct{ U1, U2, U3 [2]float64 }

// Increment evaluates Proposition 1 at the level's φ and child.
func (l *Level) Increment() Increment {
	la, lb, m := l.gap[0].p1, l.gap[1].p1, -l.psi[2].p1
	det := la*lb - m*m
	c2 := l.c * l.c
	// K is the paper's K(φα, φβ), and K(φβ, φα).
	ka := (m*l.A + lb*l.B) / (det * c2)
	kb := (m*l.B + la*l.A) / (det * c2)
	dL, dC := l.Child.A1, -0.5*l.V*l.Child.S1
	// ∇Var[w] in (α, β).
	c3 := c2 * (l.c + 1) * (l.c + 1) * l.c
	va := (l.B*l.c*(l.c+1) - l.A*l.B*(3*l.c+2)) / c3
	vb := (l.A*l.c*(l.c+1) - l.A*l.B*(3*l.c+2)) / c3
	f := -0.5 * l.Child.S0 / det
	return Increment{
		U1: [2]float64{ka * dL, -kb * dL},
		U2: [2]float64{ka * dC, -kb * dC},
		U3: [2]float64{f * (lb*va - m*vb), f * (la*vb - m*va)},
	}
}
