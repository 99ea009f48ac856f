package keyed

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/segments"
	"hafvf/internal/testing/expect"
)

func smoothed(t *testing.T, cfg SmoothConfig, observations []Observation) (records []Smoothed) {
	t.Helper()
	sm := expect.Get(NewSmoother(cfg))(t)
	sm.Smooth("k", observations, 0, func(s Smoothed) { records = append(records, s) })
	return records
}

// Records equal the results of the segmenter for the session.
func TestSegmented(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	m := expect.Get(expfam.New("normal", nil, 0))(t)
	var observations []Observation
	var steps [][][]float64
	for i := range 60 {
		x := rng.NormFloat64() + float64(i/20*6)
		if i == 47 {
			x += 9
		}
		observations = append(observations, Value(time.Unix(int64(i), 0).UTC(), "", x))
		steps = append(steps, [][]float64{{x}})
	}
	g := segments.NewSegmenter(m, 10).Smooth(steps)
	expect.Same(t, []int{20, 40}, g.Changes())
	cfg := SmoothConfig{Filter: hafvf.Config{Family: "normal"}, Gap: 10 * time.Second}
	for i, got := range smoothed(t, cfg, observations) {
		k := i / 20
		var mean, sd, scatter [1]float64
		g.PredictSegment(mean[:], scatter[:], k, i)
		g.SegmentEstimate(mean[:], sd[:], k, i)
		want := Segment{Start: observations[20*k].Point(), N: 20, Estimate: Moments{mean[:], sd[:]}, Scatter: scatter[:], Before: got.Segment.Before}
		expect.Same(t, want, *got.Segment, i)
		expect.Same(t, Moments{g.Mean(i), g.SD(i)}, got.Estimate, i)
		posterior := make([]float64, 4)
		m.Posterior(posterior, g.Sample(i))
		expect.Same(t, posterior, got.Posterior, i)
		expect.Same(t, [...]float64{m.Memory(g.Sample(i)), g.Outlier(i)}, [...]float64{got.Memory, got.Outlier}, i)
		expect.Same(t, i > 0 && i%20 == 0, got.Change, i)
	}
}

// A segment can extend over the parts of a long session, and a change at the border of two parts is found.
func TestSegmentsAcrossParts(t *testing.T) {
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
			start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			var observations []Observation
			for _, regime := range c.regimes {
				for range c.length {
					observations = append(observations, Value(start.Add(time.Duration(len(observations))*time.Second), "", 6*regime+rng.NormFloat64()))
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
				if distance := math.Abs(s.Estimate.Mean[0] - w.Estimate.Mean[0]); !(distance <= .3*w.Estimate.SD[0]) {
					t.Errorf("estimate %d is %g sd from that of the whole session", i, distance/w.Estimate.SD[0])
				}
				if s.Segment.Start.Compare(w.Segment.Start) != 0 || s.Segment.N != w.Segment.N {
					t.Errorf("segment %+v at %d, in the whole session %+v", s.Segment, i, w.Segment)
				}
			}
			expect.Same(t, c.edges, edges, "edges")
		})
	}
}

// The default odds are lower for segments of families in which one observation carries little information.
func TestDefaultOdds(t *testing.T) {
	member := hafvf.DefaultMember()
	var got []float64
	for _, filter := range []hafvf.Config{{Family: "poisson"}, {Family: "normal"}, {Family: "bernoulli", Member: &member}} {
		got = append(got, SmoothConfig{Filter: filter}.DefaultOdds())
	}
	expect.Same(t, []float64{4, 10, 10}, got)
}
