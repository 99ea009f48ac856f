// Package trials makes a table with the results of the filter and of the smoother for every observation.
package trials

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf/keyed"
	"hafvf/internal/tabular"
)

// A Table gathers a row for each key and observation, from a run of the filter followed by a run of the smoother. Its
// zero value is ready to use.
type Table struct {
	mu   sync.Mutex
	keys map[string]*series
}

// A series holds the rows of a key, by column.
type series struct {
	key     string
	outputs int
	rows    map[string]int // row by ID of the observation
	n       []int64
	times   []time.Time    // nil without times
	x       []float64      // values of all rows, concatenated
	ends    []int          // end of each row in x
	lists   map[int]string // x of rows with several vectors, as JSON
	numbers []float64      // for each row: the named numbers, then those per output
	carried []string       // carried columns as JSON; nil without them
	missing []bool
	changes []bool
	segment []int32 // segment from 1, in any order before number; 0 without a smoothed record

	parsed   map[string]any // carried columns of row parsedAt
	parsedAt int

	last     map[session]span // last segment of each session
	segments map[span]int32
}

// Indexes of the numbers of a row, before the numbers per output.
const (
	surprise = iota
	learningRate
	weight
	memory
	secondWeight
	change
	named
)

// Kinds of numbers per output.
const (
	predictedMean = iota
	predictedSD
	smoothedMean
	perOutput
)

// A session is a session of a key.
type session struct {
	name  string // name of a session without times
	start keyed.Point
}

// A span is a segment of a session, by its number.
type span struct {
	session
	number int
}

// AddEstimate adds the row of an estimate. It ignores a nil estimate.
func (t *Table) AddEstimate(key string, e *keyed.Estimate) {
	if e == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.keys[key]
	if s == nil {
		if t.keys == nil {
			t.keys = map[string]*series{}
		}
		s = &series{key: strings.Clone(key), outputs: len(e.Predicted.Mean), rows: map[string]int{}, lists: map[int]string{}, last: map[session]span{}, segments: map[span]int32{}}
		t.keys[s.key] = s
	}
	s.filtered(e)
}

// AddSmoothed adds a smoothed record to the row of its observation. It joins them by the IDs of observations. Positions
// cannot join them: a key may have several sessions, and trials need not be in order.
func (t *Table) AddSmoothed(key string, r *keyed.Smoothed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.keys[key]; s != nil {
		s.smoothed(r)
	}
}

func (s *series) filtered(e *keyed.Estimate) {
	i := len(s.n)
	s.rows[strings.Clone(e.ID)] = i
	s.n = append(s.n, e.N)
	if !e.Time.IsZero() && s.times == nil {
		s.times = make([]time.Time, i)
	}
	if s.times != nil {
		s.times = append(s.times, e.Time)
	}
	if e.ExtraFields != "" {
		s.carried = append(s.carried, strings.Clone(e.ExtraFields))
	}
	if e.Shape == keyed.List {
		s.lists[i] = listOf(e.X)
	} else {
		for _, x := range e.X {
			s.x = append(s.x, x...)
		}
	}
	s.ends = append(s.ends, len(s.x))
	s.missing, s.changes, s.segment = append(s.missing, e.Missing), append(s.changes, false), append(s.segment, 0)
	start := len(s.numbers)
	for range s.width() {
		s.numbers = append(s.numbers, math.NaN())
	}
	row := s.numbers[start:]
	row[surprise], row[learningRate], row[weight], row[memory] = -e.LogPredictive, e.LearningRate, e.Weight, e.Memory
	if l := e.Levels; len(l) >= 4 {
		row[secondWeight] = l[2] / (l[2] + l[3])
	}
	if e.Detection != nil {
		row[change] = e.Detection.Change
	}
	copy(s.outputsOf(i, predictedMean), e.Predicted.Mean)
	copy(s.outputsOf(i, predictedSD), e.Predicted.SD)
}

// listOf returns a step of several vectors as JSON.
func listOf(step [][]float64) string {
	vectors := make([][]any, len(step))
	for i, x := range step {
		for _, v := range x {
			if math.IsNaN(v) {
				vectors[i] = append(vectors[i], nil)
			} else {
				vectors[i] = append(vectors[i], v)
			}
		}
	}
	text, _ := json.Marshal(vectors) // cannot fail: the numbers are finite
	return string(text)
}

