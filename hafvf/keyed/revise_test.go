package keyed

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/internal/testing/expect"
)

// If a session grows, records of the growing segment are not Changed if their estimates are the same, although the
// length and the mean of the segment change.
func TestReviseGrowingSegment(t *testing.T) {
	sm := expect.Get(NewSmoother(SmoothConfig{Filter: hafvf.Config{Family: "normal"}, Gap: time.Hour}))(t)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rng := rand.New(rand.NewPCG(1, 31))
	var observations []Observation
	for i := range 8020 {
		level := 2 * math.Sin(float64(i)/80) // distant observations carry no information about it
		observations = append(observations, Value(start.Add(time.Duration(i)*time.Second), "", level+rng.NormFloat64()))
	}
	old := map[string]Smoothed{}
	first := slices.Clone(observations[:8000])
	sm.Revise("k", first, 0, nil, func(s Smoothed) { old[s.ID] = s })
	unchanged, grown := 0, 0
	sm.Revise("k", observations, 1, [][]Observation{first}, func(s Smoothed) {
		prev, known := old[s.ID]
		if !known || s.Changed {
			if !s.Changed {
				t.Errorf("%s is new, but not Changed", s.ID)
			}
			return
		}
		unchanged++
		if s.Segment.N > prev.Segment.N {
			grown++
		}
		if s.Segment.Start.Compare(prev.Segment.Start) != 0 || s.Change != prev.Change {
			t.Errorf("%s is not Changed, but in another segment", s.ID)
		}
		if distance := math.Abs(s.Estimate.Mean[0] - prev.Estimate.Mean[0]); distance > .01*s.Estimate.SD[0] {
			t.Errorf("%s is not Changed, but differs by %g sd", s.ID, distance/s.Estimate.SD[0])
		}
	})
	if grown < 1000 {
		t.Errorf("%d records unchanged, %d of them in the growing segment", unchanged, grown)
	}
}
