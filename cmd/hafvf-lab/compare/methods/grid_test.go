package methods

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A grid equals its definition, written out. A grid with equal weights equals forgetting at that weight.
func TestGrid(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 4))
	s := standard(t, "normal")
	m := s.Model
	weights := []float64{0, .7, .95, 1}
	f, same, fixed := newGrid(s, weights, .9), newGrid(s, []float64{.9, .9}, .9), newForgetting(s, .9)
	counts, d := make([]float64, len(weights)), make([]float64, m.Len())
	line := m.NewLine()
	for i := range 200 {
		x := rng.NormFloat64() + 4*float64(i/50%2)
		row, stats := []float64{x}, make([]float64, m.Len())
		m.Observe(stats, row, 1)
		line.Set(d, stats)
		total, sum, mean := float64(len(counts)), 0.0, 0.0
		for _, n := range counts {
			total += .9 * n
		}
		p := make([]float64, len(counts))
		for k, w := range weights {
			p[k] = (1 + .9*counts[k]) / total * math.Exp(line.Gain(w)+m.LogBase(row))
			sum += p[k]
		}
		for k, w := range weights {
			counts[k] = .9*counts[k] + p[k]/sum
			mean += p[k] / sum * w
		}
		m.Scale(d, mean)
		m.Observe(d, row, 1)
		step, a, b := f.Update(x), same.Update(x), fixed.Update(x)
		if math.Abs(step.LogPredictive-math.Log(sum)) > 1e-10 || math.Abs(m.Memory(f.d)-m.Memory(d)) > 1e-10*m.Memory(d) {
			t.Fatalf("step %d: log predictive %v and memory %v, want %v and %v", i, step.LogPredictive, m.Memory(f.d), math.Log(sum), m.Memory(d))
		}
		if memory := m.Memory(fixed.d); math.Abs(a.LogPredictive-b.LogPredictive) > 1e-10 || math.Abs(m.Memory(same.d)-memory) > 1e-10*memory {
			t.Fatalf("step %d: %+v and memory %v, want %+v and %v", i, a, m.Memory(same.d), b, memory)
		}
	}
	for k, n := range f.counts {
		near(t, n, counts[k], 1e-10, "weight ", weights[k])
	}
}
