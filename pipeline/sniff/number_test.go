package sniff

import (
	"math"
	"testing"

	"hafvf/internal/testing/expect"
)

// A Result counts zeros, negative numbers, fractions and missing values.
func TestResultNumber(t *testing.T) {
	var r Result
	for _, v := range []float64{math.NaN(), 3, 1, 0, .5, -1.5, 1} {
		r.number(v)
	}
	expect.Same(t, [...]float64{7, 1, 1, 1, 2, -1.5, 3}, [...]float64{
		float64(r.Components), float64(r.Missing), float64(r.Zero), float64(r.Negative), float64(r.Fractions), r.Min, r.Max,
	})
}
