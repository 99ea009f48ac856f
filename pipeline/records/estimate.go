package records

import (
	"maps"
	"math"
	"slices"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/tabular"
)

// An estimate is a keyed.Estimate with its key.
type estimate struct {
	key string
	*keyed.Estimate
}

var estimates = []field[estimate]{
	text("key", "Key of the observation.", func(e estimate) string { return e.key }),
	instant("time", "Time of the observation.", func(e estimate) time.Time { return e.Time }),
	text("id", "Source of the observation: file:line, topic-partition-offset, or with aggregate key/time. A restart does not change it.", func(e estimate) string { return e.ID }),
	count("n", "", "Sequence number within the key, from 1.", func(e estimate) (int64, bool) { return e.N, true }),
	value(func(e estimate) ([][]float64, keyed.Shape) { return e.X, e.Shape }),
	events(func(e estimate) (int64, bool) { return e.Events, e.Aggregated }),
	moments("predicted", "Prediction one step ahead, before x was seen, with the weight at its prior mean.", func(e estimate) keyed.Moments { return e.Predicted }),
	moments("estimate", "Posterior of the likelihood's mean, after x was seen.", func(e estimate) keyed.Moments { return e.Estimate.Estimate },
		inJSON(only(regime, detects, mayDetect))),
	only(outputs("lower", "Lower bound of the central predictive interval, one step ahead, before x was seen; with interval only.", func(e estimate) []float64 { return e.Lower }), bounded, mayBound),
	only(outputs("upper", "Upper bound of that interval; with interval only.", func(e estimate) []float64 { return e.Upper }), bounded, mayBound),
	number("log_predictive", "nats", "log p(x | past), integrated over the weight; with a bank, for the whole bank. For normal with detect, this density, predicted and the interval adapt to recent errors: they mix the bank with normals of 1/8 to 2 times its standard deviation.", func(e estimate) float64 { return e.LogPredictive }),
	full(number("elbo", "nats", "Lower bound of the log evidence, the objective of the update.", func(e estimate) float64 { return e.ELBO })),
	number("weight", "", "E[w]: share of the past that this step kept.", func(e estimate) float64 { return e.Weight }),
	number("memory", "observations", "Number of observations behind the estimate.", func(e estimate) float64 { return e.Memory }),
	full(levels("Beta posteriors of the forgetting weights, bottom up.", func(e estimate) []float64 { return e.Levels })),
	full(posterior(func(e estimate) []float64 { return e.Posterior })),
	full(count("iterations", "", "Newton steps of the update; null for a missing observation.", func(e estimate) (int64, bool) { return int64(e.Iterations), !e.Missing })),
	full(flag("converged", "The update reached its maximum.", func(e estimate) bool { return e.Converged })),
	only(flag("warm_up", "true while prior: auto is setting the prior; absent otherwise.", func(e estimate) bool { return e.WarmUp }),
		func(e estimate) bool { return e.WarmUp }, func(l *Layout) bool { return l.WarmUp }),
	only(flag("quiet", "true in a quiet time: the record was not learned; absent otherwise.", func(e estimate) bool { return e.Quiet }),
		func(e estimate) bool { return e.Quiet }, func(l *Layout) bool { return l.Quiet }),
	full(only(list("bank", "Members of the bank. weight, memory, levels and posterior above belong to the most probable member of the family.", func(l *Layout) int { return l.Bank },
		func(e estimate) int { return len(e.Bank) }, func(e estimate, i int) keyed.MemberStep { return e.Bank[i] },
		number("weight_of_member", "", "Posterior weight of the member in the average.", func(m keyed.MemberStep) float64 { return m.Share }),
		number("weight", "", "E[w] of the member.", func(m keyed.MemberStep) float64 { return m.Weight }),
		number("memory", "observations", "Memory of the member.", func(m keyed.MemberStep) float64 { return m.Memory }),
		number("log_predictive", "nats", "log p(x | past) by the member.", func(m keyed.MemberStep) float64 { return m.LogPredictive }),
	), func(e estimate) bool { return e.Bank != nil }, func(l *Layout) bool { return l.Bank > 0 })),
	only(withRegime(object("detect", "Outlier or change; with detect only.",
		text("kind", "none, outlier, change, or revision of a change.", func(e estimate) string { return string(e.Detection.Kind) }),
		full(number("p_stay", "", "Posterior probability that the regime continues.", func(e estimate) float64 { return e.Detection.Stay })),
		number("p_outlier", "", "Posterior probability of an outlier or a short burst. It is about the model, not about an incident.", func(e estimate) float64 { return e.Detection.Outlier }),
		number("p_change", "", "Posterior probability of a lasting change. Its odds are a third of the odds that decide on kind: heavy tails and dependent values look like changes.", func(e estimate) float64 { return e.Detection.Change }),
		full(instant("start", "First observation of the suspected or new regime.", func(e estimate) time.Time { return e.Detection.Start })),
		full(count("start_n", "", "Sequence number of start within the key.", func(e estimate) (int64, bool) { return e.Detection.StartN, e.Detection.StartN > 0 })),
		full(count("delay", "observations", "Observations from start to here; at a change or revision.", func(e estimate) (int64, bool) {
			return e.Detection.Delay, e.Detection.Kind == hafvf.Change || e.Detection.Kind == hafvf.Revision
		})),
		full(count("age", "observations", "Run length: observations since the running regime's start.", func(e estimate) (int64, bool) { return e.Detection.Age, true })),
		moments("usual", "Expected x from the key's level, seasons and plan; 95 % of the key's values lie within mean ± 1.96 sd. One per coordinate of a vector. null if score is null.", func(e estimate) keyed.Moments { return e.Detection.Usual }),
		number("score", "", "How unusual the last observations are: nominally −log₁₀ of a tail probability. High scores are more frequent than this. null at first, if x is missing, and for a single category.", func(e estimate) float64 { return e.Detection.Score }),
		full(number("threshold", "", "Minimum score of an alarm. It rises with every alarm and falls with time.", func(e estimate) float64 { return e.Detection.Threshold })),
		nullable("alarm", "novelty if an episode begins here or is worse; change if a rare change of values without a score was found; else null. During an episode, other deviations are no alarms.", func(e estimate) string {
			if e.Alarm == nil {
				return ""
			}
			return e.Alarm.Kind
		}),
		episodeOf(func(e estimate) *keyed.EpisodeReport { return e.Detection.Episode }, true),
		full(usualBefore(func(e estimate) *keyed.EpisodeReport { return e.Detection.Episode })),
		full(worst(func(e estimate) *keyed.EpisodeReport { return e.Detection.Episode })),
	)), detects, mayDetect),
	carried(func(e estimate) string { return e.ExtraFields }),
}

