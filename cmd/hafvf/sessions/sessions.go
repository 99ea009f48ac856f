// Package sessions makes a table of the segments of smoothed sessions.
package sessions

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf/keyed"
	"hafvf/internal/tabular"
)

// A session is one as a revision has it.
type session struct {
	id
	end      keyed.Point
	drift    *output.Drift
	segments []*segment
	records  int64 // that were read, of the n
	last     int64 // position of the last one
}

// An id tells the sessions of a file apart, and their revisions.
type id struct {
	key         string
	name        string // without times
	start       keyed.Point
	n, revision int64
}

// A segment is a row of the table.
type segment struct {
	start, end recordPoint
	n          int64
	mean, sd   average // of the records; sd is empty with levels
	change     *output.Record
	outliers   *int // nil with levels
}

// An average is the mean of vectors, by coordinate. What is NaN does not count.
type average struct{ of, counts []float64 }

func (a *average) add(v []float64) {
	if a.of == nil {
		a.of, a.counts = slices.Clone(v), make([]float64, len(v))
	}
	for o := range min(len(v), len(a.of)) {
		if math.IsNaN(v[o]) {
			continue
		}
		if a.counts[o]++; a.counts[o] == 1 {
			a.of[o] = v[o]
		}
		a.of[o] += (v[o] - a.of[o]) / a.counts[o]
	}
}

// A recordPoint is the point of a record, if that is known: where trials are missing, records tell the points
// of their session and segment alone.
type recordPoint struct {
	keyed.Point
	known bool
}

func placeOf(r *output.Record) recordPoint {
	switch s := r.Session; {
	case r.Time != nil:
		return recordPoint{keyed.Point{Time: *r.Time}, true}
	case s.End != nil && s.End.Trial-s.Start.Trial == s.N-1:
		return recordPoint{keyed.Point{Trial: s.Start.Trial + r.N - 1}, true}
	case s.End != nil && r.N == s.N:
		return recordPoint{s.End.Point, true}
	case r.N == 1:
		return recordPoint{s.Start.Point, true}
	case r.Segment != nil && r.Segment.Start != nil && r.Change:
		return recordPoint{r.Segment.Start.Point, true}
	}
	return recordPoint{}
}

// A Tally is what a table holds.
type Tally struct {
	Keys, Sessions, Segments int
	// Incomplete are the sessions of which the file does not have all records of the latest
	// revision. Segments may be missing from them.
	Incomplete int
}

// NotSmoothed is the error of a file with records of a filter.
type NotSmoothed struct{ Path string }

func (e NotSmoothed) Error() string {
	return fmt.Sprintf("%s holds estimates, which have no sessions: let run write smoothed records, with transform: smooth", e.Path)
}

// Check says why out is no file for a table of results.
func Check(results, out string, interval float64) error {
	if err := cmp.Or(output.CheckTable(out), output.CheckInputs(out, results)); err != nil {
		return err
	}
	if !(interval > 0 && interval < 1) {
		return fmt.Errorf("--interval %g: a probability is above 0 and below 1", interval)
	}
	return nil
}

// Write writes a row for every segment of the smoothed records of results to out, which
// Check has passed and which appears complete or not at all. The rows have the central
// interval of a segment's mean, and times on the clock of the zone.
func Write(ctx context.Context, results, out string, interval float64, zone *time.Location) (Tally, error) {
	all, err := read(ctx, results)
	if err != nil {
		return Tally{}, err
	}
	var t Tally
	outputs := 1
	for i, s := range all {
		if t.Sessions++; i == 0 || all[i-1].key != s.key {
			t.Keys++
		}
		if s.records < s.n {
			t.Incomplete++
		}
		t.Segments += len(s.segments)
		for _, g := range s.segments {
			outputs = max(outputs, len(g.mean.of))
		}
	}
	columns := columnsOf(outputs, math.Sqrt2*math.Erfinv(interval), all[0].start.Time.IsZero())
	return t, output.WriteTable(out, columns, zone, func(yield func(row) bool) {
		for _, s := range all {
			for k, g := range s.segments {
				if !yield(row{s, k + 1, g}) {
					return
				}
			}
		}
	})
}

// read returns the sessions of results, by key and start: of several revisions of one the last.
func read(ctx context.Context, results string) (all []*session, err error) {
	sessions := map[id]*session{}
	err = output.Results(ctx, results, nil, func(r *output.Record) error {
		if !r.Smoothed() {
			return NotSmoothed{results}
		}
		is := id{*r.Key, "", r.Session.Start.Point, r.Session.N, r.Revision}
		if is.start.Time = is.start.Time.UTC(); r.Untimed() {
			is.name = r.SessionName()
		}
		s := sessions[is]
		if s == nil {
			s = &session{id: is}
			sessions[is] = s
			all = append(all, s)
		}
		s.add(r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no records", results)
	}
	slices.SortFunc(all, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.key, b.key), a.start.Compare(b.start), output.CompareNames(a.name, b.name), cmp.Compare(a.revision, b.revision), cmp.Compare(a.n, b.n))
	})
	// Sessions of a key that overlap are revisions of one, which may have grown together.
	kept := all[:0]
	for _, s := range all {
		if k := len(kept) - 1; k >= 0 && kept[k].key == s.key && kept[k].name == s.name && s.start.Compare(kept[k].end) <= 0 {
			if cmp.Or(cmp.Compare(s.revision, kept[k].revision), cmp.Compare(s.n, kept[k].n)) >= 0 {
				kept[k] = s
			}
			continue
		}
		kept = append(kept, s)
	}
	return kept, nil
}

