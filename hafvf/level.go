package hafvf

import "math"

// Beta holds the parameters of a Beta distribution over a weight.
type Beta struct{ Alpha, Beta float64 }

// Mean is alpha/(alpha+beta).
func (b Beta) Mean() float64 { return b.Alpha / (b.Alpha + b.Beta) }

// A child is what a Beta level weighs, seen along its line: the family for w,
// the Beta level below for b. With mean m and variance V of the weight, the
// child contributes A(m) − ½ V·S(m) to the objective.
type child struct {
	a1, a2     float64 // A′, A″
	s0, s1, s2 float64 // S, S′, S″
}

// A level is one Beta level within one step: q(w) = Beta(φ), free in the
// coordinates x = logit of its mean and y = log of its concentration, where
// every point is a valid φ. Its prior is φ₀ + m·(φₜ₋₁ − φ₀), m the mean of the
// level above, or γ.
type level struct {
	naive  Beta // φ₀
	da, db float64

	x, y     float64
	m, m1, c float64 // mean, 1 − mean, concentration
	a, b     float64
	v        float64 // Var[w]
	psi      [3]gammas
	gap      [2]gammaGap // between the larger of a and b, and c
	prior    Beta
	priorPsi [3]gammas // only where the level above is learned
	priorGap [2]gammaGap
	child    child

	elapsed float64 // units of time that the weight is taken over
	over    power   // of the weight over them; unset where elapsed is 1
}

// memory is mean and variance of the weight over the time elapsed.
func (l *level) memory() (mean, variance float64) {
	if l.elapsed == 1 {
		return l.m, l.v
	}
	return l.over.m, l.over.v
}

// gammas are ψ … ψ₃ at one point.
type gammas struct{ p0, p1, p2, p3 float64 }

// A gammaGap is ψ(x) − ψ(c) and the same for ψ₁ and ψ₂, where x is one of a and
// b, and c their sum. The Fisher information of a Beta is made of these: where x
// is nearly c, it lies in digits that the polygammas themselves have not.
type gammaGap struct{ p0, p1, p2, p3 float64 }

// lopsided is the ratio of a and b from which on the gap is summed term by term.
const lopsided = 1e3

// gaps returns those of Beta(a, b), whose polygammas are psi.
func gaps(a, b float64, psi *[3]gammas) (g [2]gammaGap) {
	if a > lopsided*b {
		g[0] = gapAt(a, b)
	} else {
		g[0] = psi[0].gap(&psi[2])
	}
	if b > lopsided*a {
		g[1] = gapAt(b, a)
	} else {
		g[1] = psi[1].gap(&psi[2])
	}
	return g
}

func (g *gammas) gap(c *gammas) gammaGap {
	return gammaGap{g.p0 - c.p0, g.p1 - c.p1, g.p2 - c.p2, g.p3 - c.p3}
}

// gapAt is the gap between x and x + k for k much smaller than x.
func gapAt(x, k float64) gammaGap {
	d0, d1 := digammaDelta(x, k)
	c := x + k
	// ψ₂(x) = −1/x² − 1/x³ − 1/2x⁴ + …, of which the differences are
	// k·(x+c)/(xc)² and so on.
	r, q := 1/x, 1/c
	if x < asymptotic {
		_, _, p2, p3 := polygamma(x)
		_, _, c2, c3 := polygamma(c)
		return gammaGap{-d0, -d1, p2 - c2, p3 - c3}
	}
	d := k * r * q // r − q
	s1 := r + q
	s2 := r*r + r*q + q*q
	s3 := s1 * (r*r + q*q)
	s5 := s1 * (r*r - r*q + q*q) * s2
	// ψ₃ enters the Hessian only: two terms of it will do.
	return gammaGap{-d0, -d1, -d * (s1 + s2 + s3/2 - s5/6), d * (2*s2 + 3*s3)}
}

func gammasAt(x float64) (g gammas) {
	g.p0, g.p1, g.p2, g.p3 = polygamma(x)
	return g
}

