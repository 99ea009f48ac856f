package beta

import (
	"math"

	"hafvf/internal/special"
)

// LogMoment returns log E[w^k] under Beta(a, b).
func LogMoment(a, b, k float64) float64 {
	if b < a {
		return special.LgammaDelta(a, b) - special.LgammaDelta(a+k, b)
	}
	return special.LgammaDelta(a, k) - special.LgammaDelta(a+b, k)
}

// A moment is log E[w^k] with its derivatives in x, the logit of the mean, and y, the log of the concentration.
type moment struct{ log, x, y, xx, xy, yy float64 }

func (l *Level) moment(k float64) (p moment) {
	a0, a1 := special.DigammaDelta(l.A, k)
	c0, c1 := special.DigammaDelta(l.c, k)
	// In α and β: ∂α/∂x = −∂β/∂x = h, ∂α/∂y = α, ∂β/∂y = β.
	pa, pb := a0-c0, -c0
	aa, ab := a1-c1, -c1
	h := l.M * l.M1 * l.c
	p.log = LogMoment(l.A, l.B, k)
	p.x = h * a0
	p.y = l.A*pa + l.B*pb
	p.xx = h*h*a1 + h*(l.M1-l.M)*a0
	p.xy = h*(l.A*(aa-ab)) + h*a0
	p.yy = l.A*l.A*aa + 2*l.A*l.B*ab + l.B*l.B*ab + p.y
	return p
}

// A power has the mean and variance of v = w^elapsed, with derivatives in x and y.
type power struct {
	m, mx, my, mxx, mxy, myy float64
	v, vx, vy, vxx, vxy, vyy float64
}

func (l *Level) power(elapsed float64) (p power) {
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

// pull returns the gradient and the negative Hessian, in x and y, of A(m) − ½ v·S(m).
func (p *power) pull(ch *Child) (x, y, xx, xy, yy float64) {
	am := ch.A1 - 0.5*p.v*ch.S1
	bend := ch.A2 - 0.5*p.v*ch.S2
	x = am*p.mx - 0.5*ch.S0*p.vx
	y = am*p.my - 0.5*ch.S0*p.vy
	xx = -bend*p.mx*p.mx - am*p.mxx + ch.S1*p.vx*p.mx + 0.5*ch.S0*p.vxx
	xy = -bend*p.mx*p.my - am*p.mxy + 0.5*ch.S1*(p.vx*p.my+p.vy*p.mx) + 0.5*ch.S0*p.vxy
	yy = -bend*p.my*p.my - am*p.myy + ch.S1*p.vy*p.my + 0.5*ch.S0*p.vyy
	return x, y, xx, xy, yy
}
