package segments

import (
	"fmt"
	"math"
	"runtime"
	"slices"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/internal/parallel"
)

// A Segmenter smooths finished sessions in which regimes end and values may be accidents. Filter.Smooth answers
// three questions with one weight of memory, so that an edge becomes a slope and an outlier two edges. A
// Segmenter answers each question separately:
//
//   - Was this an accident? An accident is a regime of one observation inside a segment. An observation counts
//     r = 1 − P(accident) times.
//   - Did the regime end? A dynamic programme finds the segmentation with the largest posterior. A change has
//     one of two hazards: 1/40 where changes are frequent, otherwise 1/(2·min(n, 10,000)) in a session of n
//     observations. Both hazards are for odds 10. Drift costs a segment 7 or 20 nats.
//   - How fast does the mean drift? Inside a segment, five filters of fixed weights, the lanes, run forward and
//     backward and are averaged by their predictions.
//
// In sessions of up to 1,500 observations of normal or of a Scaleless family, every observation may be the
// first of a segment. A session of normal values has one Kind: its segments have constant levels under white or
// correlated noise, their levels walk, or the session is a line. The Kind with the largest evidence wins, summed
// over all segmentations and three hazards, of which the highest is 1/6. So levels that a walk explains as well
// are not changes. Neighbouring constant levels that a line explains better, a ramp, become one segment. A session
// wanders if its level walks by as much as the noise, or walks without changes.
//
// If a session is longer, wanders, or has another family, a segment can only begin where one of the lanes
// detects a change. A bank with detection runs over the session and over its reverse. An observation is an
// accident if both find it odd, except in runs of eight or more: right after an edge only the forward bank is
// surprised. In a family with a scale, each edge is judged again with only the other edges present, at
// log(odds) + 0.4·log(min(n, 1000)). This removes edges that the lanes explain by drift, and edges that are
// small compared to the other changes of the session.
//
// Near an edge the estimate is a mixture over the possible places of the edge. Evidence and estimates depend on
// natural parameters alone and therefore exist for every family. A single value of a Scaleless family carries
// little information; there the cost of the fastest drift grows with the length of a segment. Values of
// bernoulli and categorical are never accidents.
//
// Time and memory are linear in the session's length. A Segmenter owns its scratch and is not safe for
// concurrent use: use one per goroutine. For long sessions it uses two goroutines if GOMAXPROCS allows it, with
// the same result.
type Segmenter struct {
	model      expfam.Model
	odds       float64
	fitted     bool // whether Fit has set the prior
	levelsOnly bool // see LevelsOnly
	workers    [2]*lanes
	banks      [2]*hafvf.Bank // find accidents; nil for families without accidents
}

const (
	candidateOdds       = 3.    // minimum odds of a change in a lane for an edge, unless the Segmenter's odds are lower
	longRun             = 8     // odd observations in a row from which they are not accidents
	minPlaceProbability = 1e-6  // minimum probability of an edge's place in an estimate
	minLaneWeight       = 1e-12 // minimum weight of a lane in an estimate
)

// twoWorkers is the minimum number of observations in a session for a second goroutine.
const twoWorkers = 1000

// accidentBank finds accidents. Its memories are 67 and 5000 observations.
var accidentBank = []hafvf.Member{{Levels: []hafvf.Beta{}, Top: .985}, {Levels: []hafvf.Beta{}, Top: .9998}}

// NewSegmenter returns a Segmenter. An edge needs the given odds in favour of a change, above zero, in addition
// to the prior of its place. The model's naive prior must have the scale of the data, see Fit. NewSegmenter
// panics if odds is not above zero.
func NewSegmenter(model expfam.Model, odds float64) *Segmenter {
	if !(odds > 0) {
		panic(fmt.Sprintf("segments: odds %g are not above zero", odds))
	}
	s := &Segmenter{model: model, odds: odds}
	for i := range s.workers {
		s.workers[i] = newLanes(model)
		// A rare category is no accident: without its rare heads a coin would have a lower rate.
		if _, discrete := model.(expfam.Discrete); !discrete {
			s.banks[i] = hafvf.NewBank(withoutWindow(model), accidentBank, hafvf.DefaultForgetting, &hafvf.Detect{})
			s.banks[i].SkipELBO()
		}
	}
	return s
}

