// Package sessions makes a table of the segments of smoothed sessions.
package sessions

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf/keyed"
	"hafvf/internal/tabular"
)

// A session is a revision of a smoothed session.
type session struct {
	id
	end      keyed.Point
	about    *output.Session // of the last record
	segments []*segment
	records  int64 // number of records read so far, of n
	last     int64 // position of the last record
}

// An id identifies a session and its revision in a file.
type id struct {
	key         string
	name        string // name of the session; empty with times
	start       keyed.Point
	n, revision int64
}

// A segment is a row of the table.
type segment struct {
	start, end        recordPoint
	n                 int64
	mean, scatter, se average // averages over the records; scatter and se are empty with levels
	change            *output.Record
	outliers          *int // nil with levels
}

// An average is the mean of vectors, by coordinate. It ignores numbers that are not finite.
type average struct{ values, counts []float64 }

func (a *average) add(v []float64) {
	if a.values == nil {
		a.values, a.counts = slices.Clone(v), make([]float64, len(v))
	}
	for o := range min(len(v), len(a.values)) {
		if math.IsNaN(v[o]) || math.IsInf(v[o], 0) {
			continue
		}
		if a.counts[o]++; a.counts[o] == 1 {
			a.values[o] = v[o]
		}
		a.values[o] += (v[o] - a.values[o]) / a.counts[o]
	}
}

// A recordPoint is the position of a record, if it is known. If trials are missing, only the positions of sessions
// and segments are known.
type recordPoint struct {
	keyed.Point
	known bool
}

func pointOf(r *output.Record) recordPoint {
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

// A Tally counts the content of a table.
type Tally struct {
	Keys, Sessions, Segments int
	// Incomplete is the number of sessions whose latest revision lacks records in the file. Segments may be missing
	// from them.
	Incomplete int
}

// NotSmoothed is the error for a file with records of a filter.
type NotSmoothed struct{ Path string }

func (e NotSmoothed) Error() string {
	return fmt.Sprintf("%s contains estimates, not smoothed records: run with transform: smooth", e.Path)
}

// A Collector collects the segments of smoothed records. Its zero value is ready to use.
type Collector struct {
	sessions map[id]*session
	found    []*session // in the order of their first records
}

// Add adds a record. It returns a NotSmoothed error for a record of a filter.
func (c *Collector) Add(r *output.Record) error {
	if !r.Smoothed() {
		return NotSmoothed{r.Path}
	}
	key := id{*r.Key, "", r.Session.Start.Point, r.Session.N, r.Revision}
	if key.start.Time = key.start.Time.UTC(); r.Untimed() {
		key.name = r.SessionName()
	}
	s := c.sessions[key]
	if s == nil {
		if c.sessions == nil {
			c.sessions = map[id]*session{}
		}
		s = &session{id: key}
		c.sessions[key] = s
		c.found = append(c.found, s)
	}
	s.add(r)
	return nil
}

// Table returns a table with a row for each segment. lower and upper are the central interval of a segment's mean with
// probability interval. Times are in zone. A Collector without records has a table without rows.
func (c *Collector) Table(interval float64, zone *time.Location) (output.Table, Tally) {
	sessions := c.latest()
	var t Tally
	outputs := 1
	for i, s := range sessions {
		if t.Sessions++; i == 0 || sessions[i-1].key != s.key {
			t.Keys++
		}
		if s.records < s.n {
			t.Incomplete++
		}
		t.Segments += len(s.segments)
		for _, g := range s.segments {
			outputs = max(outputs, len(g.mean.values))
		}
	}
	untimed := len(sessions) > 0 && sessions[0].start.Time.IsZero()
	columns := columnsOf(outputs, math.Sqrt2*math.Erfinv(interval), untimed)
	return output.NewTable(columns, zone, func(yield func(row) bool) {
		for _, s := range sessions {
			for k, g := range s.segments {
				if !yield(row{s, k + 1, g}) {
					return
				}
			}
		}
	}), t
}

// latest returns the latest revision of each session, by key and start.
func (c *Collector) latest() []*session {
	found := c.found
	slices.SortFunc(found, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.key, b.key), a.start.Compare(b.start), output.CompareNames(a.name, b.name), cmp.Compare(a.revision, b.revision), cmp.Compare(a.n, b.n))
	})
	// Overlapping sessions of a key are revisions of one session, or were merged.
	latest := found[:0]
	for _, s := range found {
		if k := len(latest) - 1; k >= 0 && latest[k].key == s.key && latest[k].name == s.name && s.start.Compare(latest[k].end) <= 0 {
			if cmp.Or(cmp.Compare(s.revision, latest[k].revision), cmp.Compare(s.n, latest[k].n)) >= 0 {
				latest[k] = s
			}
			continue
		}
		latest = append(latest, s)
	}
	return latest
}

