package likelihood

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/optimize"
)

// A peak is the end point of a search.
type peak struct {
	point    []float64
	evidence float64
	ended    bool // whether the search converged
}

// An axis is a direction of a search, with its bounds.
type axis struct {
	lo, hi     float64
	coordinate func(v []float64) float64
	set        func(v []float64, u float64) // call set for all axes in order
	// At the lower bound of the axis, the lower ends of the intervals of the parameters in below are open, and
	// the upper ends of those in above. At the upper bound of the axis it is the reverse.
	below, above []int
}

// axes returns the axes of a search in which parameter fixed is held at value. If fixed is negative, all
// parameters are free.
func (p Problem) axes(fixed int, value float64) (axes []axis) {
	free := make([]bool, len(p.Parameters))
	for j := range free {
		free[j] = j != fixed
	}
	for _, pair := range p.Pairs {
		a, b := pair[0], pair[1]
		switch {
		case free[a] && free[b]:
			axes = append(axes,
				axis{logit(minMean), logit(maxMean),
					func(v []float64) float64 { return logit(v[a] / (v[a] + v[b])) },
					func(v []float64, u float64) { v[a] = expit(u) }, []int{a}, []int{b}},
				axis{math.Log(minSum), math.Log(maxSum),
					func(v []float64) float64 { return math.Log(v[a] + v[b]) },
					func(v []float64, u float64) { v[a], v[b] = v[a]*math.Exp(u), (1-v[a])*math.Exp(u) }, []int{a, b}, nil})
			free[a], free[b] = false, false
		default:
			j := b
			if free[a] {
				j = a
			}
			ratio := maxMean / minMean
			axes = append(axes, axis{math.Log(math.Max(value/ratio, minSum-value)), math.Log(math.Min(value*ratio, maxSum-value)),
				func(v []float64) float64 { return math.Log(v[j]) }, func(v []float64, u float64) { v[j] = math.Exp(u) }, nil, nil})
			free[j] = false
		}
	}
	for j, q := range p.Parameters {
		if free[j] {
			axes = append(axes, axis{q.toScale(q.Lower), q.toScale(q.Upper),
				func(v []float64) float64 { return q.toScale(v[j]) }, func(v []float64, u float64) { v[j] = q.fromScale(u) }, []int{j}, nil})
		}
	}
	return axes
}

// A climb is a search along axes by a simplex. pace is the maximum length of the first steps. The climb ends
// when the given rounds have not gained tolerance.
type climb struct {
	pace, tolerance float64
	rounds          int
}

// start climbs from place.
func (c climb) start(p Problem, fixed int, value float64, place []float64) peak {
	axes := p.axes(fixed, value)
	point := slices.Clone(place)
	if fixed >= 0 {
		point[fixed] = value
	}
	evidence := func(u []float64) (nats float64, outside float64) {
		for i, a := range axes {
			inside := clamp(u[i], a.lo, a.hi)
			outside += (u[i] - inside) * (u[i] - inside)
			a.set(point, inside)
		}
		return p.Evidence(point), outside
	}
	start := make([]float64, len(axes))
	for i, a := range axes {
		start[i] = clamp(a.coordinate(point), a.lo, a.hi)
	}
	if len(axes) == 0 {
		return peak{point, p.Evidence(point), true}
	}
	const noEvidence = 1e300 // replaces infinities, which a simplex cannot compare
	loss := func(u []float64) float64 {
		nats, outside := evidence(u)
		if !(nats > -noEvidence) {
			return noEvidence
		}
		return outside - nats
	}
	// The first steps are shorter where the evidence falls by much more than a few nats.
	const deep, shortest = 4, 1e-8
	vertices, values := [][]float64{start}, []float64{loss(start)}
	for i := range axes {
		u := slices.Clone(start)
		for step := c.pace; ; step /= 4 {
			u[i] = start[i] + step
			if v := loss(u); v <= values[0]+deep || step < shortest {
				vertices, values = append(vertices, u), append(values, v)
				break
			}
		}
	}
	found, _ := optimize.Minimize(optimize.Problem{Func: loss}, start, &optimize.Settings{
		InitValues:      &optimize.Location{F: values[0]},
		FuncEvaluations: 400 * len(axes),
		Converger:       &optimize.FunctionConverge{Absolute: c.tolerance, Iterations: c.rounds * (1 + len(axes))},
	}, &optimize.NelderMead{InitialVertices: vertices, InitialValues: values})
	nats, _ := evidence(found.X)
	return peak{point, nats, found.Status == optimize.FunctionConvergence}
}

// search climbs from the starts, and from two points nearby.
func (p Problem) search() (best peak) {
	place := make([]float64, len(p.Parameters))
	for j, q := range p.Parameters {
		place[j] = q.Start
	}
	axes := p.axes(-1, 0)
	for k := range 3 {
		point := slices.Clone(place)
		for i, a := range axes {
			step, margin := 2., math.Min(.5, (a.hi-a.lo)/4)
			switch {
			case k == 0:
				step, margin = 0, 0
			case k == 2 && i%2 == 0:
				step = -2
			}
			a.set(point, clamp(a.coordinate(place)+step, a.lo+margin, a.hi-margin))
		}
		if found := (climb{.5, 1e-2, 5}).start(p, -1, 0, point); k == 0 || found.evidence > best.evidence {
			best = found
		}
	}
	return p.polish(best)
}