// LevelsOnly says that sessions have levels by design: the level of normal values neither walks nor follows a line,
// whatever their evidence. It changes nothing for other families and for sessions of more than 1,500 observations.
func (s *Segmenter) LevelsOnly() { s.levelsOnly = true }

// Fit sets the prior of the model from the values of a session, in their order. xs must have at least one value
// and no missing ones. Fit panics if the model is not an expfam.Fitted.
func (s *Segmenter) Fit(xs [][]float64) {
	s.fitted = true
	base := s.model.(expfam.Fitted)
	if segmented, ok := base.(expfam.Segmented); ok {
		s.model = segmented.FitSegments(xs)
	} else {
		s.model = base.Fit(base.LocationScale(xs))
	}
	for i, l := range s.workers {
		l.use(s.model)
		if s.banks[i] != nil {
			s.banks[i].Use(withoutWindow(s.model))
		}
	}
}

// Model returns the model.
func (s *Segmenter) Model() expfam.Model { return s.model }

// Dim returns the length of the observation vectors, as Filter.Dim does.
func (s *Segmenter) Dim() int { return s.workers[0].rowSource.Dim() }

// A Segmentation is the result of a Segmenter for a session. Slices that its methods return alias it. It uses
// scratch of the Segmenter: use both on the same goroutine.
type Segmentation struct {
	// Segments lists the segments of the session in order. A session without edges has one segment.
	Segments []Span
	// Evidence[t] is the change evidence between the steps t−1 and t, in nats, averaged over the lanes. At the
	// start of a segment it is the evidence of a change at t or at one of the nearby places. In a Scaleless
	// family it is the evidence of the ChangeInterval in Places if that is larger. It is NaN at the session's
	// first step.
	Evidence []float64
	// Missing[t] reports whether step t had no observation to learn.
	Missing []bool

	lanes   *lanes // scratch of the Segmenter
	model   expfam.Model
	steps   [][][]float64
	earlier [][][]float64 // steps of the previous part, from which an autoregression takes values

	// The following slices are indexed by observation, which is a step that is not missing.
	stepIndex []int     // step of the observation
	regular   []float64 // r, the probability that the observation is no accident

	likelihood perLane // log L of the last segment

	kind    Kind
	trend   Trend
	against float64 // evidence of kind against the next one, in nats

	edges  []int     // first observations of all segments except the first
	shares []float64 // unnormalised log shares of the lanes at every observation; nil after Smooth

	// A session is searched in parts, one after the other. bounds holds their first observations, and the
	// number of observations at the end. crossings holds the state of the forward and backward passes when they
	// enter a part.
	bounds    []int
	crossings [2][]crossing

	// If the Segmentation is a part of a session:
	begun, continues bool // whether other parts come before it, and observations after it
	opens            bool // whether it begins with an edge

	mean, sd []float64               // by step
	samples  []float64               // by observation, of the lane with the largest weight
	places   []expfam.ChangeInterval // places of the changes
}

// A Span is a regime of a session.
type Span struct {
	// Start is the first step of the regime. It is negative if the regime starts in a previous part.
	Start int
	N     int       // number of steps, including missing ones
	d     []float64 // Σ r·T(x)
}

// Smooth smooths the steps of a finished session. Each step has J ≥ 0 observations, which must pass
// Filter.Check. A step without observations has the posterior of the previous step.
func (s *Segmenter) Smooth(steps [][][]float64) *Segmentation {
	g := s.newSegmentation(nil, steps)
	b := newBuffers(g.lanes, len(g.stepIndex))
	s.search(g, b)
	s.estimate(g, b)
	return g
}

