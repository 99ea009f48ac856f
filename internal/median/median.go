// Package median has the median of numbers and durations.
package median

import (
	"math"
	"slices"
)

// Of returns the median of v without changing v. For an even number of values it returns the mean of the two middle
// values. For an empty v it returns 0, or NaN for floats.
func Of[T ~int64 | ~float64](v []T) T {
	n := len(v)
	if n == 0 {
		empty := math.NaN()
		if T(1)/2 == 0 { // integers
			empty = 0
		}
		return T(empty)
	}
	s := slices.Sorted(slices.Values(v))
	low, high := s[(n-1)/2], s[n/2]
	return low + (high-low)/2
}
