package expfam_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/familytest"
)

// ChangeIntervals equals a plain sum over the places of every change, for every family.
func TestChangeIntervals(t *testing.T) {
	const n = 50
	changes := []int{12, 30, 31}
	for _, c := range familytest.All() {
		t.Run(c.Name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 5))
			m := c.New(t)
			var steps [][][]float64
			for range n {
				steps = append(steps, [][]float64{c.Vector(m, rng)})
			}
			rows := expfam.NewRows(m)
			observe := func(d []float64, i int) {
				for _, row := range rows.At(nil, steps, i) {
					if !familytest.AnyMissing(row) {
						m.Observe(d, row, 1)
					}
				}
			}
			logPartition := func(from, end int) float64 { // minus the value without observations
				d := make([]float64, m.Len())
				for i := from; i < end; i++ {
					observe(d, i)
				}
				line := m.NewLine()
				line.Set(make([]float64, m.Len()), d)
				return line.Gain(1)
			}
			got := expfam.ChangeIntervals(m, n, changes, observe)
			for k, change := range changes {
				from, end := 0, n
				if k > 0 {
					from = changes[k-1]
				}
				if k+1 < len(changes) {
					end = changes[k+1]
				}
				sum, q := 0., make([]float64, end)
				for s := from + 1; s < end; s++ {
					q[s] = math.Exp(logPartition(from, s) + logPartition(s, end) - logPartition(from, end))
					sum += q[s]
				}
				p := got[k]
				if want := math.Log(sum); math.Abs(p.Evidence-want) > 1e-9 {
					t.Errorf("evidence %g, want %g", p.Evidence, want)
				}
				if !(p.From > from && p.From <= change && change <= p.To && p.To < end) {
					t.Errorf("from %d to %d, a change at %d between %d and %d", p.From, p.To, change, from, end)
				}
				within := 0.
				for s := p.From; s <= p.To; s++ {
					within += q[s]
				}
				if want := within / (sum + n - 1); math.Abs(p.Probability-want) > 1e-9 {
					t.Errorf("probability %g, want %g", p.Probability, want)
				}
				// Half of the probability at a bound counts, unless the change itself is the bound.
				before, after := q[p.From]/2, q[p.To]/2
				for s := range q {
					if s < p.From {
						before += q[s]
					}
					if s > p.To {
						after += q[s]
					}
				}
				if p.From < change && before <= .025*sum || p.To > change && after <= .025*sum {
					t.Errorf("from %d to %d leaves %g and %g", p.From, p.To, before/sum, after/sum)
				}
				// The middle of the probability that is left out lies in the tails.
				below, above := before-q[p.From]/2-q[p.From-1]/2, after-q[p.To]/2
				if p.To+1 < end {
					above -= q[p.To+1] / 2
				}
				if limit := .025*sum + 1e-9; below > limit || above > limit {
					t.Errorf("from %d to %d leaves out %g and %g", p.From, p.To, below/sum, above/sum)
				}
			}
		})
	}
}
