package expfam

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"

	"gonum.org/v1/gonum/mat"

	"hafvf/internal/linear"
)

// Params holds the parameters of a naive prior θ₀ by their textbook names: numbers, lists of numbers, lists of
// lists, booleans. If a parameter is a vector or a matrix, a number sets every entry, or the diagonal.
type Params = map[string]any

// A Build makes a model of a family from its prior. dim is the length of the observation vectors if the prior
// does not determine it, or 0 if it is unknown. If the prior determines another length, the prior wins.
type Build func(p Prior, dim int) (Model, error)

var (
	familiesMu sync.RWMutex
	families   = map[string]Build{}
)

// Register registers a family under a name, for New and for configurations. Call it from an init function. It
// panics if the name is already registered.
func Register(family string, build Build) {
	familiesMu.Lock()
	defer familiesMu.Unlock()
	if _, exists := families[family]; exists {
		panic("expfam: family " + family + " registered twice")
	}
	families[family] = build
}

// Families returns the names of the registered families, sorted.
func Families() []string {
	familiesMu.RLock()
	defer familiesMu.RUnlock()
	return slices.Sorted(maps.Keys(families))
}

// New returns the model of a family with the given textbook parameters of its naive prior. Missing parameters
// have the family's defaults, see the doc of package hafvf. dim is the length of an observation (for
// categorical, the number of categories) if no parameter determines it, and 0 otherwise. The error names the
// invalid parameter.
func New(family string, params Params, dim int) (Model, error) {
	familiesMu.RLock()
	build := families[family]
	familiesMu.RUnlock()
	if build == nil {
		return nil, fmt.Errorf("unknown family %q; known are %v", family, Families())
	}
	m, err := build(newPrior(params), dim)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", family, err)
	}
	return m, nil
}

// A ParamError reports an invalid parameter of a prior, and the reason.
type ParamError struct {
	Name, Reason string
	Known        []string // valid parameters, if Name is not one of them
}

func (e *ParamError) Error() string { return "prior." + e.Name + ": " + e.Reason }

// A Prior reads the textbook parameters of a family for a Build. Its methods record errors and continue. Done
// returns all errors, and reports parameters that were never read as unknown.
type Prior struct {
	params Params
	read   map[string]bool
	errs   *[]error
}

func newPrior(params Params) Prior {
	return Prior{params: params, read: map[string]bool{}, errs: new([]error)}
}

// Fail records that a parameter is invalid.
func (p Prior) Fail(name, reason string) {
	*p.errs = append(*p.errs, &ParamError{Name: name, Reason: reason})
}

// Done returns all errors, joined, or nil.
func (p Prior) Done() error {
	known := slices.Sorted(maps.Keys(p.read))
	for _, name := range slices.Sorted(maps.Keys(p.params)) {
		if !p.read[name] {
			*p.errs = append(*p.errs, &ParamError{name, fmt.Sprintf("unknown; known are %v", known), known})
		}
	}
	return errors.Join(*p.errs...)
}

func (p Prior) get(name string) (any, bool) {
	p.read[name] = true
	v, ok := p.params[name]
	return v, ok
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	case int:
		return float64(v), true
	}
	return 0, false
}

// show formats a value for an error. It shortens lists, which may be long.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(v)
	case float64, int, bool:
		return fmt.Sprint(v)
	case []float64:
		return "a list of numbers"
	case [][]float64:
		return "a list of rows"
	case []any:
		return "a list"
	}
	return fmt.Sprintf("a %T", v)
}

// Float reads a finite number.
func (p Prior) Float(name string, absent float64) float64 {
	v, ok := p.get(name)
	if !ok {
		return absent
	}
	f, ok := number(v)
	if !ok {
		p.Fail(name, fmt.Sprintf("must be a finite number, not %s", show(v)))
		return absent
	}
	return f
}

// Positive reads a number above zero.
func (p Prior) Positive(name string, absent float64) float64 {
	f := p.Float(name, absent)
	if f <= 0 {
		p.Fail(name, fmt.Sprintf("must be greater than 0, not %v", f))
		return absent
	}
	return f
}

// maxLen is the maximum length that a single number can set. maxMatrix is the maximum number of rows of a
// matrix: a sample has about half the square of it in numbers.
const (
	maxLen    = 1 << 20
	maxMatrix = 1000
)

// Count reads an integer of at least minimum.
func (p Prior) Count(name string, minimum int, absent int) int {
	f := p.Float(name, float64(absent))
	if f != math.Trunc(f) || f < float64(minimum) || f > maxLen {
		p.Fail(name, fmt.Sprintf("must be a whole number from %d to %d, not %v", minimum, maxLen, f))
		return max(absent, minimum)
	}
	return int(f)
}

// Bool reads a boolean.
func (p Prior) Bool(name string, absent bool) bool {
	v, ok := p.get(name)
	if !ok {
		return absent
	}
	b, ok := v.(bool)
	if !ok {
		p.Fail(name, fmt.Sprintf("must be true or false, not %s", show(v)))
	}
	return b
}