func (s *series) smoothed(r *keyed.Smoothed) {
	owner := session{start: r.Session.Start}
	if r.Time.IsZero() {
		owner.name = strings.Clone(r.ID[:strings.LastIndexByte(r.ID, '/')])
	}
	segment, known := s.last[owner]
	if !known || r.Change {
		segment = span{owner, segment.number + 1}
		s.last[owner] = segment
	}
	i, found := s.rows[r.Origin]
	if !found { // the filter rejected the observation
		return
	}
	if s.segments[segment] == 0 {
		s.segments[segment] = int32(len(s.segments) + 1)
	}
	s.changes[i], s.segment[i] = r.Change, s.segments[segment]
	copy(s.outputsOf(i, smoothedMean), r.Estimate.Mean)
}

func (s *series) width() int { return named + perOutput*s.outputs }

// outputsOf returns the numbers per output of row i, of one kind.
func (s *series) outputsOf(i, kind int) []float64 {
	start := i*s.width() + named + kind*s.outputs
	return s.numbers[start : start+s.outputs]
}

// xOf returns the x of row i.
func (s *series) xOf(i int) []float64 {
	start := 0
	if i > 0 {
		start = s.ends[i-1]
	}
	return s.x[start:s.ends[i]]
}

// sorted returns the series by key, with their segments numbered.
func (t *Table) sorted() (sorted []*series) {
	for _, key := range slices.Sorted(maps.Keys(t.keys)) {
		s := t.keys[key]
		s.number()
		sorted = append(sorted, s)
	}
	return sorted
}

// number renumbers the segments in the order of the rows. Sessions may be smoothed in any order.
func (s *series) number() {
	numbers := map[int32]int32{0: 0}
	for i, g := range s.segment {
		if _, known := numbers[g]; !known {
			numbers[g] = int32(len(numbers))
		}
		s.segment[i] = numbers[g]
	}
}

// A row is a row of a series.
type row struct {
	*series
	i int
}

type column = output.Column[row]

// columns returns the columns of the table.
func (t *Table) columns() []column {
	outputs, dim, timed, lists := 1, 1, false, false
	for _, s := range t.keys {
		outputs, timed, lists = max(outputs, s.outputs), timed || s.times != nil, lists || len(s.lists) > 0
		for i := range s.n {
			dim = max(dim, len(s.xOf(i)))
		}
	}
	columns := []column{
		{Name: "key", Kind: tabular.String, Cell: func(r row) any { return r.key }},
		{Name: "trial", Kind: tabular.Number, Cell: func(r row) any { return r.n[r.i] }},
	}
	if timed {
		columns = append(columns, output.Time("time", func(r row) *time.Time {
			if r.times == nil || r.times[r.i].IsZero() {
				return nil
			}
			return &r.times[r.i]
		}))
	}
	carriedIndex := len(columns)
	if lists {
		columns = append(columns, column{Name: "x", Kind: tabular.String, Cell: func(r row) any {
			if text, isList := r.lists[r.i]; isList {
				return text
			}
			return listOf([][]float64{r.xOf(r.i)})
		}})
	} else {
		for o := range dim {
			columns = append(columns, output.Number(output.ColumnName("x", o, dim), func(r row) float64 { return output.Element(r.xOf(r.i), o) }))
		}
	}
	perOutputs := func(name string, kind int) {
		for o := range outputs {
			columns = append(columns, output.Number(output.ColumnName(name, o, outputs), func(r row) float64 { return output.Element(r.outputsOf(r.i, kind), o) }))
		}
	}
	perOutputs("predicted_mean", predictedMean)
	perOutputs("predicted_sd", predictedSD)
	for i, name := range [named]string{"surprise", "learning_rate", "weight", "memory", "e_b", "p_change"} {
		columns = append(columns, output.Number(name, func(r row) float64 { return r.numbers[r.i*r.width()+i] }))
	}
	perOutputs("smoothed_mean", smoothedMean)
	columns = append(columns,
		column{Name: "change", Kind: tabular.Bool, Cell: func(r row) any {
			if r.segment[r.i] == 0 {
				return nil
			}
			return r.changes[r.i]
		}},
		column{Name: "segment", Kind: tabular.Number, Cell: func(r row) any {
			if r.segment[r.i] == 0 {
				return nil
			}
			return int64(r.segment[r.i])
		}})
	return slices.Insert(columns, carriedIndex, t.carried(columns)...)
}

