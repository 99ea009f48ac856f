package special

import (
	"math"
	"testing"
)

// The distribution function of Student's t is that of the incomplete beta function.
func TestStudentCDF(t *testing.T) {
	for _, nu := range []float64{1e-3, .1, .5, 1, 1.7, 2, 3.3, 5, 8, 10, 13, 14.9, 15, 16, 20, 50, 1e3, 1e6} {
		for x := .01; x < 1e4; x *= 1.07 {
			want := BetaCDF(nu/2, .5, 1/(1+x*x/nu), 1/(1+nu/(x*x))) / 2
			if got := StudentCDF(x*x, nu, false); !(math.Abs(got-want) <= 5e-11) {
				t.Errorf("%g degrees of freedom at -%g: %g, want %g", nu, x, got, want)
			}
			if below, above := StudentCDF(x*x, nu, false), StudentCDF(x*x, nu, true); below+above != 1 && math.Abs(below+above-1) > 1e-15 {
				t.Errorf("%g degrees of freedom at %g: %g and %g", nu, x, below, above)
			}
		}
	}
}