// numbers returns v as a list of finite numbers.
func numbers(v any) ([]float64, bool) {
	switch v := v.(type) {
	case []float64:
		return each(v, number)
	case []any:
		return each(v, number)
	}
	return nil, false
}

// rows returns v as a list of lists of finite numbers.
func rows(v any) ([][]float64, bool) {
	switch v := v.(type) {
	case [][]float64:
		return each(v, numbers)
	case []any:
		return each(v, numbers)
	}
	return nil, false
}

// each converts every entry of v. It reports false if an entry cannot be converted.
func each[E, T any](v []E, convert func(any) (T, bool)) ([]T, bool) {
	out := make([]T, len(v))
	for i, e := range v {
		var ok bool
		if out[i], ok = convert(e); !ok {
			return nil, false
		}
	}
	return out, true
}

// Len returns the length of a vector or the number of rows of a matrix, or 0 if it is absent or a scalar.
func (p Prior) Len(name string) int {
	switch v := p.params[name].(type) {
	case []float64:
		return len(v)
	case [][]float64:
		return len(v)
	case []any:
		return len(v)
	}
	return 0
}

// Vector reads a vector of length n.
func (p Prior) Vector(name string, n int, absent float64) []float64 {
	v, ok := p.get(name)
	if !ok {
		v = absent
	}
	if f, ok := number(v); ok {
		return slices.Repeat([]float64{f}, n)
	}
	out, ok := numbers(v)
	if !ok {
		p.Fail(name, fmt.Sprintf("must be a number or a list of numbers, all finite, not %s", show(v)))
	} else if len(out) != n {
		p.Fail(name, fmt.Sprintf("has %d entries, want %d", len(out), n))
	} else {
		return out
	}
	return slices.Repeat([]float64{absent}, n)
}

// PositiveVector reads a vector of numbers above zero. Its length is the length of the list or, for a scalar,
// n. If it is absent, PositiveVector returns n ones.
func (p Prior) PositiveVector(name string, n int) []float64 {
	out := p.Vector(name, max(cmp.Or(p.Len(name), n), 0), 1)
	for i, f := range out {
		if f <= 0 {
			p.Fail(name, fmt.Sprintf("entry %d must be greater than 0, not %v", i, f))
			out[i] = 1
		}
	}
	return out
}

// Matrix reads a symmetric positive definite n×n matrix. A scalar sets the diagonal.
func (p Prior) Matrix(name string, n int, absent float64) *mat.SymDense {
	v, ok := p.get(name)
	if !ok {
		v = absent
	}
	if n > maxMatrix {
		p.Fail(name, fmt.Sprintf("would have %d rows; at most %d are allowed", n, maxMatrix))
		n = 1 // any size will do: New returns an error
		v = absent
	}
	if n == 0 {
		return &mat.SymDense{}
	}
	m, err := matrix(v, n)
	if err != nil {
		p.Fail(name, err.Error())
		m, _ = matrix(1., n)
	}
	return m
}

// matrix returns v as a symmetric positive definite n×n matrix, or an error that begins with a verb.
func matrix(v any, n int) (*mat.SymDense, error) {
	sym := mat.NewSymDense(n, nil)
	if f, ok := number(v); ok {
		if f <= 0 {
			return nil, fmt.Errorf("must be greater than 0, not %v", f)
		}
		for i := range n {
			sym.SetSym(i, i, f)
		}
		return sym, nil
	}
	m, ok := rows(v)
	if !ok {
		return nil, fmt.Errorf("must be a number or a list of rows of numbers, all finite, not %s", show(v))
	}
	if len(m) != n {
		return nil, fmt.Errorf("has %d rows, want %d", len(m), n)
	}
	for i, row := range m {
		if len(row) != n {
			return nil, fmt.Errorf("row %d has %d entries, want %d", i, len(row), n)
		}
	}
	for i, row := range m {
		for j, f := range row {
			if math.Abs(f-m[j][i]) > 1e-12*(math.Abs(f)+math.Abs(m[j][i])) {
				return nil, fmt.Errorf("must be symmetric, but row %d has %v where row %d has %v", j, m[j][i], i, f)
			}
			if j >= i {
				sym.SetSym(i, j, f)
			}
		}
	}
	if !new(mat.Cholesky).Factorize(sym) {
		return nil, errors.New("must be positive definite")
	}
	return sym, nil
}

// cholesky reads a positive definite n×n matrix and returns its packed upper triangular Cholesky factor R,
// where RᵀR is the matrix.
func (p Prior) cholesky(name string, n int, absent float64) linear.Triangle {
	m := p.Matrix(name, n, absent)
	n = m.SymmetricDim()
	if n == 0 {
		return linear.Triangle{}
	}
	var chol mat.Cholesky
	chol.Factorize(m)
	var u mat.TriDense
	chol.UTo(&u)
	r := linear.NewTriangle(n)
	for i := range n {
		for j := i; j < n; j++ {
			r.Set(i, j, u.At(i, j))
		}
	}
	return r
}
