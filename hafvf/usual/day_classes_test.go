package usual

import (
	"math"
	"testing"
)

// Days form a class if they are near each other. There are at most three classes: the nearest are joined.
func TestGroupDays(t *testing.T) {
	for _, c := range []struct {
		levels [7]float64
		want   dayClasses
	}{
		{[7]float64{0, 0, 0, 0, 0, 0, 0}, dayClasses{}},
		{[7]float64{5, 5.2, 5, 4.9, 5, 2, 0}, dayClasses{0, 0, 0, 0, 0, 1, 2}},
		{[7]float64{5, 5.2, 5, 4.9, 0, 0, 5}, dayClasses{0, 0, 0, 0, 1, 1, 0}},
		{[7]float64{0, 5, 5, 5, 5, 5, 5}, dayClasses{0, 1, 1, 1, 1, 1, 1}},
		{[7]float64{0, 5, 8, 9.5, 20, 20, 20}, dayClasses{0, 1, 1, 1, 2, 2, 2}},
	} {
		got := groupDays(func(a, b int) float64 { return math.Abs(c.levels[a] - c.levels[b]) }, 3)
		if got != c.want {
			t.Errorf("levels %v: %v, want %v", c.levels, got, c.want)
		}
	}
}