// carried returns the columns that the source carries. others are the other columns. A column is numeric if all its
// values are numbers.
func (t *Table) carried(others []column) (columns []column) {
	index := map[string]int{}
	for _, s := range t.sorted() {
		for i := range s.carried {
			eachCarried(s.carried[i], func(name string, value any) {
				k, known := index[name]
				if !known {
					k, index[name] = len(columns), len(columns)
					c := column{Name: name, Kind: tabular.Number, Cell: func(r row) any { return r.carriedBy(r.i)[name] }}
					if slices.ContainsFunc(others, func(other column) bool { return other.Name == name }) {
						c.Name = "carry." + name
					}
					columns = append(columns, c)
				}
				if _, isNumber := value.(json.Number); value != nil && !isNumber {
					columns[k].Kind = tabular.String
				}
			})
		}
	}
	return columns
}

// eachCarried calls f for each carried column, in order. Numbers are json.Number.
func eachCarried(object string, f func(name string, value any)) {
	decoder := json.NewDecoder(strings.NewReader(object))
	decoder.UseNumber()
	decoder.Token() // the parser wrote a valid object
	for decoder.More() {
		name, _ := decoder.Token()
		var value any
		decoder.Decode(&value)
		f(name.(string), value)
	}
}

// carriedBy returns the carried columns of row i. It caches the last row, since columns are written row by row.
func (s *series) carriedBy(i int) map[string]any {
	if s.carried == nil {
		return nil
	}
	if s.parsed == nil || s.parsedAt != i {
		s.parsed, s.parsedAt = map[string]any{}, i
		eachCarried(s.carried[i], func(name string, value any) { s.parsed[name] = value })
	}
	return s.parsed
}

// Trials returns the table, with times in zone.
func (t *Table) Trials(zone *time.Location) output.Table {
	sorted := t.sorted()
	return output.NewTable(t.columns(), zone, func(yield func(row) bool) {
		for _, s := range sorted {
			for i := range s.n {
				if !yield(row{s, i}) {
					return
				}
			}
		}
	})
}

// IDs returns the IDs of the observations, in the order of the table.
func (t *Table) IDs() (ids []string) {
	for _, s := range t.sorted() {
		start := len(ids)
		ids = append(ids, make([]string, len(s.n))...)
		for id, i := range s.rows {
			ids[start+i] = id
		}
	}
	return ids
}

// Keys returns a table with a row for each key.
func (t *Table) Keys() output.Table {
	type column = output.Column[*series]
	return output.NewTable([]column{
		{Name: "key", Kind: tabular.String, Cell: func(s *series) any { return s.key }},
		{Name: "trials", Kind: tabular.Number, Cell: func(s *series) any { return len(s.n) }},
		{Name: "missing", Kind: tabular.Number, Cell: func(s *series) any { return count(s.missing) }},
		{Name: "log_evidence", Kind: tabular.Number, Cell: func(s *series) any { return s.evidence() }},
		{Name: "changes", Kind: tabular.Number, Cell: func(s *series) any { return count(s.changes) }},
	}, nil, slices.Values(t.sorted()))
}

func count(flags []bool) (n int) {
	for _, flag := range flags {
		if flag {
			n++
		}
	}
	return n
}

// evidence returns the sum of log_predictive, without missing values.
func (s *series) evidence() (sum float64) {
	for i := range s.n {
		if v := s.numbers[i*s.width()+surprise]; !math.IsNaN(v) {
			sum -= v
		}
	}
	return sum
}

// Counts returns the numbers of keys, trials and changes.
func (t *Table) Counts() (keys, trials, changes int) {
	for _, s := range t.keys {
		trials += len(s.n)
		changes += count(s.changes)
	}
	return len(t.keys), trials, changes
}
