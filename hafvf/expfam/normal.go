package expfam

import "hafvf/internal/special"

func init() {
	Register("normal", func(p Prior, _ int) (Model, error) {
		m := normal{
			mu: p.Float("mu", 0), kappa: p.Positive("kappa", 1),
			alpha: p.Positive("alpha", 1), beta: p.Positive("beta", 1),
		}
		return m, p.Done()
	})
}

// normal has x ~ N(μ, σ²), μ|σ² ~ N(mu, σ²/kappa), σ² ~ InvGamma(alpha, beta).
//
//	T(x) = (1, x, x²),  B = lnΓ(α) − α ln β − ½ ln κ,  log h = −½ ln 2π
//
// A sample is (count n, mean m, sum of squares M about the mean) instead of Σx and Σx², whose difference loses
// all digits if the mean is far from zero. Along the line, with Δ = m − mu and g = s·n/κ(s),
//
//	κ = kappa + s·n,  α = alpha + s·n/2,  β = beta + ½ s·M + ½ kappa·Δ²·g
type normal struct{ mu, kappa, alpha, beta float64 }

// A Normal is a model of one normal value.
type Normal interface {
	Model
	// NormalPrior returns the parameters of the prior μ | σ² ~ N(mu, σ²/kappa), σ² ~ InvGamma(alpha, beta).
	NormalPrior() (mu, kappa, alpha, beta float64)
}

// NormalPrior implements Normal.
func (m normal) NormalPrior() (mu, kappa, alpha, beta float64) { return m.mu, m.kappa, m.alpha, m.beta }

func (normal) Len() int                { return 3 }
func (normal) Dim() int                { return 1 }
func (normal) Check(x []float64) error { return CheckFinite(x) }
func (normal) Scale(d []float64, w float64) {
	if w == 0 {
		d[1] = 0
	}
	d[0] *= w
	d[2] *= w
}

// Observe is Welford's update with a weight.
func (normal) Observe(d, x []float64, weight float64) {
	n := d[0] + weight
	delta := x[0] - d[1]
	d[2] += weight * (d[0] / n) * delta * delta
	d[1] += delta * (weight / n)
	d[0] = n
}

// Merge is the pairwise form of Welford's update (Chan, Golub and LeVeque 1983).
func (normal) Merge(d, e []float64) {
	n := d[0] + e[0]
	if n == 0 {
		return
	}
	delta := e[1] - d[1]
	d[2] += e[2] + d[0]*(e[0]/n)*delta*delta
	d[1] += delta * (e[0] / n)
	d[0] = n
}

func (m normal) PriorMemory() float64     { return m.kappa }
func (normal) Memory(d []float64) float64 { return d[0] }
func (normal) LogBase([]float64) float64  { return -0.5 * log2Pi }

const log2Pi = 1.8378770664093454836

func (m normal) NewLine() Line {
	l := &normalLine{m: m}
	l.naive, l.root = stirling(m.alpha, m.beta, m.kappa)
	return l
}

func (normal) Params() []Param {
	return []Param{{Name: "mu"}, {Name: "kappa"}, {Name: "alpha"}, {Name: "beta"}}
}

func (m normal) Posterior(dst, d []float64) {
	dst[0], dst[1], dst[2], dst[3] = m.posteriorParams(d, 1)
}

// posteriorParams returns the textbook parameters of θ₀ + s·d.
func (m normal) posteriorParams(d []float64, s float64) (mu, kappa, alpha, beta float64) {
	sn := s * d[0]
	kappa = m.kappa + sn
	g := sn / kappa
	delta := d[1] - m.mu
	return m.mu + g*delta, kappa, m.alpha + sn/2, m.beta + 0.5*(s*d[2]+m.kappa*g*delta*delta)
}

func (normal) Outputs() int { return 1 }

func (m normal) Estimate(mean, sd, d, _ []float64) {
	mu, kappa, alpha, beta := m.posteriorParams(d, 1)
	mean[0], sd[0] = studentMoments(mu, beta/(alpha*kappa), 2*alpha)
}

func (m normal) Predict(mean, sd, d []float64, s float64, _ []float64) {
	mu, kappa, alpha, beta := m.posteriorParams(d, s)
	mean[0], sd[0] = studentMoments(mu, beta/alpha*(1+1/kappa), 2*alpha)
}

func (m normal) Predictive(dst []Distribution, d []float64, s float64, _ []float64) {
	mu, kappa, alpha, beta := m.posteriorParams(d, s)
	dst[0] = Student(mu, beta/alpha*(1+1/kappa), 2*alpha)
}

// normalLine is the log-partition along the line. The new statistics are (j, x̄, m₂); they add
//
//	δ = ½ m₂ + ½ j·h·y²,  h = κ/(κ+j),  y = x̄ − μ(s)
//
// to β, so that with e = δ/β
//
//	q = lnΓ(α+j/2) − lnΓ(α) − (α+j/2) ln(1+e) − (j/2) ln β − ½ ln(1+j/κ)
type normalLine struct {
	m     normal
	n     float64 // d: count
	delta float64 // m − mu
	sq    float64 // M
	off   float64 // x̄ − m
	j, sj float64 // T: count, m₂

	naive, root float64 // stirling of the naive prior
}

func (l *normalLine) Set(d, t []float64) {
	l.n, l.delta, l.sq = d[0], d[1]-l.m.mu, d[2]
	l.j, l.sj = t[0], t[2]
	l.off = t[1] - d[1]
	if l.n == 0 {
		l.delta, l.off = 0, t[1]-l.m.mu
	}
}

