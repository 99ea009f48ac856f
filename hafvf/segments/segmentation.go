package segments

import (
	"math"

	"hafvf/hafvf/expfam"
	"hafvf/internal/special"
)

// Estimate does the second half of Smooth: it sets Evidence and the posteriors. g must be a result of Segment.
func (s *Segmenter) Estimate(g *Segmentation) {
	s.estimate(g, newBuffers(s.workers[0], len(g.stepIndex)))
}

func (s *Segmenter) estimate(g *Segmentation, b buffers) {
	n, outputs := len(g.stepIndex), g.model.Outputs()
	g.Evidence = make([]float64, len(g.steps))
	g.mean, g.sd = make([]float64, len(g.steps)*outputs), make([]float64, len(g.steps)*outputs)
	g.samples = make([]float64, n*s.workers[0].width)
	if len(g.steps) == 0 {
		return
	}
	if n == 0 {
		s.workers[0].estimateNothing(g)
		return
	}
	if g.shares == nil {
		s.share(g, b, 0, g.edges, nil)
	}
	s.run(g, b, 0)
	edges := s.workers[0].locateAll(g, b.sets)
	s.parts(g, 0, func(l *lanes, from, end int) {
		e := estimator{lanes: l, g: g, sets: b.sets, edges: edges, own: l.newSet(), next: l.newSet(), mixing: newMixing(outputs)}
		e.run(from, end)
	})
	g.shares = nil
	// The observation that ends a gap has the same evidence as the missing steps before it.
	e := 0.0
	for t := len(g.steps) - 1; t >= 0; t-- {
		if g.Missing[t] {
			g.Evidence[t] = e
		}
		e = g.Evidence[t]
	}
	if !g.begun {
		g.Evidence[0] = math.NaN()
	}
	// The lanes see little of a change that is found from its segments as a whole, and an edge at the start of
	// a part has no evidence before it.
	_, scaleless := g.model.(expfam.Scaleless)
	for i, t := range g.Changes() {
		if scaleless || t == g.stepIndex[0] {
			g.Evidence[t] = math.Max(g.Evidence[t], g.places[i].Evidence)
		}
	}
}

// estimateNothing is estimate for steps that are all missing.
func (l *lanes) estimateNothing(g *Segmentation) {
	d := make([]float64, l.width)
	copy(d, l.lane(g.crossings[0][0].set, laneCount-1))
	for t := range g.steps {
		mean, sd := g.moments(t)
		l.model.Estimate(mean, sd, d, l.row(g, t))
	}
	if !g.begun {
		g.Evidence[0] = math.NaN()
	}
}

// An edgePlace is an edge with the probabilities of its places.
type edgePlace struct {
	edge, first, last int
	until             []float64 // P(the edge is at first + j or earlier)
	evidence          float64   // evidence of an edge at any of the places
}

// before returns the probability that the edge is later than observation i, and after the probability that it
// is at i or earlier.
func (e *edgePlace) before(i int) float64 { return math.Max(0, 1-e.after(i)) }

func (e *edgePlace) after(i int) float64 {
	switch {
	case i < e.first:
		return 0
	case i > e.last:
		return 1
	}
	return e.until[i-e.first]
}

// locateAll returns the edges with the probabilities of their places. sets holds the sets of the forward pass
// by observation.
func (l *lanes) locateAll(g *Segmentation, sets []float64) []edgePlace {
	places := make([]edgePlace, len(g.edges))
	from := 0
	for k, c := range g.edges {
		p := g.sharesAt(c)
		first, evidence := l.locate(g, sets, from, c, endOf(g.edges, k+1, len(g.stepIndex)), &p)
		sum := special.LogSumExp(evidence)
		total := 0.0
		until := make([]float64, len(evidence))
		for j, e := range evidence {
			total += special.Exp(e - sum)
			until[j] = total
		}
		places[k] = edgePlace{c, first, first + len(evidence) - 1, until, sum}
		from = c
	}
	return places
}

// An estimator sets evidence and posteriors of a stretch of observations, in a backward pass.
type estimator struct {
	*lanes
	g      *Segmentation
	sets   []float64 // of the forward pass, by observation
	edges  []edgePlace
	own    []float64 // samples of the segment, from both sides
	next   []float64 // backward samples of the next segment, continued into this one
	mixing mixing
}

