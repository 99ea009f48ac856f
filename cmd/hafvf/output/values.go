package output

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Values are a number of a record, or a list of numbers. NaN means no number.
type Values []float64

// UnmarshalJSON accepts any JSON value. Entries that are not numbers become NaN.
func (v *Values) UnmarshalJSON(b []byte) error {
	if f, err := strconv.ParseFloat(string(b), 64); err == nil { // fast path: most values are plain numbers
		*v = Values{f}
		return nil
	}
	var parsed any
	err := json.Unmarshal(b, &parsed)
	*v = valuesOf(parsed)
	return err
}

func valuesOf(v any) (values Values) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, c := range list {
		f, ok := c.(float64)
		if !ok {
			f = math.NaN()
		}
		values = append(values, f)
	}
	return values
}

// Vectors is the x of a record: one vector for a number or a vector, several for a list of vectors.
type Vectors [][]float64

// UnmarshalJSON accepts any JSON value. Entries that are not numbers become NaN.
func (x *Vectors) UnmarshalJSON(b []byte) error {
	var parsed any
	if f, err := strconv.ParseFloat(string(b), 64); err == nil {
		parsed = f
	} else if err := json.Unmarshal(b, &parsed); err != nil {
		return err
	}
	*x = nil
	list, _ := parsed.([]any)
	if len(list) > 0 {
		if _, nested := list[0].([]any); nested {
			for _, v := range list {
				*x = append(*x, valuesOf(v))
			}
			return nil
		}
	}
	*x = Vectors{valuesOf(parsed)}
	return nil
}

// First returns v[0], or NaN if v is empty.
func First(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return v[0]
}

// OrNaN returns *v, or NaN if v is nil.
func OrNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// Percent formats a probability in percent; NaN is "".
func Percent(p float64) string {
	switch {
	case p != p:
		return ""
	case p > .99:
		return "> 99 %"
	}
	return fmt.Sprintf("%.0f %%", 100*p)
}

// shareOf returns k/n for a vector of successes k and trials n. Records do not name the family: ok is true for two
// whole numbers with 0 ≤ k ≤ n, if the mean is between 0 and 1.
func shareOf(v []float64, mean float64) (share float64, ok bool) {
	if len(v) != 2 || mean < 0 || mean > 1 {
		return 0, false
	}
	k, n := v[0], v[1]
	if k != math.Trunc(k) || n != math.Trunc(n) || k < 0 || k > n {
		return 0, false
	}
	return k / n, true
}

// Observed returns, for each vector of x, the coordinate that mean[0] predicts. It omits missing categories.
func Observed(x [][]float64, mean []float64) (observed []float64) {
	for _, v := range x {
		switch c := First(v); {
		case len(mean) > 1 && len(v) <= 1:
			// A category: mean[0] is the probability of category 0.
			switch {
			case c == 0:
				observed = append(observed, 1)
			case !math.IsNaN(c):
				observed = append(observed, 0)
			}
		case len(v) > 1 && len(mean) <= 1:
			c = v[len(v)-1] // regressors, followed by the target
			if share, ok := shareOf(v, First(mean)); ok {
				c = share
			}
			observed = append(observed, c)
		default:
			observed = append(observed, c)
		}
	}
	return observed
}
