package segments

import (
	"math"
	"slices"

	"hafvf/hafvf/expfam"
	"hafvf/internal/special"
)

const (
	exactLength      = 1500 // maximum number of observations of a session in which every one may start a segment
	searchMargin     = 8.   // nats below the best segmentation so far at which a start is dropped
	minLearnedWeight = .01  // minimum weight of an observation that is learned
	clearlyRegular   = 2.   // nats above the prior alone from which an observation is surely regular
	clearTrend       = 1.   // nats above constant levels from which a session without changes drifts or wanders
)

// A recursion searches the segments of a session in which every observation may start a segment. An accident is
// a regime of one observation inside a segment. The likelihood of an observation is
//
//	p = (1 − ε)·p(x | the segment's samples) + ε·p(x | prior alone)
//
// and the observation is learned with the weight (1 − ε)·p(x | samples) / p. The explanations are the lanes for
// a Scaleless family, and regressions for the scalar normal family.
type recursion struct {
	*lanes
	g                       *Segmentation
	logAccident, logRegular float64 // log ε and log(1 − ε)
	prior                   normalPrior
	y                       [][]float64 // values by observation; nil for a Scaleless family
	alone                   [][]float64 // log likelihoods under the prior alone: of the values, or of the observations
	first                   int         // first observation of the first segment; earlier ones are accidents
}

// newRecursion returns nil if the session is too long for a recursion, or its family has none.
func (s *Segmenter) newRecursion(g *Segmentation) *recursion {
	l, n := s.workers[0], len(g.stepIndex)
	_, scaleless := s.model.(expfam.Scaleless)
	normal, ok := s.model.(expfam.Normal)
	if n == 0 || n > exactLength || !scaleless && !ok {
		return nil
	}
	r := &recursion{lanes: l, g: g, alone: make([][]float64, n)}
	switch {
	case s.banks[0] == nil:
		r.logAccident = math.Inf(-1)
	case scaleless:
		r.logAccident, r.logRegular = math.Log(.01), math.Log1p(-.01)
	default:
		r.logAccident, r.logRegular = math.Log(.03), math.Log1p(-.03)
	}
	if scaleless {
		for i := range r.alone {
			r.readRows(i)
			r.alone[i] = []float64{l.logMarginal(l.stats)}
		}
		return r
	}
	mu, kappa, alpha, beta := normal.NormalPrior()
	r.prior = normalPrior{mu: mu, kappa: kappa, alpha: alpha, scale: math.Sqrt(beta / alpha)}
	if s.fitted {
		r.prior.alpha *= fittedWorth
	}
	first := r.prior.regression(constant)
	r.y = make([][]float64, n)
	for i := range r.y {
		for _, row := range l.rows(g, i) {
			y := (row[0] - r.prior.mu) / r.prior.scale
			r.y[i], r.alone[i] = append(r.y[i], y), append(r.alone[i], first.predict(y, 0))
		}
	}
	return r
}

// search sets the edges of the best segmentation. For normal values this is the best one of the process with the
// largest evidence. If the noise about constant levels is white, no other process but a slow walk may have changes,
// which saves time. search reports whether the lanes must find the edges, because the level walks.
func (r *recursion) search(odds float64, levelsOnly bool) (walks bool) {
	g, n := r.g, len(r.g.stepIndex)
	sum := 0.
	var before []float64 // log likelihoods of first observations that are too few for a segment
	for i := range min(minSegment-1, n) {
		for _, v := range r.alone[i] {
			sum += r.logAccident + v
		}
		before = append(before, sum)
	}
	if r.y == nil {
		best := r.optimal(n, newPrices(odds, n), before, searchMargin, r.extendLanes)
		r.first, g.edges = best.first, best.begins
		return false
	}
	var best process
	var rivals [kindCount]float64 // log evidence
	for k := range rivals {
		rivals[k] = math.Inf(-1)
	}
	most, p, isWhite := math.Inf(-1), levelPrices(odds, n), false
	for _, c := range processes {
		if levelsOnly && (c.kind == Walk || c.kind == Line) {
			continue
		}
		r.prior.correlation = c.correlation
		var found optimum
		mayChange := c.kind != Line && (!isWhite || c.explanation == slowWalk)
		if mayChange {
			found = r.optimal(n, p, before, searchMargin, r.extendRegression(c.explanation))
		} else {
			found.logEvidence = r.evidence(c.explanation, 0, n)
		}
		v := found.logEvidence - c.price(n, len(found.begins) > 0, levelsOnly)
		if v > most {
			most, best, r.first, g.edges = v, c, found.first, found.begins
		}
		if mayChange && c.kind == Walk { // a walk with the same changes is no rival of levels
			v = r.evidence(c.explanation, 0, n) - c.price(n, false, levelsOnly)
		}
		rivals[c.kind] = math.Max(rivals[c.kind], v)
		isWhite = isWhite || c.kind == Levels && white(r.y, found.begins)
	}
	if best.kind == Levels && !levelsOnly {
		r.joinRamps(p.change[1])
	}
	lead := most - rivals[Levels]
	if lead > clearTrend {
		g.trend = [kindCount]Trend{Walk: Wanders, Line: Drifts}[best.kind]
	}
	g.kind, rivals[best.kind] = best.kind, math.Inf(-1)
	g.against = math.Max(0, most-slices.Max(rivals[:])) // a session without changes has no price of a hazard
	return best.isFast() || best.kind == Walk && len(g.edges) == 0 && lead > clearTrend
}

