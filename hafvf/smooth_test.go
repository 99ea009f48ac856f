package hafvf_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
)

// The smoothed posterior is fθ + bθ − ΣT − θ₀ of two separate filters, for every family and depth, with missing
// values and several observations per step.
func TestSmoothIsForwardPlusBackward(t *testing.T) {
	for _, c := range familytest.All() {
		for depth := range 4 {
			t.Run(fmt.Sprintf("%s/levels=%d", c.Name, depth), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(7, uint64(depth)))
				m := c.New(t)
				_, sequential := m.(expfam.Sequential)
				f := hafvf.NewFilter(m, levels(min(depth, 3)), []float64{.9, .75, 1, .999}[depth])
				steps := c.Steps(m, rng, 60, func(i int, x []float64) {
					if i > 30 && c.Name == "normal" {
						x[0] += 6
					}
				})
				// Rows, which a model without its own memory accepts in any order.
				rows, plain := steps, m
				if sequential {
					rows, plain = familytest.ARRows(steps), familytest.New(t, "regression", expfam.Params{"mean": []float64{0, 0, 0}})
				}
				g := hafvf.NewFilter(plain, levels(min(depth, 3)), []float64{.9, .75, 1, .999}[depth])
				run := func(order []int) [][]float64 {
					s := g.NewState()
					out := make([][]float64, len(rows))
					for _, i := range order {
						g.Update(s, rows[i]...)
						out[i] = c.Natural(familytest.Posterior(plain, g.Sample(s)))
					}
					return out
				}
				order := make([]int, len(rows))
				for i := range order {
					order[i] = i
				}
				forward := run(order)
				slices.Reverse(order)
				backward := run(order)

				prior := c.Natural(familytest.Posterior(m, make([]float64, m.Len())))
				got := f.Smooth(steps)
				for i, step := range rows {
					want := make([]float64, len(prior))
					size := make([]float64, len(prior))
					for k := range want {
						want[k] = forward[i][k] + backward[i][k] - prior[k]
						size[k] = 1 + math.Abs(forward[i][k]) + math.Abs(backward[i][k])
					}
					j := 0.0
					for _, x := range step {
						if !familytest.AnyMissing(x) {
							if counted, ok := m.(expfam.Counted); ok {
								j += counted.Trials(x)
							} else {
								j++
							}
							for k, v := range c.Statistics(x) {
								want[k] -= v
							}
						}
					}
					for k, v := range c.Natural(familytest.Posterior(m, got.Sample(i))) {
						if math.Abs(v-want[k]) > 1e-12*size[k] {
							t.Fatalf("step %d: natural parameter %d is %.17g, want %.17g", i, k, v, want[k])
						}
					}
					if a, b := got.Memory(i), got.Forward(i).Memory+got.Backward(i).Memory-j; math.Abs(a-b) > 1e-12*(1+b) {
						t.Fatalf("step %d: memory %g, forward + backward − J is %g", i, a, b)
					}
				}
			})
		}
	}
}

// The evidence equals the formula of Posteriors.Evidence, computed from the normal's log-partition.
func TestEvidence(t *testing.T) {
	m := familytest.New(t, "normal", expfam.Params{"kappa": .5})
	logPartition := func(theta []float64) float64 {
		kappa, alpha := theta[1], theta[3]/2
		beta := (theta[2] - theta[0]*theta[0]/kappa) / 2
		g, _ := math.Lgamma(alpha)
		return g - alpha*math.Log(beta) - math.Log(kappa)/2
	}
	rng := rand.New(rand.NewPCG(9, 1))
	var steps [][][]float64
	for i := range 80 {
		steps = append(steps, [][]float64{{rng.NormFloat64() + 3*float64(i/40)}})
	}
	f := hafvf.NewFilter(m, []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 1, Beta: 1}}, 1)
	s := f.Smooth(steps)
	theta := func(d []float64) []float64 { return familytest.Of("normal").Natural(familytest.Posterior(m, d)) }
	prior := theta(make([]float64, m.Len()))
	for i := 1; i < s.Len(); i++ {
		before, after := theta(f.Sample(s.Forward(i-1).State)), theta(f.Sample(s.Backward(i).State))
		both := make([]float64, len(prior))
		for k := range both {
			both[k] = before[k] + after[k] - prior[k]
		}
		want := logPartition(before) + logPartition(after) - logPartition(both) - logPartition(prior)
		if math.Abs(s.Evidence[i]-want) > 1e-10 {
			t.Fatalf("evidence at %d is %.15g, want %.15g", i, s.Evidence[i], want)
		}
	}
	expect.Same(t, []int{40}, hafvf.Changes(s.Evidence, 10), "changes")
}

// If values are missing around a change, the change is at the end of the gap.
func TestEvidenceOverAGap(t *testing.T) {
	var steps [][][]float64
	for i := range 40 {
		x := 5 * float64(i/20)
		if i >= 18 && i < 25 {
			x = math.NaN()
		}
		steps = append(steps, [][]float64{{x + 0.1*float64(i%3)}})
	}
	f := hafvf.NewFilter(familytest.New(t, "normal", nil), []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 1, Beta: 1}}, 1)
	expect.Same(t, []int{25}, hafvf.Changes(f.Smooth(steps).Evidence, 10), "changes")
}

func TestChanges(t *testing.T) {
	nan, ten := math.NaN(), math.Log(10)
	for _, c := range []struct {
		evidence []float64
		want     []int
	}{
		{nil, nil},
		{[]float64{nan}, nil},
		{[]float64{nan, ten}, nil}, // equal to the threshold is not above it
		{[]float64{nan, 3, 5, 4, 1, 3}, []int{2, 5}},
		{[]float64{nan, 3, 4, 4, 3}, []int{3}},
		{[]float64{nan, 4, nan, 4}, []int{1, 3}},
	} {
		expect.Same(t, c.want, hafvf.Changes(c.evidence, 10), c.evidence)
	}
}

// Smoothing a long session gives the same result on one goroutine and on two, for every family.
func TestSmoothIsTheSameOnAnyNumberOfGoroutines(t *testing.T) {
	familytest.SameOnAnyNumberOfGoroutines(t, 0, func(m expfam.Model, steps [][][]float64) (results []string) {
		s := hafvf.NewFilter(m, levels(2), 1).Smooth(steps)
		for i := range steps {
			results = append(results, fmt.Sprint(s.Evidence[i], s.Missing[i], s.Sample(i), s.Forward(i), s.Backward(i)))
		}
		return append(results, fmt.Sprint(s.NotConverged))
	})
}

// BenchmarkSmooth shows that the time per observation does not grow with the length.
func BenchmarkSmooth(b *testing.B) {
	m := familytest.New(b, "normal", nil)
	for _, n := range []int{1e3, 1e4, 1e5, 1e6} {
		for _, kind := range []string{"stationary", "jumping"} {
			steps := familytest.SingleStream(kind, n)
			b.Run(fmt.Sprintf("%s/n=%d", kind, n), func(b *testing.B) {
				f := hafvf.NewFilter(m, []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 1, Beta: 1}}, 1)
				b.ReportAllocs()
				for b.Loop() {
					f.Smooth(steps)
				}
				b.ReportMetric(b.Elapsed().Seconds()/float64(b.N*n)*1e9, "ns/observation")
			})
		}
	}
}
