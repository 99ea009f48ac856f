package usual

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A State is the state of one stream: numbers that callers store unchanged.
type State = []float64

// Panics for arguments of the wrong length.
const (
	wrongState = "usual: state of the wrong length"
	wrongDim   = "usual: vector of the wrong length"
	wrongDst   = "usual: destination of the wrong length"
)

// mustHave panics with wrong if v does not have length n.
func mustHave(v []float64, n int, wrong string) {
	if len(v) != n {
		panic(wrong)
	}
}

// incomplete reports whether x has a NaN, which marks a missing coordinate.
func incomplete(x []float64) bool { return slices.ContainsFunc(x, math.IsNaN) }

// A Season is a cycle of the local time, represented by the first harmonics of its period: cosines and sines of
// 2πkt/Period, k = 1, …, Harmonics.
type Season struct {
	Period    time.Duration
	Harmonics int
}

// DefaultSeasons returns four harmonics of the day and three of the week.
func DefaultSeasons() []Season {
	return []Season{{24 * time.Hour, 4}, {168 * time.Hour, 3}}
}

func (s Season) valid() error {
	if s.Period <= 0 {
		return fmt.Errorf("period: must be greater than 0, not %v", s.Period)
	}
	if s.Harmonics < 1 {
		return fmt.Errorf("harmonics: must be at least 1, not %d", s.Harmonics)
	}
	return nil
}

// harmonics returns the number of regressors of the seasons.
func harmonics(seasons []Season) int {
	n := 0
	for _, s := range seasons {
		n += 2 * s.Harmonics
	}
	return n
}

// seasonal writes the regressors of the seasons at t to dst, one season after another, cosines before sines. The phase
// is the local time, counted from midnight of 1 January 1970: daylight saving time moves the season.
func seasonal(dst []float64, seasons []Season, calendar *Calendar, t time.Time) {
	// Outside the years 1678 to 2262 this wraps around, which shifts the phase.
	wall := t.UnixNano() + calendar.offset(t)*int64(time.Second)
	for _, s := range seasons {
		phase := wall % int64(s.Period)
		sin, cos := math.Sincos(2 * math.Pi * float64(phase) / float64(s.Period))
		k := s.Harmonics
		c, d := dst[:k], dst[k:2*k]
		dst = dst[2*k:]
		c[0], d[0] = cos, sin
		for i := 1; i < k; i++ { // by angle addition
			c[i] = c[i-1]*cos - d[i-1]*sin
			d[i] = d[i-1]*cos + c[i-1]*sin
		}
	}
}