func (e *estimator) run(from, end int) {
	g, n := e.g, len(e.g.stepIndex)
	k := segmentOf(g.edges, end-1) // segment of the observation
	set := e.newSet()              // backward samples of the segment
	e.backward(set, g, 0, end, endOf(g.edges, k, n))
	if k < len(e.edges) && end > e.edges[k].first {
		e.backward(e.next, g, 0, end, endOf(g.edges, k+1, n))
	}
	ranOn := -1 // the segment for which the window holds the continued samples of the previous one; −1 if there is none
	for i := end - 1; i >= from; i-- {
		shares := g.sharesAt(i)
		var p perLane
		heaviest := 0
		for j, v := range shares {
			if v > shares[heaviest] {
				heaviest = j
			}
			p[j] = special.Exp(v)
		}
		// The samples of the segment combine the observations up to i with those after i.
		rows := e.rows(g, i)
		for j, w := range laneWeights {
			own, b := e.lane(e.own, j), e.lane(set, j)
			copy(own, e.lane(e.setAt(e.sets, i), j))
			e.model.Scale(b, w)
			e.model.Merge(own, b)
			e.observe(b, rows, g.regular[i])
		}
		copy(g.samples[i*e.width:(i+1)*e.width], e.lane(e.own, heaviest))

		var before, after float64
		var ran []float64
		if k > 0 && i < e.edges[k-1].last {
			edge := &e.edges[k-1]
			if ranOn != k {
				e.runOn(edge, min(edge.last, i+1))
				ranOn = k
			}
			before, ran = edge.before(i), e.setAt(e.window, i-edge.edge)
		}
		if k < len(e.edges) && i >= e.edges[k].first {
			after = e.edges[k].after(i)
			e.advance(e.next, g, i)
		}
		e.mixing.reset()
		e.mix(math.Max(0, 1-before-after), &p, e.own)
		e.mix(before, &p, ran)
		e.mix(after, &p, e.next)
		e.moments(i)

		first := k > 0 && g.edges[k-1] == i
		switch t := g.stepIndex[i]; {
		case first:
			g.Evidence[t] = e.edges[k-1].evidence
			copy(e.next, set)
			clear(set)
			k--
		case i > 0:
			g.Evidence[t] = e.evidence(e.setAt(e.sets, i-1), set, &shares)
		case g.begun:
			g.Evidence[t] = e.evidence(g.crossings[0][0].set, set, &shares)
		}
	}
}

// runOn continues the lanes of the segment before an edge up to the observation end−1, into the window.
func (e *estimator) runOn(edge *edgePlace, end int) {
	set := e.lanes.set
	copy(set, e.setAt(e.sets, edge.edge-1))
	for i := edge.edge; i < end; i++ {
		e.advance(set, e.g, i)
		copy(e.setAt(e.window, i-edge.edge), set)
	}
}

// mix adds the lanes of a set to the mixture, with weight times the shares p. It leaves out improbable
// components; the remaining weights are normalised later.
func (e *estimator) mix(weight float64, p *perLane, set []float64) {
	if weight <= minPlaceProbability {
		return
	}
	for j, share := range p {
		if v := weight * share; v > minLaneWeight {
			e.mixing.add(v, e.lane(set, j))
		}
	}
}

// moments writes the moments of the mixture for observation i and for the missing steps that follow it. If i is
// the first observation, moments also writes them for the missing steps before it.
func (e *estimator) moments(i int) {
	g := e.g
	from, end := g.stepIndex[i], len(g.steps)
	if i == 0 {
		from = 0
	}
	if i+1 < len(g.stepIndex) {
		end = g.stepIndex[i+1]
	}
	for t := from; t < end; t++ {
		mean, sd := g.moments(t)
		e.mixing.moments(mean, sd, e.model, e.row(g, t))
	}
}

// row returns the last row of step t, which has the regressors of the step's estimate.
func (l *lanes) row(g *Segmentation, t int) []float64 {
	return l.rowSource.Last(g.earlier, g.steps, t)
}

// mixing is a mixture of posteriors.
type mixing struct {
	weights  []float64
	samples  [][]float64
	mean, sd []float64 // of the components
}

func newMixing(outputs int) mixing {
	const components = 3 * laneCount
	return mixing{mean: make([]float64, components*outputs), sd: make([]float64, components*outputs)}
}

func (m *mixing) reset() { m.weights, m.samples = m.weights[:0], m.samples[:0] }

func (m *mixing) add(weight float64, sample []float64) {
	m.weights, m.samples = append(m.weights, weight), append(m.samples, sample)
}

