package hafvf

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"hafvf/hafvf/expfam"
)

// tails returns the probabilities, according to the log predictive of a bank, of an observation of at most
// lower, and of at least upper.
func tails(t *testing.T, b *Bank, s State, discrete bool, lower, upper float64) (below, above float64) {
	t.Helper()
	density := func(x float64) float64 {
		if b.Filter(0).Check([][]float64{{x}}) != nil {
			return 0
		}
		return math.Exp(b.Update(slices.Clone(s), []float64{x}).LogPredictive)
	}
	if discrete {
		for x := range 700 {
			p := density(float64(x))
			if float64(x) <= lower {
				below += p
			}
			if float64(x) >= upper {
				above += p
			}
		}
		return below, above
	}
	const h = 1. / 12
	for y := -30.; y <= 40; y += h { // x = bound + eʸ
		below += h * math.Exp(y) * density(lower+math.Exp(y))
		above += h * math.Exp(y) * density(upper+math.Exp(y))
	}
	return 1 - below, above
}

// The normals of Prediction.Extra contribute to the bounds with their weight. With all of the weight, they
// determine the bounds.
func TestIntervalExtra(t *testing.T) {
	m, draw := familyStream(t, "normal", rand.New(rand.NewPCG(*seed, 9)))
	b := NewBank(m, []Member{{Top: .9}, {Top: .99}}, .999, &Detect{})
	s := b.NewState()
	var v [6][1]float64
	req := Prediction{Mean: v[0][:], SD: v[1][:], RegimeMean: v[2][:], RegimeSD: v[3][:], Lower: v[4][:], Upper: v[5][:], Level: .95}
	bounds := func(extra ...Normal) (below, above float64) {
		req.Extra = extra
		b.PredictAll(&req, s, 1, nil)
		return (req.Mean[0] - req.Lower[0]) / req.RegimeSD[0], (req.Upper[0] - req.Mean[0]) / req.RegimeSD[0]
	}
	bounds(Normal{1, .5}) // the naive prior has no standard deviation
	for range 60 {
		b.Update(s, draw())
	}
	below, above := bounds(Normal{2, .5}, Normal{.5, .5})
	p := .5*math.Erfc(below/2/math.Sqrt2)/2 + .5*math.Erfc(below/.5/math.Sqrt2)/2
	if math.Abs(p-.025) > 1e-7 || math.Abs(below-above) > 1e-6 {
		t.Errorf("the bounds of two normals leave %g below, and are %g and %g off", p, below, above)
	}
	base, _ := bounds()
	if half, _ := bounds(Normal{.01, .5}); half >= base {
		t.Errorf("the bounds are %g off, and %g with narrow normals", base, half)
	}
}

// The interval leaves out the specified probability according to the predictive density: with fixed weights
// both describe the same mixture. The interval of counts is the narrowest one with at least this probability on
// either side.
func TestIntervalMatchesPredictive(t *testing.T) {
	const level = .9
	for _, family := range []string{"bernoulli", "poisson", "exponential", "normal"} {
		for _, detect := range []*Detect{nil, {}} {
			m, draw := familyStream(t, family, rand.New(rand.NewPCG(*seed, 9)))
			b := NewBank(m, []Member{{Top: .9}, {Top: .99}}, .999, detect)
			discrete := family == "bernoulli" || family == "poisson"
			s := b.NewState()
			checked := 0
			for i := range 130 {
				b.Update(s, draw())
				if i%16 > 2 || b.detector != nil && b.detection(s).alive() == maxExcursions {
					continue // another excursion would merge two
				}
				checked++
				var lower, upper [1]float64
				b.Interval(lower[:], upper[:], level, s, 1, nil)
				below, above := tails(t, b, s, discrete, lower[0], upper[0])
				const side = (1 - level) / 2
				if discrete {
					inner, outer := tails(t, b, s, true, lower[0]-1, upper[0]+1)
					if below < side-1e-9 || above < side-1e-9 || inner > side+1e-9 || outer > side+1e-9 {
						t.Errorf("%s, detection %v, step %d: [%g, %g] has %.6f below, %.6f above", family, detect != nil, i, lower[0], upper[0], below, above)
					}
				} else if math.Abs(below-side) > 1e-6 || math.Abs(above-side) > 1e-6 {
					t.Errorf("%s, detection %v, step %d: [%g, %g] has %.7f below, %.7f above", family, detect != nil, i, lower[0], upper[0], below, above)
				}
			}
			if checked < 5 {
				t.Errorf("%s, detection %v: %d steps checked", family, detect != nil, checked)
			}
		}
	}
}

// quantile finds a quantile for any location and scale of the mixture.
func TestQuantile(t *testing.T) {
	for _, scale := range []float64{1e-100, 1, 1e100} {
		for _, location := range []float64{0, -3e5 * scale, 1e9 * scale} {
			d := distuv.StudentsT{Mu: location, Sigma: scale, Nu: 4}
			m := mixed{{Distribution: expfam.Student(location, scale*scale, 4), weight: 1}}
			got := m.quantile(.9, math.NaN(), m.spread(1, math.NaN(), math.NaN()))
			if want := location + 1.5332062740589436*scale; location == 0 && scale == 1 && math.Abs(got-want) > 1e-8 {
				t.Errorf("quantile %g, want %g", got, want)
			}
			if near := m.quantile(.9, location, scale); math.Abs(d.CDF(near)-.9) > 1e-6 {
				t.Errorf("location %g, scale %g: the quantile %g has probability %g", location, scale, near, d.CDF(near))
			}
		}
	}
}

