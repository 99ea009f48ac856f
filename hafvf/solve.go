package hafvf

import (
	"math"

	"hafvf/internal/beta"
	"hafvf/internal/special"
)

// The update maximises, over all Beta levels together,
//
//	L = q(m₁) − ½ V₁ f″(m₁) − Σᵢ KL(φᵢ‖priorᵢ) − ½ Σᵢ>₁ Vᵢ Sᵢ
//
// by Newton's method in the logit of every level's mean and the log of its concentration. A step is judged by
// the slope at its end, and not by the value of L, which suffers from rounding if φ is large.
const (
	tolerance      = 3e-5 // of the last Newton step; the remaining error is about its square
	maxStep        = 2
	maxIterations  = 200
	maxEvaluations = 12 // after these evaluations rounding is suspected; after four times as many, a flat maximum
)

// A mode is a local maximum of the objective, or the point at which its search ended.
type mode struct {
	point      [][2]float64
	value      float64
	residual   float64
	iterations int
	converged  bool
}

// evaluate moves the levels to z and derives the system there.
func (f *Filter) evaluate(z [][2]float64) {
	n := len(f.levels)
	f.place(z)
	for i := range f.levels {
		l := &f.levels[i]
		l.Child = f.childOf(i)
		l.Derive(&f.sys, i)
		if i+1 < n {
			l.Couple(&f.sys, i, &f.levels[i+1])
		}
	}
}

// childOf returns the child of level i, which the level weighs: the family, or the level below.
func (f *Filter) childOf(i int) beta.Child {
	if i > 0 {
		return f.levels[i-1].AsChild()
	}
	m, _ := f.levels[0].Memory()
	jet := f.line.Jet(m)
	return beta.Child{A1: jet.Q1, A2: jet.Q2, S0: jet.F2, S1: jet.F3, S2: jet.F4}
}

// climb runs Newton's method from m.point, and leaves the levels at the end point. If beat is not nil, climb
// stops once it is clear that it converges to beat or to a lower mode; m.value is then −Inf.
func (f *Filter) climb(m, beat *mode) {
	f.evaluate(m.point)
	m.converged = false
	m.iterations += f.ascend(m, beat)
}

// ascend is climb from a point at which the levels have been evaluated. It returns the number of evaluations,
// including that one.
func (f *Filter) ascend(m, beat *mode) (evaluations int) {
	n := len(f.levels)
	delta, trial := f.delta[:n], f.trial[:n]
	evaluations = 1
	for evaluations < maxIterations {
		f.sys.Solve(delta)
		slope, size := 0.0, 0.0
		for i := range n {
			l := &f.levels[i]
			u, v := delta[i][0], delta[i][1]
			if evaluations <= maxEvaluations { // later, Bend would only amplify rounding
				u, v = l.Bend(u, v)
			}
			slope += f.sys.G[i][0]*u + f.sys.G[i][1]*v
			// From (ln α, ln β) to (logit of the mean, log of the concentration).
			delta[i] = [2]float64{u - v, l.M*u + l.M1*v}
			size = max(size, math.Abs(delta[i][0]), math.Abs(delta[i][1]))
		}
		if !(size < math.Inf(1)) {
			break
		}
		m.residual = size
		if evaluations > maxEvaluations {
			// The remaining gain is slope/2.
			left := 0x1p-50 * f.scale()
			if evaluations > 4*maxEvaluations {
				left += 1e-10
			}
			if slope/2 < left {
				m.converged = true
				if size < 1e-3 {
					f.shift(m, slope)
					return evaluations
				}
				break
			}
		}
		if size < tolerance {
			m.converged = true
			f.shift(m, slope)
			return evaluations
		}
		if beat != nil && size < 1 && f.hopeless(m, beat, slope) {
			m.value = math.Inf(-1)
			return evaluations
		}
		t := min(1, maxStep/size)
		for {
			for i := range n {
				trial[i][0] = clamp(m.point[i][0] + t*delta[i][0])
				trial[i][1] = clamp(m.point[i][1] + t*delta[i][1])
			}
			f.evaluate(trial)
			evaluations++
			end := 0.0
			for i := range n {
				// ∂L/∂x and ∂L/∂y from the gradient in (ln α, ln β).
				l, g := &f.levels[i], f.sys.G[i]
				end += (l.M1*g[0]-l.M*g[1])*delta[i][0] + (g[0]+g[1])*delta[i][1]
			}
			if evaluations >= maxIterations || t*size < tolerance {
				break
			}
			if end > 0.75*slope && t*size < maxStep/4 {
				// The slope hardly changed: on a curved ridge, Newton's step is too short.
				t *= 4
				continue
			}
			if end >= -0.5*slope {
				break
			}
			// The slope changed its sign: the maximum is nearer, about where the secant puts it.
			t *= max(0.1, min(0.7, slope/(slope-end)))
		}
		copy(m.point, trial)
	}
	m.value = f.objective()
	return evaluations
}

