package special

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// The distribution function equals the incomplete beta function, and the density equals gonum's.
func TestStudent(t *testing.T) {
	for _, nu := range []float64{1e-3, .1, .5, 1, 1.7, 2, 3.3, 5, 8, 10, 13, 14.9, 15, 16, 20, 50, 1e3, 1e6} {
		for x := .01; x < 1e4; x *= 1.07 {
			want := BetaCDF(nu/2, .5, 1/(1+x*x/nu), 1/(1+nu/(x*x))) / 2
			got, density := Student(nu, -x)
			if !(math.Abs(got-want) <= 5e-11) {
				t.Errorf("%g degrees of freedom beyond -%g: %g, want %g", nu, x, got, want)
			}
			if want := (distuv.StudentsT{Mu: 0, Sigma: 1, Nu: nu}).Prob(x); !(math.Abs(density-want) <= 1e-9*want+1e-300) {
				t.Errorf("%g degrees of freedom: the density at %g is %g, want %g", nu, x, density, want)
			}
		}
	}
}
