package keyed

import (
	"testing"
	"time"
)

// An alarm near usual is that of a return only if an alarmed stretch has ended, and only shortly
// after it.
func TestStretchReturns(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64 // usual is 0 ± 1
		alarms []int     // positions with an alarm before the last
		want   bool
	}{
		{"a level and back", []float64{0, 5, 5, 6, 5, .5}, []int{3}, true},
		{"back for some time", []float64{0, 5, 5, 6, 5, .5, -.5, .3}, []int{3}, true},
		{"back for long", []float64{0, 5, 5, 6, 5, .5, .4, .3, .2, .1, .2, .3, .4, .5, .4, .3, .2, .1}, []int{3}, false},
		{"one value", []float64{0, 9, .5}, []int{1}, true},
		{"without an alarm", []float64{0, 5, 5, 6, 5, .5}, nil, false},
		{"stuck", []float64{.5, .5, .5, .5, .5, .5, .5, .5}, []int{6}, false},
		{"stuck, and no longer", []float64{.5, .5, .5, .5, .5, .5, .5, .1}, []int{6}, true},
		{"scatter", []float64{.5, -.5, .4, -.4, .5, -.5}, []int{3}, false},
		{"scatter, and a stretch that raised none", []float64{.5, -.5, .4, 1.5, 1.4, .3}, []int{2}, false},
		{"still there", []float64{0, 5, 5, 6, 5, 5}, []int{3}, false},
	} {
		var s stretch
		for i, x := range c.values {
			s.add(time.Time{}, x, 0, 1)
			if len(c.alarms) > 0 && c.alarms[0] == i {
				s.told(x)
			}
		}
		if got := s.returns(c.values[len(c.values)-1]); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