// hopeless reports whether a climb that is about to converge, from m.point, ends at beat or below it. The
// remaining gain is about slope/2.
func (f *Filter) hopeless(m, beat *mode, slope float64) bool {
	far := 0.0
	for i := range m.point {
		far = max(far, math.Abs(m.point[i][0]-beat.point[i][0]), math.Abs(m.point[i][1]-beat.point[i][1]))
	}
	return far < 0.5 || f.objective()+2*slope < beat.value-0.5
}

// shift applies the last step, which adds half its slope to the value at the previous point. It does not update
// the levels' polygammas.
func (f *Filter) shift(m *mode, slope float64) {
	value := math.Inf(-1)
	if f.skipELBO {
		value = f.floor()
	}
	if f.bound-value < modeGap {
		m.value = value
	} else {
		m.value = f.objective() + slope/2
	}
	for i, d := range f.delta {
		m.point[i][0] += d[0]
		m.point[i][1] += d[1]
		f.levels[i].Move(m.point[i][0], m.point[i][1])
	}
}

// scale returns the size of the terms of L in nats. Differences within their rounding are meaningless.
func (f *Filter) scale() float64 {
	m, _ := f.levels[0].Memory()
	scale := math.Abs(f.line.Gain(m))
	for i := range f.levels {
		l := &f.levels[i]
		_, v := l.Memory()
		scale += v*l.Child.S0 + 8*math.Min(l.A, l.B)
	}
	return scale
}

// maxCoordinate limits the coordinates, far beyond the values of any stream with even times, so that φ and its
// polygammas remain representable.
const maxCoordinate = 100

func clamp(v float64) float64 { return max(-maxCoordinate, min(maxCoordinate, v)) }

// place moves the levels to z, and updates their priors.
func (f *Filter) place(z [][2]float64) {
	n := len(f.levels)
	for i := n - 1; i >= 0; i-- {
		l := &f.levels[i]
		l.Place(z[i][0], z[i][1])
		if i == n-1 {
			l.SetPrior(f.top, false)
		} else {
			l.SetPrior(f.levels[i+1].M, true)
		}
	}
}

// objective returns L at the last evaluated point, without Σ log h.
func (f *Filter) objective() float64 {
	m, _ := f.levels[0].Memory()
	value := f.line.Gain(m)
	for i := range f.levels {
		l := &f.levels[i]
		_, v := l.Memory()
		value -= 0.5*v*l.Child.S0 + l.Divergence()
	}
	return value
}

// floor returns a lower bound of the objective in a fraction of the time. The divergence is ½ δᵀIδ, where δ is
// the difference of φ and the prior, and I is the Fisher information at a point between them. I is at most that
// of ψ₁ alone, which falls and is at most 1/x + 1/x².
func (f *Filter) floor() float64 {
	m, _ := f.levels[0].Memory()
	value := f.line.Gain(m)
	maxDivergence := func(a, b float64) float64 {
		r, d := 1/min(a, b), a-b
		return d * d * (r + r*r)
	}
	for i := range f.levels {
		l := &f.levels[i]
		_, v := l.Memory()
		value -= 0.5 * (v*l.Child.S0 + maxDivergence(l.A, l.Prior.Alpha) + maxDivergence(l.B, l.Prior.Beta))
	}
	return value
}