// Segment does the first half of Smooth for a session that is cut into parts, with the scratch of the longest
// part. Call Estimate with each result for the second half.
func (s *Segmenter) Segment(parts ...[][][]float64) []*Segmentation {
	g := s.newSegmentation(nil, slices.Concat(parts...))
	g.bounds = g.bounds[:1]
	out, steps, longest := make([]*Segmentation, len(parts)), 0, 0
	var earlier [][][]float64
	window := s.workers[0].rowSource.Window()
	for k, part := range parts {
		out[k] = s.newSegmentation(earlier, part)
		earlier = lastSteps(slices.Concat(earlier, lastSteps(part, window)), window)
		g.bounds = append(g.bounds, g.bounds[k]+len(out[k].stepIndex))
		longest = max(longest, len(out[k].stepIndex))
	}
	s.search(g, newBuffers(g.lanes, longest))
	s.cross(g, g.edges)
	for k, part := range out {
		s.part(g, part, k, steps)
		steps += len(part.steps)
	}
	return out
}

// part copies the results for part k of the session from whole to g. steps is the number of steps before the
// part.
func (s *Segmenter) part(whole, g *Segmentation, k, steps int) {
	from, end := whole.bounds[k], whole.bounds[k+1]
	copy(g.regular, whole.regular[from:end])
	g.begun, g.continues = k > 0, end < len(whole.stepIndex)
	g.kind, g.against, g.trend = whole.kind, whole.against, whole.trend
	g.crossings = [2][]crossing{whole.crossings[0][k : k+1], whole.crossings[1][k : k+1]}
	for i, e := range whole.edges {
		if e < from || e >= end {
			continue
		}
		p := whole.places[i]
		p.From, p.To = p.From-steps, p.To-steps
		g.places = append(g.places, p)
		if g.opens = g.opens || e == from; e > from {
			g.edges = append(g.edges, e-from)
		}
	}
	for i, span := range whole.Segments {
		last := i+1 == len(whole.Segments)
		span.Start -= steps
		if span.Start < max(len(g.steps), 1) && (span.Start+span.N > 0 || last) {
			g.Segments = append(g.Segments, span)
		}
	}
}

// search finds accidents, segments and the places of changes.
func (s *Segmenter) search(g *Segmentation, b buffers) {
	if r := s.newRecursion(g); r != nil {
		wanders := r.search(s.odds, s.levelsOnly)
		if !wanders {
			r.findAccidents()
			s.finish(g)
			return
		}
		g.edges = nil
	}
	s.searchLong(g, b)
}

// searchLong is search for a session that is long or wanders: an edge needs a lane that detects a change.
func (s *Segmenter) searchLong(g *Segmentation, b buffers) {
	if s.banks[0] != nil {
		s.findAccidents(g)
	}
	s.findEdges(g, b)
	if _, scaleless := s.model.(expfam.Scaleless); scaleless || len(g.stepIndex) == 0 || !s.judgeEdges(g, b) {
		g.shares = nil
	}
	s.finish(g)
}

// finish sets the segments between the edges, and the places of the edges.
func (s *Segmenter) finish(g *Segmentation) {
	g.cut()
	if len(g.edges) == 0 {
		return
	}
	l := s.workers[0]
	g.places = expfam.ChangeIntervals(l.model, len(g.stepIndex), g.edges, func(d []float64, i int) { l.observe(d, l.rows(g, i), g.regular[i]) })
	for i, p := range g.places {
		// A change is after the previous observation, perhaps in a gap.
		g.places[i].From, g.places[i].To = g.stepIndex[p.From-1]+1, g.stepIndex[p.To]
	}
}

// lastSteps returns the last n steps, or all of them if there are fewer.
func lastSteps(steps [][][]float64, n int) [][][]float64 { return steps[max(0, len(steps)-n):] }

func (s *Segmenter) newSegmentation(earlier, steps [][][]float64) *Segmentation {
	g := &Segmentation{lanes: s.workers[0], model: s.model, earlier: earlier, steps: steps}
	g.Missing, g.stepIndex = make([]bool, len(steps)), make([]int, 0, len(steps))
	for t, xs := range steps {
		s.checkVectors(xs)
		rows := g.lanes.rowSource.At(earlier, steps, t)
		if g.Missing[t] = !slices.ContainsFunc(rows, func(row []float64) bool { return !expfam.Incomplete(row) }); !g.Missing[t] {
			g.stepIndex = append(g.stepIndex, t)
		}
	}
	g.regular = slices.Repeat([]float64{1}, len(g.stepIndex))
	g.bounds = []int{0, len(g.stepIndex)}
	g.crossings = [2][]crossing{{{set: g.lanes.newSet()}}, {{set: g.lanes.newSet()}}}
	return g
}

