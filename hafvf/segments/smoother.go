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

// A Segmenter smooths finished sessions in which regimes end and values may be accidents.
// The smoother of a Filter, see Filter.Smooth, lets one weight of memory answer three
// questions, so that an edge becomes a slope and an outlier two edges. A Segmenter answers
// each by itself:
//
//   - Was this an accident? An accident is a regime of one observation inside a segment. An
//     observation counts r = 1 − P(accident) times.
//   - Did the regime end? Of all ways to cut the session, a dynamic programme finds the one of
//     the largest posterior. A change has one of two hazards: 1/40 where changes are frequent,
//     or else 1/(2·min(n, 10,000)) in a session of n observations, both at odds 10. Drift costs a
//     segment 7 nats or 20.
//   - How fast does the mean drift? Inside a segment, five filters of fixed weights,
//     the lanes, run forward and backward and are averaged by what they predict.
//
// In sessions of up to 1,500 observations of normal or of a Scaleless family every observation may
// be the first of a segment. In a segment of normal values the level is constant, a walk or a line,
// under noise whose neighbours may be correlated, by as much in the whole session. If walks explain
// most of it, or the noise is one, the session wanders.
//
// In a session that is longer, wanders, or has another family, a segment begins where one of
// the lanes sees a change. A detecting bank runs over the session and over its reverse, and what both
// find odd is an accident, but for runs of eight or more: right after an edge only the forward bank is
// surprised. In a family with a scale each edge is judged once more beside the others alone, at
// log(odds) + 0.4·log(min(n, 1000)): what the lanes explain by drift has none, nor has what is small
// beside the other changes of the session.
//
// Near an edge the estimate is a mixture over where the edge is. Evidence and estimates
// are of natural parameters alone, and so for every family. Values of a Scaleless family tell little
// each, and there the fastest drift costs more the longer it lasts. Of bernoulli and categorical
// values none is an accident.
//
// Time and memory are linear in the session's length. A Segmenter owns its scratch: one per
// goroutine. It takes two goroutines for long sessions where GOMAXPROCS allows that, with the
// same result.
type Segmenter struct {
	model   expfam.Model
	odds    float64
	fitted  bool // whether Fit has set the prior
	workers [2]*lanes
	banks   [2]*hafvf.Bank // that find accidents; nil where there are none
}

const (
	candidateOdds = 3.    // of a change in a lane, above which there may be an edge; or the odds of a change, if they are lower
	longRun       = 8     // observations in a row that are no accidents, however odd each of them is
	leastPlace    = 1e-6  // probability above which a place of an edge is part of an estimate
	leastShare    = 1e-12 // as leastPlace, of a lane
)

// twoWorkers is the length from which a session is worth a second goroutine.
const twoWorkers = 1000

// accidentBank finds accidents. Its memories are 67 and 5000 observations.
var accidentBank = []hafvf.Member{{Levels: []hafvf.Beta{}, Top: .985}, {Levels: []hafvf.Beta{}, Top: .9998}}

// NewSegmenter makes a segmenter. The odds in favour of a change, above zero, are what an
// edge takes besides the prior of its place. The model's naive prior has to be of the
// scale of the data.
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
			s.banks[i].WithoutELBO()
		}
	}
	return s
}

// Fit sets the prior of the model, which is an expfam.Fitted one, to the values of a session in their
// order: at least one, and none that is missing.
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

// Model returns the smoother's model.
func (s *Segmenter) Model() expfam.Model { return s.model }

// Dim is the length of the observation vectors, as Filter.Dim.
func (s *Segmenter) Dim() int { return s.workers[0].rowsOf.Dim() }

