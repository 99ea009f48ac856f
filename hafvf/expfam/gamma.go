package expfam

import (
	"math"

	"hafvf/internal/special"
)

// gammaPrior is Gamma(shape, rate), the conjugate prior of poisson and exponential. A sample is (increment of
// the shape, increment of the rate).
type gammaPrior struct {
	Natural
	noScale
	shape, rate float64
}

func newGammaPrior(p Prior) gammaPrior {
	return newGamma(p.Positive("shape", 1), p.Positive("rate", 1))
}

func newGamma(shape, rate float64) gammaPrior {
	return gammaPrior{Natural: Natural{2}, shape: shape, rate: rate}
}

func (gammaPrior) Dim() int        { return 1 }
func (gammaPrior) Outputs() int    { return 1 }
func (gammaPrior) Params() []Param { return []Param{{Name: "shape"}, {Name: "rate"}} }
func (g gammaPrior) NewLine() Line { return &gammaLine{shape: g.shape, rate: g.rate} }

func (g gammaPrior) Posterior(dst, d []float64) {
	dst[0], dst[1] = g.shape+d[0], g.rate+d[1]
}

// gammaLine is B(a, b) = lnΓ(a) − a ln b along (shape, rate) + s·d.
type gammaLine struct {
	shape, rate float64
	da, db      float64
	ta, tb      float64
}

func (l *gammaLine) Set(d, t []float64) {
	l.da, l.db = d[0], d[1]
	l.ta, l.tb = t[0], t[1]
}

// Gain returns lnΓ(a+tₐ) − lnΓ(a) − a ln(1+t_b/b) − tₐ ln(b+t_b).
func (l *gammaLine) Gain(s float64) float64 {
	a, b := l.shape+s*l.da, l.rate+s*l.db
	return special.LgammaDelta(a, l.ta) - a*math.Log1p(l.tb/b) - l.ta*math.Log(b+l.tb)
}

func (l *gammaLine) Jet(s float64) Jet {
	a, b := l.shape+s*l.da, l.rate+s*l.db
	_, _, p1, p2, p3 := special.Polygammas(a, true)
	d0, d1 := special.DigammaDelta(a, l.ta)
	A := l.da
	r := l.db / b               // (ln b)′
	rT := l.db / (b + l.tb)     // (ln(b+t_b))′
	e := -r * l.tb / (b + l.tb) // rT − r
	r2 := r * r
	return Jet{
		Q1: A*(d0-math.Log1p(l.tb/b)) - a*e - l.ta*rT,
		Q2: A*A*d1 - 2*A*e + a*e*(r+rT) + l.ta*rT*rT,
		F2: A*A*p1 - 2*A*r + a*r2,
		F3: A*A*A*p2 + 3*A*r2 - 2*a*r2*r,
		F4: A*A*A*A*p3 - 8*A*r2*r + 6*a*r2*r2,
	}
}
