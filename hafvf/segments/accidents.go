package segments

import "math"

const (
	accidentCost   = 5. // nats of an observation that is made an accident
	accidentLength = 20 // observations of a segment that may be due to a few accidents
	accidentNear   = 50 // observations on either side with which these are compared
	maxAccidents   = 3  // accidents in such a segment
)

// accidents makes accidents of the observations to which a short segment is due: without its oddest
// few it is like what is beside it. The same holds of the observations that the session begins or
// ends with, which are too few for a segment. A change costs so much. It returns whether there are
// any.
func (l *lanes) accidents(g *Segmentation, cost float64) (any bool) {
	n := len(g.at)
	least := min(minSegment, n)
	any = l.accidentsAtEnd(g, 0, least, least, min(endOf(g.edges, 0, n), least+accidentNear))
	any = l.accidentsAtEnd(g, n-least, n, max(startOf(g.edges, len(g.edges)), n-least-accidentNear), n-least) || any
	for k := range len(g.edges) + 1 {
		any = l.accidentsIn(g, k, cost) || any
	}
	return any
}

// accidentsAtEnd makes accidents in [from, end) of what is unlike the stretch [lo, hi).
func (l *lanes) accidentsAtEnd(g *Segmentation, from, end, lo, hi int) (any bool) {
	if hi-lo < minSegment {
		return false
	}
	beside := l.total(g, lo, hi)
	for range minSegment {
		keep := l.logMarginal(l.total(g, from, end), beside)
		at, rest, alone := l.leastLikely(g, from, end, beside)
		if at < 0 || rest+alone-accidentCost <= keep {
			break
		}
		g.regular[at] = 0
		any = true
	}
	return any
}

// accidentsIn makes accidents in segment k, if that is a short one beside another.
func (l *lanes) accidentsIn(g *Segmentation, k int, cost float64) bool {
	n := len(g.at)
	from, end := startOf(g.edges, k), endOf(g.edges, k, n)
	if end-from > accidentLength || len(g.edges) == 0 {
		return false
	}
	var before, after []float64
	apartBefore, apartAfter := 0., 0.
	if k > 0 {
		before = l.total(g, max(startOf(g.edges, k-1), from-accidentNear), from)
		apartBefore = l.logMarginal(before) - cost
	}
	if k < len(g.edges) {
		after = l.total(g, end, min(endOf(g.edges, k+1, n), end+accidentNear))
		apartAfter = l.logMarginal(after) - cost
	}
	keep := l.logMarginal(l.total(g, from, end)) + apartBefore + apartAfter
	var out []int
	price := 0.
	for range maxAccidents {
		at, _, alone := l.leastLikely(g, from, end, nil)
		if at < 0 {
			break
		}
		price += alone - accidentCost
		out = append(out, at)
		g.regular[at] = 0
		rest := l.total(g, from, end)
		like := math.Inf(-1)
		if before != nil {
			like = math.Max(like, l.logMarginal(rest, before)+apartAfter)
		}
		if after != nil {
			like = math.Max(like, l.logMarginal(rest, after)+apartBefore)
		}
		if before != nil && after != nil {
			like = math.Max(like, l.logMarginal(rest, before, after))
		}
		if like+price > keep {
			return true
		}
	}
	for _, at := range out {
		g.regular[at] = 1
	}
	return false
}

// leastLikely is the regular observation of [from, end) without which the rest, with what is beside it,
// is the likeliest, −1 if there is none; and the log likelihoods of that rest and of the observation
// alone.
func (l *lanes) leastLikely(g *Segmentation, from, end int, beside []float64) (at int, rest, alone float64) {
	at, rest = -1, math.Inf(-1)
	for t := from; t < end; t++ {
		was := g.regular[t]
		if was < .5 {
			continue
		}
		g.regular[t] = 0
		if v := l.logMarginal(l.total(g, from, end), beside); v > rest {
			at, rest = t, v
		}
		g.regular[t] = was
	}
	if at >= 0 {
		d := make([]float64, l.width)
		l.observe(d, l.rows(g, at), 1)
		alone = l.logMarginal(d)
	}
	return at, rest, alone
}

// total is Σ r·T(x) of the observations [from, end).
func (l *lanes) total(g *Segmentation, from, end int) []float64 {
	d := make([]float64, l.width)
	for i := from; i < end; i++ {
		l.observe(d, l.rows(g, i), g.regular[i])
	}
	return d
}

// logMarginal is B(Σd) − B(0), the log likelihood of the samples d as one.
func (l *lanes) logMarginal(samples ...[]float64) float64 {
	d := make([]float64, l.width)
	for _, s := range samples {
		if s != nil {
			l.model.Merge(d, s)
		}
	}
	l.line.Set(make([]float64, l.width), d)
	return l.line.Gain(1)
}
