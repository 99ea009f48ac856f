// Package special has functions related to the gamma function: polygammas at one point, and differences of lnΓ and
// ψ between two points. Differences are summed term by term, so they keep their digits if the points are close and
// the values huge.
package special

// Asymptotic is the argument from which on DigammaRatio uses its series. A recurrence raises smaller arguments to
// it. Then the first neglected term of each series is below 1e-15 relative to its sum.
const Asymptotic = 12

// Lift is the argument from which on Polygammas, Stirling and HalfRatio use their series, and the number of
// recurrence steps that raise smaller arguments above it.
const Lift = 8

// Polygammas returns ψ₁ and ψ₂ at x > 0, and ψ₃ if third is set. ψ is ln z + r0, so a difference of two needs only
// one logarithm (Abramowitz and Stegun 6.3.18, 6.4.11). The relative error is below 1e-13 away from the zero of ψ,
// and for ψ₃ below 1e-11.
//
// The eight steps of the recurrence are taken at once. With u = x(x+7) and v = 2x+7, their terms pair up to
//
//	1/(x+i) + 1/(x+7−i) = v/(u+wᵢ),  w = 0, 6, 10, 12
//
// and likewise for higher powers. That leaves four divisions that do not depend on each other.
func Polygammas(x float64, third bool) (z, r0, p1, p2, p3 float64) {
	var s0, s1, s2 float64
	if x < Lift {
		u, v := x*(x+7), 2*x+7
		a, b, c, d := 1/u, 1/(u+6), 1/(u+10), 1/(u+12)
		a2, b2, c2, d2 := a*a, b*b, c*c, d*d
		s0 = v * ((d + c) + (b + a))
		w := 2 * u
		sa, sb, sc, sd := (w+49)*a2, (w+37)*b2, (w+29)*c2, (w+25)*d2
		s1 = (sd + sc) + (sb + sa)
		s2 = 2 * v * (((u+13)*(d2*d) + (u+19)*(c2*c)) + ((u+31)*(b2*b) + (u+49)*(a2*a)))
		if third {
			p3 = 6 * (((sd*sd - 2*d2) + (sc*sc - 2*c2)) + ((sb*sb - 2*b2) + (sa*sa - 2*a2)))
		}
		x += Lift
	}
	r := 1 / x
	t := r * r
	t2 := t * t
	t4 := t2 * t2
	r0 = -r/2 - t*(((1./12-t*(1./120))+t2*(1./252-t*(1./240)))+t4*((1./132-t*(691./32760))+t2*(1./12-t*(3617./8160)))) - s0
	p1 = r + t/2 + r*t*(((1./6-t*(1./30))+t2*(1./42-t*(1./30)))+t4*((5./66-t*(691./2730))+t2*(7./6-t*(3617./510)))) + s1
	p2 = -t*((1+r)+t*(((1./2-t*(1./6))+t2*(1./6-t*(3./10)))+t4*((5./6-t*(691./210))+t2*(35./2-t*(3617./30))))) - s2
	if third {
		p3 += t * r * ((2 + 3*r) + t*(((2-t)+t2*(4./3-t*3))+t4*((10-t*(691./15))+t2*280)))
	}
	return x, r0, p1, p2, p3
}

// LgammaDelta returns lnΓ(a+k) − lnΓ(a) for a > 0, k ≥ 0.
func LgammaDelta(a, k float64) float64 {
	switch k {
	case 0:
		return 0
	case 1:
		return Log(a)
	case 2:
		return Log(a) + Log1p(a)
	case 0.5:
		ratio, tail := HalfRatio(a)
		return 0.5*Log(ratio) - tail
	}
	sum := 0.0
	for ; a < Lift && a+k > 1e30; a++ {
		sum -= Log1p(k / a) // the products below would overflow
	}
	if a < Lift {
		sum = Log(Product(a) / Product(a+k))
		a += Lift
	}
	r, q := 1/a, 1/(a+k)
	return sum + (a-0.5)*Log1p(k*r) + k*(Log(a+k)-1) + Stirling(q) - Stirling(r)
}

// LogBeta returns ln B(a, b) for a, b > 0.
func LogBeta(a, b float64) float64 {
	k := min(a, b)
	lgamma := halfLog2Pi
	z := k
	if k < Lift {
		z += Lift
		lgamma -= Log(Product(k))
	}
	lgamma += (z-0.5)*Log(z) - z + Stirling(1/z)
	return lgamma - LgammaDelta(max(a, b), k)
}

const halfLog2Pi = 0.91893853320467274178

// Product returns Γ(x+8)/Γ(x).
func Product(x float64) float64 {
	u := x * (x + 7)
	return (u * (u + 6)) * ((u + 10) * (u + 12))
}

// HalfRatio returns ratio and tail with lnΓ(a+½) − lnΓ(a) = ½ ln(ratio) − tail, so that the caller can share the
// logarithm with other factors.
func HalfRatio(a float64) (ratio, tail float64) {
	ratio = 1
	if a < Lift {
		ratio = Product(a) / Product(a+0.5)
		ratio *= ratio
		a += Lift
	}
	r := 1 / a
	t := r * r
	t2 := t * t
	// Σ (2−2¹⁻²ⁿ)B₂ₙ/(2n(2n−1)a²ⁿ⁻¹), from Stirling's series at a + ½ and a.
	tail = r * ((1./8 - t*(1./192)) + t2*((1./640-t*(17./14336))+t2*((31./18432-t*(691./180224))+t2*(5461./425984))))
	return ratio * a, tail
}

// Stirling returns lnΓ(x) − (x−½)ln x + x − ½ln 2π for r = 1/x, x ≥ 8.
func Stirling(r float64) float64 {
	t := r * r
	t2 := t * t
	return r * ((1./12 - t*(1./360)) + t2*((1./1260-t*(1./1680))+t2*((1./1188-t*(691./360360))+t2*(1./156))))
}

// DigammaDelta returns ψ(a+k) − ψ(a) and ψ₁(a+k) − ψ₁(a) for a > 0, k ≥ 0.
func DigammaDelta(a, k float64) (d0, d1 float64) {
	x, d0, d1 := DigammaRatio(a, k)
	if x != 0 {
		d0 += Log1p(x)
	}
	return d0, d1
}

// DigammaRatio is DigammaDelta without the logarithm, which the caller may combine with others: ψ(a+k) − ψ(a) is
// ln(1+x) + rest.
func DigammaRatio(a, k float64) (x, rest, d1 float64) {
	if k == 0 {
		return 0, 0, 0
	}
	if k == 1 {
		r := 1 / a
		return 0, r, -r * r
	}
	for a < Asymptotic {
		r := 1 / (a * (a + k)) // the product of both reciprocals
		d := k * r
		rest += d
		d1 -= d * r * (2*a + k)
		a++
	}
	r, q := 1/a, 1/(a+k)
	r2, q2 := r*r, q*q
	d := k * r * q // r − q
	rest += d/2 + digammaTail(r2) - digammaTail(q2)
	d1 -= d + d*(r+q)/2 + r2*r*trigammaTail(r2) - q2*q*trigammaTail(q2)
	return k * r, rest, d1
}

func digammaTail(r2 float64) float64 {
	return r2 * (1./12 - r2*(1./120-r2*(1./252-r2*(1./240-r2*(1./132-r2*691./32760)))))
}

func trigammaTail(r2 float64) float64 {
	return 1./6 - r2*(1./30-r2*(1./42-r2*(1./30-r2*(5./66-r2*691./2730))))
}