// checkVectors panics if xs are not the vectors of a step.
func (s *Segmenter) checkVectors(xs [][]float64) {
	if _, sequential := s.model.(expfam.Sequential); sequential && len(xs) > 1 {
		panic("segments: several vectors in a step of a sequential model")
	}
	for _, x := range xs {
		if len(x) != s.Dim() && !(len(x) == 1 && x[0] != x[0]) {
			panic("segments: vector of the wrong length in a step")
		}
	}
}

// buffers are the large arrays of a pass over a session: 20 floats per observation for the normal family.
type buffers struct {
	sets   []float64 // a set of samples per observation
	shares []float64 // a number per lane and observation
}

func newBuffers(l *lanes, n int) buffers {
	return buffers{make([]float64, n*len(l.set)), make([]float64, n*laneCount)}
}

// goroutines returns the number of goroutines for the session.
func (g *Segmentation) goroutines() int {
	if len(g.stepIndex) >= twoWorkers {
		return min(2, runtime.GOMAXPROCS(0))
	}
	return 1
}

// findAccidents sets regular for every observation.
func (s *Segmenter) findAccidents(g *Segmentation) {
	n := len(g.stepIndex)
	stay := [2][]float64{make([]float64, n), g.regular} // forward and backward
	parallel.Do(2, g.goroutines(), func(worker, pass int) {
		bank := s.banks[worker]
		state := bank.NewState()
		for j := range n {
			i := j
			if pass == 1 {
				i = n - 1 - j
			}
			stay[pass][i] = bank.Update(state, s.workers[worker].rows(g, i)...).Detection.Stay
		}
	})
	for i, forward := range stay[0] {
		g.regular[i] = 1 - math.Min(1-forward, 1-g.regular[i])
	}
	for i := 0; i < n; i++ {
		from := i
		for i < n && g.regular[i] < .5 {
			i++
		}
		for j := from; i-from >= longRun && j < i; j++ {
			g.regular[j] = 1
		}
	}
}

// findEdges sets the edges of the segments. The second sweep searches inside the segments of the first one; a
// third sweep finds hardly anything. findEdges returns the log posterior of the segments before their edges are
// placed.
func (s *Segmenter) findEdges(g *Segmentation, b buffers) (logPosterior float64) {
	const sweeps, tries = 2, 3
	l := s.workers[0]
	if len(g.stepIndex) == 0 {
		return 0
	}
	p := newPrices(s.odds, len(g.stepIndex))
	foundAccidents := false
	var tried []int
	for sweep := range sweeps {
		cuts := s.candidates(g, b)
		if sweep > 0 && slices.Equal(cuts, tried) {
			break // the result would be the same
		}
		tried = cuts
		for try := range tries {
			blocks := s.blocks(g, b, cuts)
			var begins []int
			begins, logPosterior = l.partition(blocks, p)
			l.place(g, blocks, begins)
			if try+1 == tries || s.banks[0] == nil || !l.accidents(g, -p.change[0]) {
				break
			}
			foundAccidents = true
		}
		if len(g.edges) == 0 && !foundAccidents {
			break
		}
	}
	return logPosterior
}

// place sets the edges to the starts of the given blocks, each moved to the place with the largest evidence
// among the places that leave both sides long enough.
func (l *lanes) place(g *Segmentation, blocks []block, begins []int) {
	g.edges = g.edges[:0:0]
	from := 0
	for k, j := range begins {
		c, end := blocks[j].from, len(g.stepIndex)
		if k+1 < len(begins) {
			end = blocks[begins[k+1]].from
		}
		lo, hi := from, end
		for regular := 0.; lo < c && regular < minSegment; lo++ {
			regular += g.regular[lo]
		}
		for regular := 0.; hi > c && regular < minSegment; hi-- {
			regular += g.regular[hi-1]
		}
		first, evidence := l.locate(g, nil, from, c, end, &blocks[j].shares)
		from = c
		for i, e := range evidence {
			if place := first + i; lo <= place && place <= hi && e >= evidence[from-first] {
				from = place
			}
		}
		g.edges = append(g.edges, from)
	}
}

