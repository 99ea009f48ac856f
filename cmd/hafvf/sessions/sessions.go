// Package sessions makes a table of the segments of smoothed sessions.
package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/connectors"
)

// A session is one as a revision has it.
type session struct {
	id
	end      time.Time
	segments []*segment
}

// An id tells the sessions of a file apart, and their revisions.
type id struct {
	key         string
	start       time.Time // UTC
	n, revision int64
}

// A segment is a row of the table.
type segment struct {
	start, end time.Time
	n          int64
	mean, sd   []float64 // sd is empty with levels
	change     *output.Record
	outliers   int
}

// A Tally is what a table holds.
type Tally struct{ Keys, Sessions, Segments int }

// NotSmoothed is the error of a file with records of a filter.
type NotSmoothed struct{ Path string }

func (e NotSmoothed) Error() string {
	return fmt.Sprintf("%s holds estimates, which have no sessions: let run write smoothed records, with transform: smooth", e.Path)
}

// Check says why out is no file for a table.
func Check(out string, interval float64) error {
	if _, err := formatOf(out); err != nil {
		return err
	}
	if !(interval > 0 && interval < 1) {
		return fmt.Errorf("--interval %g: a probability is above 0 and below 1", interval)
	}
	return nil
}

func formatOf(out string) (string, error) {
	switch filepath.Ext(strings.TrimSuffix(strings.TrimSuffix(out, ".gz"), ".zst")) {
	case ".csv":
		return connectors.CSV, nil
	case ".parquet":
		return connectors.Parquet, nil
	}
	return "", fmt.Errorf("%s: a table is a .csv or a .parquet file", out)
}

// Write writes a row for every segment of the smoothed records of results to out, which
// Check has passed and which appears complete or not at all. The rows have the central
// interval of a segment's mean.
func Write(ctx context.Context, results, out string, interval float64) (Tally, error) {
	all, err := read(ctx, results)
	if err != nil {
		return Tally{}, err
	}
	format, err := formatOf(out)
	if err != nil {
		return Tally{}, err
	}
	var t Tally
	outputs := 1
	for i, s := range all {
		if t.Sessions++; i == 0 || all[i-1].key != s.key {
			t.Keys++
		}
		t.Segments += len(s.segments)
		for _, g := range s.segments {
			outputs = max(outputs, len(g.mean))
		}
	}
	columns := columnsOf(outputs, math.Sqrt2*math.Erfinv(interval))
	sink := connectors.Sink{Format: format, Path: out}
	for _, c := range columns {
		sink.Columns = append(sink.Columns, connectors.Column{Path: c.name, Kind: c.kind})
	}
	w, err := connectors.Create(sink)
	if err != nil {
		return t, err
	}
	defer w.Abort()
	for _, s := range all {
		for k, g := range s.segments {
			if err := w.Write(appendRow(nil, columns, row{s, k + 1, g})); err != nil {
				return t, err
			}
		}
	}
	return t, w.Commit()
}

