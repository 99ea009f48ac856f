package keyed

import (
	"math"
	"slices"

	"hafvf/hafvf"
)

// A scaling takes observations to the scale that their filter has, and what the filter
// says of them back. Means are medians then, and standard deviations are those of the
// delta method: sd(x) ≈ sd(y)·dx/dy at the median.
type scaling struct {
	hafvf.Scale
	first int // of the coordinates that are scaled: of a regression the target alone
}

// newScaling is that of a configuration and its bank, nil where values stay as they are.
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

// check says why o is not an observation: a value that has no place on the scale, or what
// a filter says of the others.
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

// to returns the observation on the scale, and the sum of the log slopes of the values
// that are not missing.
func (sc *scaling) toScale(o Observation) (_ Observation, jacobian float64) {
	if sc == nil {
		return o, 0
	}
	o.X = slices.Clone(o.X)
	for i, x := range o.X {
		y, slopes := slices.Clone(x), 0.
		for j := min(sc.first, len(x)); j < len(x); j++ {
			y[j] = sc.Of(x[j])
			slopes += sc.LogSlope(x[j])
		}
		o.X[i] = y
		if !slices.ContainsFunc(x, math.IsNaN) {
			jacobian += slopes
		}
	}
	return o, jacobian
}

// addJacobian makes the log densities of an outcome those of values of which it saw a
// function; jacobian is the logarithm of its derivative.
func addJacobian(out *hafvf.Outcome, jacobian float64) {
	out.LogPredictive += jacobian
	for i := range out.Members {
		out.Members[i].LogPredictive += jacobian
		out.Members[i].ELBO += jacobian
	}
}

// back takes values on the scale to those of the data, in place.
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

// moments takes those of values on the scale to those of the data, in place.
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

// value is that of the data at y.
func (sc *scaling) value(y float64) float64 {
	if sc == nil {
		return y
	}
	return sc.Value(y)
}
