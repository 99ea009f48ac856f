package records

import (
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/tabular"
)

// A smoothed is a keyed.Smoothed with its key.
type smoothed struct {
	key string
	*keyed.Smoothed
}

var smootheds = []field[smoothed]{
	text("key", "Key of the observation.", func(s smoothed) string { return s.key }),
	instant("time", "Time of the observation.", func(s smoothed) time.Time { return s.Time }),
	text("id", "key/time/k, where k numbers equal times of the key from 0. Without times: key/by/n.", func(s smoothed) string { return s.ID }),
	count("n", "", "Position in the session, from 1.", func(s smoothed) (int64, bool) { return s.N, true }),
	value(func(s smoothed) ([][]float64, keyed.Shape) { return s.X, s.Shape }),
	events(func(s smoothed) (int64, bool) { return s.Events, s.Aggregated }),
	moments("estimate", "Posterior of the likelihood's mean, given the whole session.", func(s smoothed) keyed.Moments { return s.Estimate }),
	number("memory", "observations", "Number of observations behind the estimate.", func(s smoothed) float64 { return s.Memory }),
	full(posterior(func(s smoothed) []float64 { return s.Posterior })),
	full(pass("forward", "With levels: the forward pass, which uses the past.", func(s smoothed) keyed.Pass { return s.Forward })),
	full(pass("backward", "With levels: the backward pass, which uses the future.", func(s smoothed) keyed.Pass { return s.Backward })),
	segmented(number("outlier", "", "Without levels: probability that the observation is an accident, a value without information about its segment.", func(s smoothed) float64 { return s.Outlier })),
	segmented(object("segment", "Without levels: the regime that the observation is in, between two changes.",
		point("start", "First observation.", func(s smoothed) keyed.Point { return s.Segment.Start }),
		count("n", "observations", "Length.", func(s smoothed) (int64, bool) { return s.Segment.N, true }),
		outputs("mean", "Mean of the likelihood's mean, if that mean does not drift; at the regressors of the observation.", func(s smoothed) []float64 { return s.Segment.Estimate.Mean }),
		outputs("sd", "Standard deviation of that mean; null if it is infinite.", func(s smoothed) []float64 { return s.Segment.Estimate.SD }),
		outputs("scatter", "Standard deviation of one observation that is no accident, if the mean does not drift; null if it is infinite, and for families without a scale.", func(s smoothed) []float64 { return s.Segment.Scatter }),
	)),
	object("session", "The session that the observation is part of.",
		point("start", "First observation.", func(s smoothed) keyed.Point { return s.Session.Start }),
		point("end", "Last observation.", func(s smoothed) keyed.Point { return s.Session.End }),
		count("n", "observations", "Length.", func(s smoothed) (int64, bool) { return s.Session.N, true }),
		orNull(object("drift", "Drift of a session of the family normal without a change, if a line explains its values; else null.",
			number("rate", "a day, or a trial", "Rise of the level, on the data's scale and without the season.", func(s smoothed) float64 { return s.Session.Drift.Rate }),
			number("lower", "a day, or a trial", "Lower bound of the 95 % interval of the rate.", func(s smoothed) float64 { return s.Session.Drift.Lower }),
			number("upper", "a day, or a trial", "Upper bound of that interval.", func(s smoothed) float64 { return s.Session.Drift.Upper }),
		), func(s smoothed) bool { return s.Session.Drift != nil }),
		only(flag("wanders", "true for a session without a change whose level is a random walk; else absent.", func(s smoothed) bool { return s.Session.Wanders }),
			func(s smoothed) bool { return s.Segment != nil && s.Session.Wanders }, func(l *Layout) bool { return l.Segments }),
		nullable("kind", "What explains a session of the family normal best: levels, correlated noise (correlated), a random walk (walk) or a line; null for other families, and for long or divided sessions.", func(s smoothed) string { return s.Session.Kind }),
		orNull(number("against", "nats", "Log Bayes factor of this kind against the next one; null without kind.", func(s smoothed) float64 { return s.Session.Against }),
			func(s smoothed) bool { return s.Session.Kind != "" }),
	),
	count("revision", "", "Late records revise a session and increase this number. Keep the record with the highest revision per id.", func(s smoothed) (int64, bool) { return s.Revision, true }),
	full(only(text("split", "Why a long session was cut; absent if it was not.", func(s smoothed) string { return s.Split }),
		func(s smoothed) bool { return s.Split != "" }, nil)),
	only(flag("changed", "For revisions above 0: true if the previous revision had no record of this id, or another x, n, outlier, change or start of the segment, or an estimate that differs by more than a hundredth of its sd.", func(s smoothed) bool { return s.Changed }),
		func(s smoothed) bool { return s.Revision > 0 }, func(l *Layout) bool { return l.Revises }),
	number("change_evidence", "nats", "Log Bayes factor of a change between the previous observation and this one; null on the first. Without levels, on the first observation of a segment: of a change there or nearby; for families without a scale, anywhere between the adjacent changes.", func(s smoothed) float64 { return s.ChangeEvidence }),
	flag("change", "true on the first observation of a new regime.", func(s smoothed) bool { return s.Change }),
	onChange(number("change_probability", "", "Probability of a change within change_interval; only on a change. A priori it is ½, equally probable at each observation.", func(s smoothed) float64 { return s.ChangeInterval.Probability })),
	onChange(object("change_interval", "Interval in which the new regime begins, with a probability of 95 %. Only on a change.",
		timed(instant("from", "Time of the first observation with which the new regime may begin.", func(s smoothed) time.Time { return s.ChangeInterval.From })),
		timed(instant("to", "Time of the last such observation.", func(s smoothed) time.Time { return s.ChangeInterval.To })),
		count("from_n", "", "Position of the first such observation, from 1.", func(s smoothed) (int64, bool) { return s.ChangeInterval.FromN, true }),
		count("to_n", "", "Position of the last such observation.", func(s smoothed) (int64, bool) { return s.ChangeInterval.ToN, true }),
	)),
	carried(func(s smoothed) string { return s.ExtraFields }),
}

