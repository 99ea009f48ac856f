package segments

import (
	"math"

	"hafvf/hafvf/expfam"
)

// sizes measures the distances between the levels of a session, to which its changes are compared. A level is
// the mean m and the standard deviation s of an observation in a segment, and the size δ of a change is the
// distance of two levels,
//
//	δ² = (m − m′)² + (s − s′)²
//
// which is the Wasserstein distance of normal distributions. With the variance V of the levels over the
// observations of the session, a change has the prior density
//
//	p(δ) ∝ max(exp(−V/δ²), e⁻²⁵)
//
// relative to the prior without sizes: an inverse moment prior (Johnson and Rossell 2010), under which a change
// that is small compared to the other changes of its session is improbable. If all changes have about the same
// size, the prior reduces the evidence by less than a nat. The bound keeps clear changes next to a sensor
// fault, however large the fault makes V. With several outputs, the output with the largest change counts.
type sizes struct {
	model    expfam.Model
	variance []float64    // V per output
	moments  [4][]float64 // scratch: mean and standard deviation on both sides
}

// smallest is the log prior of the smallest change.
const smallest = -25.

// newSizes returns the sizes of blocks. It returns nil if the model has regressors, because a level is then
// undefined.
func newSizes(m expfam.Model, blocks []block) *sizes {
	n := m.Outputs()
	z := &sizes{model: m, variance: make([]float64, n)}
	if _, regressive := m.(expfam.Regressive); regressive {
		return nil
	}
	for i := range z.moments {
		z.moments[i] = make([]float64, n)
	}
	mean, sd, total := make([]float64, n), make([]float64, n), 0.
	for k := range blocks {
		b := &blocks[k]
		if b.regular == 0 {
			continue
		}
		z.level(0, b)
		// Welford's update of both means and of the variance.
		total += b.regular
		for o := range n {
			dm, ds := z.moments[0][o]-mean[o], z.moments[1][o]-sd[o]
			mean[o] += dm * b.regular / total
			sd[o] += ds * b.regular / total
			z.variance[o] += b.regular * (dm*(z.moments[0][o]-mean[o]) + ds*(z.moments[1][o]-sd[o]))
		}
	}
	for o := range n {
		z.variance[o] /= total
	}
	return z
}

// level writes the level of a block to the moments i and i+1.
func (z *sizes) level(i int, b *block) {
	z.model.Predict(z.moments[i], z.moments[i+1], b.d, 1, nil)
}

// logPrior returns log p(δ) of a change between two blocks. Outputs with an undefined level count as 0.
func (z *sizes) logPrior(before, after *block) float64 {
	z.level(0, before)
	z.level(2, after)
	best := math.Inf(-1)
	for o, v := range z.variance {
		dm, ds := z.moments[0][o]-z.moments[2][o], z.moments[1][o]-z.moments[3][o]
		p := math.Max(smallest, -v/(dm*dm+ds*ds))
		if p != p {
			p = 0
		}
		best = math.Max(best, p)
	}
	return best
}
