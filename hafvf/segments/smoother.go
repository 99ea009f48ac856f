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
//   - Was this an accident? A detecting bank runs over the session and over its reverse.
//     What both find odd is one, as right after an edge only the forward bank is
//     surprised. An observation counts r = 1 − P(accident) times. Runs of eight or more
//     are no accidents.
//   - Did the regime end? Neighbouring segments join, from the pair of the least change
//     evidence E on, until all of them are above the threshold
//     log(odds) + 0.7·log(min(n, 1000)) for a session of n observations. Then each edge is
//     judged beside the others alone, at 0.4·log(min(n, 1000)): what the lanes explain by
//     drift has none, nor has what is small beside the other changes of the session.
//   - How fast does the mean drift? Inside a segment, five filters of fixed weights,
//     the lanes, run forward and backward and are averaged by what they predict.
//
// Near an edge the estimate is a mixture over where the edge is. Evidence and estimates
// are of natural parameters alone, and so for every family. Values of a Scaleless family tell
// little each. There E is also taken from what the lanes predict of two segments apart and
// together, with the threshold log(odds) + 0.58·log(min(n, 1000)); either is enough. Of
// bernoulli and categorical values none is an accident.
//
// Time and memory are linear in the session's length, up to the logarithm of the number of
// candidates for edges. A Segmenter owns its scratch: one per goroutine. It takes two
// goroutines for long sessions where GOMAXPROCS allows that, with the same result.
type Segmenter struct {
	model   expfam.Model
	odds    float64
	workers [2]*lanes
	banks   [2]*hafvf.Bank // that find accidents; nil where there are none
}

const (
	edgePrior   = .7    // of the logarithm of the session's length, in the threshold
	blocksPrior = .58   // the same of evidence from two blocks alone
	keptPrior   = .4    // the same of edges that have been found, each of which may be at any of the places near
	edgeHorizon = 1000  // observations, above which a length no longer counts there
	longRun     = 8     // observations in a row that are no accidents, however odd each of them is
	maxJudged   = 4     // times that edges are judged by themselves
	leastPlace  = 1e-6  // probability above which a place of an edge is part of an estimate
	leastShare  = 1e-12 // as leastPlace, of a lane
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
		if hasAccidents(model) {
			s.banks[i] = hafvf.NewBank(withoutWindow(model), accidentBank, hafvf.DefaultForgetting, &hafvf.Detect{})
			s.banks[i].WithoutELBO()
		}
	}
	return s
}

// Use replaces the smoother's model by m, as Filter.Use.
func (s *Segmenter) Use(m expfam.Model) {
	s.model = m
	for i, l := range s.workers {
		l.use(m)
		if s.banks[i] != nil {
			s.banks[i].Use(withoutWindow(m))
		}
	}
}

// hasAccidents reports whether an observation of the model can be an accident. A rare
// category is none: without its rare heads a coin would have a lower rate.
func hasAccidents(m expfam.Model) bool {
	_, discrete := m.(expfam.Discrete)
	return !discrete
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

	lanes     *lanes // of the smoother
	model     expfam.Model
	steps     [][][]float64
	earlier   [][][]float64 // the steps of the part before, from which an autoregression takes values
	threshold float64
	lead      float64 // threshold, less that of evidence from blocks alone

	// By observation, that is by step that isn't missing:
	at      []int     // its step
	regular []float64 // r, the probability that it is no accident

	edges   []int     // the first observations of all segments but the first
	shares  []float64 // the lanes' log shares at every observation, relative to each other; not kept
	opening perLane   // the log shares at the first observation

	// Of a part of a session, what it has of the parts on either side:
	before, after   []float64  // the lanes' samples of those that go on into this one; nil without
	seeds, outcomes [2]perLane // the lanes' log shares that the passes begin with, forward and backward, and what they end with
	joint           float64    // change evidence between the part before and this one; NaN without
	begins, ends    bool       // whether the session begins or ends with this part
	opens           bool       // whether this part begins with an edge

	mean, sd []float64     // by step
	samples  []float64     // by observation, of the heaviest lane
	places   []hafvf.Place // of the changes
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
	g.begins, g.ends = true, true
	g.expect(s.odds, len(g.at))
	b := newBuffers(g.lanes, len(g.at))
	s.segment(g, b)
	if !s.settle([]*Segmentation{g}, b) {
		g.shares = nil
		g.cut()
	}
	s.findPlaces([]*Segmentation{g})
	s.estimate(g, b)
	return g
}