// A crossing is the state of a pass over a session when it enters a part.
type crossing struct {
	set               []float64 // the lanes' samples
	share, likelihood perLane   // logarithms; likelihood covers the present block
}

// parts returns the number of parts in which the session is searched.
func (g *Segmentation) parts() int { return len(g.bounds) - 1 }

// cross sets the crossings of passes whose samples are reset at the cuts.
func (s *Segmenter) cross(g *Segmentation, cuts []int) {
	parts := g.parts()
	if parts == 1 {
		return
	}
	parallel.Do(2, g.goroutines(), func(worker, pass int) {
		l := s.workers[worker]
		crossings := make([]crossing, parts)
		crossings[pass*(parts-1)].set = l.newSet()
		for j := range parts - 1 {
			k, next := j, j+1
			if pass == 1 {
				k, next = parts-1-j, parts-2-j
			}
			crossings[next] = crossings[k].clone()
			l.pass(pass, g, &crossings[next], k, cuts, nil, nil)
		}
		g.crossings[pass] = crossings
	})
}

func (c *crossing) clone() crossing {
	return crossing{slices.Clone(c.set), c.share, c.likelihood}
}

// share sets the lanes' log shares at every observation of a part, from their predictions forward up to the
// observation and backward after it. Samples are reset at the cuts. Shares are not: drift is a property of the
// stream and not of the segment. If blocks is not nil, share also sets the samples of the blocks between the
// cuts.
func (s *Segmenter) share(g *Segmentation, b buffers, part int, cuts []int, blocks []block) {
	n := (g.bounds[part+1] - g.bounds[part]) * laneCount
	shares := [2][]float64{b.shares[:n], b.sets[:n]}
	parallel.Do(2, g.goroutines(), func(worker, pass int) {
		c := g.crossings[pass][part].clone()
		s.workers[worker].pass(pass, g, &c, part, cuts, blocks, shares[pass])
	})
	g.shares = b.shares
	for i, v := range shares[1] {
		g.shares[i] += v
	}
}

// pass runs the lanes over a part, forward in pass 0 and backward in pass 1. It writes the log shares and the
// results of the blocks, unless shares or blocks is nil.
func (l *lanes) pass(pass int, g *Segmentation, c *crossing, part int, cuts []int, blocks []block, shares []float64) {
	n, from, end := len(g.stepIndex), g.bounds[part], g.bounds[part+1]
	k := segmentOf(cuts, from)
	if pass == 1 {
		k = segmentOf(cuts, end-1)
	}
	for j := range end - from {
		i := from + j
		if pass == 0 {
			l.score(&c.share, &c.likelihood, c.set, g, i)
		} else {
			i = end - 1 - j
		}
		if pass == 1 || i+1 < n || g.continues {
			c.share.decay()
		}
		if shares != nil {
			copy(shares[(i-from)*laneCount:], c.share[:])
		}
		if pass == 1 {
			l.score(&c.share, &c.likelihood, c.set, g, i)
		}
		if bound := [...]bool{i+1 == endOf(cuts, k, n), i == startOf(cuts, k)}; !bound[pass] {
			continue
		}
		if pass == 0 {
			g.likelihood = c.likelihood
		}
		if blocks != nil {
			if b := &blocks[k]; pass == 0 {
				copy(b.f, c.set)
				b.likelihood = c.likelihood
			} else {
				copy(b.b, c.set)
			}
		}
		clear(c.set)
		c.likelihood = perLane{}
		k += 1 - 2*pass
	}
}

// sharesAt returns the normalised log shares of the lanes at observation i.
func (g *Segmentation) sharesAt(i int) (p perLane) {
	copy(p[:], g.shares[i*laneCount:])
	p.normalise()
	return p
}

