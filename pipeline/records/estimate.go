package records

import (
	"time"

	"hafvf/connectors"
	"hafvf/hafvf"
	"hafvf/transforms"
)

// An estimate is a transforms.Estimate with its key.
type estimate struct {
	key string
	*transforms.Estimate
}

var estimates = []field[estimate]{
	text("key", "Key of the observation.", func(e estimate) string { return e.key }),
	instant("time", "Time of the observation.", func(e estimate) time.Time { return e.Time }),
	text("id", "Where the observation came from: file:line or topic-partition-offset. It is the same after a restart.", func(e estimate) string { return e.ID }),
	count("n", "", "Sequence number within the key, from 1.", func(e estimate) (int64, bool) { return e.N, true }),
	value(func(e estimate) ([][]float64, transforms.Shape) { return e.X, e.Shape }),
	moments("predicted", "One step ahead, before x was seen, with the weight at its prior mean.", func(e estimate) transforms.Moments { return e.Predicted }),
	moments("estimate", "Posterior of the likelihood's mean, after x was seen.", func(e estimate) transforms.Moments { return e.Estimate.Estimate },
		inJSON(only(regime, detects, mayDetect))),
	number("log_predictive", "nats", "log p(x | past), integrated over the weight; of the whole bank where there is one.", func(e estimate) float64 { return e.LogPredictive }),
	number("elbo", "nats", "Lower bound of the log evidence, the objective of the update.", func(e estimate) float64 { return e.ELBO }),
	number("weight", "", "E[w]: share of the past that this step kept.", func(e estimate) float64 { return e.Weight }),
	number("memory", "observations", "Number of observations that the estimate rests on.", func(e estimate) float64 { return e.Memory }),
	levels("Beta posteriors of the forgetting weights, bottom up.", func(e estimate) []float64 { return e.Levels }),
	posterior(func(e estimate) []float64 { return e.Posterior }),
	count("iterations", "", "Newton steps of the update; null for a missing observation.", func(e estimate) (int64, bool) { return int64(e.Iterations), !e.Missing }),
	flag("converged", "The update reached its maximum.", func(e estimate) bool { return e.Converged }),
	only(flag("warm_up", "true while prior: auto is setting the prior; absent otherwise.", func(e estimate) bool { return e.WarmUp }),
		func(e estimate) bool { return e.WarmUp }, func(l *Layout) bool { return l.WarmUp }),
	only(list("bank", "Members of the bank. weight, memory, levels and posterior above are those of the member with the largest posterior weight.", func(l *Layout) int { return l.Bank },
		func(e estimate) int { return len(e.Bank) }, func(e estimate, i int) transforms.MemberStep { return e.Bank[i] },
		number("weight_of_member", "", "Posterior weight of the member in the average.", func(m transforms.MemberStep) float64 { return m.Share }),
		number("weight", "", "E[w] of the member.", func(m transforms.MemberStep) float64 { return m.Weight }),
		number("memory", "observations", "Memory of the member.", func(m transforms.MemberStep) float64 { return m.Memory }),
		number("log_predictive", "nats", "log p(x | past) by the member.", func(m transforms.MemberStep) float64 { return m.LogPredictive }),
	), func(e estimate) bool { return e.Bank != nil }, func(l *Layout) bool { return l.Bank > 0 }),
	only(withRegime(object("detect", "Outlier or change; with detect only.",
		text("kind", "none, outlier, change, or revision of a change.", func(e estimate) string { return string(e.Detection.Kind) }),
		number("p_stay", "", "Posterior probability that the regime goes on.", func(e estimate) float64 { return e.Detection.Stay }),
		number("p_outlier", "", "Posterior probability of an outlier or a short burst.", func(e estimate) float64 { return e.Detection.Outlier }),
		number("p_change", "", "Posterior probability of a lasting change.", func(e estimate) float64 { return e.Detection.Change }),
		instant("start", "First observation of the suspected or new regime.", func(e estimate) time.Time { return e.Detection.Start }),
		count("start_n", "", "Its sequence number within the key.", func(e estimate) (int64, bool) { return e.Detection.StartN, e.Detection.StartN > 0 }),
		count("delay", "observations", "From start to here; at a change or revision.", func(e estimate) (int64, bool) {
			return e.Detection.Delay, e.Detection.Kind == hafvf.Change || e.Detection.Kind == hafvf.Revision
		}),
		count("age", "observations", "Run length: since the running regime's start.", func(e estimate) (int64, bool) { return e.Detection.Age, true }),
	)), detects, mayDetect),
}

var regime = moments("regime", "The same of the running regime alone; with detect only.", func(e estimate) transforms.Moments { return e.Regime })

func detects(e estimate) bool  { return e.Detection != nil }
func mayDetect(l *Layout) bool { return l.Detect }

// inJSON is f without columns.
func inJSON(f field[estimate]) field[estimate] {
	f.columns = func(string, *Layout, connectors.Kind) []connectors.Column { return nil }
	f.cells = func(b []byte, _ *Layout, _ estimate) []byte { return b }
	return f
}

// withRegime puts the columns of the running regime before those of f: tables have
// had them there since before they were part of the estimate.
func withRegime(f field[estimate]) field[estimate] {
	columns, cells := f.columns, f.cells
	f.columns = func(path string, l *Layout, x connectors.Kind) []connectors.Column {
		return append(regime.columns("estimate.regime", l, x), columns(path, l, x)...)
	}
	f.cells = func(b []byte, l *Layout, e estimate) []byte { return cells(regime.cells(b, l, e), l, e) }
	return f
}

// AppendEstimate appends the record of an estimate.
func (l *Layout) AppendEstimate(b []byte, as Form, key string, e *transforms.Estimate) []byte {
	return appendRecord(b, as, l, estimate{key, e}, estimates)
}

// EstimateColumns are the record of an estimate as a table; x is the kind of the
// column of the value.
func (l *Layout) EstimateColumns(x connectors.Kind) []connectors.Column {
	return columnsOf("", l, x, estimates)
}

var alerts = []field[estimate]{
	text("key", "Key of the observation.", func(e estimate) string { return e.key }),
	instant("time", "Time of the observation at which the alert was raised.", func(e estimate) time.Time { return e.Time }),
	text("kind", "outlier, change, or revision of a change.", func(e estimate) string { return string(e.Alert.Kind) }),
	text("id", "Where that observation came from.", func(e estimate) string { return e.ID }),
	leaf("corrects", "text", "", "id of the alert that a revision replaces.", connectors.String, func(b []byte, e estimate) []byte {
		if e.Alert.Corrects == "" {
			return append(b, "null"...)
		}
		return appendText(b, e.Alert.Corrects)
	}),
	instant("start", "First observation of the outlier or of the new regime.", func(e estimate) time.Time { return e.Alert.Start }),
	count("delay", "observations", "From start to time.", func(e estimate) (int64, bool) { return e.Alert.Delay, true }),
	number("odds", "nats", "Log-odds in favour of it.", func(e estimate) float64 { return e.Alert.LogOdds }),
	moments("before", "The mean before it.", func(e estimate) transforms.Moments { return e.Alert.Before }),
	moments("after", "The mean after it.", func(e estimate) transforms.Moments { return e.Alert.After }),
}

// AppendAlert appends the record of an estimate's alert.
func (l *Layout) AppendAlert(b []byte, as Form, key string, e *transforms.Estimate) []byte {
	return appendRecord(b, as, l, estimate{key, e}, alerts)
}

// AlertColumns are the record of an alert as a table.
func (l *Layout) AlertColumns() []connectors.Column {
	return columnsOf("", l, "", alerts)
}
