package segments

import "math"

const (
	accidentCost   = 5. // nats per observation that becomes an accident
	accidentLength = 20 // maximum length of a segment that may consist of accidents
	accidentNear   = 50 // maximum number of compared observations on either side
	maxAccidents   = 3  // maximum number of accidents in such a segment
)

// accidents turns observations into accidents if a short segment is due to them: without its most unlikely few,
// the segment resembles its neighbours. It treats the first and last observations of the session in the same
// way, if they are too few for a segment. cost is the price of a change in nats. accidents reports whether it
// found any.
func (l *lanes) accidents(g *Segmentation, cost float64) (found bool) {
	n := len(g.stepIndex)
	edgeLen := min(minSegment, n)
	found = l.accidentsAtEnd(g, 0, edgeLen, edgeLen, min(endOf(g.edges, 0, n), edgeLen+accidentNear))
	found = l.accidentsAtEnd(g, n-edgeLen, n, max(startOf(g.edges, len(g.edges)), n-edgeLen-accidentNear), n-edgeLen) || found
	for k := range len(g.edges) + 1 {
		found = l.accidentsIn(g, k, cost) || found
	}
	return found
}

// accidentsAtEnd turns observations in [from, end) into accidents if they differ from the observations in [lo,
// hi).
func (l *lanes) accidentsAtEnd(g *Segmentation, from, end, lo, hi int) (found bool) {
	if hi-lo < minSegment {
		return false
	}
	neighbour := l.total(g, lo, hi)
	for range minSegment {
		keep := l.logMarginal(l.total(g, from, end), neighbour)
		i, rest, alone := l.leastLikely(g, from, end, neighbour)
		if i < 0 || rest+alone-accidentCost <= keep {
			break
		}
		g.regular[i] = 0
		found = true
	}
	return found
}

// accidentsIn turns observations of segment k into accidents, if the segment is short and has a neighbour.
func (l *lanes) accidentsIn(g *Segmentation, k int, cost float64) bool {
	n := len(g.stepIndex)
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
		i, _, alone := l.leastLikely(g, from, end, nil)
		if i < 0 {
			break
		}
		price += alone - accidentCost
		out = append(out, i)
		g.regular[i] = 0
		rest := l.total(g, from, end)
		merged := math.Inf(-1)
		if before != nil {
			merged = math.Max(merged, l.logMarginal(rest, before)+apartAfter)
		}
		if after != nil {
			merged = math.Max(merged, l.logMarginal(rest, after)+apartBefore)
		}
		if before != nil && after != nil {
			merged = math.Max(merged, l.logMarginal(rest, before, after))
		}
		if merged+price > keep {
			return true
		}
	}
	for _, i := range out {
		g.regular[i] = 1
	}
	return false
}

// leastLikely returns the index of the regular observation in [from, end) without which the rest, combined with
// neighbour, has the largest likelihood, or −1 if there is none. rest is the log likelihood of the rest with
// neighbour, and alone the log likelihood of the observation alone.
func (l *lanes) leastLikely(g *Segmentation, from, end int, neighbour []float64) (index int, rest, alone float64) {
	index, rest = -1, math.Inf(-1)
	for t := from; t < end; t++ {
		prev := g.regular[t]
		if prev < .5 {
			continue
		}
		g.regular[t] = 0
		if v := l.logMarginal(l.total(g, from, end), neighbour); v > rest {
			index, rest = t, v
		}
		g.regular[t] = prev
	}
	if index >= 0 {
		d := make([]float64, l.width)
		l.observe(d, l.rows(g, index), 1)
		alone = l.logMarginal(d)
	}
	return index, rest, alone
}

// total returns Σ r·T(x) over the observations [from, end).
func (l *lanes) total(g *Segmentation, from, end int) []float64 {
	d := make([]float64, l.width)
	for i := from; i < end; i++ {
		l.observe(d, l.rows(g, i), g.regular[i])
	}
	return d
}

// logMarginal returns B(Σd) − B(0), the log likelihood of the samples d combined. It ignores nil samples.
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