// place moves the level to (x, y).
func (l *level) place(x, y float64) {
	l.move(x, y)
	l.psi = [3]gammas{gammasAt(l.a), gammasAt(l.b), gammasAt(l.c)}
	l.gap = gaps(l.a, l.b, &l.psi)
}

// move is place without the polygammas.
func (l *level) move(x, y float64) {
	l.x, l.y = x, y
	if x < 0 {
		e := math.Exp(x)
		l.m1 = 1 / (1 + e)
		l.m = e * l.m1
	} else {
		e := math.Exp(-x)
		l.m = 1 / (1 + e)
		l.m1 = e * l.m
	}
	l.c = math.Exp(y)
	l.a, l.b = l.m*l.c, l.m1*l.c
	l.v = l.m * l.m1 / (l.c + 1)
	if l.elapsed != 1 {
		l.over = l.power(l.elapsed)
	}
}

// setPrior gives the level its prior under the weight w of the level above.
func (l *level) setPrior(w float64, learned bool) {
	l.prior = l.priorAt(w)
	if learned && (l.da != 0 || l.db != 0) {
		a, b := l.prior.Alpha, l.prior.Beta
		l.priorPsi = [3]gammas{gammasAt(a), gammasAt(b), gammasAt(a + b)}
		l.priorGap = gaps(a, b, &l.priorPsi)
	}
}

func (l *level) priorAt(w float64) Beta {
	return Beta{l.naive.Alpha + w*l.da, l.naive.Beta + w*l.db}
}

// asChild is the level as seen by the learned level above: A = −KL(φ‖prior).
func (l *level) asChild() (ch child) {
	if l.da == 0 && l.db == 0 {
		return ch
	}
	// The sum over (α, β, −(α+β)), written with gaps.
	da, db := l.da, l.db
	qa, qb, pa, pb, pc := &l.gap[0], &l.gap[1], &l.priorGap[0], &l.priorGap[1], &l.priorPsi[2]
	cross := da * db
	da2, db2 := da*da, db*db
	ch.a1 = da*(qa.p0-pa.p0) + db*(qb.p0-pb.p0)
	ch.s0 = da2*pa.p1 + db2*pb.p1 - 2*cross*pc.p1
	ch.s1 = da2*da*pa.p2 + db2*db*pb.p2 - 3*cross*(da+db)*pc.p2
	ch.s2 = da2*da2*pa.p3 + db2*db2*pb.p3 - cross*(4*da2+6*cross+4*db2)*pc.p3
	ch.a2 = -ch.s0
	return ch
}

// A system is gradient and negative Hessian of the objective over all levels, in
// the basis (u, v) = (ln α, ln β) of every level's plane. The Hessian is that of
// (x, y), only written in this basis: there, α and β of very different size keep
// their own digits. Levels couple through the mean of the upper one alone, which
// moves along (1, −1).
type system struct {
	g    [][2]float64
	diag [][3]float64 // uu, uv, vv
	off  [][2]float64 // (u, v) of a level against x of the next
	// Scratch of solve.
	fill [][3]float64
	rhs  [][2]float64
}

func newSystem(n int) system {
	return system{
		g: make([][2]float64, n), diag: make([][3]float64, n), off: make([][2]float64, n),
		fill: make([][3]float64, n), rhs: make([][2]float64, n),
	}
}

