package output

import (
	"cmp"
	"slices"

	"hafvf/hafvf/keyed"
)

// Latest returns the smoothed records of a key, sorted by session and position. If records have the same ID, the
// highest revision wins. Sessions that have merged may have equal revisions; then the record of the larger session
// wins.
func Latest(records []Record) (latest []Record) {
	index := map[string]int{}
	for _, r := range records {
		i, known := index[r.ID]
		switch {
		case !known:
			index[r.ID] = len(latest)
			latest = append(latest, r)
		case cmp.Or(cmp.Compare(r.Revision, latest[i].Revision), cmp.Compare(r.Session.N, latest[i].Session.N)) >= 0:
			latest[i] = r
		}
	}
	slices.SortStableFunc(latest, func(a, b Record) int {
		if order := a.Session.Start.Compare(b.Session.Start.Point); order != 0 {
			return order
		}
		if a.Untimed() {
			return cmp.Or(CompareNames(a.SessionName(), b.SessionName()), cmp.Compare(a.N, b.N))
		}
		return cmp.Or(a.Time.Compare(*b.Time), cmp.Compare(a.N, b.N))
	})
	return latest
}

// SameSession reports whether two smoothed records of a key belong to the same session.
func (r *Record) SameSession(other *Record) bool {
	if r.Untimed() {
		return r.SessionName() == other.SessionName()
	}
	return r.Session.Start.Compare(other.Session.Start.Point) == 0
}

// Level returns the level of the first output in the record's segment. With levels, it is the estimate, and has no SD.
func (r *Record) Level() keyed.Moments {
	if g := r.Segment; g != nil {
		return keyed.Moments{Mean: []float64{First(g.Mean)}, SD: g.Scatter[:min(1, len(g.Scatter))]}
	}
	return keyed.Moments{Mean: []float64{First(r.Estimate.Mean)}}
}
