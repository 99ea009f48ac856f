package special

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// Exp, Log and Log1p against package math, at the ends too.
func TestElementary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var worst [3]float64
	for range 300_000 {
		x := 60 * (rng.Float64() - 0.5)
		if rng.IntN(4) == 0 {
			x *= 20
		}
		worst[0] = max(worst[0], math.Abs(Exp(x)/math.Exp(x)-1))
		y := math.Exp(x / 2 * rng.Float64())
		worst[1] = max(worst[1], math.Abs(Log(y)-math.Log(y))/max(1, math.Abs(math.Log(y))))
		if rng.IntN(2) == 0 {
			y = -rng.Float64()
		}
		worst[2] = max(worst[2], math.Abs(Log1p(y)/math.Log1p(y)-1))
	}
	for _, w := range worst {
		if !(w < 1e-15) {
			t.Errorf("relative errors %.1e", worst)
		}
	}
	inf, nan := math.Inf(1), math.NaN()
	for _, x := range []float64{0, 1, -1, 5e-324, 1e-310, 1e308, -800, 800, inf, -inf, nan} {
		same := func(name string, got, want float64) {
			if got != want && !(math.IsNaN(got) && math.IsNaN(want)) && !(math.Abs(got/want-1) < 1e-15) {
				t.Errorf("%s(%g) = %g, want %g", name, x, got, want)
			}
		}
		same("Exp", Exp(x), math.Exp(x))
		same("Log", Log(x), math.Log(x))
		same("Log1p", Log1p(x), math.Log1p(x))
	}
}

// Polygamma against its recurrence in 200 bits, from 60 on.
func TestPolygamma(t *testing.T) {
	reference := func(x float64) (out [4]float64) {
		number := func(v float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(v) }
		at := number(x)
		var sum [4]*big.Float
		for i := range sum {
			sum[i] = number(0)
		}
		for at.Cmp(number(60)) < 0 {
			power := number(1)
			for i, factor := range []float64{-1, 1, -2, 6} {
				power.Quo(power, at)
				sum[i].Add(sum[i], new(big.Float).Mul(power, number(factor)))
			}
			at.Add(at, number(1))
		}
		v, _ := at.Float64()
		r := 1 / v
		r2 := r * r
		for i, s := range []float64{
			math.Log(v) - r/2 - r2*(1./12-r2*(1./120-r2*(1./252-r2*(1./240)))),
			r + r2/2 + r2*r*(1./6-r2*(1./30-r2*(1./42-r2/30))),
			-(r2 + r2*r + r2*r2*(1./2-r2*(1./6-r2*(1./6-r2*3./10)))),
			r2*r*2 + r2*r2*3 + r2*r2*r*(2-r2*(1-r2*(4./3-r2*3))),
		} {
			out[i], _ = sum[i].Add(sum[i], number(s)).Float64()
		}
		return out
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		x := math.Exp(-9 + 18*rng.Float64())
		want := reference(x)
		var got [4]float64
		got[0], got[1], got[2], got[3] = Polygamma(x)
		for i, tolerance := range []float64{1e-13, 1e-14, 1e-13, 1e-11} {
			if math.Abs(got[i]-want[i]) > tolerance*(math.Abs(want[i])+[]float64{0.05, 0, 0, 0}[i]) {
				t.Errorf("ψ%d(%g) = %.16g, want %.16g", i, x, got[i], want[i])
			}
		}
	}
}

// LgammaDelta and HalfRatio against package math.
func TestLgammaDelta(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	lgamma := func(x float64) float64 { v, _ := math.Lgamma(x); return v }
	for range 3000 {
		a, k := math.Exp(-7+14*rng.Float64()), math.Exp(-7+14*rng.Float64())
		for _, k := range []float64{k, 0.5, 1, 2} {
			got, want := LgammaDelta(a, k), lgamma(a+k)-lgamma(a)
			if scale := 1 + math.Abs(lgamma(a)) + math.Abs(lgamma(a+k)); math.Abs(got-want) > 1e-14*scale {
				t.Errorf("LgammaDelta(%g, %g) = %.16g, want %.16g", a, k, got, want)
			}
		}
	}
}
