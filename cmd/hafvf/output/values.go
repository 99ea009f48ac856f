package output

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Values are a number of a record, or a list of numbers. NaN stands for what is none.
type Values []float64

// UnmarshalJSON takes whatever stands there.
func (v *Values) UnmarshalJSON(b []byte) error {
	if f, err := strconv.ParseFloat(string(b), 64); err == nil { // most are plain, and there may be millions
		*v = Values{f}
		return nil
	}
	var of any
	err := json.Unmarshal(b, &of)
	*v = valuesOf(of)
	return err
}

func valuesOf(v any) (all Values) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, c := range list {
		f, ok := c.(float64)
		if !ok {
			f = math.NaN()
		}
		all = append(all, f)
	}
	return all
}

// Vectors are the x of a record: one of a number or a vector, several of a list of vectors.
type Vectors [][]float64

// UnmarshalJSON takes whatever stands there.
func (x *Vectors) UnmarshalJSON(b []byte) error {
	var of any
	if f, err := strconv.ParseFloat(string(b), 64); err == nil {
		of = f
	} else if err := json.Unmarshal(b, &of); err != nil {
		return err
	}
	*x = nil
	list, _ := of.([]any)
	if len(list) > 0 {
		if _, nested := list[0].([]any); nested {
			for _, v := range list {
				*x = append(*x, valuesOf(v))
			}
			return nil
		}
	}
	*x = Vectors{valuesOf(of)}
	return nil
}

// First is the first of v; NaN where there is none.
func First(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return v[0]
}

// OrNaN is the number, or NaN where there is none.
func OrNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// Percent is a probability to be read beside others, empty where there is none.
func Percent(p float64) string {
	switch {
	case p != p:
		return ""
	case p > .99:
		return "> 99 %"
	}
	return fmt.Sprintf("%.0f %%", 100*p)
}

// shareOf returns k/n of a vector of successes and trials. Records do not name the family: two whole
// numbers, of which the first is at most the second, with a mean between 0 and 1 are taken for such.
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

// Observed returns, for every vector of x, the coordinate that the first one of mean predicts. Of a
// category that is missing it returns none.
func Observed(x [][]float64, mean []float64) (all []float64) {
	for _, v := range x {
		switch c := First(v); {
		case len(mean) > 1 && len(v) <= 1:
			// A category; its probability is the mean of an indicator.
			switch {
			case c == 0:
				all = append(all, 1)
			case !math.IsNaN(c):
				all = append(all, 0)
			}
		case len(v) > 1 && len(mean) <= 1:
			c = v[len(v)-1] // of regressors, and the target behind them
			if share, ok := shareOf(v, First(mean)); ok {
				c = share
			}
			all = append(all, c)
		default:
			all = append(all, c)
		}
	}
	return all
}