var regime = full(moments("regime", "The estimate of the running regime alone; with detect only.", func(e estimate) keyed.Moments { return e.Regime }))

func bounded(e estimate) bool { return e.Lower != nil }
func mayBound(l *Layout) bool { return l.Interval }

func detects(e estimate) bool  { return e.Detection != nil }
func mayDetect(l *Layout) bool { return l.Detect }

// inJSON returns f without columns.
func inJSON(f field[estimate]) field[estimate] {
	f.columns = func(string, *Layout, tabular.Kind) []tabular.Column { return nil }
	f.cells = func(b []byte, _ *Layout, _ estimate) []byte { return b }
	return f
}

// withRegime puts the columns of the running regime before the columns of f. Tables had them there before they were
// part of the estimate.
func withRegime(f field[estimate]) field[estimate] {
	columns, cells := f.columns, f.cells
	f.columns = func(path string, l *Layout, x tabular.Kind) []tabular.Column {
		cols := columns(path, l, x)
		if l.includes(regime.full) {
			cols = append(regime.columns("estimate.regime", l, x), cols...)
		}
		return cols
	}
	f.cells = func(b []byte, l *Layout, e estimate) []byte {
		if l.includes(regime.full) {
			b = regime.cells(b, l, e)
		}
		return cells(b, l, e)
	}
	return f
}

