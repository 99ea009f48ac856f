package segments

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/familytest"
)

// A recursionTrace is what an independent implementation makes of a session before its edges are
// judged once more.
type recursionTrace struct {
	Family       string
	Prior        expfam.Params
	X            []float64
	Candidates   []int
	Changes      []int
	LogPosterior float64 `json:"log_posterior"`
	Accident     []float64
	Places       []struct {
		At, From, To          int
		Evidence, Probability float64
	}
	Mean, SD []float64
}

func TestRecursionReproducesTheTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/recursion/*.json")
	if err != nil || len(files) != 8 {
		t.Fatalf("%d traces, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			var want recursionTrace
			familytest.ReadJSON(t, file, &want)
			near := func(what string, i int, a, b float64) {
				if !(math.Abs(a-b) <= 1e-9*(1+math.Abs(b))) {
					t.Errorf("%s %d is %.12g, want %.12g, by %g", what, i, a, b, a-b)
				}
			}
			s := NewSegmenter(familytest.New(t, want.Family, want.Prior), 10)
			g := s.newSegmentation(nil, familytest.Single(want.X))
			b := newBuffers(g.lanes, len(g.at))
			if s.banks[0] != nil {
				s.findAccidents(g, b)
			}
			s.findEdges(g, b)
			if !slices.Equal(g.edges, want.Changes) {
				t.Fatalf("edges %v, want %v", g.edges, want.Changes)
			}
			blocks := s.blocks(g, b, want.Candidates)
			_, logPosterior := g.lanes.partition(blocks, newPrices(10, len(g.at)))
			near("log posterior", 0, logPosterior, want.LogPosterior)
			g.shares = nil
			s.finish(g)
			s.estimate(g, b)
			for k, p := range g.Places() {
				q := want.Places[k]
				if p.From != q.From || p.To != q.To {
					t.Errorf("place %d is %d to %d, want %d to %d", k, p.From, p.To, q.From, q.To)
				}
				near("evidence of place", k, p.Evidence, q.Evidence)
				near("probability of place", k, p.Probability, q.Probability)
			}
			for i := range want.X {
				near("mean at", i, g.Mean(i)[0], want.Mean[i])
				near("sd at", i, g.SD(i)[0], want.SD[i])
				near("accident at", i, g.Outlier(i), want.Accident[i])
			}
		})
	}
}
