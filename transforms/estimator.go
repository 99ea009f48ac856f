package transforms

import "hafvf/hafvf"

// An Estimator makes estimates of observations without a pipeline: what Filter
// does to one key, as a plain loop. It is not safe for concurrent use.
type Estimator struct {
	filter *hafvf.Filter
	params int
	row    []float64
}

// NewEstimator makes an estimator. An error names what is wrong with cfg.
func NewEstimator(cfg hafvf.Config) (*Estimator, error) {
	f, err := cfg.Filter()
	if err != nil {
		return nil, err
	}
	e := &Estimator{filter: f}
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
	cut := cutter(make([]float64, 4*outputs+2*f.Levels()+est.params))
	out := Estimate{
		Time: o.Time, ID: o.ID, N: n, X: o.X, Shape: o.Shape,
		Predicted: Moments{cut(outputs), cut(outputs)}, Estimate: Moments{cut(outputs), cut(outputs)},
		Levels: cut(2 * f.Levels()), Posterior: cut(est.params),
	}
	est.row = append(est.row[:0], f.Regressors(state, o.X)...) // the update has its own row
	row := est.row
	m.Predict(out.Predicted.Mean, out.Predicted.SD, f.Sample(state), f.PriorWeight(state), row)
	step := f.Update(state, o.X...)
	m.Estimate(out.Estimate.Mean, out.Estimate.SD, f.Sample(state), row)
	m.Posterior(out.Posterior, f.Sample(state))
	copyLevels(out.Levels, f, state)
	out.LogPredictive, out.ELBO, out.Weight, out.Memory = step.LogPredictive, step.ELBO, step.Weight, step.Memory
	out.Iterations, out.Converged, out.Missing = step.Iterations, step.Converged, step.Missing
	return out
}

// cutter returns a function that cuts slices off floats: the slices of a record
// share one allocation.
func cutter(floats []float64) func(n int) []float64 {
	return func(n int) []float64 {
		v := floats[:n:n]
		floats = floats[n:]
		return v
	}
}

// copyLevels writes alpha and beta of every level of s, bottom up, to dst.
func copyLevels(dst []float64, f *hafvf.Filter, s hafvf.State) {
	for i := range f.Levels() {
		l := f.Level(s, i)
		dst[2*i], dst[2*i+1] = l.Alpha, l.Beta
	}
}