// Segment does the first half of Smooth for a session that is cut into parts, each of which
// is searched for segments by itself: the scratch that this takes is that of the longest
// part. A segment goes on over a cut unless the evidence of a change there is above the
// threshold. Estimate does the second half for each part.
func (s *Segmenter) Segment(parts ...[][][]float64) []*Segmentation {
	all := make([]*Segmentation, len(parts))
	n := 0
	var earlier [][][]float64
	window := s.workers[0].rowsOf.Window()
	for k, steps := range parts {
		all[k] = s.newSegmentation(earlier, steps)
		earlier = slices.Concat(earlier, lastSteps(steps, window))
		earlier = lastSteps(earlier, window)
		n += len(all[k].at)
	}
	for k, g := range all {
		g.begins, g.ends = k == 0, k == len(all)-1
		g.expect(s.odds, n)
		s.segment(g, newBuffers(g.lanes, len(g.at)))
	}
	longest := 0
	for k, g := range all {
		longest = max(longest, len(g.at))
		g.opens = k > 0 && len(g.at) > 0
	}
	s.settle(all, newBuffers(s.workers[0], longest))
	for _, g := range all {
		g.shares = nil
		g.cut()
	}
	s.join(all)
	s.findPlaces(all)
	return all
}

// findPlaces sets the places of the changes of a session.
func (s *Segmenter) findPlaces(parts []*Segmentation) {
	l := s.workers[0]
	n := 0
	offsets := make([]int, len(parts)) // observations before a part
	var changes []int
	for k, g := range parts {
		offsets[k] = n
		if g.opens {
			changes = append(changes, n)
		}
		for _, e := range g.edges {
			changes = append(changes, n+e)
		}
		n += len(g.at)
	}
	if len(changes) == 0 {
		return
	}
	partOf := func(i int) int { // that has observation i: of several that begin there, the last has any
		k, _ := slices.BinarySearch(offsets, i+1)
		return k - 1
	}
	places := hafvf.Places(l.model, n, changes, func(d []float64, i int) {
		k := partOf(i)
		g := parts[k]
		l.observe(d, l.rows(g, i-offsets[k]), g.regular[i-offsets[k]])
	})
	steps := make([]int, len(parts)) // before a part
	for k, g := range parts[:len(parts)-1] {
		steps[k+1] = steps[k] + len(g.steps)
	}
	stepOf := func(i int) int { k := partOf(i); return steps[k] + parts[k].at[i-offsets[k]] }
	for i, p := range places {
		k := partOf(changes[i])
		// A change is after the observation before, perhaps in a gap.
		p.From, p.To = stepOf(p.From-1)+1-steps[k], stepOf(p.To)-steps[k]
		parts[k].places = append(parts[k].places, p)
	}
}

// lastSteps are the last n steps, or all of them where there are fewer.
func lastSteps(steps [][][]float64, n int) [][][]float64 { return steps[max(0, len(steps)-n):] }

