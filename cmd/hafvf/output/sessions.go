package output

import (
	"cmp"
	"slices"
)

// Latest returns the smoothed records of a key by session and place, of those with one id that of the
// highest revision. Sessions that have grown together may have the same; then the larger one is the later.
func Latest(records []Record) (kept []Record) {
	at := map[string]int{}
	for _, r := range records {
		i, known := at[r.ID]
		switch {
		case !known:
			at[r.ID] = len(kept)
			kept = append(kept, r)
		case cmp.Or(cmp.Compare(r.Revision, kept[i].Revision), cmp.Compare(r.Session.N, kept[i].Session.N)) >= 0:
			kept[i] = r
		}
	}
	slices.SortStableFunc(kept, func(a, b Record) int {
		if order := a.Session.Start.Compare(b.Session.Start.Point); order != 0 {
			return order
		}
		if a.Untimed() {
			return cmp.Or(CompareNames(a.SessionName(), b.SessionName()), cmp.Compare(a.N, b.N))
		}
		return cmp.Or(a.Time.Compare(*b.Time), cmp.Compare(a.N, b.N))
	})
	return kept
}

// SameSession reports whether two smoothed records of a key are of one session.
func (r *Record) SameSession(other *Record) bool {
	if r.Untimed() {
		return r.SessionName() == other.SessionName()
	}
	return r.Session.Start.Compare(other.Session.Start.Point) == 0
}

// Level is the mean of the segment of a smoothed record, or with levels the estimate.
func (r *Record) Level() float64 {
	if r.Segment != nil {
		return First(r.Segment.Mean)
	}
	return First(r.Estimate.Mean)
}
