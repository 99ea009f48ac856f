package output

import (
	"cmp"
	"slices"
	"strings"

	"hafvf/hafvf/keyed"
)

// SmoothedRecord returns the record that a file would contain, except fields that only plots need. It stays valid when
// the memory of s is used again.
func SmoothedRecord(key string, s *keyed.Smoothed) *Record {
	key, copied := strings.Clone(key), *s
	r := &Record{
		Key: &key, N: s.N, ID: strings.Clone(s.ID), Revision: s.Revision,
		Estimate: &Estimate{Moments: momentsOf(s.Estimate)}, Outlier: &copied.Outlier,
		Session:  &Session{Start: &Point{s.Session.Start}, End: &Point{s.Session.End}, N: s.Session.N, Wanders: s.Session.Wanders},
		Evidence: &copied.ChangeEvidence, Change: s.Change,
	}
	for _, x := range s.X {
		r.X = append(r.X, slices.Clone(x))
	}
	if !s.Time.IsZero() {
		r.Time = &copied.Time
	}
	if d := s.Session.Drift; d != nil {
		r.Session.Drift = &Drift{d.Rate, d.Lower, d.Upper}
	}
	if s.Session.Kind != "" {
		r.Session.Kind, r.Session.Against = &copied.Session.Kind, &copied.Session.Against
	}
	if g := s.Segment; g != nil {
		r.Segment = &Segment{&Point{g.Start}, g.N, momentsOf(g.Estimate), slices.Clone(g.Scatter)}
	}
	if i := &copied.ChangeInterval; s.Change {
		r.Probability, r.Interval = &i.Probability, &Interval{&i.From, &i.To, i.FromN, i.ToN}
	}
	return r
}

func momentsOf(m keyed.Moments) Moments { return Moments{slices.Clone(m.Mean), slices.Clone(m.SD)} }

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