func (s *Segmenter) newSegmentation(earlier, steps [][][]float64) *Segmentation {
	g := &Segmentation{lanes: s.workers[0], model: s.model, earlier: earlier, steps: steps, Missing: make([]bool, len(steps)), joint: math.NaN()}
	n := 0
	for t, xs := range steps {
		s.checkVectors(xs)
		rows := g.lanes.rowsOf.At(earlier, steps, t)
		if g.Missing[t] = !slices.ContainsFunc(rows, func(row []float64) bool { return !expfam.Incomplete(row) }); !g.Missing[t] {
			n++
		}
	}
	g.at = make([]int, 0, n)
	for t, missing := range g.Missing {
		if !missing {
			g.at = append(g.at, t)
		}
	}
	g.regular = slices.Repeat([]float64{1}, n)
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

// Threshold is the evidence in nats that an edge takes in a session of n observations, at odds
// in favour of a change.
func Threshold(odds float64, n int) float64 { return threshold(odds, n, edgePrior) }

func threshold(odds float64, n int, prior float64) float64 {
	return math.Log(odds) + prior*math.Log(float64(min(max(n, 1), edgeHorizon)))
}

// expect sets the thresholds for a session of n observations.
func (g *Segmentation) expect(odds float64, n int) {
	g.threshold = Threshold(odds, n)
	g.lead = g.threshold - threshold(odds, n, blocksPrior)
}

// segment finds accidents and segments.
func (s *Segmenter) segment(g *Segmentation, b buffers) {
	if s.banks[0] != nil {
		s.findAccidents(g, b)
	}
	s.findEdges(g, b)
	g.shares = nil
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
func (s *Segmenter) findAccidents(g *Segmentation, b buffers) {
	n := len(g.at)
	parallel.Do(2, g.goroutines(), func(worker, pass int) {
		bank := s.banks[worker]
		state := bank.NewState()
		for j := range n {
			i := j
			if pass == 1 {
				i = n - 1 - j
			}
			b.shares[pass*n+i] = bank.Update(state, s.workers[worker].rows(g, i)...).Detection.Stay
		}
	})
	forward, backward := b.shares[:n], b.shares[n:2*n]
	run := 0
	for i := range g.regular {
		g.regular[i] = 1 - math.Min(1-forward[i], 1-backward[i])
		if g.regular[i] < .5 {
			run++
			continue
		}
		g.keepLong(i, run)
		run = 0
	}
	g.keepLong(n, run)
}

// keepLong makes a run of observations before i regular, if it is a long one.
func (g *Segmentation) keepLong(i, run int) {
	if run >= longRun {
		for j := i - run; j < i; j++ {
			g.regular[j] = 1
		}
	}
}

// findEdges sets the edges of the segments. The second sweep looks inside of the segments
// that the first has found; a third one finds hardly anything.
func (s *Segmenter) findEdges(g *Segmentation, b buffers) {
	const sweeps = 2
	l := s.workers[0]
	if len(g.at) == 0 {
		return
	}
	var before, tried []int
	for sweep := range sweeps {
		cuts := s.candidates(g, b, g.edges, before, tried)
		if sweep > 0 && slices.Equal(cuts, tried) {
			return // it would do as the one before
		}
		e := elimination{lanes: l, regular: g.regular, begins: g.begins, ends: g.ends, threshold: g.threshold, lead: g.lead, blocks: s.blocks(g, b, cuts)}
		before, g.edges = g.edges, e.eliminate()
		l.place(g, g.edges)
		if tried = cuts; e.accidents {
			before, tried = nil, nil
		}
	}
}

// settle judges the edges of the parts of a session once more, by shares of lanes whose
// samples begin anew at the edges alone, and by the sizes of all changes. Samples that begin
// anew at every candidate favour long memory, and so drift has edges before. A cut between
// parts is an edge where the evidence says so. It returns whether the parts have their
// segments, and the last of them the shares under its edges.
func (s *Segmenter) settle(parts []*Segmentation, b buffers) (shared bool) {
	if s.banks[0] == nil && len(parts) == 1 {
		return false // a toss tells so little that drift explains every edge of a volatile coin
	}
	l := s.workers[0]
	n := 0
	for _, g := range parts {
		n += len(g.at)
	}
	regular := make([]float64, 0, n)
	for range maxJudged {
		e := elimination{lanes: l, regular: regular, begins: true, ends: true, threshold: threshold(s.odds, n, keptPrior)}
		tried := 0
		for _, g := range parts {
			if len(g.at) == 0 {
				continue
			}
			blocks := s.blocks(g, b, g.edges)
			g.opening = blocks[0].shares
			g.cut()
			for k := range blocks {
				blocks[k].d = slices.Clone(g.Segments[k].d)
				blocks[k].from += len(e.regular)
				blocks[k].end += len(e.regular)
			}
			e.blocks = append(e.blocks, blocks...)
			e.regular = append(e.regular, g.regular...)
			if tried += len(g.edges); g.opens {
				tried++
			}
		}
		if len(e.blocks) == 0 {
			return false
		}
		e.sizes = newSizes(s.model, e.blocks)
		edges := e.eliminate()
		from, rest := 0, edges
		for _, g := range parts {
			n := len(g.at)
			copy(g.regular, e.regular[from:from+n])
			if g.opens = len(rest) > 0 && rest[0] == from; g.opens {
				rest = rest[1:]
			}
			was := len(g.edges)
			g.edges = nil
			for ; len(rest) > 0 && rest[0] < from+n; rest = rest[1:] {
				g.edges = append(g.edges, rest[0]-from)
			}
			if len(g.edges) < was {
				l.place(g, g.edges)
			}
			from += n
		}
		if len(edges) == tried && !e.accidents {
			return true
		}
	}
	return false
}

// place moves every edge to where its evidence is largest.
func (l *lanes) place(g *Segmentation, edges []int) {
	from := 0
	for k, c := range edges {
		end := endOf(edges, k+1, len(g.at))
		p := g.sharesAt(c)
		first, evidence := l.locate(g, nil, from, c, end, &p)
		best := 0
		for j, e := range evidence {
			if e >= evidence[best] {
				best = j
			}
		}
		edges[k] = first + best
		from = edges[k]
	}
}

// share sets the lanes' log shares at every observation: of what they predict forward up
// to it and backward after it. Samples begin anew at the cuts. Shares do not: how a
// stream drifts is the stream's, not the segment's. The blocks between the cuts, nil where
// nobody asks for them, get their samples.
func (s *Segmenter) share(g *Segmentation, b buffers, cuts []int, blocks []block) {
	n := len(g.at)
	g.shares = b.shares
	back := b.sets[:n*laneCount]
	parallel.Do(2, g.goroutines(), func(worker, pass int) {
		l := s.workers[worker]
		share := g.seeds[pass]
		defer func() { g.outcomes[pass] = share }()
		var likelihood perLane
		if pass == 0 {
			leave := func(k int) {
				if blocks != nil {
					copy(blocks[k].f, l.set)
					blocks[k].likelihood = likelihood
				}
			}
			begin(l.set, g.before)
			k := 0
			for i := range n {
				if k < len(cuts) && cuts[k] == i {
					leave(k)
					clear(l.set)
					likelihood = perLane{}
					k++
				}
				l.score(&share, &likelihood, l.set, g, i)
				if i+1 < n {
					share.decay()
				}
				copy(g.shares[i*laneCount:], share[:])
			}
			leave(k)
			return
		}
		begin(l.set, g.after)
		k := len(cuts)
		for i := n - 1; i >= 0; i-- {
			if k > 0 && cuts[k-1] == i+1 {
				if blocks != nil {
					copy(blocks[k].b, l.set)
				}
				clear(l.set)
				k--
			}
			share.decay()
			copy(back[i*laneCount:], share[:])
			l.score(&share, &likelihood, l.set, g, i)
		}
		if blocks != nil {
			copy(blocks[0].b, l.set)
		}
	})
	for i, v := range back {
		g.shares[i] += v
	}
}

// sharesAt are the lanes' log shares at observation i.
func (g *Segmentation) sharesAt(i int) (p perLane) {
	copy(p[:], g.shares[i*laneCount:])
	p.normalise()
	return p
}

// candidates returns where edges may be besides those given, in order: in every lane the
// maximum of each run of evidence above log(odds), and the edges. Those of segments that
// there were before, between the edges before, are taken from that time's candidates; nil
// where there was none.
func (s *Segmenter) candidates(g *Segmentation, b buffers, edges, before, was []int) []int {
	n := len(g.at)
	old := make([]bool, len(edges)+1)
	all := slices.Clone(edges)
	for k := range old {
		from, end := startOf(edges, k), endOf(edges, k, n)
		i := segmentOf(before, from)
		if old[k] = was != nil && startOf(before, i) == from && endOf(before, i, n) == end; old[k] {
			first, _ := slices.BinarySearch(was, from)
			for ; first < len(was) && was[first] < end; first++ {
				all = append(all, was[first])
			}
		}
	}
	evidence := b.shares
	s.run(g, b, edges, old)
	s.stretches(g, func(l *lanes, from, end int) {
		set := l.set
		for i, k := end-1, segmentOf(edges, end-1); i >= from; k-- {
			first := max(from, startOf(edges, k))
			if old[k] {
				for j := range laneCount {
					for at := first; at <= i; at++ {
						evidence[j*n+at] = math.Inf(-1)
					}
				}
				i = first - 1
				continue
			}
			clear(set)
			l.backward(set, g, i+1, endOf(edges, k, n))
			for ; i >= first; i-- {
				l.advance(set, g, i)
				for j := range laneCount {
					e := math.Inf(-1)
					if i > startOf(edges, k) {
						e = l.evidenceOf(j, l.setAt(b.sets, i-1), set)
					}
					evidence[j*n+i] = e
				}
			}
		}
	})
	for j := range laneCount {
		all = append(all, hafvf.Changes(evidence[j*n:(j+1)*n], s.odds)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// run sets the sets of samples of b to those of the lanes after every observation, forward
// from every edge, but of the segments to skip.
func (s *Segmenter) run(g *Segmentation, b buffers, edges []int, skip []bool) {
	l := s.workers[0]
	for k := range len(edges) + 1 {
		if skip != nil && skip[k] {
			continue
		}
		begin(l.set, g.seedBefore(startOf(edges, k)))
		for i := startOf(edges, k); i < endOf(edges, k, len(g.at)); i++ {
			l.advance(l.set, g, i)
			copy(l.setAt(b.sets, i), l.set)
		}
	}
}

// stretches calls f for one stretch of observations or two at once.
func (s *Segmenter) stretches(g *Segmentation, f func(l *lanes, from, end int)) {
	parallel.Stretches(len(g.at), g.goroutines(), func(worker, from, end int) { f(s.workers[worker], from, end) })
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

// seedBefore and seedAfter are the samples that the lanes begin with where a segment
// begins at observation from, or backward ends at end: nil, for empty ones, but at the
// bounds of a part of a session.
func (g *Segmentation) seedBefore(from int) []float64 {
	if from == 0 {
		return g.before
	}
	return nil
}

func (g *Segmentation) seedAfter(end int) []float64 {
	if end == len(g.at) {
		return g.after
	}
	return nil
}

// cut makes the segments of the edges.
func (g *Segmentation) cut() {
	l := g.lanes
	g.Segments = nil
	from, start := 0, 0
	for k := range len(g.edges) + 1 {
		end, stop := len(g.at), len(g.steps)
		if k < len(g.edges) {
			end = g.edges[k]
			stop = g.at[end]
		}
		d := make([]float64, l.width)
		for i := from; i < end; i++ {
			l.observe(d, l.rows(g, i), g.regular[i])
		}
		g.Segments = append(g.Segments, Span{start, stop - start, d})
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
