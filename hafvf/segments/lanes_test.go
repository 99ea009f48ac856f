package segments

import (
	"flag"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
)

// The change evidence of a lane is the log Bayes factor of two samples against one, for every family. The log
// marginal likelihoods of observations with the lane's weights come from a Line.
func TestEvidenceIsTheBayesFactor(t *testing.T) {
	const n = 6
	for _, c := range familytest.All() {
		m := c.New(t)
		l := newLanes(m)
		rng := rand.New(rand.NewPCG(1, 20))
		var x [][][]float64
		for range 2 * n {
			x = append(x, [][]float64{c.Vector(m, rng)})
		}
		g := NewSegmenter(m, 10).newSegmentation(nil, x)
		g.regular[3] = .4
		total := len(g.stepIndex) // a sequential model has no row for its first steps
		before, after := l.newSet(), l.newSet()
		l.forward(before, g, 0, n)
		l.backward(after, g, 0, n, total)
		rows := expfam.NewRows(m)
		for lane, w := range laneWeights {
			marginal := func(from, end int) float64 {
				d := make([]float64, m.Len())
				for i := from; i < end; i++ {
					for _, row := range rows.At(nil, x, g.stepIndex[i]) {
						m.Observe(d, row, g.regular[i]*math.Pow(w, float64(max(n-1-i, i-n))))
					}
				}
				line := m.NewLine()
				line.Set(make([]float64, m.Len()), d)
				return line.Gain(1)
			}
			want := marginal(0, n) + marginal(n, total) - marginal(0, total)
			if got := l.laneEvidence(lane, before, after); math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
				t.Errorf("%s, lane %g: evidence %.12g, want %.12g", c.Name, w, got, want)
			}
		}
	}
}

// prune, which joins blocks, gives the same result as recomputing every block from its observations.
func TestPruneRemovesLeastEvidence(t *testing.T) {
	m := familytest.New(t, "normal", nil)
	rng := rand.New(rand.NewPCG(3, 20))
	for range 30 {
		n := 66 + 30*rng.IntN(4) + rng.IntN(20) // ends with a long block
		var x [][][]float64
		for i := range n {
			x = append(x, [][]float64{{rng.NormFloat64() + 3*float64(i/30%2)}})
		}
		s := NewSegmenter(m, 10)
		g := s.newSegmentation(nil, x)
		b := newBuffers(g.lanes, n)
		var cuts []int
		for i := 1; i < n; i++ {
			if rng.IntN(4) == 0 || i%30 == 0 {
				cuts = append(cuts, i)
			}
		}
		const threshold = 5.
		blocks := s.blocks(g, b, cuts)
		// By definition: the samples of every block from its observations.
		evidence := func(from, middle, end int) float64 {
			f, a := g.lanes.newSet(), g.lanes.newSet()
			g.lanes.forward(f, g, from, middle)
			g.lanes.backward(a, g, 0, middle, end)
			p := g.sharesAt(middle)
			return g.lanes.evidence(f, a, &p)
		}
		bounds := append(append([]int{0}, cuts...), n)
		for len(bounds) > 2 {
			weakest, index := math.Inf(1), 0
			for k := 1; k+1 < len(bounds); k++ {
				if e := evidence(bounds[k-1], bounds[k], bounds[k+1]); e < weakest {
					weakest, index = e, k
				}
			}
			if weakest > threshold {
				break
			}
			bounds = append(bounds[:index:index], bounds[index+1:]...)
		}
		var got []int
		for _, k := range g.lanes.prune(blocks, nil, threshold) {
			got = append(got, blocks[k].from)
		}
		expect.Same(t, bounds[1:len(bounds)-1], got, "edges")
	}
}

// Smoothing allocates at most 31 floats per observation, for any length of the session and any number of
// changes.
func TestSmootherMemory(t *testing.T) {
	n := 30_000
	if flag.Lookup("long").Value.String() == "true" {
		n = 1_000_000
	}
	m := familytest.New(t, "normal", nil)
	for _, every := range []int{2000, n / 2} {
		rng := rand.New(rand.NewPCG(4, 20))
		steps := make([][][]float64, n)
		for i := range steps {
			steps[i] = [][]float64{{rng.NormFloat64() + 5*float64(i/every%3)}}
		}
		s := NewSegmenter(m, 10)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		g := s.Smooth(steps)
		runtime.ReadMemStats(&after)
		if want := (n - 1) / every; len(g.Changes()) != want {
			t.Errorf("%d changes of %d", len(g.Changes()), want)
		}
		if floats := float64(after.TotalAlloc-before.TotalAlloc) / 8 / float64(n); floats > 31 {
			t.Errorf("%g floats an observation", floats)
		}
	}
}
