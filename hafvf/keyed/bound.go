package keyed

import (
	"math"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
)

// The maximum deviations from the expected value, in standard deviations. A bound clamps values beyond them.
const (
	// farAway applies to values with a location. After an outlier of this size, a filter that forgets returns to
	// ordinary values within a few of them: rounding does not lose their part in its sums of squares, and the weight
	// of memory removes the rest of the outlier.
	farAway = 1e6
	// farAbove applies to times and counts, which have light tails. A filter with a mean of thousands finds small
	// values likely, and would need a long time to return to them.
	farAbove = 20
	// farBack applies to values that are regressors of the next values. A few larger ones would determine all
	// coefficients.
	farBack = 4
)

// A bound clamps values to a maximum deviation from their key's expectation, so that a fill value or a counter that
// wraps does not dominate the estimates that follow. Stages have a bound if the prior comes from the data and the
// memory adapts. With another prior or a fixed weight, values are not changed.
type bound struct {
	bank     *hafvf.Bank
	far      float64 // maximum deviation, sd
	positive bool    // values have a scale and no location
	first    int     // first coordinate that is clamped; for a regression only the target is
	mean, sd []float64
	copies   vectorCopies
}

// newBound returns the bound of a configuration, or nil if values are not clamped.
func newBound(cfg hafvf.Config, bank *hafvf.Bank) *bound {
	if cfg.WarmUp == 0 || !adapts(bank) {
		return nil
	}
	if _, ok := bank.Model().(expfam.Counted); ok { // a share is never far
		return nil
	}
	n := bank.Model().Outputs()
	b := &bound{bank: bank, far: farAway, mean: make([]float64, n), sd: make([]float64, n)}
	switch cfg.Family {
	case "exponential", "poisson":
		b.far, b.positive = farAbove, true
	case "regression":
		b.first = bank.Dim() - 1
	}
	if _, ok := bank.Model().(expfam.Exposed); ok {
		b.first = 1
	}
	return b
}

// adapts reports whether the memory of a bank adapts: a member has levels, or the bank detects changes.
func adapts(bank *hafvf.Bank) bool {
	for i := range bank.Members() {
		if bank.Filter(i).Levels() > 0 {
			return true
		}
	}
	return bank.Detects()
}

// clamp returns clamped copies of the vectors of the track's next observation, which are on the filter's scale and
// without their season. The copies are valid until the next call. before is as in stages.learn.
func (b *bound) clamp(t *Track, elapsed float64, xs [][]float64, before regime) [][]float64 {
	b.expect(t, elapsed, xs, before)
	bounded := b.copies.copy(xs)
	for _, x := range bounded {
		if len(x) > b.first { // a shorter vector is a missing value
			for j := range x[b.first:] {
				x[b.first+j] = b.clampValue(j, x[b.first+j], b.far)
			}
		}
	}
	return bounded
}

// recall replaces the bank's last value by the value clamped to farBack.
func (b *bound) recall(t *Track, xs [][]float64) {
	last := xs[0][0]
	if v := b.clampValue(0, last, farBack); v != last {
		b.bank.ReplaceLast(t.state, v)
	}
}

// expect sets mean and sd to the key's expectation. After the warm-up this is the running regime's prediction, in the
// warm-up it is location and scale; sd is infinite while those are unknown.
func (b *bound) expect(t *Track, elapsed float64, xs [][]float64, before regime) {
	if t.priorSet && len(t.warmUp) == 0 { // and no warm-up is being learned again
		if before.predicted != nil {
			copy(b.mean, before.predicted)
			copy(b.sd, before.predictive)
			return
		}
		b.bank.PredictRegime(b.mean, b.sd, t.state, elapsed, t.stages.regressors(t.state, Observation{X: xs}))
		return
	}
	for j := range b.mean {
		switch ls := t.locationScale; {
		case ls == nil:
			b.mean[j], b.sd[j] = 0, math.Inf(1)
		case b.positive:
			b.mean[j], b.sd[j] = ls[0], ls[0]
		default:
			b.mean[j], b.sd[j] = ls[2*j], ls[2*j+1]
		}
	}
}

// clampValue returns the value v of coordinate j, clamped to far standard deviations around the expected value.
func (b *bound) clampValue(j int, v, far float64) float64 {
	far *= b.sd[j]
	if !(far < math.Inf(1)) {
		return v
	}
	lowest, highest := b.mean[j]-far, b.mean[j]+far
	if b.positive {
		lowest, highest = 0, math.Ceil(highest) // counts stay whole numbers
	}
	return math.Max(lowest, math.Min(v, highest))
}
