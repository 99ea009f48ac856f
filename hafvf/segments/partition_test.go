package segments

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
)

// A recursionTrace is the result of an independent implementation for a session, before its edges are judged
// again.
type recursionTrace struct {
	Family       string
	Prior        expfam.Params
	X            []float64
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
			b := newBuffers(g.lanes, len(g.stepIndex))
			if s.banks[0] != nil {
				s.findAccidents(g)
			}
			near("log posterior", 0, s.findEdges(g, b), want.LogPosterior)
			if !slices.Equal(g.edges, want.Changes) {
				t.Fatalf("edges %v, want %v", g.edges, want.Changes)
			}
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

// Odds are a price of every change under each hazard, and no change has a probability above one half.
func TestOddsPriceEveryHazard(t *testing.T) {
	for _, n := range []int{1, 5, 19, 200, 6000, 1e6} {
		rare := 1 / (2 * float64(min(max(n, 20), 10_000)))
		for _, odds := range []float64{.01, 1, 3, 10, 1000, 1e6} {
			for _, c := range []struct {
				prices  prices
				hazards []float64
			}{{newPrices(odds, n), []float64{rare, 1. / 40}}, {levelPrices(odds, n), []float64{rare, 1. / 40, 1. / 6}}} {
				for h, hazard := range c.hazards {
					stay := math.Log1p(-hazard)
					if want := min(math.Log(hazard)-math.Log(odds/10), stay); math.Abs(c.prices.change[h]-want) > 1e-12 || math.Abs(c.prices.stay[h]-stay) > 1e-12 || stay < math.Log(.5) {
						t.Errorf("n %d, odds %g: %+v", n, odds, c.prices)
					}
				}
			}
		}
	}
}

// A session that is cut into parts has the same segments, accidents and places as in one pass, for every
// family.
func TestSegmentEqualsSmooth(t *testing.T) {
	for _, c := range familytest.All() {
		t.Run(c.Name, func(t *testing.T) {
			m := c.New(t)
			rng := rand.New(rand.NewPCG(8, 20))
			steps := c.Steps(m, rng, 300, func(i int, x []float64) {
				if i >= 97 && i < 130 || i >= 200 {
					x[len(x)-1] += shiftOf[c.Name]
				}
			})
			s := NewSegmenter(m, 10)
			whole := s.Smooth(steps)
			if _, shifts := shiftOf[c.Name]; shifts && len(whole.edges) < 2 {
				t.Errorf("edges %v", whole.edges)
			}
			for _, cuts := range [][]int{{150}, {97}, {96, 131}, {100, 101, 101, 205}, {7, 20, 40, 90, 98, 120, 240, 297}} {
				var parts [][][][]float64
				from := 0
				for _, end := range append(cuts, len(steps)) {
					parts = append(parts, steps[from:end])
					from = end
				}
				from = 0
				var changes []int
				var places []expfam.ChangeInterval
				var regular []float64
				for _, g := range s.Segment(parts...) {
					for _, c := range g.Changes() {
						changes = append(changes, from+c)
					}
					for _, p := range g.Places() {
						p.From, p.To = p.From+from, p.To+from
						places = append(places, p)
					}
					regular = append(regular, g.regular...)
					s.Estimate(g)
					for i := range g.Len() {
						p, q := m.Memory(g.Sample(i)), m.Memory(whole.Sample(from+i))
						if !g.Missing[i] && math.Abs(p-q) > 1e-9*(1+q) {
							t.Errorf("cuts %v: memory %g at %d, of the whole %g", cuts, p, from+i, q)
						}
					}
					from += g.Len()
				}
				expect.Same(t, whole.Changes(), changes, cuts, "changes")
				expect.Same(t, whole.Places(), places, cuts, "places")
				expect.Same(t, whole.regular, regular, cuts, "regular")
			}
		})
	}
}

// shiftOf is a change that is found, for families in which a value can shift.
var shiftOf = map[string]float64{"normal": 12, "ar": 12, "poisson": 40}
