package special

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// big160 returns v with 160 bits.
func big160(v float64) *big.Float { return new(big.Float).SetPrec(160).SetFloat64(v) }

// bigExp returns eˣ: the Taylor series at x/2ⁿ below 2⁻¹⁰, squared n times.
func bigExp(x *big.Float) *big.Float {
	n := max(0, x.MantExp(nil)+10)
	r := big160(0).SetMantExp(x, -n)
	sum, term := big160(1), big160(1)
	for i := 1; i < 20; i++ {
		term.Mul(term, r)
		term.Quo(term, big160(float64(i)))
		sum.Add(sum, term)
	}
	for range n {
		sum.Mul(sum, sum)
	}
	return sum
}

// bigLog returns ln x by Halley's method. A step from y, which has 50 exact bits, yields 150.
func bigLog(x *big.Float) *big.Float {
	m := big160(0)
	exponent := x.MantExp(m)
	start, _ := m.Float64()
	y := big160(math.Log(start))
	for range 2 {
		e := bigExp(y)
		step := big160(0).Sub(m, e)
		step.Quo(step, big160(0).Add(m, e))
		y.Add(y, step.Add(step, step))
	}
	ln2, _ := big160(0).SetString("0.693147180559945309417232121458176568075500134360255254120680009")
	return y.Add(y, ln2.Mul(ln2, big160(float64(exponent))))
}

// ulps returns |got − want| in units in the last place of want.
func ulps(got float64, want *big.Float) float64 {
	nearest, _ := want.Float64()
	if math.IsInf(nearest, 0) || nearest == 0 {
		if got == nearest {
			return 0
		}
		return math.Inf(1)
	}
	ulp := math.Nextafter(math.Abs(nearest), math.Inf(1)) - math.Abs(nearest)
	diff, _ := big160(0).Sub(big160(got), want).Float64()
	return math.Abs(diff) / ulp
}

// Exp, Log and Log1p are within two ulps over their whole ranges, including the ends, the points where methods
// meet, and subnormal numbers.
func TestElementary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	check := func(name string, f func(float64) float64, reference func(*big.Float) *big.Float, xs []float64) {
		worst, argument := 0.0, 0.0
		for _, x := range xs {
			if e := ulps(f(x), reference(big160(x))); !(e <= worst) {
				worst, argument = e, x
			}
		}
		t.Logf("%s: at most %.2f ulps, at %g", name, worst, argument)
		if !(worst < 2) {
			t.Errorf("%s(%g) is off by %.2f ulps", name, argument, worst)
		}
	}
	around := func(xs []float64, points ...float64) []float64 {
		for _, v := range points {
			for range 50 {
				xs = append(xs, v*(1+rng.NormFloat64()*math.Exp2(-40*rng.Float64())))
			}
			xs = append(xs, v, math.Nextafter(v, 1e9), math.Nextafter(v, -1e9))
		}
		return xs
	}
	var exps, logs, log1ps []float64
	for range 4000 {
		exps = append(exps, 1400*(rng.Float64()-0.5), 8*(rng.Float64()-0.5), math.Exp2(-60*rng.Float64()), -math.Exp2(-60*rng.Float64()))
		logs = append(logs, math.Float64frombits(1+rng.Uint64N(0x7ff<<52-1)), 0.5+rng.Float64(), 1+rng.NormFloat64()*math.Exp2(-50*rng.Float64()-6))
		log1ps = append(log1ps, math.Exp2(2000*(rng.Float64()-0.5)), -rng.Float64(), rng.NormFloat64()*math.Exp2(-60*rng.Float64()-6), -1+math.Exp2(-53*rng.Float64()))
	}
	exps = around(exps, 700, -700, 709, -708, -740, math.Ln2/128, -math.Ln2/128)
	logs = append(around(logs, 1-0x1p-8, 1+0x1p-8, 0.6875, 1.375, 0x1p-1022, 1e300), 5e-324, 1e-323, 1e-310, math.MaxFloat64)
	log1ps = around(log1ps, 0x1p-8, -0x1p-8, 1, 1e-300)
	log1ps = slices.DeleteFunc(log1ps, func(x float64) bool { return x <= -1 })
	logs = slices.DeleteFunc(logs, func(x float64) bool { return x <= 0 })
	check("Exp", Exp, bigExp, slices.DeleteFunc(exps, func(x float64) bool { return x == 0 || math.Abs(x) > 745 }))
	check("Log", Log, bigLog, slices.DeleteFunc(logs, func(x float64) bool { return x == 1 }))
	check("Log1p", Log1p, func(x *big.Float) *big.Float {
		return bigLog(new(big.Float).SetPrec(2200).Add(big160(1).SetPrec(2200), x))
	}, slices.DeleteFunc(log1ps, func(x float64) bool { return x == 0 || math.Abs(x) < 1e-25 }))
	inf, nan := math.Inf(1), math.NaN()
	for _, x := range []float64{0, math.Copysign(0, -1), 1, -1, -2, 1e308, -800, 800, inf, -inf, nan} {
		for _, f := range []struct {
			name       string
			ours, math func(float64) float64
		}{{"Exp", Exp, math.Exp}, {"Log", Log, math.Log}, {"Log1p", Log1p, math.Log1p}} {
			got, want := f.ours(x), f.math(x)
			if got != want && !(math.IsNaN(got) && math.IsNaN(want)) && !(math.Abs(got/want-1) < 0x1p-51) {
				t.Errorf("%s(%g) = %g, want %g", f.name, x, got, want)
			}
		}
	}
}