// derive fills in row i of the system for a level whose prior and child are set.
func (l *level) derive(sys *system, i int) {
	// KL(φ‖prior): gradient C(φ)(φ − prior), Hessian C(φ) + ∂C·(φ − prior).
	ea, eb := l.a-l.prior.Alpha, l.b-l.prior.Beta
	e := ea + eb
	ga, gb, pc := &l.gap[0], &l.gap[1], &l.psi[2]
	klu := l.a * (ga.p1*ea - pc.p1*eb)
	klv := l.b * (gb.p1*eb - pc.p1*ea)
	hc := -pc.p1 - pc.p2*e
	mu := l.m * l.m1
	bend := mu * (klu + klv) // what x, y being curved in u, v adds
	kluu := l.a*l.a*(ga.p1+ga.p2*ea-pc.p2*eb) + klu - bend
	kluv := l.a*l.b*hc + bend
	klvv := l.b*l.b*(gb.p1+gb.p2*eb-pc.p2*ea) + klv - bend

	// The child, in (x, y).
	ch := &l.child
	skew := l.m1 - l.m
	r := l.c / (l.c + 1)
	v := l.v
	vx, vy := v*skew, -v*r
	vxx := v * (skew*skew - 2*mu)
	vxy := -skew * v * r
	vyy := -v * r * (1 - l.c) / (1 + l.c)
	am := ch.a1 - 0.5*v*ch.s1
	x := am*mu - 0.5*ch.s0*vx
	y := -0.5 * ch.s0 * vy
	xx := -(ch.a2-0.5*v*ch.s2)*mu*mu - am*mu*skew + ch.s1*vx*mu + 0.5*ch.s0*vxx
	xy := 0.5*ch.s1*vy*mu + 0.5*ch.s0*vxy
	yy := 0.5 * ch.s0 * vyy
	if l.elapsed != 1 {
		x, y, xx, xy, yy = l.over.pull(ch)
	}

	sys.g[i] = [2]float64{x + l.m*y - klu, -x + l.m1*y - klv}
	sys.diag[i] = [3]float64{
		xx + l.m*(2*xy+l.m*yy) + kluu,
		-xx + skew*xy + mu*yy + kluv,
		xx - l.m1*(2*xy-l.m1*yy) + klvv,
	}
}

// couple fills in how level i, l, and the level above, up, move each other:
// ∂²(−KL)/∂φ∂m = C(φ)·d.
func (l *level) couple(sys *system, i int, up *level) {
	mu := up.m * up.m1
	sys.off[i] = [2]float64{
		-l.a * (l.gap[0].p1*l.da - l.psi[2].p1*l.db) * mu,
		-l.b * (l.gap[1].p1*l.db - l.psi[2].p1*l.da) * mu,
	}
}

// solve writes the Newton step, in (u, v), to delta: block elimination from the
// bottom up, pivots that are not positive definite taken with the absolute values
// of their eigenvalues, so that the step always climbs.
func (sys *system) solve(delta [][2]float64) {
	n := len(sys.g)
	for i := range n {
		m, rhs := sys.diag[i], sys.g[i]
		if i > 0 {
			o := sys.off[i-1]
			su, sv := solve2(sys.fill[i-1], o[0], o[1])
			t := o[0]*su + o[1]*sv
			m[0] -= t
			m[1] += t
			m[2] -= t
			t = su*sys.rhs[i-1][0] + sv*sys.rhs[i-1][1]
			rhs[0] -= t
			rhs[1] += t
		}
		sys.fill[i], sys.rhs[i] = positive(m), rhs
	}
	for i := n - 1; i >= 0; i-- {
		u, v := sys.rhs[i][0], sys.rhs[i][1]
		if i < n-1 {
			x := delta[i+1][0] - delta[i+1][1]
			u -= sys.off[i][0] * x
			v -= sys.off[i][1] * x
		}
		delta[i][0], delta[i][1] = solve2(sys.fill[i], u, v)
	}
}

func solve2(m [3]float64, x, y float64) (float64, float64) {
	det := m[0]*m[2] - m[1]*m[1]
	return (m[2]*x - m[1]*y) / det, (m[0]*y - m[1]*x) / det
}

