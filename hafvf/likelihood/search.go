package likelihood

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/optimize"
)

// A peak is where a search has ended.
type peak struct {
	at       []float64
	evidence float64
	ended    bool // by itself
}

// An axis is one along which a search takes its steps, between bounds.
type axis struct {
	lo, hi float64
	of     func(at []float64) float64
	put    func(at []float64, u float64) // of all axes, in their order
	// Where the axis is at its lower bound, the lower sides of the intervals of below are open, and
	// the upper sides of above. At its upper bound it is the other way.
	below, above []int
}

// axes are those of the search in which a parameter is held; none is where held is negative.
func (p Problem) axes(fixed int, value float64) (all []axis) {
	free := make([]bool, len(p.Parameters))
	for j := range free {
		free[j] = j != fixed
	}
	for _, pair := range p.Pairs {
		a, b := pair[0], pair[1]
		switch {
		case free[a] && free[b]:
			all = append(all,
				axis{logit(leastMean), logit(mostMean),
					func(at []float64) float64 { return logit(at[a] / (at[a] + at[b])) },
					func(at []float64, u float64) { at[a] = expit(u) }, []int{a}, []int{b}},
				axis{math.Log(leastSum), math.Log(mostSum),
					func(at []float64) float64 { return math.Log(at[a] + at[b]) },
					func(at []float64, u float64) { at[a], at[b] = at[a]*math.Exp(u), (1-at[a])*math.Exp(u) }, []int{a, b}, nil})
			free[a], free[b] = false, false
		default:
			j := b
			if free[a] {
				j = a
			}
			ratio := mostMean / leastMean
			all = append(all, axis{math.Log(math.Max(value/ratio, leastSum-value)), math.Log(math.Min(value*ratio, mostSum-value)),
				func(at []float64) float64 { return math.Log(at[j]) }, func(at []float64, u float64) { at[j] = math.Exp(u) }, nil, nil})
			free[j] = false
		}
	}
	for j, q := range p.Parameters {
		if free[j] {
			all = append(all, axis{q.to(q.Lower), q.to(q.Upper),
				func(at []float64) float64 { return q.to(at[j]) }, func(at []float64, u float64) { at[j] = q.from(u) }, []int{j}, nil})
		}
	}
	return all
}

// A climb is a search along axes by a simplex. Its pace is the length of the first steps, at most. It
// ends when so many rounds have not gained the tolerance.
type climb struct {
	pace, tolerance float64
	rounds          int
}

// from climbs from a place.
func (c climb) from(p Problem, fixed int, value float64, place []float64) peak {
	axes := p.axes(fixed, value)
	at := slices.Clone(place)
	if fixed >= 0 {
		at[fixed] = value
	}
	evidence := func(u []float64) (nats float64, outside float64) {
		for i, a := range axes {
			in := clamp(u[i], a.lo, a.hi)
			outside += (u[i] - in) * (u[i] - in)
			a.put(at, in)
		}
		return p.Evidence(at), outside
	}
	start := make([]float64, len(axes))
	for i, a := range axes {
		start[i] = clamp(a.of(at), a.lo, a.hi)
	}
	if len(axes) == 0 {
		return peak{at, p.Evidence(at), true}
	}
	const none = 1e300 // in place of an infinity, which a simplex cannot compare with another
	loss := func(u []float64) float64 {
		nats, outside := evidence(u)
		if !(nats > -none) {
			return none
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
	return peak{at, nats, found.Status == optimize.FunctionConvergence}
}

// search climbs from the starts, and from two places beside them.
func (p Problem) search() (best peak) {
	place := make([]float64, len(p.Parameters))
	for j, q := range p.Parameters {
		place[j] = q.Start
	}
	axes := p.axes(-1, 0)
	for k := range 3 {
		at := slices.Clone(place)
		for i, a := range axes {
			step, margin := 2., math.Min(.5, (a.hi-a.lo)/4)
			switch {
			case k == 0:
				step, margin = 0, 0
			case k == 2 && i%2 == 0:
				step = -2
			}
			a.put(at, clamp(a.of(place)+step, a.lo+margin, a.hi-margin))
		}
		if found := (climb{.5, 1e-2, 5}).from(p, -1, 0, at); k == 0 || found.evidence > best.evidence {
			best = found
		}
	}
	return p.polish(best)
}

// polish climbs the last steps, and onto a bound that is near and not lower.
func (p Problem) polish(best peak) peak {
	const near = .2
	if found := (climb{.1, 1e-5, 5}).from(p, -1, 0, best.at); found.evidence >= best.evidence {
		best = found
	}
	axes := p.axes(-1, 0)
	for i, a := range axes {
		for _, bound := range []float64{a.lo, a.hi} {
			if math.Abs(a.of(best.at)-bound) > near {
				continue
			}
			at := slices.Clone(best.at)
			for k, other := range axes {
				u := other.of(best.at)
				if k == i {
					u = bound
				}
				other.put(at, u)
			}
			if nats := p.Evidence(at); nats >= best.evidence {
				best.at, best.evidence = at, nats
			}
		}
	}
	return best
}

// intervals are those of the profile likelihood about a peak. If a profile rises above the peak, that
// place is returned in their stead.
func (p Problem) intervals(best peak) (lower, upper []float64, above *peak) {
	n := len(p.Parameters)
	lower, upper = make([]float64, n), make([]float64, n)
	for _, a := range p.axes(-1, 0) {
		const same = 1e-9
		below, over := a.below, a.above
		switch u := a.of(best.at); {
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

// cut reports whether a place is at the bounds of the pair that has parameter j: the profile of j falls
// there because the other one cannot follow.
func (p Problem) cut(j int, at []float64) bool {
	const near = .02 // to which a search comes
	for _, pair := range p.Pairs {
		if a, b := at[pair[0]], at[pair[1]]; slices.Contains(pair[:], j) {
			least, most := math.Min(a, b)/(a+b), a+b
			return most > mostSum*(1-near) || most < leastSum*(1+near) || least < leastMean*(1+near)
		}
	}
	return false
}

// end is where the profile of parameter j is Fall below the peak, on the side of a bound; NaN if it
// does not fall as far before a bound.
func (p Problem) end(best peak, j int, bound float64) (value float64, above *peak) {
	const (
		first    = .1  // step
		exact    = .01 // nats
		rises    = .01 // nats
		shortest = 1e-6
	)
	q := p.Parameters[j]
	warm := slices.Clone(best.at)
	// depth is the root of the fall, which is straight where the profile is a parabola.
	depth := func(u float64) float64 {
		for _, pair := range p.Pairs { // along a ridge the mean stays
			if k := slices.Index(pair[:], j); k >= 0 {
				warm[pair[1-k]] *= q.from(u) / warm[j]
			}
		}
		found := climb{.2, 1e-3, 3}.from(p, j, q.from(u), warm)
		copy(warm, found.at)
		if found.evidence > best.evidence+rises {
			above = &found
		}
		return math.Sqrt(math.Max(0, best.evidence-found.evidence))
	}
	goal := math.Sqrt(Fall)
	near, to := q.to(best.at[j]), q.to(bound)
	far, nearDepth, farDepth := near, 0., 0.
	for step := first; farDepth < goal; step *= 2 {
		if far == to {
			return math.NaN(), nil
		}
		near, nearDepth = far, farDepth
		if far += math.Copysign(step, to-near); math.Abs(far-near) > math.Abs(to-near) {
			far = to
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
	if p.cut(j, warm) {
		return math.NaN(), nil
	}
	return q.from(u), nil
}
