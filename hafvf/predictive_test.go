package hafvf

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"

	"hafvf/hafvf/expfam"
	"hafvf/internal/special"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
)

// quadrature returns log ∫ exp q(w) Beta(w; prior) dw, by Gauss–Legendre panels in logit w with about 10⁵
// nodes, and with the normaliser from lnΓ.
func quadrature(line expfam.Line, prior Beta) float64 {
	const points = 10
	var xs, ws [points]float64
	quad.Legendre{}.FixedLocations(xs[:], ws[:], -1, 1)
	a, b := prior.Alpha, prior.Beta
	peak := math.Inf(-1)
	var logs, weights []float64
	panel := func(lo, hi float64) {
		for i, u := range xs {
			x := lo + (hi-lo)*(u+1)/2
			l := logisticAt(x)
			v := a*l.lw + b*l.l1w + line.Gain(l.w)
			peak = math.Max(peak, v)
			logs, weights = append(logs, v), append(weights, ws[i]*(hi-lo)/2)
		}
	}
	const core = 60.
	for i := range 8000 {
		panel(-core+core*float64(i)/4000, -core+core*float64(i+1)/4000)
	}
	for _, side := range []struct{ sign, power float64 }{{-1, a}, {1, b}} {
		for lo := core; side.power*lo < 60; lo *= 1.02 {
			if side.sign > 0 {
				panel(lo, lo*1.02)
			} else {
				panel(-lo*1.02, -lo)
			}
		}
	}
	sum := 0.0
	for i, v := range logs {
		sum += weights[i] * math.Exp(v-peak)
	}
	return math.Log(sum) + peak - logGamma(a) - logGamma(b) + logGamma(a+b)
}

// randomLine returns a family's line that is set to a random sample and new statistics, with memory up to 10⁶
// and outliers up to 10³ standard deviations, and then the sample and the statistics.
func randomLine(t *testing.T, rng *rand.Rand, family string, params Params) (expfam.Line, []float64, []float64) {
	t.Helper()
	m := familytest.New(t, family, params)
	d, s := make([]float64, m.Len()), make([]float64, m.Len())
	draw := func(scale float64) []float64 {
		switch family {
		case "normal":
			return []float64{scale * rng.NormFloat64()}
		case "bernoulli":
			return []float64{float64(rng.IntN(2))}
		case "poisson":
			return []float64{math.Floor(scale * rng.ExpFloat64())}
		case "exponential":
			return []float64{scale * rng.ExpFloat64()}
		}
		return []float64{rng.NormFloat64(), scale * rng.NormFloat64()}
	}
	scale := logUniform(rng, 1e-3, 1e3)
	for range 2 + rng.IntN(20) {
		m.Observe(d, draw(scale), 1)
	}
	if grow := logUniform(rng, 1e-2, 1e5); family == "mvnormal" {
		d[0] *= grow
		for i := range d[1:] {
			d[1+i] *= math.Sqrt(grow)
		}
	} else if family == "normal" {
		d[0] *= grow
		d[2] *= grow
	} else {
		m.Scale(d, grow)
	}
	for range 1 + rng.IntN(3) {
		m.Observe(s, draw(scale*logUniform(rng, 1, 1e3)), 1)
	}
	l := m.NewLine()
	l.Set(d, s)
	return l, d, s
}

// TestPredictive compares the integrated predictive with the quadrature, for priors of w from 1e-3 to 1e4 and
// random lines. A filter that has predicted before gives the same result to the last bit.
func TestPredictive(t *testing.T) {
	expect.Long(t, "integrals of densities")
	rng := rand.New(rand.NewPCG(3, 5))
	worst, used := 0.0, NewFilter(normalOf(0, 1, 1, 1), nil, 1)
	for i := range length(10_000) {
		family := []string{"normal", "bernoulli", "poisson", "exponential", "mvnormal"}[i%5]
		params := Params{}
		if family == "mvnormal" {
			params = Params{"mu": []float64{0, 0}}
		}
		line, d, s := randomLine(t, rng, family, params)
		prior := Beta{logUniform(rng, 1e-3, 1e4), logUniform(rng, 1e-3, 1e4)}
		f := NewFilter(normalOf(0, 1, 1, 1), nil, 1)
		f.line, used.line = line, line
		got, want := f.logPredictive(prior, 1, line.Gain(0), line.Gain(1)), quadrature(line, prior)
		if again := used.logPredictive(prior, 1, line.Gain(0), line.Gain(1)); again != got {
			t.Errorf("%d %s prior %v: %v after other predictions, %v alone", i, family, prior, again, got)
		}
		err := math.Abs(got - want)
		// Subtract the rounding of the reference's lnΓ and of the gain.
		if err -= 1e-14 * (math.Abs(want) + prior.Alpha + prior.Beta); !(err < 1e-6) {
			t.Errorf("%d %s prior %v, d %v, T %v: %.12g, want %.12g (off by %.1e)", i, family, prior, d, s, got, want, err)
		}
		worst = math.Max(worst, err)
	}
	t.Logf("worst error %.1e nats", worst)
}

// For this integrand, the trapezoidal rules with steps .75 and 1.5 agree to 5e-7 by accident, and both are off
// by 1e-6: their difference is no estimate of the error.
func TestPredictiveWhereTwoRulesAgree(t *testing.T) {
	m := familytest.New(t, "mvnormal", Params{"mu": []float64{0, 0}})
	f := NewFilter(m, nil, 1)
	f.line.Set(
		[]float64{57166.794, 239.09578, -44.437598, 40.912449, 226.65569, 14.52597, 45.880379},
		[]float64{2, math.Sqrt2, 0.26507633, -19.027087, 1.8819486, -15.441237, 0})
	prior := Beta{0.12142877, 0.39171763}
	got, want := f.logPredictive(prior, 1, f.line.Gain(0), f.line.Gain(1)), quadrature(f.line, prior)
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%.12g, want %.12g", got, want)
	}
}

// Gains of counts of 10¹² round by more than they and the prior change between two nodes. The rest beyond the
// last node must follow the prior's power, and not be infinite.
func TestPredictiveOfHugeCounts(t *testing.T) {
	m := familytest.New(t, "poisson", Params{"shape": .25, "rate": 3.})
	f := NewFilter(m, nil, 1)
	prior := Beta{.0044, 7421}
	const h = .05
	for i := range 20 {
		f.line.Set([]float64{4.21726e10 + float64(i), 2.0795}, []float64{3.07438256845e12 + float64(i)*1e6, 3})
		got := f.logPredictive(prior, 1, f.line.Gain(0), f.line.Gain(1))
		// The trapezoidal rule over x = logit w, far beyond the start of the gain's flat part.
		var logs []float64
		for k := -5000 / h; k <= 40/h; k++ {
			l := logisticAt(k * h)
			logs = append(logs, prior.Alpha*l.lw+prior.Beta*l.l1w+(f.line.Gain(l.w)-f.line.Gain(0)))
		}
		want := logOfSum(logs) + math.Log(h) - special.LogBeta(prior.Alpha, prior.Beta)
		if off := got - f.line.Gain(0) - want; !(math.Abs(off) < .1) {
			t.Fatalf("%d: off by %g nats, where gains have a rounding error of .02", i, off)
		}
	}
}

func logGamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}

// logOfSum returns log Σ exp v.
func logOfSum(v []float64) float64 {
	top, sum := slices.Max(v), 0.0
	for _, x := range v {
		sum += math.Exp(x - top)
	}
	return top + math.Log(sum)
}
