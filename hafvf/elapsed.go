package hafvf

import (
	"math"

	"hafvf/internal/beta"
)

// If observations arrive at irregular times, w is the weight of memory per unit of time. Over Δ units the weight
// is v = w^Δ, and the objective has mean and variance of v instead of mean and variance of w. They are moments
// of Beta(φ),
//
//	E[v] = B(a+Δ, b)/B(a, b),  E[v²] = B(a+2Δ, b)/B(a, b)
//
// and have a closed form, as have their derivatives in φ.

// UpdateAfter is Update if elapsed units of time have passed since the last observation that was not missing.
// UpdateAfter with elapsed = 1 equals Update.
//
// Only the first level's weight is per unit of time; the weights of higher levels are per observation.
// UpdateAfter panics if elapsed is negative or NaN, and in the cases in which Update panics.
func (f *Filter) UpdateAfter(s State, elapsed float64, xs ...[]float64) Step {
	f.checkStep(s, f.StateLen(), elapsed, xs)
	var step Step
	if f.imputed(s) > 0 {
		step = f.skip(s)
	} else {
		step = f.learn(s, elapsed, f.rows(s, xs), true)
	}
	mean, sd := f.moments[0][:], f.moments[1][:]
	if f.lacksValue(xs) {
		f.model.Predict(mean, sd, f.Sample(s), f.PriorWeightAfter(s, elapsed), f.Row(s, f.unknown))
	}
	f.push(s, xs, mean[0])
	return step
}

// PriorWeightAfter returns the mean weight of the memory before the next observation, if elapsed units of time
// have passed since the last one.
func (f *Filter) PriorWeightAfter(s State, elapsed float64) float64 {
	if len(f.naive) == 0 || elapsed == 1 {
		return weightAfter(f.PriorWeight(s), elapsed)
	}
	w := f.top
	for i := len(f.naive) - 1; i > 0; i-- {
		w = f.prior(s, i, w).Mean()
	}
	p := f.prior(s, 0, w)
	return math.Exp(beta.LogMoment(p.Alpha, p.Beta, elapsed))
}

// weightAfter returns w^elapsed. For elapsed = 1 it returns w itself.
func weightAfter(w, elapsed float64) float64 {
	if elapsed == 1 {
		return w
	}
	return math.Pow(w, elapsed)
}