// candidates returns the possible edges in order: the present edges, and in every lane the maximum of each run
// of evidence above the odds of candidates.
func (s *Segmenter) candidates(g *Segmentation, b buffers) []int {
	edges := g.edges
	cuts := slices.Clone(edges)
	s.cross(g, edges)
	threshold := math.Log(min(candidateOdds, s.odds))
	var peaks [laneCount]expfam.Peaks
	for part := range g.parts() {
		from, end := g.bounds[part], g.bounds[part+1]
		n := end - from
		evidence := b.shares[:n*laneCount]
		for i := range evidence {
			evidence[i] = math.Inf(-1)
		}
		s.run(g, b, part)
		s.parts(g, part, func(l *lanes, lo, hi int) {
			set := l.set
			for i, k := hi-1, segmentOf(edges, hi-1); i >= lo; k-- {
				first := startOf(edges, k)
				l.backward(set, g, part, i+1, min(endOf(edges, k, len(g.stepIndex)), end))
				for ; i >= max(lo, first); i-- {
					l.advance(set, g, i)
					before := g.crossings[0][part].set
					if i > from {
						before = l.setAt(b.sets, i-1-from)
					}
					for j := 0; j < laneCount && i > first; j++ {
						evidence[j*n+i-from] = l.laneEvidence(j, before, set)
					}
				}
			}
		})
		for j := range peaks {
			peaks[j].Add(evidence[j*n:(j+1)*n], from, threshold)
		}
	}
	for j := range peaks {
		cuts = append(cuts, peaks[j].Positions...)
	}
	slices.Sort(cuts)
	return slices.Compact(cuts)
}

// run sets b.sets to the lanes' samples after every observation of a part, forward from every edge.
func (s *Segmenter) run(g *Segmentation, b buffers, part int) {
	l := s.workers[0]
	from, end := g.bounds[part], g.bounds[part+1]
	copy(l.set, g.crossings[0][part].set)
	for i, k := from, segmentOf(g.edges, from); i < end; k++ {
		stop := min(endOf(g.edges, k, len(g.stepIndex)), end)
		for ; i < stop; i++ {
			l.advance(l.set, g, i)
			copy(l.setAt(b.sets, i-from), l.set)
		}
		clear(l.set)
	}
}

// parts splits the observations of a part into one or two stretches, and calls f for each, concurrently.
func (s *Segmenter) parts(g *Segmentation, part int, f func(l *lanes, from, end int)) {
	first, n := g.bounds[part], g.bounds[part+1]-g.bounds[part]
	parallel.Chunks(n, g.goroutines(), func(worker, from, end int) { f(s.workers[worker], first+from, first+end) })
}

// segmentOf returns the index of the segment that contains observation i.
func segmentOf(edges []int, i int) int {
	k, found := slices.BinarySearch(edges, i)
	if found {
		k++
	}
	return k
}

// startOf returns the first observation of segment k.
func startOf(edges []int, k int) int {
	if k > 0 {
		return edges[k-1]
	}
	return 0
}

// endOf returns the observation after the last one of segment k, in a session of n observations.
func endOf(edges []int, k, n int) int {
	if k < len(edges) {
		return edges[k]
	}
	return n
}

// cut sets Segments from the edges.
func (g *Segmentation) cut() {
	g.Segments = nil
	from, start := 0, 0
	for k := range len(g.edges) + 1 {
		end, stop := len(g.stepIndex), len(g.steps)
		if k < len(g.edges) {
			end = g.edges[k]
			stop = g.stepIndex[end]
		}
		g.Segments = append(g.Segments, Span{start, stop - start, g.lanes.total(g, from, end)})
		from, start = end, stop
	}
}

// Len returns the number of steps.
func (g *Segmentation) Len() int { return len(g.steps) }

// Outlier returns the probability that the observation of step t is an accident, which does not belong to its
// segment's regime. It returns 0 for a missing observation.
func (g *Segmentation) Outlier(t int) float64 {
	if i, ok := slices.BinarySearch(g.stepIndex, t); ok {
		return 1 - g.regular[i]
	}
	return 0
}