// add takes up the next record of the session.
func (s *session) add(r *output.Record) {
	if r.N <= s.last { // a run that has crashed writes the session once more
		s.segments, s.records = nil, 0
	}
	s.last = r.N
	s.records++
	at := placeOf(r)
	if k := len(s.segments) - 1; r.Change || k < 0 {
		if at.known && k >= 0 && !s.segments[k].end.known {
			s.segments[k].end = recordPoint{keyed.Point{Trial: at.Trial - 1}, true}
		}
		g := &segment{start: at}
		if r.Change {
			g.change = r
		}
		s.segments = append(s.segments, g)
	}
	g := s.segments[len(s.segments)-1]
	g.end, s.end, s.drift = at, at.Point, r.Session.Drift
	if r.Session.End != nil {
		s.end = r.Session.End.Point
	}
	if r.Segment != nil {
		if g.outliers == nil {
			g.outliers = new(int)
		}
		if output.OrNaN(r.Outlier) > .5 {
			*g.outliers++
		}
		g.n = r.Segment.N
		g.mean.add(r.Segment.Mean) // which regressors make another one at each record
		g.sd.add(r.Segment.SD)     // that of the mean is less, if they do
		return
	}
	g.n++
	g.mean.add(r.Estimate.Mean)
}

// A row is a segment of a session, by its number.
type row struct {
	*session
	number int
	*segment
}

type column = output.Column[row]

// columnsOf are those of a table of so many outputs, with intervals of z standard deviations on
// either side. Without times places are numbers of trials.
func columnsOf(outputs int, z float64, untimed bool) []column {
	session := output.Time("session", func(r row) *time.Time { return &r.session.start.Time })
	place := func(name string, of func(r row) *recordPoint) column {
		return output.Time(name, func(r row) *time.Time { return &of(r).Time })
	}
	if untimed {
		session = column{Name: "session", Kind: tabular.String, Cell: func(r row) any { return r.name }}
		place = func(name string, of func(r row) *recordPoint) column {
			return column{Name: name, Kind: tabular.Number, Cell: func(r row) any {
				if !of(r).known {
					return nil
				}
				return of(r).Trial
			}}
		}
	}
	all := []column{
		{Name: "key", Kind: tabular.String, Cell: func(r row) any { return r.key }},
		session,
		{Name: "segment", Kind: tabular.Number, Cell: func(r row) any { return r.number }},
		place("start", func(r row) *recordPoint { return &r.segment.start }),
		place("end", func(r row) *recordPoint { return &r.segment.end }),
		{Name: "n", Kind: tabular.Number, Cell: func(r row) any { return r.segment.n }},
	}
	for _, c := range []struct {
		name string
		of   func(mean, sd float64) float64
	}{
		{"mean", func(mean, _ float64) float64 { return mean }},
		{"sd", func(_, sd float64) float64 { return sd }},
		{"lower", func(mean, sd float64) float64 { return mean - z*sd }},
		{"upper", func(mean, sd float64) float64 { return mean + z*sd }},
	} {
		for o := range outputs {
			all = append(all, output.Number(output.NameOf(c.name, o, outputs), func(r row) float64 { return c.of(output.At(r.mean.of, o), output.At(r.sd.of, o)) }))
		}
	}
	change := func(r row) *output.Record { return r.change }
	interval := func(r row) *output.Interval {
		if r.change == nil {
			return nil
		}
		return r.change.Interval
	}
	if !untimed {
		var none output.Interval
		all = append(all,
			output.Time("change_interval.from", func(r row) *time.Time { return cmp.Or(interval(r), &none).From }),
			output.Time("change_interval.to", func(r row) *time.Time { return cmp.Or(interval(r), &none).To }))
	}
	drift := func(r row) *output.Drift { return r.drift } // of sessions with one segment
	return append(all,
		numberOf("change_interval.from_n", interval, func(i *output.Interval) float64 { return float64(i.FromN) }),
		numberOf("change_interval.to_n", interval, func(i *output.Interval) float64 { return float64(i.ToN) }),
		numberOf("change_probability", change, func(r *output.Record) float64 { return output.OrNaN(r.Probability) }),
		numberOf("evidence", change, func(r *output.Record) float64 { return output.OrNaN(r.Evidence) }),
		numberOf("outliers", func(r row) *int { return r.outliers }, func(n *int) float64 { return float64(*n) }),
		numberOf("drift", drift, func(d *output.Drift) float64 { return d.Rate }),
		numberOf("drift_lower", drift, func(d *output.Drift) float64 { return d.Lower }),
		numberOf("drift_upper", drift, func(d *output.Drift) float64 { return d.Upper }),
	)
}

// numberOf is a column of a number of what a row may not have.
func numberOf[T any](name string, part func(r row) *T, number func(*T) float64) column {
	return output.Number(name, func(r row) float64 {
		if p := part(r); p != nil {
			return number(p)
		}
		return math.NaN()
	})
}