func (l *normalLine) Gain(s float64) float64 {
	sn := s * l.n
	kappa := l.m.kappa + sn
	next := kappa + l.j
	r := 1 / (kappa * next)
	rk := next * r // 1/κ
	h := kappa * kappa * r
	alpha := l.m.alpha + sn/2
	c := l.delta * l.m.kappa * rk
	beta := l.m.beta + 0.5*(s*l.sq+l.delta*c*sn)
	rb := 1 / beta
	y := l.off + c
	d := 0.5 * (l.sj + l.j*h*y*y)
	if l.j == 1 {
		// One logarithm for all but the last term.
		ratio, tail := special.HalfRatio(alpha)
		log, log1p := special.LogAndLog1p(ratio*h*rb, d*rb)
		return 0.5*log - tail - (alpha+0.5)*log1p
	}
	return special.LgammaDelta(alpha, l.j/2) - (alpha+l.j/2)*special.Log1p(d*rb) - 0.5*(l.j*special.Log(beta)+special.Log1p(l.j*rk))
}

// Evidence returns Gain(0) − Gain(1) in a third of the time: it is a combination of four log-partitions, in
// which all logarithms but one per log-partition combine into one.
func (l *normalLine) Evidence() float64 {
	m := &l.m
	before, after, both := m.kappa+l.n, m.kappa+l.j, m.kappa+l.n+l.j
	far := l.off + l.delta // x̄ − mu
	y := l.off + l.delta*m.kappa/before
	betaBefore := m.beta + 0.5*(l.sq+l.delta*l.delta*m.kappa*(l.n/before))
	betaAfter := m.beta + 0.5*(l.sj+far*far*m.kappa*(l.j/after))
	betaBoth := betaBefore + 0.5*(l.sj+y*y*before*(l.j/both))
	v1, r1 := stirling(m.alpha+l.n/2, betaBefore, before)
	v2, r2 := stirling(m.alpha+l.j/2, betaAfter, after)
	v3, r3 := stirling(m.alpha+l.n/2+l.j/2, betaBoth, both)
	return (v1 - v3) + (v2 - l.naive) + 0.5*special.Log((r1/r3)*(r2/l.root))
}

// stirling returns the log-partition of a normal's posterior, up to a constant and a multiple of alpha, in the
// form v + ½ ln r.
func stirling(alpha, beta, kappa float64) (v, r float64) {
	if alpha >= special.Lift {
		return alpha*special.Log(alpha/beta) + special.Stirling(1/alpha), 1 / (alpha * kappa)
	}
	z := alpha + special.Lift
	z2 := z * z
	z4 := z2 * z2
	lift := z4 * z4 / special.Product(alpha) // z⁸Γ(α)/Γ(z)
	return alpha*special.Log(z/beta) + special.Stirling(1/z) - special.Lift, lift * lift / (z * kappa)
}

func (l *normalLine) Jet(s float64) Jet {
	n, k0, del := l.n, l.m.kappa, l.delta
	sn := s * n
	kappa := k0 + sn
	alpha := l.m.alpha + sn/2
	rk := 1 / kappa
	rn := n * rk // (ln κ)′
	g := sn * rk
	c := k0 * del // ∂β/∂g · 2/Δ
	g1 := rn * k0 * rk
	g2 := -2 * g1 * rn
	g3 := -3 * g2 * rn
	g4 := -4 * g3 * rn

	half := 0.5 * c * del
	beta := l.m.beta + 0.5*s*l.sq + half*g
	rb := 1 / beta
	b1 := (0.5*l.sq + half*g1) * rb
	b2 := half * g2 * rb
	b3 := half * g3 * rb
	b4 := half * g4 * rb
	// l1 … l4: derivatives of ln β from bᵢ = β⁽ⁱ⁾/β.
	l1 := b1
	l2 := b2 - b1*b1
	l3 := b3 - 3*b1*b2 + 2*b1*b1*b1
	l4 := b4 - 4*b1*b3 - 3*b2*b2 + 12*b1*b1*b2 - 6*b1*b1*b1*b1

	a := 0.5 * n // α′
	_, _, p1, p2, p3 := special.Polygammas(alpha, true)
	rn2 := rn * rn
	jet := Jet{
		F2: a*a*p1 - 2*a*l1 - alpha*l2 + 0.5*rn2,
		F3: a*a*a*p2 - 3*a*l2 - alpha*l3 - rn2*rn,
		F4: a*a*a*a*p3 - 4*a*l3 - alpha*l4 + 3*rn2*rn2,
	}

	j := l.j
	rkj := 1 / (kappa + j)
	h := kappa * rkj
	h1 := n * j * rkj * rkj
	h2 := -2 * n * rkj * h1
	y := l.off + c*rk
	y1, y2 := -del*g1, -del*g2
	e := 0.5 * (l.sj + j*h*y*y) * rb
	d1 := 0.5 * j * y * (h1*y + 2*h*y1) * rb
	d2 := 0.5 * j * (h2*y*y + 4*h1*y*y1 + 2*h*(y1*y1+y*y2)) * rb
	e1 := d1 - e*b1
	e2 := d2 - 2*e1*b1 - e*b2
	re := 1 / (1 + e)
	m1 := e1 * re // derivatives of ln(1+e)
	m2 := e2*re - m1*m1

	grow, g0, gg1 := special.DigammaRatio(alpha, j/2)
	if e < 1 {
		g0 += special.Log1p((grow - e) * re) // one logarithm of (1+grow)/(1+e)
	} else {
		g0 += special.Log1p(grow) - special.Log1p(e)
	}
	aj := alpha + 0.5*j
	rnj := n * rkj
	jet.Q1 = a*g0 - aj*m1 - 0.5*j*l1 + 0.5*(rn-rnj)
	jet.Q2 = a*a*gg1 - 2*a*m1 - aj*m2 - 0.5*j*l2 - 0.5*(rn2-rnj*rnj)
	return jet
}
