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

// Of a session that goes on, the records of the segment that grows are unchanged where
// their estimates are: what its end adds to the segment's length and mean is no change.
func TestReviseGrowingSegment(t *testing.T) {
	sm := expect.Get(NewSmoother(SmoothConfig{Filter: hafvf.Config{Family: "normal"}, Gap: time.Hour}))(t)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rng := rand.New(rand.NewPCG(1, 31))
	var observations []Observation
	for i := range 8020 {
		level := 2 * math.Sin(float64(i)/80) // what is far tells nothing of it
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
				t.Errorf("%s is new and not changed", s.ID)
			}
			return
		}
		unchanged++
		if s.Segment.N > prev.Segment.N {
			grown++
		}
		if s.Segment.Start.Compare(prev.Segment.Start) != 0 || s.Change != prev.Change {
			t.Errorf("%s is not changed, and in another segment", s.ID)
		}
		if distance := math.Abs(s.Estimate.Mean[0] - prev.Estimate.Mean[0]); distance > .01*s.Estimate.SD[0] {
			t.Errorf("%s is not changed, and off by %g sd", s.ID, distance/s.Estimate.SD[0])
		}
	})
	if grown < 1000 {
		t.Errorf("%d records unchanged, %d of them of the segment that grew", unchanged, grown)
	}
}
