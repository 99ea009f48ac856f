package beta

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func logUniform(rng *rand.Rand, lo, hi float64) float64 {
	return lo * math.Pow(hi/lo, rng.Float64())
}

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}

// The derivatives of mean and variance of w^Δ equal finite differences, and the values equal those from lnΓ.
func TestPowerOfTheWeight(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for range 300 {
		x, y := 3*rng.NormFloat64(), 1+2*rng.NormFloat64()
		elapsed := logUniform(rng, .02, 50)
		powerAt := func(x, y float64) power {
			l := Level{Elapsed: elapsed}
			l.Move(x, y)
			return l.elapsedWeight
		}
		p := powerAt(x, y)
		l := Level{Elapsed: 1}
		l.Move(x, y)
		raw := func(k float64) float64 {
			return math.Exp(lgamma(l.A+k) - lgamma(l.A) - lgamma(l.c+k) + lgamma(l.c))
		}
		check := func(name string, got, want, scale float64) {
			t.Helper()
			if math.Abs(got-want) > 1e-6*(math.Abs(want)+scale) {
				t.Errorf("Δ = %g, φ = (%g, %g): %s = %.10g, want %.10g", elapsed, l.A, l.B, name, got, want)
			}
		}
		check("E[v]", p.m, raw(elapsed), 0)
		check("Var[v]", p.v, raw(2*elapsed)-raw(elapsed)*raw(elapsed), 1e-5*p.m*p.m) // the tolerance covers the rounding of lnΓ
		// Central differences with Richardson's extrapolation.
		along := func(field func(p power) float64, dx, dy float64) float64 {
			d := func(h float64) float64 {
				return (field(powerAt(x+h*dx, y+h*dy)) - field(powerAt(x-h*dx, y-h*dy))) / (2 * h)
			}
			return (4*d(1e-3) - d(2e-3)) / 3
		}
		check("∂E/∂x", p.mx, along(func(p power) float64 { return p.m }, 1, 0), p.m)
		check("∂E/∂y", p.my, along(func(p power) float64 { return p.m }, 0, 1), p.m)
		check("∂V/∂x", p.vx, along(func(p power) float64 { return p.v }, 1, 0), p.m*p.m)
		check("∂V/∂y", p.vy, along(func(p power) float64 { return p.v }, 0, 1), p.m*p.m)
		check("∂²E/∂x²", p.mxx, along(func(p power) float64 { return p.mx }, 1, 0), p.m)
		check("∂²E/∂x∂y", p.mxy, along(func(p power) float64 { return p.mx }, 0, 1), p.m)
		check("∂²E/∂y²", p.myy, along(func(p power) float64 { return p.my }, 0, 1), p.m)
		check("∂²V/∂x²", p.vxx, along(func(p power) float64 { return p.vx }, 1, 0), p.m*p.m)
		check("∂²V/∂x∂y", p.vxy, along(func(p power) float64 { return p.vx }, 0, 1), p.m*p.m)
		check("∂²V/∂y²", p.vyy, along(func(p power) float64 { return p.vy }, 0, 1), p.m*p.m)
	}
}

// After one unit of time, the moments of w^Δ equal the moments of w.
func TestPowerOfOneIsTheWeight(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	for range 300 {
		l := Level{Elapsed: 1, Child: Child{A1: rng.NormFloat64(), A2: rng.NormFloat64(), S0: rng.NormFloat64(), S1: rng.NormFloat64(), S2: rng.NormFloat64()}}
		l.Prior = Dist{logUniform(rng, .1, 100), logUniform(rng, .1, 100)}
		l.Place(3*rng.NormFloat64(), 1+2*rng.NormFloat64())
		want, got := Chain(1), Chain(1)
		l.Derive(&want, 0)
		l.elapsedWeight = l.power(1)
		l.Elapsed = math.Nextafter(1, 2)
		l.Derive(&got, 0)
		for i, v := range slices.Concat(want.G[0][:], want.diag[0][:], []float64{l.M, l.V}) {
			w := slices.Concat(got.G[0][:], got.diag[0][:], []float64{l.elapsedWeight.m, l.elapsedWeight.v})[i]
			if math.Abs(v-w) > 1e-9*(1+math.Abs(v)) {
				t.Fatalf("φ = (%g, %g), entry %d: %.14g, want %.14g", l.A, l.B, i, w, v)
			}
		}
	}
}