// A Segmentation is what a Segmenter makes of a session. Slices that its methods return
// alias it. It takes scratch of the smoother: use both on the same goroutine.
type Segmentation struct {
	// Segments are those of the session, in order. There is one where the session has no
	// edge.
	Segments []Span
	// Evidence[t] is the change evidence between the steps t−1 and t, in nats: that of a
	// change at t, averaged over the lanes, and where a segment begins that of a change
	// at t or at one of the places near. In a Scaleless family it is that of its Place
	// if that is larger. NaN at the session's first step.
	Evidence []float64
	// Missing[t] says that step t had no observation to learn.
	Missing []bool

	lanes   *lanes // of the smoother
	model   expfam.Model
	steps   [][][]float64
	earlier [][][]float64 // the steps of the part before, from which an autoregression takes values

	// By observation, that is by step that isn't missing:
	at      []int     // its step
	regular []float64 // r, the probability that it is no accident

	likelihood perLane // log L of the last segment

	explained bool // whether trend is that of the best explanation
	trend     Trend

	edges  []int     // the first observations of all segments but the first
	shares []float64 // the lanes' log shares at every observation, relative to each other; not kept

	// The parts that a session is searched in, one after the other, begin at these
	// observations, the last of which is beyond the session. The crossings are where a pass
	// enters a part, forward and backward.
	bounds    []int
	crossings [2][]crossing

	// Of a part of a session:
	begun, goesOn bool // whether there are parts before it, and observations after it
	opens         bool // whether it begins with an edge

	mean, sd []float64               // by step
	samples  []float64               // by observation, of the heaviest lane
	places   []expfam.ChangeInterval // of the changes
}

// A Span is a regime of a session.
type Span struct {
	// Start is the step that it begins with: below zero where that is in a part before.
	Start int
	N     int       // steps, missing ones too
	d     []float64 // Σ r·T(x)
}

// Smooth smooths the steps of a finished session, each with its J ≥ 0 observations, which
// Filter.Check passes. A step without any has the posterior of the one before.
func (s *Segmenter) Smooth(steps [][][]float64) *Segmentation {
	g := s.newSegmentation(nil, steps)
	b := newBuffers(g.lanes, len(g.at))
	s.search(g, b)
	s.estimate(g, b)
	return g
}

// Segment does the first half of Smooth for a session that is cut into parts: the scratch that
// this takes is that of the longest part. Estimate does the second half for each part.
func (s *Segmenter) Segment(parts ...[][][]float64) []*Segmentation {
	g := s.newSegmentation(nil, slices.Concat(parts...))
	g.bounds = g.bounds[:1]
	all, steps, longest := make([]*Segmentation, len(parts)), 0, 0
	var earlier [][][]float64
	window := s.workers[0].rowsOf.Window()
	for k, part := range parts {
		all[k] = s.newSegmentation(earlier, part)
		earlier = lastSteps(slices.Concat(earlier, lastSteps(part, window)), window)
		g.bounds = append(g.bounds, g.bounds[k]+len(all[k].at))
		longest = max(longest, len(all[k].at))
	}
	s.search(g, newBuffers(g.lanes, longest))
	s.cross(g, g.edges)
	for k, part := range all {
		s.part(g, part, k, steps)
		steps += len(part.steps)
	}
	return all
}

// part gives part k of a session, before which there are so many steps, what the session has of it.
func (s *Segmenter) part(whole, g *Segmentation, k, steps int) {
	from, end := whole.bounds[k], whole.bounds[k+1]
	copy(g.regular, whole.regular[from:end])
	g.begun, g.goesOn = k > 0, end < len(whole.at)
	g.explained, g.trend = whole.explained, whole.trend
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
		wanders := r.search(s.odds)
		if !wanders {
			r.findAccidents()
			s.finish(g)
			return
		}
		g.edges = nil
	}
	s.searchLong(g, b)
}

// searchLong is search of a session that is long or wanders: a change is where one of the lanes sees one.
func (s *Segmenter) searchLong(g *Segmentation, b buffers) {
	if s.banks[0] != nil {
		s.findAccidents(g)
	}
	s.findEdges(g, b)
	if _, scaleless := s.model.(expfam.Scaleless); scaleless || len(g.at) == 0 || !s.judgeEdges(g, b) {
		g.shares = nil
	}
	s.finish(g)
}

// finish sets the segments between the edges, and the places of these.
func (s *Segmenter) finish(g *Segmentation) {
	g.cut()
	if len(g.edges) == 0 {
		return
	}
	l := s.workers[0]
	g.places = expfam.ChangeIntervals(l.model, len(g.at), g.edges, func(d []float64, i int) { l.observe(d, l.rows(g, i), g.regular[i]) })
	for i, p := range g.places {
		// A change is after the observation before, perhaps in a gap.
		g.places[i].From, g.places[i].To = g.at[p.From-1]+1, g.at[p.To]
	}
}