// Polygammas equals its recurrence in 200 bits, started at 60.
func TestPolygamma(t *testing.T) {
	reference := func(x float64) (out [4]float64) {
		number := func(v float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(v) }
		shifted := number(x)
		var sum [4]*big.Float
		for i := range sum {
			sum[i] = number(0)
		}
		for shifted.Cmp(number(60)) < 0 {
			power := number(1)
			for i, factor := range []float64{-1, 1, -2, 6} {
				power.Quo(power, shifted)
				sum[i].Add(sum[i], new(big.Float).Mul(power, number(factor)))
			}
			shifted.Add(shifted, number(1))
		}
		v, _ := shifted.Float64()
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
		z, r0, p1, p2, p3 := Polygammas(x, true)
		got[0], got[1], got[2], got[3] = Log(z)+r0, p1, p2, p3
		for i, tolerance := range []float64{1e-13, 1e-14, 1e-13, 1e-11} {
			if math.Abs(got[i]-want[i]) > tolerance*(math.Abs(want[i])+[]float64{0.05, 0, 0, 0}[i]) {
				t.Errorf("ψ%d(%g) = %.16g, want %.16g", i, x, got[i], want[i])
			}
		}
	}
}

// LgammaDelta equals differences of math.Lgamma.
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

// LogBeta equals sums of math.Lgamma, and closed forms for integer arguments.
func TestLogBeta(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	lgamma := func(x float64) float64 { v, _ := math.Lgamma(x); return v }
	for range 3000 {
		a, b := math.Exp(-9+18*rng.Float64()), math.Exp(-9+18*rng.Float64())
		got, want := LogBeta(a, b), lgamma(a)+lgamma(b)-lgamma(a+b)
		if scale := 1 + math.Abs(lgamma(a)) + math.Abs(lgamma(b)) + math.Abs(lgamma(a+b)); math.Abs(got-want) > 2e-14*scale {
			t.Errorf("LogBeta(%g, %g) = %.16g, want %.16g", a, b, got, want)
		}
		// B(1, b) = 1/b and B(2, b) = 1/(b(b+1)), however large b is.
		b = math.Exp(40 * rng.Float64())
		for k, want := range map[float64]float64{1: -math.Log(b), 2: -math.Log(b) - math.Log1p(b)} {
			if got := LogBeta(b, k); math.Abs(got-want) > 1e-14*(1+math.Abs(want)) {
				t.Errorf("LogBeta(%g, %g) = %.16g, want %.16g", b, k, got, want)
			}
		}
	}
}

// LogAndLog1p returns the same values as Log and Log1p, bit for bit.
func TestLogAndLog1p(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	draw := func() float64 {
		switch rng.IntN(8) {
		case 0:
			return math.Float64frombits(rng.Uint64())
		case 1:
			return 1 + 0x1p-7*rng.NormFloat64()
		}
		return math.Exp(4 * rng.NormFloat64())
	}
	edges := []float64{0, 1, -1, math.Inf(1), math.NaN(), 0x1p-8, 0x1p50, 1e308, 5e-324}
	for i := range 200_000 {
		x, y := draw(), draw()
		if i < len(edges)*len(edges) {
			x, y = edges[i%len(edges)], edges[i/len(edges)]
		}
		log, log1p := LogAndLog1p(x, y)
		if math.Float64bits(log) != math.Float64bits(Log(x)) || math.Float64bits(log1p) != math.Float64bits(Log1p(y)) {
			t.Fatalf("of %g and %g: %g and %g, want %g and %g", x, y, log, log1p, Log(x), Log1p(y))
		}
	}
}