// The quantile of 1 of a very rare category is 1, although the search passes 0.9999999999999998.
func TestQuantileOfRareCategory(t *testing.T) {
	m, err := expfam.New("categorical", expfam.Params{"alpha": []float64{2, 0x1p53}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var d [2]expfam.Distribution
	m.(expfam.Predictor).Predictive(d[:], make([]float64, m.Len()), 1, nil)
	if got := (mixed{{Distribution: d[0], weight: 1}}).quantile(1, 2.220446049250312e-16, 1.4901161193847651e-08); got != 1 {
		t.Errorf("it is %v", got)
	}
}

// Quantiles of mixtures equal those of bisection. For counts and shares they are the same whole numbers, also
// if the search starts near the quantile of the heaviest component.
func TestQuantileOfMixtures(t *testing.T) {
	for family, c := range map[string]struct {
		params expfam.Params
		draw   func(*rand.Rand) float64
		trials []float64
	}{
		"normal":      {expfam.Params{"mu": 0., "kappa": 1., "alpha": 1., "beta": 1.}, (*rand.Rand).NormFloat64, nil},
		"exponential": {expfam.Params{"shape": 1., "rate": 1.}, (*rand.Rand).ExpFloat64, nil},
		"poisson":     {expfam.Params{"shape": 1., "rate": .1}, func(r *rand.Rand) float64 { return float64(r.IntN(40)) }, nil},
		"binomial":    {expfam.Params{"alpha": 2.}, func(r *rand.Rand) float64 { return float64(r.IntN(4)) }, []float64{40}},
	} {
		m, err := expfam.New(family, c.params, 1)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(4, 4))
		for range 80 {
			var mix mixed
			var mean, sd [1]float64
			mixture := newMixture(1)
			mixture.reset(mean[:], sd[:])
			sum := 0.
			for k := range 1 + r.IntN(12) {
				sample := make([]float64, m.Len())
				for range 1 + r.IntN(30) {
					m.Observe(sample, append([]float64{c.draw(r) * (1 + 9*float64(r.IntN(2)))}, c.trials...), 1)
				}
				w := r.Float64()
				if k%3 > 0 { // some components have little weight
					w *= .01
				}
				sum += w
				var d [1]expfam.Distribution
				m.(expfam.Predictor).Predictive(d[:], sample, r.Float64(), append([]float64{0}, c.trials...))
				mix = append(mix, component{Distribution: d[0], weight: w})
				mixture.mean[0], mixture.sd[0] = d[0].Moments()
				mixture.add(w)
			}
			for i := range mix {
				mix[i].weight /= sum
			}
			check := func(p, got float64) {
				t.Helper()
				lo, hi := -1e4, 1e4
				for range 100 {
					if middle := (lo + hi) / 2; mix.CDF(middle) < p {
						lo = middle
					} else {
						hi = middle
					}
				}
				if family == "poisson" {
					hi = math.Round(hi)
				}
				if family == "poisson" && got != hi || !(math.Abs(got-hi) <= 1e-8*max(1, math.Abs(hi))) {
					t.Errorf("%s: %g has the quantile %g, want %g", family, p, got, hi)
				}
			}
			for _, p := range []float64{.001, .025, .3, .5, .975, .9999} {
				check(p, mix.quantile(p, 0, 1))
			}
			for _, level := range []float64{.5, .95, .999} {
				below := (1 - level) / 2
				lower, upper := mix.interval(level, mean[0], sd[0])
				check(below, lower)
				check(1-below, upper)
			}
		}
	}
}

// For any widths of the components, Newton's method either fails or finds the right quantiles.
func TestQuantileOfWidths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	found := 0
	for range 5000 {
		var mix mixed
		mean, square, total := 0., 0., 0.
		for range 1 + r.IntN(5) {
			location, scale := 2*r.NormFloat64()*float64(r.IntN(2)), math.Exp(6*r.NormFloat64()*float64(r.IntN(3)))
			mix = append(mix, component{Distribution: expfam.Student(location, scale*scale, 2+math.Exp(1+2*r.NormFloat64())), weight: math.Exp(3 * r.NormFloat64())})
			total += mix[len(mix)-1].weight
		}
		for i := range mix {
			c := &mix[i]
			c.weight /= total
			a, sd := c.Moments()
			mean, square = mean+c.weight*a, square+c.weight*(a*a+sd*sd)
		}
		sd := math.Sqrt(square - mean*mean)
		lower, ok := mix.newton(.025, -1.96, sd)
		upper, okUpper := mix.newton(.975, 1.96, sd)
		if !ok || !okUpper {
			continue
		}
		found++
		if l, u := mix.bisect(.025, mean, sd), mix.bisect(.975, mean, sd); math.Abs(lower-l) > 3e-8*sd || math.Abs(upper-u) > 3e-8*sd {
			t.Errorf("%g and %g, and by halves %g and %g, where the scale is %g", lower, upper, l, u, sd)
		}
	}
	if found < 4000 {
		t.Errorf("Newton's method finds %d of 5,000 pairs", found)
	}
}
