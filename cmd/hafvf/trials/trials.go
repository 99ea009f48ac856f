// Package trials makes a table of what the filter and the smoother say of every observation.
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
	"hafvf/pipeline"
)

// A Table gathers a row per key and observation, from a run of the filter and then one of the smoother. Its
// zero value is ready.
type Table struct {
	mu   sync.Mutex
	keys map[string]*series
}

// A series is the rows of a key, in columns.
type series struct {
	key     string
	outputs int
	rows    map[string]int // by the IDs of the observations
	n       []int64
	times   []time.Time    // nil where there are none
	x       []float64      // one after the other
	ends    []int          // of the x of each row
	lists   map[int]string // the x of rows of several vectors, as JSON
	numbers []float64      // of each row the named ones, then those per output
	carried []string       // nil where nothing is
	missing []bool
	changes []bool
	segment []int32 // from 1, in any order before number; 0 where there is no smoothed record

	parsed   map[string]any // what row parsedAt carries
	parsedAt int

	last     map[session]span // segments so far
	segments map[span]int32
}

// The numbers of a row, before those that there are one of per output.
const (
	surprise = iota
	learningRate
	weight
	memory
	secondWeight
	change
	named
)

// Those that there are one of per output.
const (
	predictedMean = iota
	predictedSD
	smoothedMean
	perOutput
)

// A session is one of a key.
type session struct {
	name  string // without times
	start keyed.Point
}

// A span is a segment of a session by its number.
type span struct {
	session
	number int
}

// Filtered is what sees the run of the filter.
func (t *Table) Filtered() *pipeline.Observer {
	return &pipeline.Observer{Estimate: func(key string, e *keyed.Estimate, _ []keyed.AlertEvent) {
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
	}}
}

// Smoothed is what sees the run of the smoother. Its records and the estimates are joined by the IDs of
// their observations: the place of a record in its session is not that of the observation in its key, as a
// key may have several sessions, and trials need not come in their order.
func (t *Table) Smoothed() *pipeline.Observer {
	return &pipeline.Observer{Smoothed: func(key string, r *keyed.Smoothed) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if s := t.keys[key]; s != nil {
			s.smoothed(r)
		}
	}}
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
	if e.Carried != "" {
		s.carried = append(s.carried, strings.Clone(e.Carried))
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
	from := len(s.numbers)
	for range s.width() {
		s.numbers = append(s.numbers, math.NaN())
	}
	row := s.numbers[from:]
	row[surprise], row[learningRate], row[weight], row[memory] = -e.LogPredictive, e.LearningRate, e.Weight, e.Memory
	if l := e.Levels; len(l) >= 4 {
		row[secondWeight] = l[2] / (l[2] + l[3])
	}
	if e.Detection != nil {
		row[change] = e.Detection.Change
	}
	copy(s.of(i, predictedMean), e.Predicted.Mean)
	copy(s.of(i, predictedSD), e.Predicted.SD)
}

// listOf is a step of several vectors as a text.
func listOf(step [][]float64) string {
	all := make([][]any, len(step))
	for i, x := range step {
		for _, v := range x {
			if math.IsNaN(v) {
				all[i] = append(all[i], nil)
			} else {
				all[i] = append(all[i], v)
			}
		}
	}
	text, _ := json.Marshal(all) // of finite numbers
	return string(text)
}

func (s *series) smoothed(r *keyed.Smoothed) {
	in := session{start: r.Session.Start}
	if r.Time.IsZero() {
		in.name = strings.Clone(r.ID[:strings.LastIndexByte(r.ID, '/')])
	}
	at, known := s.last[in]
	if !known || r.Change {
		at = span{in, at.number + 1}
		s.last[in] = at
	}
	i, there := s.rows[r.Origin]
	if !there { // the filter has rejected it
		return
	}
	if s.segments[at] == 0 {
		s.segments[at] = int32(len(s.segments) + 1)
	}
	s.changes[i], s.segment[i] = r.Change, s.segments[at]
	copy(s.of(i, smoothedMean), r.Estimate.Mean)
}

func (s *series) width() int { return named + perOutput*s.outputs }

// of are the numbers of row i of one kind, one per output.
func (s *series) of(i, kind int) []float64 {
	from := i*s.width() + named + kind*s.outputs
	return s.numbers[from : from+s.outputs]
}

// xOf is the x of row i.
func (s *series) xOf(i int) []float64 {
	from := 0
	if i > 0 {
		from = s.ends[i-1]
	}
	return s.x[from:s.ends[i]]
}

// sorted are the series by their keys.
func (t *Table) sorted() (all []*series) {
	for _, key := range slices.Sorted(maps.Keys(t.keys)) {
		s := t.keys[key]
		s.number()
		all = append(all, s)
	}
	return all
}

// number numbers the segments in the order of the rows: sessions are smoothed in any order.
func (s *series) number() {
	numbers := map[int32]int32{0: 0}
	for i, g := range s.segment {
		if _, known := numbers[g]; !known {
			numbers[g] = int32(len(numbers))
		}
		s.segment[i] = numbers[g]
	}
}