// AppendEstimate appends the record of an estimate.
func (l *Layout) AppendEstimate(b []byte, form Form, key string, e *keyed.Estimate) []byte {
	return appendRecord(b, form, l, estimate{key, e}, estimates)
}

// EstimateColumns returns the columns of estimates in a table. x is the kind of the value column.
func (l *Layout) EstimateColumns(x tabular.Kind) []tabular.Column {
	return columnsOf("", l, x, estimates)
}

// An alert is a keyed.AlertEvent with the id of its incident. In the row of an incident, event is not nil.
type alert struct {
	keyed.AlertEvent
	incident string
	page     bool
	event    *incidents.Event
}

var alerts = []field[alert]{
	text("key", "Key of the observation.", func(a alert) string { return a.Key }),
	instant("time", "Time of the observation at which the alert was raised; for silent, the time when the bound was passed.", func(a alert) time.Time { return a.Time }),
	text("kind", "For an alarm: novelty, change, silent, or recovered for the end of an episode or silence. A novelty begins an episode, or reports that it is worse. For a belief: outlier, change, or revision of a change.", func(a alert) string { return a.Kind }),
	text("id", "Source of that observation. For silent: key and time. For the end of an episode: the id of its first alarm, as episode.id.", func(a alert) string { return a.ID }),
	nullable("corrects", "id of the alert that a revision replaces.", func(a alert) string { return a.Corrects }),
	instant("start", "First observation of the new regime. For a novelty: the first unusual observation in a row. For an outlier: the observation itself. For a silence: the last observation before it. For the end of an episode: as episode.since.", func(a alert) time.Time { return a.Start }),
	count("delay", "observations", "Observations from start to time.", func(a alert) (int64, bool) { return a.Delay, true }),
	number("odds", "nats", "Log-odds of the belief behind the alert; for a novelty, that the regime does not simply continue.", func(a alert) float64 { return a.LogOdds }),
	number("score", "", "As detect.score; for the end of an episode, the highest score in it.", func(a alert) float64 { return a.Score }),
	number("threshold", "", "As detect.threshold.", func(a alert) float64 { return a.Threshold }),
	value(func(a alert) ([][]float64, keyed.Shape) { return a.X, a.Shape }),
	moments("predicted", "Prediction one step ahead, before x was seen.", func(a alert) keyed.Moments { return a.Predicted }),
	moments("usual", "As detect.usual. For a missing spike: its usual value; size is then the distance from it to the value of its hour.", func(a alert) keyed.Moments { return a.Usual }),
	number("size", "standard deviations", "For a change: from before to after. For a novelty: from usual to x, or if the episode is worse, from usual_before to x; its unit is not usual.sd but the profile's sd. For an outlier: from predicted to x. For a vector: the largest coordinate. For the end of an episode: as worst.size.", func(a alert) float64 { return a.Size }),
	moments("before", "The running regime's mean before the change.", func(a alert) keyed.Moments { return a.Before }),
	moments("after", "The running regime's mean after the change.", func(a alert) keyed.Moments { return a.After }),
	episodeOf(episodeOfAlert, false),
	instant("since", "For the end of an episode: its first usual observation. Else null.", func(a alert) time.Time { return a.NormalFrom }),
	nullable("level", "For the end of an episode: back, if x is as usual again; still, if x is quiet, but not as before the episode; new, if the values are usual from now on. Else null.", func(a alert) string { return string(a.Level) }),
	usualBefore(episodeOfAlert),
	worst(episodeOfAlert),
	text("message", "The alert in a sentence.", func(a alert) string { return a.Message }),
	only(text("incident", "id of the incident to which the alarm belongs, if any; with incidents only.", func(a alert) string { return a.incident }),
		func(a alert) bool { return a.incident != "" }, func(l *Layout) bool { return l.Incidents }),
	only(flag("page", "true if the alarm is a page outside of incidents; only for HTTP receivers.", func(a alert) bool { return a.page }),
		func(a alert) bool { return a.page }, func(l *Layout) bool { return false }),
	only(flag("ongoing", "true if the record is no alert, but the present state of an episode; only for Alertmanagers.", func(alert) bool { return true }),
		func(a alert) bool { return a.Source == keyed.SourceOngoing }, func(l *Layout) bool { return false }),
}

