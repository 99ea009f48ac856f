// Package median is the median of numbers and of times.
package median

import (
	"math"
	"slices"
)

// Of returns the median of v, which it leaves as it is. Of an even number of values it is the
// middle between the two in the centre, and of none the zero value, or NaN.
func Of[T ~int64 | ~float64](v []T) T {
	n := len(v)
	if n == 0 {
		none := math.NaN()
		if T(1)/2 == 0 { // whole numbers
			none = 0
		}
		return T(none)
	}
	s := slices.Sorted(slices.Values(v))
	low, high := s[(n-1)/2], s[n/2]
	return low + (high-low)/2
}