// moments writes mean and standard deviation of the likelihood's mean, by the law of total variance.
func (m *mixing) moments(mean, sd []float64, model expfam.Model, row []float64) {
	n := len(mean)
	total := 0.0
	for c, sample := range m.samples {
		model.Estimate(m.mean[c*n:(c+1)*n], m.sd[c*n:(c+1)*n], sample, row)
		total += m.weights[c]
	}
	for o := range n {
		sum, spread := 0.0, 0.0
		for c, w := range m.weights {
			sum += w / total * m.mean[c*n+o]
		}
		for c, w := range m.weights {
			diff, v := m.mean[c*n+o]-sum, m.sd[c*n+o]
			spread += w / total * (v*v + diff*diff)
		}
		mean[o], sd[o] = sum, math.Sqrt(spread)
	}
}

// moments returns the slices for mean and standard deviation of step t.
func (g *Segmentation) moments(t int) (mean, sd []float64) {
	n := g.model.Outputs()
	return g.mean[t*n : (t+1)*n], g.sd[t*n : (t+1)*n]
}

// Mean returns the mean of the likelihood's mean at step t, given the whole session. The regressors are those
// of the step's last observation. Undefined results are NaN, infinite ones +Inf.
func (g *Segmentation) Mean(t int) []float64 { mean, _ := g.moments(t); return mean }

// SD returns the standard deviation of the likelihood's mean at step t, see Mean.
func (g *Segmentation) SD(t int) []float64 { _, sd := g.moments(t); return sd }

// Sample returns the effective sample of the lane with the largest weight at step t, in the segment of the
// step. The model's methods Posterior and Memory convert it to results of that lane.
func (g *Segmentation) Sample(t int) []float64 {
	k := g.model.Len()
	i := segmentOf(g.stepIndex, t) - 1
	if i = max(i, 0); len(g.stepIndex) == 0 {
		return make([]float64, k)
	}
	return g.samples[i*k : (i+1)*k : (i+1)*k]
}

// SegmentEstimate writes mean and standard deviation of the likelihood's mean in segment k, as if the segment
// did not drift, to slices of length Model.Outputs. The regressors are those of step t.
func (g *Segmentation) SegmentEstimate(mean, sd []float64, k, t int) {
	if n := g.model.Outputs(); len(mean) != n || len(sd) != n {
		panic("segments: destination of the wrong length")
	}
	g.model.Estimate(mean, sd, g.Segments[k].d, g.lanes.row(g, t))
}

// PredictSegment writes mean and standard deviation of one observation in segment k, see SegmentEstimate.
func (g *Segmentation) PredictSegment(mean, sd []float64, k, t int) {
	g.model.Predict(mean, sd, g.Segments[k].d, 1, g.lanes.row(g, t))
}

// Predict writes mean and standard deviation of one observation at step t, given the session, to slices of
// length Model.Outputs. It uses the lane with the largest weight at step t.
func (g *Segmentation) Predict(mean, sd []float64, t int) {
	if n := g.model.Outputs(); len(mean) != n || len(sd) != n {
		panic("segments: destination of the wrong length")
	}
	g.model.Predict(mean, sd, g.Sample(t), 1, g.lanes.row(g, t))
}

// Changes returns the steps at which a segment begins, except the first segment of the session.
func (g *Segmentation) Changes() (steps []int) {
	for _, s := range g.Segments {
		if s.Start > 0 || s.Start == 0 && g.opens {
			steps = append(steps, s.Start)
		}
	}
	return steps
}

// Places returns the intervals of the places of Changes, in steps. Bounds are negative or at least Len if they
// are in another part of the session.
func (g *Segmentation) Places() []expfam.ChangeInterval { return g.places }

// A Trend describes how the level of a session without changes moves.
type Trend int

const (
	// Steady is a session that neither drifts nor wanders, or that has a change.
	Steady Trend = iota
	// Drifts is a session of the kind Line, by more than a nat against constant levels.
	Drifts
	// Wanders is a session of the kind Walk, by more than a nat against constant levels. A session without a kind
	// wanders if a lane of memory 40 or less predicts it better than the longest lane, by more than three nats.
	Wanders
)

// Trend returns the trend of the session.
func (g *Segmentation) Trend() Trend {
	const clear = 3.
	switch l := &g.likelihood; {
	case len(g.Segments) != 1 || g.opens:
		return Steady
	case g.kind != NoKind:
		return g.trend
	case max(l[0], l[1], l[2]) > l[laneCount-1]+clear:
		return Wanders
	}
	return Steady
}