// A row is one of a series.
type row struct {
	*series
	i int
}

type column = output.Column[row]

// columns are those of the table.
func (t *Table) columns() []column {
	outputs, dim, timed, lists := 1, 1, false, false
	for _, s := range t.keys {
		outputs, timed, lists = max(outputs, s.outputs), timed || s.times != nil, lists || len(s.lists) > 0
		for i := range s.n {
			dim = max(dim, len(s.xOf(i)))
		}
	}
	all := []column{
		{Name: "key", Kind: tabular.String, Cell: func(r row) any { return r.key }},
		{Name: "trial", Kind: tabular.Number, Cell: func(r row) any { return r.n[r.i] }},
	}
	if timed {
		all = append(all, output.Time("time", func(r row) *time.Time {
			if r.times == nil || r.times[r.i].IsZero() {
				return nil
			}
			return &r.times[r.i]
		}))
	}
	carried := len(all)
	if lists {
		all = append(all, column{Name: "x", Kind: tabular.String, Cell: func(r row) any {
			if text, is := r.lists[r.i]; is {
				return text
			}
			return listOf([][]float64{r.xOf(r.i)})
		}})
	} else {
		for o := range dim {
			all = append(all, output.Number(output.NameOf("x", o, dim), func(r row) float64 { return output.At(r.xOf(r.i), o) }))
		}
	}
	perOutputs := func(name string, kind int) {
		for o := range outputs {
			all = append(all, output.Number(output.NameOf(name, o, outputs), func(r row) float64 { return output.At(r.of(r.i, kind), o) }))
		}
	}
	perOutputs("predicted_mean", predictedMean)
	perOutputs("predicted_sd", predictedSD)
	for i, name := range [named]string{"surprise", "learning_rate", "weight", "memory", "e_b", "p_change"} {
		all = append(all, output.Number(name, func(r row) float64 { return r.numbers[r.i*r.width()+i] }))
	}
	perOutputs("smoothed_mean", smoothedMean)
	all = append(all,
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
	return slices.Insert(all, carried, t.carried(all)...)
}

// carried are the columns of what is carried, beside the others. One has numbers if it has nothing else.
func (t *Table) carried(beside []column) (all []column) {
	at := map[string]int{}
	for _, s := range t.sorted() {
		for i := range s.carried {
			eachCarried(s.carried[i], func(name string, value any) {
				k, known := at[name]
				if !known {
					k, at[name] = len(all), len(all)
					c := column{Name: name, Kind: tabular.Number, Cell: func(r row) any { return r.carriedBy(r.i)[name] }}
					if slices.ContainsFunc(beside, func(other column) bool { return other.Name == name }) {
						c.Name = "carry." + name
					}
					all = append(all, c)
				}
				if _, isNumber := value.(json.Number); value != nil && !isNumber {
					all[k].Kind = tabular.String
				}
			})
		}
	}
	return all
}

// eachCarried calls f with what is carried, in its order. Numbers are as they are written.
func eachCarried(object string, f func(name string, value any)) {
	in := json.NewDecoder(strings.NewReader(object))
	in.UseNumber()
	in.Token() // the parser has written an object
	for in.More() {
		name, _ := in.Token()
		var value any
		in.Decode(&value)
		f(name.(string), value)
	}
}

// carriedBy is what row i carries. The columns ask for one row after the other.
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

// Write writes the table to a file, with times on the clock of the zone.
func (t *Table) Write(out string, zone *time.Location) error {
	all := t.sorted()
	return output.WriteTable(out, t.columns(), zone, func(yield func(row) bool) {
		for _, s := range all {
			for i := range s.n {
				if !yield(row{s, i}) {
					return
				}
			}
		}
	})
}

// WriteKeys writes a row per key to a file.
func (t *Table) WriteKeys(out string) error {
	type of = output.Column[*series]
	return output.WriteTable(out, []of{
		{Name: "key", Kind: tabular.String, Cell: func(s *series) any { return s.key }},
		{Name: "trials", Kind: tabular.Number, Cell: func(s *series) any { return len(s.n) }},
		{Name: "missing", Kind: tabular.Number, Cell: func(s *series) any { return count(s.missing) }},
		{Name: "log_evidence", Kind: tabular.Number, Cell: func(s *series) any { return s.evidence() }},
		{Name: "changes", Kind: tabular.Number, Cell: func(s *series) any { return count(s.changes) }},
	}, nil, slices.Values(t.sorted()))
}

func count(all []bool) (n int) {
	for _, is := range all {
		if is {
			n++
		}
	}
	return n
}

// evidence is the sum of the log predictive, where there is one.
func (s *series) evidence() (sum float64) {
	for i := range s.n {
		if v := s.numbers[i*s.width()+surprise]; !math.IsNaN(v) {
			sum -= v
		}
	}
	return sum
}

// Counts are how many keys, trials and changes the table has.
func (t *Table) Counts() (keys, trials, changes int) {
	for _, s := range t.keys {
		trials += len(s.n)
		changes += count(s.changes)
	}
	return len(t.keys), trials, changes
}