// positive returns the matrix with the absolute values of its eigenvalues,
// bounded away from zero.
func positive(m [3]float64) [3]float64 {
	const floor = 1e-14
	if m[0] > 0 && m[2] > 0 && m[0]*m[2]-m[1]*m[1] > floor*m[0]*m[2] {
		return m
	}
	half, diff := (m[0]+m[2])/2, (m[0]-m[2])/2
	root := math.Hypot(diff, m[1])
	least := 1e-8*(math.Abs(half)+root) + 1e-300
	hi, lo := math.Max(math.Abs(half+root), least), math.Max(math.Abs(half-root), least)
	// (m − half)/root reflects along the first eigenvector.
	mid, amp := (hi+lo)/2, 0.0
	if root > 0 {
		amp = (hi - lo) / 2 / root
	}
	return [3]float64{mid + amp*diff, amp * m[1], mid - amp*diff}
}

// divergence is KL(Beta(φ)‖prior), in nats.
func (l *level) divergence() float64 {
	a, b, p := l.a, l.b, l.prior
	switch {
	case b > lopsided*a && p.Beta > lopsided*p.Alpha:
		return bregman(a, p.Alpha, &l.psi[0]) + l.lopsidedDivergence(b, a, p.Beta, p.Alpha, 1)
	case a > lopsided*b && p.Alpha > lopsided*p.Beta:
		return bregman(b, p.Beta, &l.psi[1]) + l.lopsidedDivergence(a, b, p.Alpha, p.Beta, 0)
	}
	return bregman(a, p.Alpha, &l.psi[0]) + bregman(b, p.Beta, &l.psi[1]) -
		bregman(l.c, p.Alpha+p.Beta, &l.psi[2])
}

// lopsidedDivergence is the difference of two Bregman divergences, of x and of
// x + k, to X and to X + K, where k and K are small:
//
//	lnΓ(x+k) − lnΓ(x) − (lnΓ(X+K) − lnΓ(X)) + (K−k)ψ(x) + (X+K−x−k)(ψ(x+k) − ψ(x))
func (l *level) lopsidedDivergence(x, k, X, K float64, i int) float64 {
	return lgammaDelta(x, k) - lgammaDelta(X, K) + (K-k)*l.psi[i].p0 - (X-x+K-k)*l.gap[i].p0
}

// bregman is lnΓ(to) − lnΓ(at) − (to − at)ψ(at). Close points take the Taylor
// series, which the polygammas already give and where the difference would lose
// its digits.
func bregman(at, to float64, g *gammas) float64 {
	k := to - at
	if math.Abs(k) < 2e-3*at {
		return k * k * (g.p1/2 + k*(g.p2/6+k*g.p3/24))
	}
	if k > 0 {
		return lgammaDelta(at, k) - k*g.p0
	}
	return -lgammaDelta(to, -k) - k*g.p0
}

// An Increment holds the terms of Proposition 1 for one level: φ = φ̂ + U1 + U2 +
// U3, each for (alpha, beta).
type Increment struct{ U1, U2, U3 [2]float64 }

// increment evaluates Proposition 1 at the level's φ and child.
func (l *level) increment() Increment {
	la, lb, m := l.gap[0].p1, l.gap[1].p1, -l.psi[2].p1
	det := la*lb - m*m
	c2 := l.c * l.c
	// K is the paper's K(φα, φβ), and K(φβ, φα).
	ka := (m*l.a + lb*l.b) / (det * c2)
	kb := (m*l.b + la*l.a) / (det * c2)
	dL, dC := l.child.a1, -0.5*l.v*l.child.s1
	// ∇Var[w] in (α, β).
	c3 := c2 * (l.c + 1) * (l.c + 1) * l.c
	va := (l.b*l.c*(l.c+1) - l.a*l.b*(3*l.c+2)) / c3
	vb := (l.a*l.c*(l.c+1) - l.a*l.b*(3*l.c+2)) / c3
	f := -0.5 * l.child.s0 / det
	return Increment{
		U1: [2]float64{ka * dL, -kb * dL},
		U2: [2]float64{ka * dC, -kb * dC},
		U3: [2]float64{f * (lb*va - m*vb), f * (la*vb - m*va)},
	}
}