// polish climbs the last steps. If a bound is near and its evidence is not lower, polish moves onto the bound.
func (p Problem) polish(best peak) peak {
	const near = .2
	if found := (climb{.1, 1e-5, 5}).start(p, -1, 0, best.point); found.evidence >= best.evidence {
		best = found
	}
	axes := p.axes(-1, 0)
	for i, a := range axes {
		for _, bound := range []float64{a.lo, a.hi} {
			if math.Abs(a.coordinate(best.point)-bound) > near {
				continue
			}
			point := slices.Clone(best.point)
			for k, other := range axes {
				u := other.coordinate(best.point)
				if k == i {
					u = bound
				}
				other.set(point, u)
			}
			if nats := p.Evidence(point); nats >= best.evidence {
				best.point, best.evidence = point, nats
			}
		}
	}
	return best
}

// intervals returns the intervals of the profile likelihood around a peak. If a profile rises above the peak,
// above is the higher point and the intervals are incomplete.
func (p Problem) intervals(best peak) (lower, upper []float64, above *peak) {
	n := len(p.Parameters)
	lower, upper = make([]float64, n), make([]float64, n)
	for _, a := range p.axes(-1, 0) {
		const same = 1e-9
		below, over := a.below, a.above
		switch u := a.coordinate(best.point); {
		case u > a.hi-same:
			below, over = over, below
		case u > a.lo+same:
			continue
		}
		for _, j := range below {
			lower[j] = math.NaN()
		}
		for _, j := range over {
			upper[j] = math.NaN()
		}
	}
	for j, q := range p.Parameters {
		for _, side := range []struct {
			end   *float64
			bound float64
		}{{&lower[j], q.Lower}, {&upper[j], q.Upper}} {
			if math.IsNaN(*side.end) {
				continue
			}
			if *side.end, above = p.end(best, j, side.bound); above != nil {
				return lower, upper, above
			}
		}
	}
	return lower, upper, nil
}

// atPairBound reports whether point is at the bounds of the pair that contains parameter j: the profile of j
// falls there because the other parameter cannot follow.
func (p Problem) atPairBound(j int, point []float64) bool {
	const near = .02 // relative distance to which a search approaches a bound
	for _, pair := range p.Pairs {
		if a, b := point[pair[0]], point[pair[1]]; slices.Contains(pair[:], j) {
			minShare, sum := math.Min(a, b)/(a+b), a+b
			return sum > maxSum*(1-near) || sum < minSum*(1+near) || minShare < minMean*(1+near)
		}
	}
	return false
}

// end returns the value at which the profile of parameter j is Fall below the peak, on the side of bound. It
// returns NaN if the profile does not fall this far before a bound.
func (p Problem) end(best peak, j int, bound float64) (value float64, above *peak) {
	const (
		first    = .1  // step
		exact    = .01 // nats
		rises    = .01 // nats
		shortest = 1e-6
	)
	q := p.Parameters[j]
	warm := slices.Clone(best.point)
	// depth is the square root of the fall, which is linear if the profile is a parabola.
	depth := func(u float64) float64 {
		for _, pair := range p.Pairs { // along a ridge the mean stays
			if k := slices.Index(pair[:], j); k >= 0 {
				warm[pair[1-k]] *= q.fromScale(u) / warm[j]
			}
		}
		found := climb{.2, 1e-3, 3}.start(p, j, q.fromScale(u), warm)
		copy(warm, found.point)
		if found.evidence > best.evidence+rises {
			above = &found
		}
		return math.Sqrt(math.Max(0, best.evidence-found.evidence))
	}
	goal := math.Sqrt(Fall)
	near, end := q.toScale(best.point[j]), q.toScale(bound)
	far, nearDepth, farDepth := near, 0., 0.
	for step := first; farDepth < goal; step *= 2 {
		if far == end {
			return math.NaN(), nil
		}
		near, nearDepth = far, farDepth
		if far += math.Copysign(step, end-near); math.Abs(far-near) > math.Abs(end-near) {
			far = end
		}
		if farDepth = depth(far); above != nil {
			return 0, above
		}
	}
	u := far
	for math.Abs(far-near) > shortest {
		share := .5
		if d := farDepth - nearDepth; d > 0 && !math.IsInf(d, 0) {
			share = clamp((goal-nearDepth)/d, .05, .95)
		}
		u = near + share*(far-near)
		d := depth(u)
		if above != nil {
			return 0, above
		}
		if math.Abs(d*d-Fall) < exact {
			break
		}
		if d < goal {
			near, nearDepth = u, d
		} else {
			far, farDepth = u, d
		}
	}
	if p.atPairBound(j, warm) {
		return math.NaN(), nil
	}
	return q.fromScale(u), nil
}
