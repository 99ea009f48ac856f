// Package special holds what the filter needs of the gamma function: polygammas
// at one point, and differences of lnΓ and ψ between two points. Differences are
// summed term by term, so that they keep their digits when the points are close
// and the values huge.
package special

import "math"

// Asymptotic is the argument from which the Stirling series below are used;
// smaller ones are lifted to it by recurrence. The first neglected term of
// every series is then below 1e-15 relative to its sum.
const Asymptotic = 12

// Polygamma returns ψ, ψ₁, ψ₂ and ψ₃ at x > 0 (Abramowitz and Stegun 6.3.18,
// 6.4.11), sharing one recurrence. Relative error below 1e-13 away from the
// zero of ψ.
func Polygamma(x float64) (p0, p1, p2, p3 float64) {
	// Its series have a term more than the others: they serve from 9 on.
	for x < 9 {
		r := 1 / x
		r2 := r * r
		p0 -= r
		p1 += r2
		p2 -= 2 * r2 * r
		p3 += 6 * r2 * r2
		x++
	}
	r := 1 / x
	r2 := r * r
	p0 += math.Log(x) - r/2 - r2*(1./12-r2*(1./120-r2*(1./252-r2*(1./240-r2*(1./132-r2*(691./32760-r2/12))))))
	p1 += r + r2/2 + r2*r*(1./6-r2*(1./30-r2*(1./42-r2*(1./30-r2*(5./66-r2*(691./2730-r2*7/6))))))
	p2 -= r2 + r2*r + r2*r2*(1./2-r2*(1./6-r2*(1./6-r2*(3./10-r2*(5./6-r2*(691./210-r2*35/2))))))
	p3 += r2*r*2 + r2*r2*3 + r2*r2*r*(2-r2*(1-r2*(4./3-r2*(3-r2*(10-r2*(691./15-r2*280))))))
	return p0, p1, p2, p3
}

// LgammaDelta returns lnΓ(a+k) − lnΓ(a) for a > 0, k ≥ 0.
func LgammaDelta(a, k float64) float64 {
	switch k {
	case 0:
		return 0
	case 1:
		return math.Log(a)
	case 2:
		return math.Log(a) + math.Log1p(a)
	case 0.5:
		ratio, tail := HalfRatio(a)
		return 0.5*math.Log(ratio) - tail
	}
	lift := 1.0
	sum := 0.0
	for a < Asymptotic {
		lift *= 1 + k/a
		if lift > 1e200 {
			sum -= math.Log(lift)
			lift = 1
		}
		a++
	}
	if lift != 1 {
		sum -= math.Log(lift)
	}
	r, q := 1/a, 1/(a+k)
	return sum + (a-0.5)*math.Log1p(k*r) + k*(math.Log(a+k)-1) + stirling(q) - stirling(r)
}

// HalfRatio returns ratio and tail, of which ½ ln(ratio) − tail is
// lnΓ(a+½) − lnΓ(a), so that the logarithm can be shared with other factors.
func HalfRatio(a float64) (ratio, tail float64) {
	up, down := 1.0, 1.0
	for a < 10 {
		up *= a
		down *= a + 0.5
		a++
	}
	r := 1 / a
	r2 := r * r
	// Σ (2−2¹⁻²ⁿ)B₂ₙ/(2n(2n−1)a²ⁿ⁻¹), from Stirling's series at a + ½ and a.
	tail = r * (1./8 - r2*(1./192-r2*(1./640-r2*(17./14336-r2*(31./18432-r2*(691./180224-r2*5461/425984))))))
	up /= down
	return up * up * a, tail
}

// stirling returns lnΓ(x) − (x−½)ln x + x − ½ln 2π for r = 1/x.
func stirling(r float64) float64 {
	r2 := r * r
	return r * (1./12 - r2*(1./360-r2*(1./1260-r2*(1./1680-r2*(1./1188-r2*(691./360360-r2/156))))))
}

// DigammaDelta returns ψ(a+k) − ψ(a) and ψ₁(a+k) − ψ₁(a) for a > 0, k ≥ 0.
func DigammaDelta(a, k float64) (d0, d1 float64) {
	if k == 0 {
		return 0, 0
	}
	if k == 1 {
		r := 1 / a
		return r, -r * r
	}
	for a < Asymptotic {
		r, q := 1/a, 1/(a+k)
		d := k * r * q
		d0 += d
		d1 -= d * (r + q)
		a++
	}
	r, q := 1/a, 1/(a+k)
	r2, q2 := r*r, q*q
	d := k * r * q // r − q
	d0 += math.Log1p(k*r) + d/2 + digammaTail(r2) - digammaTail(q2)
	d1 -= d + d*(r+q)/2 + r2*r*trigammaTail(r2) - q2*q*trigammaTail(q2)
	return d0, d1
}

func digammaTail(r2 float64) float64 {
	return r2 * (1./12 - r2*(1./120-r2*(1./252-r2*(1./240-r2*(1./132-r2*691./32760)))))
}

func trigammaTail(r2 float64) float64 {
	return 1./6 - r2*(1./30-r2*(1./42-r2*(1./30-r2*(5./66-r2*691./2730))))
}