// read returns the sessions of results, by key and start: of several revisions of one the last.
func read(ctx context.Context, results string) (all []*session, err error) {
	sessions := map[id]*session{}
	err = output.Each(ctx, results, func(r output.Record) error {
		if !r.Smoothed() {
			return NotSmoothed{results}
		}
		is := id{*r.Key, r.Session.Start.UTC(), r.Session.N, r.Revision}
		s := sessions[is]
		if s == nil {
			s = &session{id: is}
			sessions[is] = s
			all = append(all, s)
		}
		s.add(&r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no records", results)
	}
	slices.SortFunc(all, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.key, b.key), a.start.Compare(b.start), cmp.Compare(a.revision, b.revision), cmp.Compare(a.n, b.n))
	})
	// Sessions of a key that overlap are revisions of one, which may have grown together.
	kept := all[:0]
	for _, s := range all {
		if k := len(kept) - 1; k >= 0 && kept[k].key == s.key && !s.start.After(kept[k].end) {
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
	if r.Change || len(s.segments) == 0 {
		g := &segment{start: *r.Time}
		if r.Change {
			g.change = r
		}
		s.segments = append(s.segments, g)
	}
	g := s.segments[len(s.segments)-1]
	g.end = *r.Time
	s.end = *r.Time
	if r.Session.End != nil {
		s.end = *r.Session.End
	}
	if output.OrNaN(r.Outlier) > .5 {
		g.outliers++
	}
	if r.Segment != nil {
		g.n, g.mean, g.sd = r.Segment.N, output.Coordinates(r.Segment.Mean), output.Coordinates(r.Segment.SD)
		return
	}
	g.n++
	mean := output.Coordinates(r.Estimate.Mean)
	if g.mean == nil {
		g.mean = make([]float64, len(mean))
	}
	for o := range min(len(mean), len(g.mean)) {
		g.mean[o] += (mean[o] - g.mean[o]) / float64(g.n)
	}
}

// A row is a segment of a session, by its number.
type row struct {
	*session
	number int
	*segment
}

// A column is one of the table. A cell that is nil, or not finite, is empty.
type column struct {
	name string
	kind connectors.Kind
	cell func(r row) any
}

// columnsOf are those of a table of so many outputs, with intervals of z standard deviations on
// either side.
func columnsOf(outputs int, z float64) []column {
	all := []column{
		{"key", connectors.String, func(r row) any { return r.key }},
		{"session", connectors.Time, func(r row) any { return r.session.start }},
		{"segment", connectors.Number, func(r row) any { return r.number }},
		{"start", connectors.Time, func(r row) any { return r.segment.start.UTC() }},
		{"end", connectors.Time, func(r row) any { return r.segment.end.UTC() }},
		{"n", connectors.Number, func(r row) any { return r.segment.n }},
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
			name := c.name
			if outputs > 1 {
				name = fmt.Sprintf("%s.%d", c.name, o)
			}
			all = append(all, column{name, connectors.Number, func(r row) any { return c.of(at(r.mean, o), at(r.sd, o)) }})
		}
	}
	ofChange := func(name string, kind connectors.Kind, cell func(r *output.Record) any) column {
		return column{name, kind, func(r row) any {
			if r.change == nil {
				return nil
			}
			return cell(r.change)
		}}
	}
	ofInterval := func(name string, kind connectors.Kind, cell func(r *output.Interval) any) column {
		return ofChange("change_interval."+name, kind, func(r *output.Record) any {
			if r.Interval == nil {
				return nil
			}
			return cell(r.Interval)
		})
	}
	return append(all,
		ofInterval("from", connectors.Time, func(i *output.Interval) any { return i.From }),
		ofInterval("to", connectors.Time, func(i *output.Interval) any { return i.To }),
		ofInterval("from_n", connectors.Number, func(i *output.Interval) any { return i.FromN }),
		ofInterval("to_n", connectors.Number, func(i *output.Interval) any { return i.ToN }),
		ofChange("change_probability", connectors.Number, func(r *output.Record) any { return output.OrNaN(r.Probability) }),
		ofChange("evidence", connectors.Number, func(r *output.Record) any { return output.OrNaN(r.Evidence) }),
		column{"outliers", connectors.Number, func(r row) any { return r.outliers }},
	)
}

// at is v[i], NaN where there is none.
func at(v []float64, i int) float64 {
	if i < len(v) {
		return v[i]
	}
	return math.NaN()
}

// appendRow appends a row of JSON cells with a tab between two.
func appendRow(b []byte, columns []column, r row) []byte {
	for i, c := range columns {
		if i > 0 {
			b = append(b, '\t')
		}
		v := c.cell(r)
		if f, ok := v.(float64); v == nil || ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // texts, times and finite numbers
		}
		b = append(b, text...)
	}
	return append(b, '\n')
}
