package special

import "math"

// Student returns the probability beyond |t| on one side of Student's t distribution, within 5e-11, and the density at
// t. nu is the number of degrees of freedom, greater than 0; more than 10¹² of them, nearly a normal, count as 10¹².
//
// From 15 degrees of freedom on, the probability is the expansion about the normal of G. W. Hill, Algorithm 395,
// Communications of the ACM 13 (1970) 617. Fewer degrees are raised to 15 by the recurrence of the incomplete beta
// function, I_x(a, ½) = I_x(a+1, ½) + x^a·√(1−x)·Γ(a+½)/(Γ(a+1)·√π); half of it is the probability with a = ν/2 and
// x = ν/(ν + t²) (Abramowitz and Stegun 26.5.16).
func Student(nu, t float64) (tail, density float64) {
	const minExpansion = 15
	nu, t = math.Min(nu, 1e12), math.Abs(t)
	q, inverse := t*t/nu, 1/math.Sqrt(nu+t*t)
	log := Log1p(q)
	if math.IsInf(q, 1) {
		if math.IsInf(t, 1) {
			return 0, 0
		}
		inverse, log = 1/t, 2*Log(t)-Log(nu)
	}
	ratio, rest := HalfRatio(nu / 2)
	power := math.Sqrt(ratio/math.Pi) * Exp(-nu/2*log-rest)
	x, term := nu*inverse*inverse, power*(t*inverse)/nu
	sum, raised := 0., nu
	for ; raised < minExpansion; raised += 2 {
		sum += term
		term *= (raised + 1) / (raised + 2) * x
	}
	a := raised - .5
	b := 48 * a * a
	y := math.Min(a*log, 1e4) // beyond this the probability is 0
	z := (((((-.4*y-3.3)*y-24)*y-85.5)/(.8*y*y+100+b)+y+3)/b + 1) * math.Sqrt(y)
	return math.Erfc(z/math.Sqrt2)/2 + sum, power * inverse
}