// point is a time, or a trial number with Layout.Trials.
func point(name, doc string, get func(smoothed) keyed.Point) field[smoothed] {
	timeField := instant(name, doc, func(s smoothed) time.Time { return get(s).Time })
	trialField := count(name, "", doc, func(s smoothed) (int64, bool) { return get(s).Trial, true })
	fieldFor := func(l *Layout) *field[smoothed] {
		if l.Trials {
			return &trialField
		}
		return &timeField
	}
	f := timeField
	f.takes = "time or trial"
	f.json = func(b []byte, l *Layout, s smoothed) []byte { return fieldFor(l).json(b, l, s) }
	f.columns = func(path string, l *Layout, x tabular.Kind) []tabular.Column { return fieldFor(l).columns(path, l, x) }
	f.cells = func(b []byte, l *Layout, s smoothed) []byte { return fieldFor(l).cells(b, l, s) }
	f.avro = func(name string, l *Layout) any { return fieldFor(l).avro(name, l) }
	return f
}

// timed restricts a field to records with times.
func timed(f field[smoothed]) field[smoothed] {
	return only(f, func(s smoothed) bool { return !s.Time.IsZero() }, func(l *Layout) bool { return !l.Trials })
}

// onChange restricts a field to records with a change.
func onChange(f field[smoothed]) field[smoothed] {
	return only(f, func(s smoothed) bool { return s.Change }, nil)
}

// segmented restricts a field to smoothing without levels.
func segmented(f field[smoothed]) field[smoothed] {
	return only(f, func(s smoothed) bool { return s.Segment != nil }, func(l *Layout) bool { return l.Segments })
}

// pass is a field of smoothing with levels.
func pass(name, doc string, get func(smoothed) keyed.Pass) field[smoothed] {
	return only(object(name, doc,
		number("weight", "", "E[w]: share of the pass's past that this step kept.", func(s smoothed) float64 { return get(s).Weight }),
		number("memory", "observations", "Number of observations behind the pass.", func(s smoothed) float64 { return get(s).Memory }),
		levels("Beta posteriors of the pass's forgetting weights, bottom up.", func(s smoothed) []float64 { return get(s).Levels }),
	), func(s smoothed) bool { return s.Segment == nil }, func(l *Layout) bool { return l.Passes })
}

// AppendSmoothed appends the record of a smoothed estimate.
func (l *Layout) AppendSmoothed(b []byte, form Form, key string, s *keyed.Smoothed) []byte {
	return appendRecord(b, form, l, smoothed{key, s}, smootheds)
}

// SmoothedColumns returns the columns of smoothed estimates in a table. x is the kind of the value column.
func (l *Layout) SmoothedColumns(x tabular.Kind) []tabular.Column {
	return columnsOf("", l, x, smootheds)
}
