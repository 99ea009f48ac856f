package hafvf

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/familytest"
)

// hostile draws positive numbers of all sizes, and numbers at which arithmetic is critical.
var hostile = rapid.Custom(func(t *rapid.T) float64 {
	if rapid.Bool().Draw(t, "edge") {
		return rapid.SampledFrom([]float64{5e-324, 1e-300, 1e-17, 1e-9, .5, 1 - 0x1p-53, 1, 2, 1e8, 1e15, 1 << 53, 1e100, 1e140, 1e300}).Draw(t, "number")
	}
	return rapid.Float64Range(1, 10).Draw(t, "digits") * math.Pow(10, float64(rapid.IntRange(-20, 20).Draw(t, "exponent")))
})

// hostileModel draws a model of the family, with priors of any size.
func hostileModel(t *rapid.T, family string) expfam.Model {
	size := func(name string) float64 {
		if rapid.Bool().Draw(t, name+" is usual") {
			return 1
		}
		return min(max(1e-140, hostile.Draw(t, name)), 1e140)
	}
	c := familytest.Of(family)
	params := maps.Clone(c.Prior)
	if params == nil {
		params = expfam.Params{}
	}
	for _, name := range c.Sizes {
		if list, ok := params[name].([]float64); ok {
			list = slices.Clone(list)
			for i := range list {
				list[i] = size(name)
			}
			params[name] = list
		} else {
			params[name] = size(name)
		}
	}
	m, err := expfam.New(family, params, 0)
	if err != nil {
		t.Skip(err)
	}
	fitted, ok := m.(expfam.Fitted)
	if !ok || !rapid.Bool().Draw(t, "fitted") {
		return m
	}
	var xs [][]float64
	for range rapid.IntRange(1, 5).Draw(t, "warm-up") {
		x := hostileVector(t, family, m)
		if _, sequential := m.(expfam.Sequential); sequential {
			x = x[len(x)-1:]
		}
		xs = append(xs, x)
	}
	return fitted.Fit(fitted.LocationScale(xs))
}

// hostileVector draws an observation that the model accepts.
func hostileVector(t *rapid.T, family string, m expfam.Model) []float64 {
	x := make([]float64, m.Dim())
	kind := familytest.Of(family).Kind
	for i := range x {
		x[i] = hostile.Draw(t, "x")
		switch kind {
		case familytest.Category:
			x[i] = float64(rapid.IntRange(0, m.Outputs()-1+m.Outputs()%2).Draw(t, "category"))
		case familytest.Count, familytest.Trials:
			x[i] = math.Floor(min(x[i], expfam.MaxCount))
		case familytest.Real:
			x[i] *= rapid.SampledFrom([]float64{-1, 0, 1}).Draw(t, "sign")
		}
	}
	if kind == familytest.Trials {
		x[0] = rapid.SampledFrom([]float64{0, min(x[0], x[1]), x[1]}).Draw(t, "successes")
	}
	if m.Check(x) != nil {
		t.Skip()
	}
	return x
}

// Predictive distributions have valid probabilities for any prior and sample: they are in [0, 1] and do not
// decrease, or are NaN if a parameter exceeds the largest number.
func TestHostileProbabilities(t *testing.T) {
	for _, c := range familytest.All() {
		family := c.Name
		t.Run(family, rapid.MakeCheck(func(t *rapid.T) {
			m := hostileModel(t, family)
			d := make([]float64, m.Len())
			for range rapid.IntRange(0, 4).Draw(t, "observations") {
				m.Observe(d, hostileVector(t, family, m), rapid.SampledFrom([]float64{1, .5, 1e-9}).Draw(t, "weight"))
			}
			row := hostileVector(t, family, m)
			s := rapid.SampledFrom([]float64{0, 1e-300, .5, 1}).Draw(t, "s")
			var points []float64
			for range 6 {
				x := hostile.Draw(t, "at")
				points = append(points, x, -x, 1-x)
			}
			mean, sd := make([]float64, m.Outputs()), make([]float64, m.Outputs())
			m.Predict(mean, sd, d, s, row)
			m.Estimate(mean, sd, d, row)
			laws := make([]expfam.Distribution, m.Outputs())
			m.(expfam.Predictor).Predictive(laws, d, s, row)
			for i := range m.Outputs() {
				p := laws[i]
				sorted := append(slices.Clone(points), mean[i], mean[i]-sd[i], mean[i]+sd[i], math.Inf(-1), math.Inf(1))
				sorted = slices.DeleteFunc(sorted, math.IsNaN)
				slices.Sort(sorted)
				below := 0.
				for _, x := range sorted {
					c := p.CDF(x)
					if c < below-1e-9 || c > 1 || c < 0 {
						t.Fatalf("%#v: P(X ≤ %g) = %g after %g", p, x, c, below)
					}
					below = c
				}
			}
		}))
	}
}

// A bank predicts any stream, with bounds in order.
func TestHostileStreams(t *testing.T) {
	for _, c := range familytest.All() {
		family := c.Name
		t.Run(family, rapid.MakeCheck(func(t *rapid.T) {
			var detect *Detect
			if rapid.Bool().Draw(t, "detection") {
				detect = &Detect{}
			}
			b := NewBank(hostileModel(t, family), DefaultBankFor(family), DefaultForgetting, detect)
			s := b.NewState()
			level := rapid.SampledFrom([]float64{.5, .95, 1 - 0x1p-53}).Draw(t, "level")
			pool := [][]float64{hostileVector(t, family, b.Model()), hostileVector(t, family, b.Model()), hostileVector(t, family, b.Model())}
			lower, upper := make([]float64, b.Model().Outputs()), make([]float64, b.Model().Outputs())
			mean, sd := slices.Clone(lower), slices.Clone(upper)
			for i := range rapid.IntRange(1, 30).Draw(t, "length") {
				x := rapid.SampledFrom(pool).Draw(t, "observation")
				if _, sequential := b.Model().(expfam.Sequential); sequential {
					x = x[len(x)-1:]
				}
				row := slices.Clone(b.Regressors(s, [][]float64{x}))
				b.PredictAfter(mean, sd, s, 1, row)
				b.Interval(lower, upper, level, s, 1, row)
				for k := range lower {
					about := fmt.Sprintf("step %d, output %d: [%g, %g], predicted %g ± %g", i, k, lower[k], upper[k], mean[k], sd[k])
					switch {
					case lower[k] > upper[k] || sd[k] < 0:
						t.Fatal(about)
					case (c.Kind == familytest.Category || c.Kind == familytest.Trials) && !(lower[k] >= 0 && upper[k] <= 1 && mean[k] >= 0 && mean[k] <= 1+1e-9 && sd[k] <= 1):
						t.Fatal(about)
					}
				}
				b.Update(s, x)
				if !b.Finite(s) {
					break // package keyed restores the previous state
				}
				b.Estimate(mean, sd, s, row)
			}
		}))
	}
}
