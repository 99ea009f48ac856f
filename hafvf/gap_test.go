package hafvf

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hafvf/internal/testing/familytest"
)

// After a gap the prediction replaces the missing value: while it is among the regressors, steps are predicted
// and change only the window. A state that is encoded in the gap continues bit for bit.
func TestGapOfAR(t *testing.T) {
	const order, gap = 3, 2
	m := familytest.New(t, "ar", Params{"order": order})
	f := NewFilter(m, DefaultMember().Levels, 1)
	b := NewBank(m, DefaultBank(), DefaultForgetting, &Detect{})
	x := make([]float64, 1)
	for name, c := range map[string]struct {
		state   State
		first   *Filter
		update  func(State, float64) (missing bool)
		predict func(mean, sd []float64, s State, row []float64)
		decode  func([]byte) (State, error)
	}{
		"filter": {f.NewState(), f, func(s State, v float64) bool { x[0] = v; return f.Update(s, x).Missing }, func(mean, sd []float64, s State, row []float64) {
			m.Predict(mean, sd, f.Sample(s), f.PriorWeight(s), row)
		}, f.DecodeState},
		"bank": {b.NewState(), b.members[0], func(s State, v float64) bool { x[0] = v; return b.Update(s, x).Missing }, b.Predict, b.DecodeState},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 20))
			s, own, x := c.state, len(c.state)-c.first.StateLen(), 0.0
			window := func(s State) []float64 { return c.first.window(s[own:]) }
			var mean, sd [1]float64
			for i := range 200 {
				x = .9*x + rng.NormFloat64()
				if c.update(s, x) != (i < order) {
					t.Fatalf("value %d: missing is %v", i, i >= order)
				}
			}
			for i := range gap {
				c.predict(mean[:], sd[:], s, append(slices.Clone(window(s)), math.NaN()))
				if !c.update(s, math.NaN()) || window(s)[0] != mean[0] || math.IsNaN(mean[0]) {
					t.Fatalf("missing value %d: %g in the window, predicted %g", i, window(s)[0], mean[0])
				}
			}
			other := must(c.decode(s.Append(nil)))
			before := slices.Clone(s[:own+c.first.stepLen()])
			if name == "bank" {
				before[b.detectorAt+atSteps] += order
			}
			for i := range order {
				row := append(slices.Clone(window(s)), math.NaN())
				if c.predict(mean[:], sd[:], s, row); math.IsNaN(mean[0]) || math.IsNaN(sd[0]) {
					t.Errorf("no prediction of value %d after the gap", i)
				}
				if !c.update(s, float64(i)) || !c.update(other, float64(i)) {
					t.Errorf("value %d after the gap was learned", i)
				}
			}
			if !sameBits(before, s[:len(before)]) {
				t.Error("values after the gap have changed the sample")
			}
			if c.update(s, 1) || c.update(other, 1) || sameBits(before, s[:len(before)]) {
				t.Errorf("value %d after the gap was not learned", order)
			}
			if !sameBits(s, other) {
				t.Error("the state encoded in the gap went on otherwise")
			}
			if n := testing.AllocsPerRun(20, func() { c.update(s, math.NaN()) }); n != 0 && !raced {
				t.Errorf("%g allocations at a missing value", n)
			}
			for range 5000 { // even if the autoregression is explosive
				c.update(s, math.NaN())
			}
			for range 2 * order {
				c.update(s, 1)
			}
			if c.update(s, 1) {
				t.Error("nothing is learned after a long gap")
			}
			if _, err := c.decode(s.Append(nil)); err != nil {
				t.Error(err)
			}
			if _, err := c.decode(append(s.Append(nil), 0)); err == nil {
				t.Error("a byte more passed")
			}
			s[len(s)-1] = order + 1
			if _, err := c.decode(s.Append(nil)); err == nil {
				t.Error("a state with more imputed lags than lags is accepted")
			}
		})
	}
}
