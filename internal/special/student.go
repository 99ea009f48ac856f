package special

import "math"

// A Student is Student's t distribution with Nu degrees of freedom, with values that do not depend on t. From 15
// degrees of freedom on, its distribution function is the expansion about the normal of G. W. Hill, Algorithm 395,
// Communications of the ACM 13 (1970) 617. Fewer degrees are raised to 15 by the recurrence of the incomplete beta
// function, I_x(a, ½) = I_x(a+1, ½) + x^a·√(1−x)·Γ(a+½)/(Γ(a+1)·√π); half of it is the tail probability with a =
// ν/2 and x = ν/(ν + t²) (Abramowitz and Stegun 26.5.16).
type Student struct {
	Nu      float64
	norm    float64 // Γ(a+½)/(Γ(a)·√π)
	a, b    float64 // parameters of the expansion
	perB    float64 // 1/b
	inv     float64 // 1/Nu
	steps   int
	factors [8]float64 // factors of the recurrence, without x
}

// NewStudent returns the Student for nu > 0. It treats more than 10¹² degrees of freedom as 10¹², which is nearly
// normal.
func NewStudent(nu float64) Student {
	const minExpansion = 15
	nu = math.Min(nu, 1e12)
	ratio, tail := HalfRatio(nu / 2)
	s := Student{Nu: nu, norm: math.Sqrt(ratio/math.Pi) * Exp(-tail)}
	for ; nu < minExpansion; nu += 2 {
		s.factors[s.steps] = (nu + 1) / (nu + 2)
		s.steps++
	}
	s.inv = 1 / s.Nu
	s.a = nu - .5
	s.b = 48 * s.a * s.a
	s.perB = 1 / s.b
	return s
}

// At returns the probability beyond |t| on one side, within 5e-11, and the density at t.
func (s *Student) At(t float64) (tail, density float64) {
	t = math.Abs(t)
	q, inverse := t*t*s.inv, 1/math.Sqrt(s.Nu+t*t)
	log := Log1p(q)
	if math.IsInf(q, 1) {
		if math.IsInf(t, 1) {
			return 0, 0
		}
		inverse, log = 1/t, 2*Log(t)-Log(s.Nu)
	}
	power := s.norm * Exp(-s.Nu/2*log)
	density = power * inverse
	sum := 0.
	if s.steps > 0 {
		x := s.Nu * inverse * inverse
		for i := s.steps - 2; i >= 0; i-- {
			sum = s.factors[i] * x * (1 + sum)
		}
		sum = (1 + sum) * power * (t * inverse) * (2 * s.inv)
	}
	y := math.Min(s.a*log, 1e4) // beyond this the probability is 0
	z := (((((-.4*y-3.3)*y-24)*y-85.5)/(.8*y*y+100+s.b)+y+3)*s.perB + 1) * math.Sqrt(y)
	return math.Erfc(z/math.Sqrt2)/2 + sum/2, density
}
