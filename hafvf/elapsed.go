package hafvf

import "math"

// Where observations come at irregular times, w is the weight of memory per unit
// of time: over Δ units it is v = w^Δ, and in the objective mean and variance of v
// stand in place of those of w. They are moments of Beta(φ),
//
//	E[v] = B(a+Δ, b)/B(a, b),  E[v²] = B(a+2Δ, b)/B(a, b)
//
// in closed form, as are their derivatives in φ.

// UpdateAfter is Update where elapsed units of time have passed since the last
// observation that wasn't missing: finite, not below zero. After one unit it is
// Update.
//
// Only the first level's weight is per unit of time; those above it are per
// observation.
func (f *Filter) UpdateAfter(s State, elapsed float64, xs ...[]float64) Step {
	f.elapsed = elapsed
	step := f.Update(s, xs...)
	f.elapsed = 1
	return step
}

// PriorWeightAfter is the mean weight of the memory, before the next observation,
// when elapsed units of time have passed since the last.
func (f *Filter) PriorWeightAfter(s State, elapsed float64) float64 {
	if len(f.naive) == 0 || elapsed == 1 {
		return f.over(f.PriorWeight(s), elapsed)
	}
	w := f.top
	for i := len(f.naive) - 1; i > 0; i-- {
		w = f.prior(s, i, w).Mean()
	}
	p := f.prior(s, 0, w)
	return math.Exp(logMoment(p.Alpha, p.Beta, elapsed))
}

// over is w^elapsed, and w itself after one unit.
func (f *Filter) over(w, elapsed float64) float64 {
	if elapsed == 1 {
		return w
	}
	return math.Pow(w, elapsed)
}

// logMoment is log E[w^k] under Beta(a, b).
func logMoment(a, b, k float64) float64 {
	if b < a {
		return lgammaDelta(a, b) - lgammaDelta(a+k, b)
	}
	return lgammaDelta(a, k) - lgammaDelta(a+b, k)
}

// A moment is log E[w^k] with its derivatives in x, the logit of the mean, and
// y, the log of the concentration.
type moment struct{ log, x, y, xx, xy, yy float64 }

func (l *level) moment(k float64) (p moment) {
	a0, a1 := digammaDelta(l.a, k)
	c0, c1 := digammaDelta(l.c, k)
	// In α and β, of which ∂α/∂x = −∂β/∂x = h, ∂α/∂y = α, ∂β/∂y = β.
	pa, pb := a0-c0, -c0
	aa, ab := a1-c1, -c1
	h := l.m * l.m1 * l.c
	p.log = logMoment(l.a, l.b, k)
	p.x = h * a0
	p.y = l.a*pa + l.b*pb
	p.xx = h*h*a1 + h*(l.m1-l.m)*a0
	p.xy = h*(l.a*(aa-ab)) + h*a0
	p.yy = l.a*l.a*aa + 2*l.a*l.b*ab + l.b*l.b*ab + p.y
	return p
}

// A power holds mean and variance of v = w^elapsed with derivatives in x and y.
type power struct {
	m, mx, my, mxx, mxy, myy float64
	v, vx, vy, vxx, vxy, vyy float64
}

func (l *level) power(elapsed float64) (p power) {
	e, q := l.moment(elapsed), l.moment(2*elapsed)
	m := math.Exp(e.log)
	p.m, p.mx, p.my = m, m*e.x, m*e.y
	p.mxx, p.mxy, p.myy = m*(e.xx+e.x*e.x), m*(e.xy+e.x*e.y), m*(e.yy+e.y*e.y)
	// Var[v] = m²(e^s − 1) = E[v²] − m².
	s := math.Max(q.log-2*e.log, 0)
	sx, sy := q.x-2*e.x, q.y-2*e.y
	sxx, sxy, syy := q.xx-2*e.xx, q.xy-2*e.xy, q.yy-2*e.yy
	square := math.Exp(q.log)
	if s < 1 {
		p.v = m * m * math.Expm1(s)
	} else {
		p.v = square - m*m
	}
	p.vx = 2*p.v*e.x + square*sx
	p.vy = 2*p.v*e.y + square*sy
	p.vxx = 2*(p.vx*e.x+p.v*e.xx+square*e.x*sx) + square*(sxx+sx*sx)
	p.vxy = 2*(p.vy*e.x+p.v*e.xy+square*e.y*sx) + square*(sxy+sx*sy)
	p.vyy = 2*(p.vy*e.y+p.v*e.yy+square*e.y*sy) + square*(syy+sy*sy)
	return p
}

// pull is gradient and negative Hessian, in x and y, of A(m) − ½ v·S(m).
func (p *power) pull(ch *child) (x, y, xx, xy, yy float64) {
	am := ch.a1 - 0.5*p.v*ch.s1
	bend := ch.a2 - 0.5*p.v*ch.s2
	x = am*p.mx - 0.5*ch.s0*p.vx
	y = am*p.my - 0.5*ch.s0*p.vy
	xx = -bend*p.mx*p.mx - am*p.mxx + ch.s1*p.vx*p.mx + 0.5*ch.s0*p.vxx
	xy = -bend*p.mx*p.my - am*p.mxy + 0.5*ch.s1*(p.vx*p.my+p.vy*p.mx) + 0.5*ch.s0*p.vxy
	yy = -bend*p.my*p.my - am*p.myy + ch.s1*p.vy*p.my + 0.5*ch.s0*p.vyy
	return x, y, xx, xy, yy
}
