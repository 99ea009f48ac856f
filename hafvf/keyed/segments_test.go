package keyed

import (
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

// The default odds are lower for segments of families in which one observation carries little information.
func TestDefaultOdds(t *testing.T) {
	member := hafvf.DefaultMember()
	var got []float64
	for _, filter := range []hafvf.Config{{Family: "poisson"}, {Family: "normal"}, {Family: "bernoulli", Member: &member}} {
		got = append(got, SmoothConfig{Filter: filter}.DefaultOdds())
	}
	expect.Same(t, []float64{4, 10, 10}, got)
}

// The smoother of levels reports each change with its interval.
func TestChangesOfPasses(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 8))
	var observations []Observation
	for i := range 90 {
		observations = append(observations, Value(time.Unix(int64(i), 0).UTC(), "", rng.NormFloat64()+float64(i/30%2*9)))
	}
	member := &hafvf.Member{Levels: []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 1, Beta: 1}}, Top: 1}
	var changes []int
	for i, s := range smoothed(t, SmoothConfig{Filter: hafvf.Config{Family: "normal", Member: member}, Gap: time.Minute}, observations) {
		if !s.Change {
			continue
		}
		changes = append(changes, i)
		if n, p := int64(i+1), s.ChangeInterval; n < p.FromN || n > p.ToN {
			t.Errorf("a change at %d is in the interval %+v", n, p)
		}
	}
	expect.Same(t, []int{30, 60}, changes)
}
