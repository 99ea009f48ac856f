package records

import (
	"cmp"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/tabular"
)

// A state is a keyed.Snapshot with its key and place.
type state struct {
	key, place, settings string
	*keyed.Snapshot
}

var states = []field[state]{
	text("key", "Key of the state.", func(s state) string { return s.key }),
	nullable("place", "Where the state stands: topic-partition-offset; null in a file.", func(s state) string { return s.place }),
	leaf("written_with", "object", "", "Settings that the state was stored with: order, time_unit in nanoseconds, filter. Null in one of a job with cells: 0.", tabular.String, func(b []byte, s state) []byte {
		return append(b, cmp.Or(s.settings, "null")...)
	}),
	instant("time", "Latest time that the state knows of.", func(s state) time.Time { return s.Time }),
	count("n", "", "Observations so far.", func(s state) (int64, bool) { return s.N, true }),
	count("waiting", "", "Observations that were read and not learned yet.", func(s state) (int64, bool) { return int64(s.Waiting), true }),
	flag("warm_up", "prior: auto is still setting the prior.", func(s state) bool { return s.WarmUp }),
	moments("estimate", "Posterior of the likelihood's mean.", func(s state) keyed.Moments { return s.Estimate }),
	number("weight", "", "E[w]: share of the past that the last step kept.", func(s state) float64 { return s.Weight }),
	number("memory", "observations", "Number of observations behind the estimate.", func(s state) float64 { return s.Memory }),
	levels("Beta posteriors of the forgetting weights, bottom up.", func(s state) []float64 { return s.Levels }),
	posterior(func(s state) []float64 { return s.Posterior }),
	only(list("bank", "Members of the bank.", func(l *Layout) int { return l.Bank },
		func(s state) int { return len(s.Bank) }, func(s state, i int) keyed.MemberStep { return s.Bank[i] },
		number("weight_of_member", "", "Posterior weight of the member in the average.", func(m keyed.MemberStep) float64 { return m.Share }),
		number("weight", "", "E[w] of the member.", func(m keyed.MemberStep) float64 { return m.Weight }),
		number("memory", "observations", "Memory of the member.", func(m keyed.MemberStep) float64 { return m.Memory }),
	), func(s state) bool { return s.Bank != nil }, func(l *Layout) bool { return l.Bank > 0 }),
}

// AppendState appends a state as a JSON object. place and settings may be empty.
func (l *Layout) AppendState(b []byte, key, place, settings string, s *keyed.Snapshot) []byte {
	return appendRecord(b, Object, l, state{key, place, settings, s}, states)
}