// maximise finds the global maximum and leaves the levels there. It starts at the levels' priors, each moved by
// its lead. No maximum exceeds bound = max q (up to an interior maximum of q), so that maximise tries other
// starts only if the bound allows a better maximum.
func (f *Filter) maximise(bound float64, leads []float64) *mode {
	best := &f.best
	best.iterations, f.bound = 0, bound
	w := f.top
	start := f.start
	for i := len(f.levels) - 1; i >= 0; i-- {
		p := f.levels[i].PriorAt(w)
		x, y := special.Log(p.Alpha/p.Beta), special.Log(p.Alpha+p.Beta)
		start[i] = [2]float64{x, y}
		best.point[i] = [2]float64{clamp(x + leads[2*i]), clamp(y + leads[2*i+1])}
		w = p.Mean()
	}
	f.climb(best, nil)
	if best.converged && (bound-best.value < modeGap || len(f.levels) == 1 && f.room() < best.value) {
		return best
	}
	f.bound = math.NaN() // from here on, values are compared and must not be replaced by a lower bound
	// A maximum that has not forgotten can only be beaten by one that forgets.
	wide, remembers := bound-best.value > wideGap, best.point[0][0] > 0
	alpha := start[0][1] - softplus(-start[0][0])
	f.restart([2]float64{-3, alpha + softplus(3)})
	if wide || !remembers {
		beta := start[0][1] - softplus(start[0][0])
		f.restart([2]float64{3, beta + softplus(3)})
	}
	if wide {
		for _, z := range restarts {
			f.restart(z)
		}
	}
	f.evaluate(best.point)
	return best
}

// restart climbs from the levels' priors, with the first level at z, and keeps the result if it is better.
func (f *Filter) restart(z [2]float64) {
	m := &f.other
	copy(m.point, f.start)
	m.point[0] = z
	m.iterations = 0
	f.climb(m, &f.best)
	iterations := f.best.iterations + m.iterations
	if better(m, &f.best) {
		f.best, f.other = f.other, f.best
	}
	f.best.iterations = iterations
}

// means is the grid of room.
var means = [...]float64{0.01, 0.05, 0.15, 0.4, 0.8, 0.95}

// room returns an upper bound of the value of another mode of a single level: over the mean of the weight, the
// gain minus the smallest cost of that mean.
func (f *Filter) room() float64 {
	l := &f.levels[0]
	prior := l.PriorAt(f.top).Mean()
	largest, mean, gain, price := math.Inf(-1), 0.0, f.gain0, math.Inf(1)
	for j := range len(means) + 1 {
		nextMean, nextGain, nextPrice := 1.0, f.gain1, math.Inf(1)
		if j < len(means) {
			nextMean = means[j]
			nextGain, nextPrice = f.line.Gain(nextMean), l.Price(nextMean, f.top)
		}
		minPrice := min(price, nextPrice)
		if mean <= prior && prior <= nextMean {
			minPrice = 0
		}
		if l.M < mean || l.M > nextMean {
			largest = max(largest, max(gain, nextGain)-minPrice)
		}
		mean, gain, price = nextMean, nextGain, nextPrice
	}
	return largest
}

// better reports whether a is the better mode: the one with the larger value or, if the values are equal within
// rounding, the one that has converged.
func better(a, b *mode) bool {
	if a.converged != b.converged && math.Abs(a.value-b.value) < 1e-9*(1+math.Abs(b.value)) {
		return a.converged
	}
	return a.value > b.value
}

// modeGap is the minimum difference, in nats, between the bound and a maximum for which another maximum is
// searched. The search starts at a mean of logit −3 with the prior's α and, if the maximum itself forgets, also
// at logit 3 with the prior's β. If the difference is above wideGap, which streams hardly reach, the search
// also tries all restarts.
const (
	modeGap = 1
	wideGap = 20
)

// restarts are further starts: (logit of the mean, log of the concentration) of the first level.
var restarts = [...][2]float64{{-6, 0}, {-2, 1}, {0, 3}, {3, 0}, {6, 3}}

// softplus returns ln(1+eˣ).
func softplus(x float64) float64 {
	return max(x, 0) + special.Log1p(special.Exp(-math.Abs(x)))
}
