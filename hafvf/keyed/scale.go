package keyed

import (
	"math"
	"slices"

	"hafvf/hafvf"
)

// A scaling converts observations to the scale of their filter, and the filter's results back to the scale of the
// data. After the conversion back, means are medians, and standard deviations follow from the delta method: sd(x) ≈
// sd(y)·dx/dy at the median. A nil scaling changes nothing.
type scaling struct {
	hafvf.Scale
	first int // first scaled coordinate: for a regression only the target is scaled
}

// newScaling returns the scaling of a configuration and its bank, or nil for the linear scale.
func newScaling(cfg hafvf.Config, bank *hafvf.Bank) *scaling {
	if cfg.Scale == "" || cfg.Scale == hafvf.Linear {
		return nil
	}
	sc := &scaling{Scale: cfg.Scale}
	if cfg.Family == "regression" {
		sc.first = bank.Dim() - 1
	}
	return sc
}

// check returns an error if o has a value that the scale does not allow, or if the filter rejects the scaled
// observation.
func (sc *scaling) check(filter *hafvf.Filter, o *Observation) error {
	if sc == nil {
		return filter.Check(o.X)
	}
	for _, x := range complete(o.X) {
		for _, v := range x[min(sc.first, len(x)):] {
			if err := sc.Check(v); err != nil {
				return err
			}
		}
	}
	scaled, _ := sc.toScale(*o)
	return filter.Check(scaled.X)
}

// toScale returns the observation on the scale, and the sum of the log slopes of its complete vectors.
func (sc *scaling) toScale(o Observation) (_ Observation, jacobian float64) {
	if sc == nil {
		return o, 0
	}
	o.X = slices.Clone(o.X)
	for i, x := range o.X {
		y, slopes := slices.Clone(x), 0.
		for j := min(sc.first, len(x)); j < len(x); j++ {
			y[j] = sc.Transform(x[j])
			slopes += sc.LogSlope(x[j])
		}
		o.X[i] = y
		if !slices.ContainsFunc(x, math.IsNaN) {
			jacobian += slopes
		}
	}
	return o, jacobian
}

// addJacobian converts the log densities of an outcome to the values of the data, if the filter saw a function of
// them. jacobian is the logarithm of the derivative of the function.
func addJacobian(out *hafvf.Outcome, jacobian float64) {
	out.LogPredictive += jacobian
	for i := range out.Members {
		out.Members[i].LogPredictive += jacobian
		out.Members[i].ELBO += jacobian
	}
}

// toData converts values on the scale to values of the data, in place.
func (sc *scaling) toData(y ...[]float64) {
	if sc == nil {
		return
	}
	for _, y := range y {
		for i := range y {
			y[i] = sc.Value(y[i])
		}
	}
}

// momentsToData converts moments on the scale to moments of the data, in place.
func (sc *scaling) momentsToData(list ...Moments) {
	if sc == nil {
		return
	}
	for _, m := range list {
		sc.toData(m.Mean)
		for i := range m.SD {
			m.SD[i] *= math.Exp(-sc.LogSlope(m.Mean[i]))
		}
	}
}

// value returns the value of the data for the value y on the scale.
func (sc *scaling) value(y float64) float64 {
	if sc == nil {
		return y
	}
	return sc.Value(y)
}
