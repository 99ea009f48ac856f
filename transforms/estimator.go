package transforms

import (
	"math"
	"slices"

	"hafvf/hafvf"
)

// An Estimator makes estimates of observations without a pipeline: what Filter
// does to one key, as a plain loop. It is not safe for concurrent use.
type Estimator struct {
	filter  *hafvf.Filter
	params  int
	row     []float64
	unknown []float64 // an observation of NaN
}

// NewEstimator makes an estimator. An error names what is wrong with cfg.
func NewEstimator(cfg hafvf.Config) (*Estimator, error) {
	f, err := cfg.Filter()
	if err != nil {
		return nil, err
	}
	e := &Estimator{filter: f, unknown: slices.Repeat([]float64{math.NaN()}, f.Dim())}
	for _, p := range f.Model().Params() {
		e.params += p.Size()
	}
	return e, nil
}

// Filter is the filter that the estimator runs.
func (est *Estimator) Filter() *hafvf.Filter { return est.filter }

// Estimate predicts o, which the filter's Check has passed and which is the n-th
// of its key, and learns it into the key's state.
func (est *Estimator) Estimate(state hafvf.State, n int64, o Observation) Estimate {
	f := est.filter
	m := f.Model()
	outputs := m.Outputs()
	floats := make([]float64, 4*outputs+2*f.Levels()+est.params)
	cut := func(n int) []float64 {
		v := floats[:n:n]
		floats = floats[n:]
		return v
	}
	out := Estimate{
		Time: o.Time, ID: o.ID, N: n, X: o.X, Shape: o.Shape,
		Predicted: Moments{cut(outputs), cut(outputs)}, Estimate: Moments{cut(outputs), cut(outputs)},
		Levels: cut(2 * f.Levels()), Posterior: cut(est.params),
	}
	row := est.regressors(state, o)
	m.Predict(out.Predicted.Mean, out.Predicted.SD, f.Sample(state), f.PriorWeight(state), row)
	step := f.Update(state, o.X...)
	m.Estimate(out.Estimate.Mean, out.Estimate.SD, f.Sample(state), row)
	m.Posterior(out.Posterior, f.Sample(state))
	for i := range f.Levels() {
		l := f.Level(state, i)
		out.Levels[2*i], out.Levels[2*i+1] = l.Alpha, l.Beta
	}
	out.LogPredictive, out.ELBO, out.Weight, out.Memory = step.LogPredictive, step.ELBO, step.Weight, step.Memory
	out.Iterations, out.Converged, out.Missing = step.Iterations, step.Converged, step.Missing
	return out
}

// regressors returns the row at which to predict: that of the step's last vector,
// NaN where it leaves regressors open, which makes the prediction NaN where the
// model has any.
func (est *Estimator) regressors(state hafvf.State, o Observation) []float64 {
	x := est.unknown
	if n := len(o.X); n > 0 && len(o.X[n-1]) == len(x) {
		x = o.X[n-1]
	}
	est.row = append(est.row[:0], est.filter.Row(state, x)...)
	return est.row
}