// evidence returns the evidence of an explanation for the observations from from to end−1, as a segment.
func (r *recursion) evidence(e explanation, from, end int) (v float64) {
	var s start
	extend := r.extendRegression(e)
	for i := from; i < end; i++ {
		v = extend(&s, i)
	}
	return v
}

// joinRamps joins up to maxStairs levels between two edges to one segment if a line explains them better: a ramp
// has a start and an end, and no steps. change is the log probability of a change.
func (r *recursion) joinRamps(change float64) {
	const maxStairs, price = 8, 3.
	edges := r.g.edges
	for i := 0; i+2 < len(edges); i++ {
		levels, most, joined := r.evidence(constant, edges[i], edges[i+1]), 0., 0
		for j := i + 2; j < min(len(edges), i+1+maxStairs); j++ {
			levels += change + r.evidence(constant, edges[j-1], edges[j])
			if gain := r.evidence(line, edges[i], edges[j]) - price - levels; gain > most {
				most, joined = gain, j
			}
		}
		if most > 0 {
			edges = slices.Delete(edges, i+1, joined)
		}
	}
	r.g.edges = edges
}

// extendRegression returns a function that adds observation i to the segment of s, and returns the segment's
// evidence under an explanation.
func (r *recursion) extendRegression(e explanation) func(s *start, i int) float64 {
	return func(s *start, i int) float64 {
		x, regular := &s.regression, 1.
		if s.length == 0 {
			*x = r.prior.regression(e)
		} else {
			x.p00 += walked[e]
		}
		u := x.regressor(e, s.length)
		for j, y := range r.y[i] {
			p := r.alone[i][j]
			if regular = 1; s.length > 0 {
				p, regular = r.mix(x.predict(y, u), p)
			}
			x.likelihood += p
			x.learn(y, u, regular)
		}
		s.count(regular)
		return x.likelihood
	}
}

// extendLanes is extendRegression with the lanes instead. It excludes the shortest lane.
func (r *recursion) extendLanes(s *start, i int) float64 {
	rows, regular := r.readRows(i), 1.
	s.likelihood[0] = math.Inf(-1)
	for k := 1; k < laneCount; k++ {
		d, p := r.lane(s.f, k), r.alone[i][0]
		if s.length > 0 {
			r.model.Scale(d, laneWeights[k])
			r.line.Set(d, r.stats)
			p, regular = r.mix(r.line.Gain(1), p)
		}
		s.likelihood[k] += p
		r.observe(d, rows, regular)
	}
	s.count(regular)
	return r.evidenceOfStart(s)
}

// count counts an observation of a segment. Outliers at the start of a session do not form a segment with one
// regular observation.
func (s *start) count(regular float64) {
	if s.block >= minSegment {
		regular = 1
	}
	s.regular += regular
	s.length++
}

// readRows returns the rows of observation i, and sets stats to their statistics.
func (r *recursion) readRows(i int) [][]float64 {
	rows := r.rows(r.g, i)
	clear(r.stats)
	r.observe(r.stats, rows, 1)
	return rows
}

// mix returns the log likelihood of an observation that either belongs to the segment, with log likelihood own,
// or is an accident, with log likelihood alone. regular is the probability that it belongs to the segment.
func (r *recursion) mix(own, alone float64) (p, regular float64) {
	if own > alone+clearlyRegular {
		return r.logRegular + own, 1
	}
	regular = 1 / (1 + special.Exp(r.logAccident-r.logRegular+alone-own))
	if regular < minLearnedWeight {
		return r.logAccident + alone, 0
	}
	return r.logRegular + own - special.Log(regular), regular
}

// findAccidents sets the probability that each observation is regular, given all others of its segment, by the
// lane that predicts the segment best.
func (r *recursion) findAccidents() {
	g, n := r.g, len(r.g.stepIndex)
	for i := range r.alone {
		r.readRows(i)
		r.alone[i] = []float64{r.logMarginal(r.stats)}
	}
	clear(g.regular[:r.first])
	both, back := make([]float64, r.width), make([]float64, r.width)
	for k := range len(g.edges) + 1 {
		from, end := max(startOf(g.edges, k), r.first), endOf(g.edges, k, n)
		s := start{f: r.newSet()}
		before := make([]float64, (end-from)*len(s.f)) // the lanes' samples before each observation
		for i := from; i < end; i++ {
			copy(r.setAt(before, i-from), s.f)
			r.extendLanes(&s, i)
		}
		best := laneCount - 1
		for j := range s.likelihood {
			if s.likelihood[j]-drift[j] > s.likelihood[best]-drift[best] {
				best = j
			}
		}
		clear(back)
		for i := end - 1; i >= from && end-from >= minSegment; i-- {
			rows := r.readRows(i)
			copy(both, r.lane(r.setAt(before, i-from), best))
			r.model.Scale(both, laneWeights[best])
			r.model.Scale(back, laneWeights[best])
			r.model.Merge(both, back)
			r.line.Set(both, r.stats)
			_, g.regular[i] = r.mix(r.line.Gain(1), r.alone[i][0])
			r.observe(back, rows, g.regular[i])
		}
	}
}