func episodeOfAlert(a alert) *keyed.EpisodeReport { return a.Episode }

// alertRow has the columns of an alert and, with incidents, further columns of an incident. The key of an incident is
// its group.
var alertRow = slices.Concat(alerts, []field[alert]{
	ofIncident(text("state", "", func(a alert) string { return string(a.event.State) })),
	ofIncident(flag("page", "", func(a alert) bool { return a.event.Page })),
	ofIncident(instant("end", "", func(a alert) time.Time { return a.event.End })),
	ofIncident(count("keys", "", "", func(a alert) (int64, bool) { return int64(a.event.Keys), true })),
	ofIncident(count("alarmed", "", "", func(a alert) (int64, bool) { return int64(a.event.NumMembers), true })),
	ofIncident(number("expected", "", "", func(a alert) float64 { return a.event.Expected })),
})

// ofIncident restricts a field to rows of incidents.
func ofIncident(f field[alert]) field[alert] {
	return only(f, func(a alert) bool { return a.event != nil }, func(l *Layout) bool { return l.Incidents })
}

// An incident is an event of an incident.
type incident = *incidents.Event

var incidentFields = []field[incident]{
	text("key", "Group of the incident; empty for all keys.", func(e incident) string { return e.Group }),
	instant("time", "Time of the change of state, by the times of the alarms.", func(e incident) time.Time { return e.Time }),
	text("kind", "incident, as the kind of an alert.", func(incident) string { return incidents.Kind }),
	text("id", "Group and time at which the incident opened. All records of an incident have the same id.", func(e incident) string { return e.ID }),
	text("state", "opened; update, if the incident has grown by half or is wider; merged, if it is now part of an older incident; closed, after 32 steps without a further key.", func(e incident) string { return string(e.State) }),
	only(text("into", "id of the older incident; only with merged.", func(e incident) string { return e.MergedInto }), func(e incident) bool { return e.MergedInto != "" }, nil),
	flag("page", "Whether the incident needs attention at once. An incident that recurs every day or week at this time is not a page.", func(e incident) bool { return e.Page }),
	instant("start", "Time of the first alarm.", func(e incident) time.Time { return e.Start }),
	only(instant("end", "Time of the last alarm; only with closed.", func(e incident) time.Time { return e.End }), func(e incident) bool { return !e.End.IsZero() }, nil),
	text("group", "Common prefix of the keys; empty for all keys.", func(e incident) string { return e.Group }),
	count("keys", "", "Number of keys in the group.", func(e incident) (int64, bool) { return int64(e.Keys), true }),
	count("alarmed", "", "Number of keys that have raised an alarm.", func(e incident) (int64, bool) { return int64(e.NumMembers), true }),
	list("members", "The keys with the highest scores, at most 20.", nil, func(e incident) int { return len(e.Members) }, func(e incident, i int) incidents.Member { return e.Members[i] },
		text("key", "Key of the member.", func(m incidents.Member) string { return m.Key }),
		instant("time", "Time of its first alarm in the incident. A report that its episode is worse is not a further alarm.", func(m incidents.Member) time.Time { return m.Time }),
		number("score", "", "Score of the alarm, or of a later report of its episode, if that is higher.", func(m incidents.Member) float64 { return m.Score }),
		number("size", "standard deviations", "Size of the alarm, or of a later report of its episode, if that is larger; null for a silence.", func(m incidents.Member) float64 { return m.Size }),
		number("p", "", "Probability that the alarm belongs to the incident, and did not occur by chance.", func(m incidents.Member) float64 { return m.P }),
		nullable("episode", "id of the alarm's episode; null for a silence.", func(m incidents.Member) string {
			if m.Episode == nil {
				return ""
			}
			return m.Episode.ID
		}),
		usualBefore(reportOfMember),
		worst(reportOfMember),
	),
	number("expected", "", "Number of alarms expected by chance in the group in that time.", func(e incident) float64 { return e.Expected }),
	number("score", "", "Minus the decimal logarithm of the probability of this number of alarms by chance.", func(e incident) float64 { return e.Score }),
	number("threshold", "", "Minimum score of an incident when this incident opened.", func(e incident) float64 { return e.Threshold }),
	text("message", "The incident in a sentence.", func(e incident) string { return e.Message }),
}

