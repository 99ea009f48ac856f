package records

import (
	"time"

	"hafvf/connectors"
	"hafvf/transforms"
)

// A smoothed is a transforms.Smoothed with its key.
type smoothed struct {
	key string
	*transforms.Smoothed
}

var smootheds = []field[smoothed]{
	text("key", "Key of the observation.", func(s smoothed) string { return s.key }),
	instant("time", "Time of the observation.", func(s smoothed) time.Time { return s.Time }),
	text("id", "key/time/k: k counts equal times of the key from 0.", func(s smoothed) string { return s.ID }),
	count("n", "", "Position in the session, from 1.", func(s smoothed) (int64, bool) { return s.N, true }),
	value(func(s smoothed) ([][]float64, transforms.Shape) { return s.X, s.Shape }),
	moments("estimate", "Posterior of the likelihood's mean, given the whole session.", func(s smoothed) transforms.Moments { return s.Estimate }),
	number("memory", "observations", "Number of observations that the estimate rests on.", func(s smoothed) float64 { return s.Memory }),
	full(posterior(func(s smoothed) []float64 { return s.Posterior })),
	full(pass("forward", "The forward pass, which knows the past.", func(s smoothed) transforms.Pass { return s.Forward })),
	full(pass("backward", "The backward pass, which knows the future.", func(s smoothed) transforms.Pass { return s.Backward })),
	object("session", "The session that the observation is part of.",
		instant("start", "Its first observation.", func(s smoothed) time.Time { return s.Session.Start }),
		instant("end", "Its last observation.", func(s smoothed) time.Time { return s.Session.End }),
		count("n", "observations", "Its length.", func(s smoothed) (int64, bool) { return s.Session.N, true }),
	),
	count("revision", "", "Late records revise a session and raise this number: keep the highest per id.", func(s smoothed) (int64, bool) { return s.Revision, true }),
	full(present(text("split", "Why a long session was cut; absent where it was not.", func(s smoothed) string { return s.Split }))),
	number("change_evidence", "nats", "Log Bayes factor of a change between the observation before and this one; null on the first.", func(s smoothed) float64 { return s.ChangeEvidence }),
	flag("change", "true on the first observation of a new regime.", func(s smoothed) bool { return s.Change }),
}

func present(f field[smoothed]) field[smoothed] {
	return only(f, func(s smoothed) bool { return s.Split != "" }, func(*Layout) bool { return true })
}

func pass(name, doc string, get func(smoothed) transforms.Pass) field[smoothed] {
	return object(name, doc,
		number("weight", "", "E[w]: share of its past that this step kept.", func(s smoothed) float64 { return get(s).Weight }),
		number("memory", "observations", "Number of observations that the pass rests on.", func(s smoothed) float64 { return get(s).Memory }),
		levels("Beta posteriors of its forgetting weights, bottom up.", func(s smoothed) []float64 { return get(s).Levels }),
	)
}

// AppendSmoothed appends the record of a smoothed estimate.
func (l *Layout) AppendSmoothed(b []byte, as Form, key string, s *transforms.Smoothed) []byte {
	return appendRecord(b, as, l, smoothed{key, s}, smootheds)
}

// SmoothedColumns are the record of a smoothed estimate as a table; x is the kind of
// the column of the value.
func (l *Layout) SmoothedColumns(x connectors.Kind) []connectors.Column {
	return columnsOf("", l, x, smootheds)
}
