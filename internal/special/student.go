package special

import "math"

// StudentCDF is the distribution function of Student's t with nu degrees of freedom at the value whose square
// is t2, above 0 or below, within 5e-11. From 15 degrees of freedom on it is the expansion about the normal of
// G. W. Hill, Algorithm 395, Communications of the ACM 13 (1970) 617. Fewer are brought there by the recurrence
// of the incomplete beta function, I_x(a, ½) = I_x(a+1, ½) + x^a·√(1−x)·Γ(a+½)/(Γ(a+1)·√π), of which half
// is the probability beyond, a = ν/2 and x = ν/(ν + t²) (Abramowitz and Stegun 26.5.16).
func StudentCDF(t2, nu float64, above bool) float64 {
	const near = 15
	sum := 0.
	if nu < near {
		a := nu / 2
		x := 1 / (1 + t2/nu)
		whole, _ := math.Lgamma(a + 1)
		half, _ := math.Lgamma(a + .5)
		term := math.Exp(a*math.Log(x)+half-whole) * math.Sqrt(1/(1+nu/t2)/math.Pi)
		for ; nu < near; nu += 2 {
			sum += term
			a = nu / 2
			term *= x * (a + .5) / (a + 1)
			t2 *= (nu + 2) / nu // x stays
		}
	}
	nu = math.Min(nu, 1e12) // a normal
	a := nu - .5
	b := 48 * a * a
	y := math.Min(a*math.Log1p(t2/nu), 1e4) // beyond is none
	z := (((((-.4*y-3.3)*y-24)*y-85.5)/(.8*y*y+100+b)+y+3)/b + 1) * math.Sqrt(y)
	beyond := (math.Erfc(z/math.Sqrt2) + sum) / 2
	if above {
		return 1 - beyond
	}
	return beyond
}
