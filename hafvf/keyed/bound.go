package keyed

import (
	"math"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
)

// The numbers of standard deviations from what is expected beyond which a value counts as one at
// that distance.
const (
	// farAway is that of values with a location. A filter that forgets what it knew then returns
	// to ordinary values within a few of them: their part in its sums of squares is not lost in
	// rounding, and the weight of memory takes the rest of the outlier away.
	farAway = 1e6
	// farAbove is that of times and counts, whose tails are light. A filter that knows a mean of
	// thousands finds small values likely, and would take long to come down.
	farAbove = 20
	// farBack is that of values that serve as regressors of those that come. Few of them would
	// decide over all coefficients.
	farBack = 4
)

// A bound takes values that are farther from what their key expects to that distance,
// so that a fill value or a counter that wraps does not decide over what follows. A chain has one
// if its prior comes from the data and its memory adapts. With another prior, or a weight that
// is fixed, all values count as the formulas say.
type bound struct {
	bank     *hafvf.Bank
	far      float64
	positive bool // values have a scale and no location
	first    int  // of the coordinates that are bounded: of a regression the target alone
	mean, sd []float64
	copies   vectorCopies
}

// newBound returns nil if values count as the formulas say.
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

// adapts reports whether a bank gives up what it knows when it does not hold any more.
func adapts(bank *hafvf.Bank) bool {
	for i := range bank.Members() {
		if bank.Filter(i).Levels() > 0 {
			return true
		}
	}
	return bank.Detects()
}

// near returns the vectors of the track's next observation, which are on its scale and without
// their season, with values that are not far. They are valid until the next call. before is as in
// stages.learn.
func (b *bound) near(t *Track, elapsed float64, xs [][]float64, before regime) [][]float64 {
	b.expect(t, elapsed, xs, before)
	bounded := b.copies.copy(xs)
	for _, x := range bounded {
		if len(x) > b.first { // else it is a bare missing value
			for j := range x[b.first:] {
				x[b.first+j] = b.within(j, x[b.first+j], b.far)
			}
		}
	}
	return bounded
}

// recall has the bank remember a value that is not far back as the last one.
func (b *bound) recall(t *Track, xs [][]float64) {
	last := xs[0][0]
	if v := b.within(0, last, farBack); v != last {
		b.bank.Recall(t.state, v)
	}
}

// expect sets what the key expects: after the warm-up what the running regime predicts, and in
// it, once there is one, location and scale.
func (b *bound) expect(t *Track, elapsed float64, xs [][]float64, before regime) {
	if t.priorSet && len(t.warmUp) == 0 { // nor is a warm-up learned again
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

// within returns the value v of coordinate j, or the one nearest to it that is at most far
// standard deviations from what is expected.
func (b *bound) within(j int, v, far float64) float64 {
	far *= b.sd[j]
	if !(far < math.Inf(1)) {
		return v
	}
	least, most := b.mean[j]-far, b.mean[j]+far
	if b.positive {
		least, most = 0, math.Ceil(most) // a count stays one
	}
	return math.Max(least, math.Min(v, most))
}
