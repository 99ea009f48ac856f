package expfam

import (
	"math"
	"slices"
)

// Rows makes a model's rows for the steps of a finished session: the observations themselves or, for a
// Sequential model, the previous values followed by the observation. Rows owns its scratch and is not safe for
// concurrent use: use one per goroutine.
type Rows struct {
	seq     Sequential // nil for other models
	past    []float64
	row     []float64
	one     [1][]float64
	unknown []float64 // an observation of NaN
}

// NewRows returns the Rows of a model.
func NewRows(m Model) *Rows {
	if seq, ok := m.(Sequential); ok {
		return &Rows{seq: seq, past: make([]float64, seq.Window()), row: make([]float64, m.Dim()), unknown: []float64{math.NaN()}}
	}
	return &Rows{unknown: slices.Repeat([]float64{math.NaN()}, m.Dim())}
}

// Window returns the number of previous values that a row needs.
func (r *Rows) Window() int { return len(r.past) }

// Dim returns the length of an observation.
func (r *Rows) Dim() int { return len(r.unknown) }

// Incomplete reports whether a row has a missing value.
func Incomplete(row []float64) bool { return slices.ContainsFunc(row, math.IsNaN) }

// At returns the rows of step t. The steps earlier come before the steps of the session. The rows are valid
// until the next call.
func (r *Rows) At(earlier, steps [][][]float64, t int) [][]float64 {
	xs := steps[t]
	if r.seq == nil || len(xs) == 0 {
		return xs
	}
	r.one[0] = r.rowFor(earlier, steps, t, xs[0])
	return r.one[:]
}

// Last returns the row of the last vector of step t. If the step has no full vector, the observation in the row is
// NaN. The row is valid until the next call.
func (r *Rows) Last(earlier, steps [][][]float64, t int) []float64 {
	x, xs := r.unknown, steps[t]
	if n := len(xs); n > 0 && len(xs[n-1]) == len(r.unknown) {
		x = xs[n-1]
	}
	return r.rowFor(earlier, steps, t, x)
}

// rowFor returns the row of an observation x of step t.
func (r *Rows) rowFor(earlier, steps [][][]float64, t int, x []float64) []float64 {
	if r.seq == nil {
		return x
	}
	for i := range r.past {
		r.past[i] = math.NaN()
		source, index := steps, t-1-i
		if index < 0 {
			source, index = earlier, index+len(earlier)
		}
		if index >= 0 && len(source[index]) > 0 {
			r.past[i] = source[index][0][0]
		}
	}
	r.seq.Row(r.row, r.past, x[0])
	return r.row
}