// AppendAlert appends the record of an alert. incident is the id of its incident, or empty. A JSON object includes
// the labels.
func (l *Layout) AppendAlert(b []byte, form Form, t keyed.AlertEvent, incident string, labels map[string]string) []byte {
	a := alert{AlertEvent: t, incident: incident}
	if form == Row {
		return appendRecord(b, form, l, a, alertRow)
	}
	return appendLabels(appendRecord(b, form, l, a, alerts), labels)
}

// AppendPage appends the record of an alarm outside incidents that is a page, as a JSON object.
func (l *Layout) AppendPage(b []byte, t keyed.AlertEvent, labels map[string]string) []byte {
	b = appendRecord(b, Object, l, alert{AlertEvent: t, page: true}, alerts)
	return appendLabels(b, labels)
}

// AppendIncident appends the record of an incident. A JSON object has both labels: own, one of the AlertLabels of the
// incident, and those of the receiver.
func (l *Layout) AppendIncident(b []byte, form Form, e *incidents.Event, own, labels map[string]string) []byte {
	if form != Object {
		return appendRecord(b, Row, l, rowOf(e, incidents.Kind), alertRow)
	}
	merged := map[string]string{}
	maps.Copy(merged, own)
	maps.Copy(merged, labels)
	return appendMap(appendRecord(b, form, l, e, incidentFields), "labels", merged)
}

// rowOf returns an alert whose row has the available fields of an event.
func rowOf(e *incidents.Event, kind string) alert {
	nan := math.NaN()
	none := keyed.Moments{Mean: []float64{nan}, SD: []float64{nan}}
	return alert{
		AlertEvent: keyed.AlertEvent{Key: e.Group, Time: e.Time, ID: e.ID, Predicted: none, Alert: &keyed.Alert{
			Kind: kind, Start: e.Start, LogOdds: nan, Size: nan, Score: e.Score, Threshold: e.Threshold,
			Before: none, After: none, Usual: none, Message: e.Message,
		}},
		event: e,
	}
}

// appendLabels adds labels to the object at the end of b.
func appendLabels(b []byte, labels map[string]string) []byte {
	if len(labels) == 0 {
		return b
	}
	return appendMap(b, "labels", labels)
}

// appendMap adds a field to the object at the end of b.
func appendMap(b []byte, field string, labels map[string]string) []byte {
	b = append(b[:len(b)-len("}\n")], `,"`+field+`":{`...)
	for i, name := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, name), ':')
		b = appendText(b, labels[name])
	}
	return append(b, "}}\n"...)
}

// AlertColumns returns the columns of alerts in a table. x is the kind of the value column.
func (l *Layout) AlertColumns(x tabular.Kind) []tabular.Column {
	return columnsOf("", l, x, alertRow)
}