// add adds the next record of the session.
func (s *session) add(r *output.Record) {
	if r.N <= s.last { // a run that crashed writes the session again
		s.segments, s.records = nil, 0
	}
	s.last = r.N
	s.records++
	point := pointOf(r)
	if k := len(s.segments) - 1; r.Change || k < 0 {
		if point.known && k >= 0 && !s.segments[k].end.known {
			s.segments[k].end = recordPoint{keyed.Point{Trial: point.Trial - 1}, true}
		}
		g := &segment{start: point}
		if r.Change {
			g.change = r
		}
		s.segments = append(s.segments, g)
	}
	g := s.segments[len(s.segments)-1]
	g.end, s.end, s.about = point, point.Point, r.Session
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
		g.mean.add(r.Segment.Mean) // differs at each record with regressors
		g.scatter.add(r.Segment.Scatter)
		g.se.add(r.Segment.SD) // with regressors, the sd of the average is smaller
		return
	}
	g.n++
	g.mean.add(r.Estimate.Mean)
}

// A row is a segment and its number in the session, from 1.
type row struct {
	*session
	number int
	*segment
}

// changed returns the keyed.LevelChange at the start of the segment, or nil if there is none.
func (r row) changed() *string {
	level := func(g *segment) keyed.Moments { return keyed.Moments{Mean: g.mean.values, SD: g.scatter.values} }
	change := keyed.LevelChange(level(r.segments[max(0, r.number-2)]), level(r.segment))
	if change == "" { // also for the first segment, which is compared with itself
		return nil
	}
	return &change
}

type column = output.Column[row]

// columnsOf returns the columns of a table with the given number of outputs. lower and upper are z standard
// deviations from the mean. Without times, positions are numbers of trials.
func columnsOf(outputs int, z float64, untimed bool) []column {
	session := output.Time("session", func(r row) *time.Time { return &r.session.start.Time })
	place := func(name string, get func(r row) *recordPoint) column {
		return output.Time(name, func(r row) *time.Time { return &get(r).Time })
	}
	if untimed {
		session = column{Name: "session", Kind: tabular.String, Cell: func(r row) any { return r.name }}
		place = func(name string, get func(r row) *recordPoint) column {
			return column{Name: name, Kind: tabular.Number, Cell: func(r row) any {
				if !get(r).known {
					return nil
				}
				return get(r).Trial
			}}
		}
	}
	columns := []column{
		{Name: "key", Kind: tabular.String, Cell: func(r row) any { return r.key }},
		session,
		{Name: "segment", Kind: tabular.Number, Cell: func(r row) any { return r.number }},
		place("start", func(r row) *recordPoint { return &r.segment.start }),
		place("end", func(r row) *recordPoint { return &r.segment.end }),
		{Name: "n", Kind: tabular.Number, Cell: func(r row) any { return r.segment.n }},
	}
	for _, c := range []struct {
		name  string
		value func(mean, sd, se float64) float64
	}{
		{"mean", func(mean, _, _ float64) float64 { return mean }},
		{"sd", func(_, sd, _ float64) float64 { return sd }},
		{"se", func(_, _, se float64) float64 { return se }},
		{"lower", func(mean, _, se float64) float64 { return mean - z*se }},
		{"upper", func(mean, _, se float64) float64 { return mean + z*se }},
	} {
		for o := range outputs {
			columns = append(columns, output.Number(output.ColumnName(c.name, o, outputs), func(r row) float64 {
				return c.value(output.Element(r.mean.values, o), output.Element(r.scatter.values, o), output.Element(r.se.values, o))
			}))
		}
	}
	columns = append(columns,
		column{Name: "changed", Kind: tabular.String, Cell: func(r row) any { return r.changed() }},
		column{Name: "kind", Kind: tabular.String, Cell: func(r row) any { return r.about.Kind }},
		output.Number("against", func(r row) float64 { return output.OrNaN(r.about.Against) }))
	change := func(r row) *output.Record { return r.change }
	interval := func(r row) *output.Interval {
		if r.change == nil {
			return nil
		}
		return r.change.Interval
	}
	if !untimed {
		var none output.Interval
		columns = append(columns,
			output.Time("change_interval.from", func(r row) *time.Time { return cmp.Or(interval(r), &none).From }),
			output.Time("change_interval.to", func(r row) *time.Time { return cmp.Or(interval(r), &none).To }))
	}
	drift := func(r row) *output.Drift { return r.about.Drift } // only for sessions with one segment
	return append(columns,
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

// numberOf returns a column with a number of an optional part of a row.
func numberOf[T any](name string, part func(r row) *T, number func(*T) float64) column {
	return output.Number(name, func(r row) float64 {
		if p := part(r); p != nil {
			return number(p)
		}
		return math.NaN()
	})
}
