package hafvf

import (
	"math"

	"hafvf/internal/beta"
)

// Where observations come at irregular times, w is the weight of memory per unit
// of time: over Δ units it is v = w^Δ, and in the objective mean and variance of v
// stand in place of those of w. They are moments of Beta(φ),
//
//	E[v] = B(a+Δ, b)/B(a, b),  E[v²] = B(a+2Δ, b)/B(a, b)
//
// in closed form, as are their derivatives in φ.

// UpdateAfter is Update where elapsed units of time have passed since the last
// observation that wasn't missing: finite, not below zero. After one unit it is
// Update.
//
// Only the first level's weight is per unit of time; those above it are per
// observation. UpdateAfter panics where elapsed is negative, and where Update does.
func (f *Filter) UpdateAfter(s State, elapsed float64, xs ...[]float64) Step {
	f.checkStep(s, f.StateLen(), elapsed, xs)
	var step Step
	if f.imputed(s) > 0 {
		step = f.skip(s)
	} else {
		step = f.learn(s, elapsed, f.rows(s, xs), true)
	}
	mean, sd := f.moments[0][:], f.moments[1][:]
	if f.lacks(xs) {
		f.model.Predict(mean, sd, f.Sample(s), f.PriorWeightAfter(s, elapsed), f.Row(s, f.unknown))
	}
	f.push(s, xs, mean[0])
	return step
}

// PriorWeightAfter is the mean weight of the memory, before the next observation,
// when elapsed units of time have passed since the last.
func (f *Filter) PriorWeightAfter(s State, elapsed float64) float64 {
	if len(f.naive) == 0 || elapsed == 1 {
		return over(f.PriorWeight(s), elapsed)
	}
	w := f.top
	for i := len(f.naive) - 1; i > 0; i-- {
		w = f.prior(s, i, w).Mean()
	}
	p := f.prior(s, 0, w)
	return math.Exp(beta.LogMoment(p.Alpha, p.Beta, elapsed))
}

// over is w^elapsed, and w itself after one unit.
func over(w, elapsed float64) float64 {
	if elapsed == 1 {
		return w
	}
	return math.Pow(w, elapsed)
}
