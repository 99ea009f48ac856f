package keyed

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/internal/testing/expect"
)

func smoothed(t *testing.T, cfg SmoothConfig, observations []Observation) (all []Smoothed) {
	t.Helper()
	sm := expect.Get(NewSmoother(cfg))(t)
	sm.Smooth("k", observations, 0, func(s Smoothed) { all = append(all, s) })
	return all
}

// A segment goes on over the cuts of a long session, and an edge at a cut is one.
func TestSegmentsGoOnOverCuts(t *testing.T) {
	for name, c := range map[string]struct {
		length  int
		regimes []float64
		max     int
		edges   []int
	}{
		"no edge":           {100, []float64{0, 0, 0, 0}, 50, nil},
		"at the cut":        {100, []float64{0, 0, 1, 1}, 100, []int{200}},
		"not at a cut":      {100, []float64{0, 1, 1, 1}, 200, []int{100}},
		"in every part":     {100, []float64{0, 1, 0, 1}, 150, []int{100, 200, 300}},
		"also at the cut":   {100, []float64{0, 1, 0, 1}, 200, []int{100, 200, 300}},
		"just after a cut":  {202, []float64{0, 1}, 200, []int{202}},
		"just before a cut": {198, []float64{0, 1, 1}, 200, []int{198}},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(c.length), 7))
			begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			var observations []Observation
			for _, regime := range c.regimes {
				for range c.length {
					observations = append(observations, Value(begin.Add(time.Duration(len(observations))*time.Second), "", 6*regime+rng.NormFloat64()))
				}
			}
			observations = observations[:400]
			cfg := SmoothConfig{Filter: hafvf.Config{Family: "normal"}, Gap: 10 * time.Second}
			whole := smoothed(t, cfg, observations)
			cfg.Max = c.max
			var edges []int
			for i, s := range smoothed(t, cfg, observations) {
				if s.Change {
					edges = append(edges, i)
				}
				w := whole[i]
				if s.Missing != w.Missing || s.Split == "" {
					t.Errorf("missing %t, split %q at %d", s.Missing, s.Split, i)
				}
				if i > 0 && math.IsNaN(s.ChangeEvidence) {
					t.Errorf("no evidence at %d", i)
				}
				if far := math.Abs(s.Estimate.Mean[0] - w.Estimate.Mean[0]); !(far <= .3*w.Estimate.SD[0]) {
					t.Errorf("estimate %d is %g sd from that of the whole session", i, far/w.Estimate.SD[0])
				}
				if !s.Segment.Start.Equal(w.Segment.Start) || s.Segment.N != w.Segment.N {
					t.Errorf("segment %+v at %d, in the whole session %+v", s.Segment, i, w.Segment)
				}
			}
			expect.Same(t, c.edges, edges, "edges")
		})
	}
}