// lastSteps are the last n steps, or all of them where there are fewer.
func lastSteps(steps [][][]float64, n int) [][][]float64 { return steps[max(0, len(steps)-n):] }

func (s *Segmenter) newSegmentation(earlier, steps [][][]float64) *Segmentation {
	g := &Segmentation{lanes: s.workers[0], model: s.model, earlier: earlier, steps: steps}
	g.Missing, g.at = make([]bool, len(steps)), make([]int, 0, len(steps))
	for t, xs := range steps {
		s.checkVectors(xs)
		rows := g.lanes.rowsOf.At(earlier, steps, t)
		if g.Missing[t] = !slices.ContainsFunc(rows, func(row []float64) bool { return !expfam.Incomplete(row) }); !g.Missing[t] {
			g.at = append(g.at, t)
		}
	}
	g.regular = slices.Repeat([]float64{1}, len(g.at))
	g.bounds = []int{0, len(g.at)}
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

// buffers are the large arrays of a pass over a session: 20 floats an observation for
// the normal family.
type buffers struct {
	sets   []float64 // a set of samples for every observation
	shares []float64 // a number per lane for every observation
}

func newBuffers(l *lanes, n int) buffers {
	return buffers{make([]float64, n*len(l.set)), make([]float64, n*laneCount)}
}

// goroutines is how many a session is worth.
func (g *Segmentation) goroutines() int {
	if len(g.at) >= twoWorkers {
		return min(2, runtime.GOMAXPROCS(0))
	}
	return 1
}

// findAccidents sets what observations are regular.
func (s *Segmenter) findAccidents(g *Segmentation) {
	n := len(g.at)
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

// findEdges sets the edges of the segments. The second sweep looks inside of the segments
// that the first has found; a third one finds hardly anything. It returns the log posterior of
// the segments before their edges are placed.
func (s *Segmenter) findEdges(g *Segmentation, b buffers) (logPosterior float64) {
	const sweeps, tries = 2, 3
	l := s.workers[0]
	if len(g.at) == 0 {
		return 0
	}
	p := newPrices(s.odds, len(g.at))
	odd := false
	var tried []int
	for sweep := range sweeps {
		cuts := s.candidates(g, b)
		if sweep > 0 && slices.Equal(cuts, tried) {
			break // it would do as the one before
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
			odd = true
		}
		if len(g.edges) == 0 && !odd {
			break
		}
	}
	return logPosterior
}

// place sets the edges to those of the blocks with which segments begin, each moved to where its
// evidence is largest among the places that leave both sides long enough.
func (l *lanes) place(g *Segmentation, blocks []block, begins []int) {
	g.edges = g.edges[:0:0]
	from := 0
	for k, j := range begins {
		c, end := blocks[j].from, len(g.at)
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
			if at := first + i; lo <= at && at <= hi && e >= evidence[from-first] {
				from = at
			}
		}
		g.edges = append(g.edges, from)
	}
}

// A crossing is what a pass over a session has when it comes to a part of it.
type crossing struct {
	set               []float64 // the lanes' samples
	share, likelihood perLane   // logarithms, of the present block the likelihood
}

// parts are those that a session is searched in.
func (g *Segmentation) parts() int { return len(g.bounds) - 1 }

// cross sets the crossings of passes in which samples begin anew at the cuts.
func (s *Segmenter) cross(g *Segmentation, cuts []int) {
	parts := g.parts()
	if parts == 1 {
		return
	}
	parallel.Do(2, g.goroutines(), func(worker, pass int) {
		l := s.workers[worker]
		all := make([]crossing, parts)
		all[pass*(parts-1)].set = l.newSet()
		for j := range parts - 1 {
			k, next := j, j+1
			if pass == 1 {
				k, next = parts-1-j, parts-2-j
			}
			all[next] = all[k].clone()
			l.pass(pass, g, &all[next], k, cuts, nil, nil)
		}
		g.crossings[pass] = all
	})
}

func (c *crossing) clone() crossing {
	return crossing{slices.Clone(c.set), c.share, c.likelihood}
}

// share sets the lanes' log shares at every observation of a part: of what they predict forward
// up to it and backward after it. Samples begin anew at the cuts. Shares do not: how a
// stream drifts is the stream's, not the segment's. The blocks between the cuts, nil where
// nobody asks for them, get their samples.
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

// pass runs the lanes over a part, forward in pass 0 and backward in pass 1, and writes their log
// shares and what the blocks have of it; nil where nobody asks for them.
func (l *lanes) pass(pass int, g *Segmentation, c *crossing, part int, cuts []int, blocks []block, shares []float64) {
	n, from, end := len(g.at), g.bounds[part], g.bounds[part+1]
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
		if pass == 1 || i+1 < n || g.goesOn {
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

// sharesAt are the lanes' log shares at observation i.
func (g *Segmentation) sharesAt(i int) (p perLane) {
	copy(p[:], g.shares[i*laneCount:])
	p.normalise()
	return p
}

// candidates returns where edges may be, in order: those that there are, and in every lane the
// maximum of each run of evidence above the candidates' odds.
func (s *Segmenter) candidates(g *Segmentation, b buffers) []int {
	edges := g.edges
	all := slices.Clone(edges)
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
				l.backward(set, g, part, i+1, min(endOf(edges, k, len(g.at)), end))
				for ; i >= max(lo, first); i-- {
					l.advance(set, g, i)
					before := g.crossings[0][part].set
					if i > from {
						before = l.setAt(b.sets, i-1-from)
					}
					for j := 0; j < laneCount && i > first; j++ {
						evidence[j*n+i-from] = l.evidenceOf(j, before, set)
					}
				}
			}
		})
		for j := range peaks {
			peaks[j].Add(evidence[j*n:(j+1)*n], from, threshold)
		}
	}
	for j := range peaks {
		all = append(all, peaks[j].At...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// run sets the sets of samples of b to those of the lanes after every observation of a part, forward
// from every edge.
func (s *Segmenter) run(g *Segmentation, b buffers, part int) {
	l := s.workers[0]
	from, end := g.bounds[part], g.bounds[part+1]
	copy(l.set, g.crossings[0][part].set)
	for i, k := from, segmentOf(g.edges, from); i < end; k++ {
		stop := min(endOf(g.edges, k, len(g.at)), end)
		for ; i < stop; i++ {
			l.advance(l.set, g, i)
			copy(l.setAt(b.sets, i-from), l.set)
		}
		clear(l.set)
	}
}

// parts calls f for one stretch of observations of a part or two at once.
func (s *Segmenter) parts(g *Segmentation, part int, f func(l *lanes, from, end int)) {
	first, n := g.bounds[part], g.bounds[part+1]-g.bounds[part]
	parallel.Chunks(n, g.goroutines(), func(worker, from, end int) { f(s.workers[worker], first+from, first+end) })
}

// segmentOf is the segment between edges that observation i is in.
func segmentOf(edges []int, i int) int {
	k, found := slices.BinarySearch(edges, i)
	if found {
		k++
	}
	return k
}

// startOf is where segment k between edges begins.
func startOf(edges []int, k int) int {
	if k > 0 {
		return edges[k-1]
	}
	return 0
}

// endOf is where segment k between edges ends, of n observations.
func endOf(edges []int, k, n int) int {
	if k < len(edges) {
		return edges[k]
	}
	return n
}

// cut makes the segments of the edges.
func (g *Segmentation) cut() {
	g.Segments = nil
	from, start := 0, 0
	for k := range len(g.edges) + 1 {
		end, stop := len(g.at), len(g.steps)
		if k < len(g.edges) {
			end = g.edges[k]
			stop = g.at[end]
		}
		g.Segments = append(g.Segments, Span{start, stop - start, g.lanes.total(g, from, end)})
		from, start = end, stop
	}
}

// Len is the number of steps.
func (g *Segmentation) Len() int { return len(g.steps) }

// Outlier is the probability that the observation of step t is an accident, which says
// nothing of its segment; 0 of a missing one.
func (g *Segmentation) Outlier(t int) float64 {
	if i, ok := slices.BinarySearch(g.at, t); ok {
		return 1 - g.regular[i]
	}
	return 0
}
