package usual

import (
	"math"

	"hafvf/internal/compact"
	"hafvf/internal/linear"
)

// A joint scores the coordinates of a vector together, so that a Profile detects a change of their dependence. The
// residuals r of the last view, in its standard deviations, have the covariance
//
//	S = (Σrrᵀ + 10·I)/(Σ1 + 10)
//
// with sums that are multiplied by w = .9998 before an observation. The surprise is the normal equivalent of the
// Mahalanobis distance m = rᵀS⁻¹r of k coordinates (Wilson and Hilferty 1931, PNAS 17, 684),
//
//	z = ((m/k)^⅓ − 1 + 2/(9k))·√(9k/2)  within −3 … 18.5
//
// It has a running mean, a calibrator and a tail as the views have; z + 3 takes the place of their surprise. They begin
// after 50 observations, when S is known, and are scored after 50 more. A residual with m above k + 4·√(2k) is learned at that distance.
//
// The sums Σrrᵀ are learned in the precision of their encoding.
type joint struct {
	residuals []float64
	factor    [][]float64 // rows of L, S = LLᵀ
	solved    []float64   // L⁻¹r
}

const (
	jointPrior  = 10. // observations of independent residuals
	jointBound  = 4.  // standard deviations of m above its mean
	minSurprise = -3.
	jointBehind = 1.5 // subtracted from the score
)

// Indices of a state. The sums are the lower triangle of Σrrᵀ by rows.
const (
	jointWeight = iota // Σ1
	jointView
	jointTail = jointView + viewLen
	jointSums = jointTail + tailLen
)

func newJoint(dim int) *joint {
	return &joint{make([]float64, dim), rowsOf(dim), make([]float64, dim)}
}

// len returns the number of floats of a state; a nil joint has none.
func (j *joint) len() int {
	if j == nil {
		return 0
	}
	return jointSums + linear.TriangleLen(len(j.residuals))
}

// distance returns m, and sets L and L⁻¹r.
func (j *joint) distance(s State) (m float64) {
	rows, total := s[jointSums:], s[jointWeight]+jointPrior
	for i, l := range j.factor {
		for k, row := range j.factor[:i] {
			l[k] = (rows[k]/total - linear.Dot(l[:k], row)) / row[k]
		}
		l[i] = math.Sqrt(max((rows[i]+jointPrior)/total-linear.Dot(l[:i], l), jointPrior/2/total))
		rows = rows[i+1:]
		v := (j.residuals[i] - linear.Dot(l[:i], j.solved)) / l[i]
		j.solved[i] = v
		m += v * v
	}
	return m
}

// learn learns residuals at the distance m.
func (j *joint) learn(s State, m float64) {
	part := 1.
	if limit := j.limit(); m > limit {
		part = limit / m
	}
	s[jointWeight] = profileForgetting*s[jointWeight] + 1
	sums := s[jointSums:]
	for i, v := range j.residuals {
		for k, u := range j.residuals[:i+1] {
			sums[k] = float64(float32(profileForgetting*sums[k] + part*v*u))
		}
		sums = sums[i+1:]
	}
}

func (j *joint) limit() float64 {
	k := float64(len(j.residuals))
	return k + jointBound*math.Sqrt(2*k)
}

// surprise returns z of the distance m.
func (j *joint) surprise(m float64) float64 {
	variance := 2 / (9 * float64(len(j.residuals)))
	return max(minSurprise, min((math.Cbrt(m/float64(len(j.residuals)))-1+variance)/math.Sqrt(variance), maxSurprise+minSurprise))
}

// pair returns the two coordinates whose residuals are least likely together, compared with each of them alone.
func (j *joint) pair(s State) (pair [2]int) {
	largest, total := math.Inf(-1), s[jointWeight]+jointPrior
	variance := func(i int) float64 { return (s[jointSums+linear.TriangleLen(i+1)-1] + jointPrior) / total }
	for i, v := range j.residuals {
		for k, u := range j.residuals[:i] {
			a, b := v*v/variance(i), u*u/variance(k)
			rho := s[jointSums+linear.TriangleLen(i)+k] / total / math.Sqrt(variance(i)*variance(k))
			m := (a + b - 2*rho*v*u/math.Sqrt(variance(i)*variance(k))) / (1 - rho*rho)
			if more := m - max(a, b); more > largest {
				largest, pair = more, [2]int{k, i}
			}
		}
	}
	return pair
}

// scoreJoint scores the residuals of the observation together, and learns them. total is the weight of the running
// means.
func (p *Profile) scoreJoint(s State, total float64) (score float64) {
	j := p.joint
	m := j.distance(s)
	n := s[jointWeight]
	if n >= warmUpWeight {
		step := ViewStep{Surprise: j.surprise(m) - minSurprise}
		view, fast, weight := s[jointView:jointTail], tail(s[jointTail:jointSums]), afterWarmUp(n)
		if weight < 1 { // the first one is the mean so far
			view[sumOfMean] = step.Surprise * (total - 1) / meanForgetting
		}
		p.calibrate(&step, view, total, weight*profileForgetting, false)
		if fast := fast.update(step.Surprise, weight, excessBound); weight >= warmUpWeight {
			score = max(step.Score, fast-fastBehind) - jointBehind
		}
	}
	j.learn(s, m)
	return score
}

// form encodes or decodes a state.
func (j *joint) form(c *compact.Codec, s State) {
	c.Pack(s[:jointSums])
	for i := range s[jointSums:] {
		c.Shorts(&s[jointSums+i])
	}
}

// valid reports whether s can be a state.
func (j *joint) valid(s State) bool {
	const slack = 1 + 1e-5 // for rounding
	n := s[jointWeight]
	view, weight := s[jointView:jointTail], max(0, afterWarmUp(n))+1
	ok := n >= 0 && n <= slack/(1-profileForgetting) && view[sumOfMean] >= 0 && view[sumOfMean] <= slack*maxSurprise/(1-meanForgetting) &&
		view[calibratorH] >= 0 && view[calibratorH] <= weight*maxSurprise && view[calibratorS] >= 0 && view[calibratorS] <= weight*maxSurprise*maxSurprise && tail(s[jointTail:jointSums]).valid(weight)
	for _, v := range s[jointSums:] {
		ok = ok && math.Abs(v) <= slack*n*maxSurprise*maxSurprise
	}
	return ok
}
