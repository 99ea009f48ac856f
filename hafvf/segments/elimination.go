package segments

import (
	"container/heap"
	"math"
	"slices"

	"hafvf/hafvf/expfam"
)

// A block is a stretch of observations as the elimination sees it. Two neighbours A and C
// make one in constant time: in every lane, with the samples f that a forward pass leaves
// and b that a backward pass leaves, and ω the weight that memory keeps over the block,
//
//	f = ω_C·f_A + f_C,  b = b_A + ω_A·b_C,  ω = ω_A·ω_C,  log L = log L_A + log L_C − E
type block struct {
	from, end  int
	regular    float64 // observations that are no accidents
	f, b       []float64
	omega      perLane
	likelihood perLane   // log L of its observations, by what the lanes predict of them alone
	shares     perLane   // the lanes' log shares where it begins
	d          []float64 // Σ r·T(x), where the sizes of changes count
	prev, next int       // its neighbours, −1 where there is none
}

// An elimination joins the blocks between candidates for edges, bottom up: the pair of the
// least evidence first.
type elimination struct {
	*lanes
	regular      []float64 // of the observations
	begins, ends bool      // whether the session begins or ends with the blocks
	threshold    float64
	sizes        *sizes // nil where those of changes do not count
	blocks       []block
	evidence     []float64 // of the boundary on the left of a block
	boundaries   queue     // by evidence
	short        queue     // the blocks of fewer than minSegment observations, by length
	accidents    bool      // whether there were any
	discrete     bool      // nothing is an accident
	scaleless    bool      // values tell little, and blocks are judged by what they tell alone as well
	lead         float64   // of the evidence of blocks alone, which has a lower threshold
}

// minSegment is the least number of observations of a segment beside another one, each
// counted by its probability to be no accident.
const minSegment = 5

// blocks are those between cuts, and g has the lanes' shares under these.
func (s *Segmenter) blocks(g *Segmentation, b buffers, cuts []int) []block {
	l := s.workers[0]
	n := len(cuts) + 1
	blocks := make([]block, n)
	samples := make([]float64, 2*n*len(l.set))
	for k := range blocks {
		from, end := startOf(cuts, k), endOf(cuts, k, len(g.at))
		b := &blocks[k]
		*b = block{from: from, end: end, f: l.setAt(samples, 2*k), b: l.setAt(samples, 2*k+1)}
		for j, w := range laneWeights {
			b.omega[j] = math.Pow(w, float64(end-from))
		}
		for _, r := range g.regular[from:end] {
			b.regular += r
		}
	}
	s.share(g, b, cuts, blocks)
	for k := range blocks {
		blocks[k].shares = g.sharesAt(blocks[k].from)
	}
	return blocks
}

// eliminate joins the blocks between which the evidence is not above the threshold, and
// returns where those that remain begin, without the first. Blocks that turn out to be
// accidents are no longer regular.
func (e *elimination) eliminate() (edges []int) {
	for k := range e.blocks {
		e.blocks[k].prev, e.blocks[k].next = k-1, k+1
	}
	e.blocks[len(e.blocks)-1].next = -1
	e.evidence = make([]float64, len(e.blocks))
	e.discrete = !hasAccidents(e.model)
	_, e.scaleless = e.model.(expfam.Scaleless)
	e.run()
	for k := e.blocks[0].next; k >= 0; k = e.blocks[k].next {
		edges = append(edges, e.blocks[k].from)
	}
	return edges
}

func (e *elimination) run() {
	n := len(e.blocks)
	e.boundaries = newQueue(n, func(a, b int) bool {
		return e.evidence[a] < e.evidence[b] || e.evidence[a] == e.evidence[b] && a < b
	})
	e.short = newQueue(n, func(a, b int) bool {
		x, y := e.blocks[a].end-e.blocks[a].from, e.blocks[b].end-e.blocks[b].from
		return x < y || x == y && a < b
	})
	for k := range n {
		e.settle(k)
	}
	for {
		if k, ok := e.boundaries.least(); ok && e.evidence[k] <= e.threshold {
			e.join(e.blocks[k].prev)
			continue
		}
		// What is left differs.
		k, ok := e.short.least()
		if !ok {
			return
		}
		b := e.blocks[k]
		switch {
		case b.prev < 0 || b.next < 0:
			// What the session begins or ends with is too short to be told from an accident,
			// where there is a regime beside it.
			if !e.discrete && e.blocks[max(b.prev, b.next)].regular >= minSegment {
				e.accident(k)
			}
			e.join(max(b.prev, 0))
		case !e.discrete && e.lanes.evidence(e.blocks[b.prev].f, e.blocks[b.next].b, &e.blocks[k].shares) < e.threshold:
			// Its neighbours agree: the block is an accident.
			e.accident(k)
			e.join(b.prev)
			e.join(b.prev)
		case e.evidence[k] < e.evidence[b.next]:
			e.join(b.prev)
		default:
			e.join(k)
		}
	}
}

// accident makes the observations of block k accidents.
func (e *elimination) accident(k int) {
	b := &e.blocks[k]
	e.accidents = true
	clear(e.regular[b.from:b.end])
	clear(b.f)
	clear(b.b)
	clear(b.d)
	b.likelihood = perLane{}
	b.regular = 0
}

// join makes block k and the next one, which goes, one block.
func (e *elimination) join(k int) {
	a := &e.blocks[k]
	gone := a.next
	c := &e.blocks[gone]
	if e.scaleless {
		for j, evidence := range e.evidences(a.f, c.b) {
			a.likelihood[j] += c.likelihood[j] - evidence
		}
	}
	for j := range laneWeights {
		f, b := e.lane(a.f, j), e.lane(c.b, j)
		e.model.Scale(f, c.omega[j])
		e.model.Merge(f, e.lane(c.f, j))
		e.model.Scale(b, a.omega[j])
		e.model.Merge(e.lane(a.b, j), b)
		a.omega[j] *= c.omega[j]
	}
	if e.sizes != nil {
		e.model.Merge(a.d, c.d)
	}
	a.end, a.next = c.end, c.next
	a.regular += c.regular
	if a.next >= 0 {
		e.blocks[a.next].prev = k
	}
	e.boundaries.remove(gone)
	e.short.remove(gone)
	e.settle(k)
	if a.next >= 0 {
		e.settle(a.next)
	}
}

// settle gives block k its place in the queues, with the evidence that its boundary has
// now.
func (e *elimination) settle(k int) {
	b := &e.blocks[k]
	if b.prev >= 0 {
		a := &e.blocks[b.prev]
		each := e.evidences(a.f, b.b)
		e.evidence[k] = each.average(&b.shares)
		if e.scaleless {
			e.evidence[k] = max(e.evidence[k], each.ofBlocks(&a.likelihood, &b.likelihood)+e.lead)
		}
		if e.sizes != nil {
			e.evidence[k] += e.sizes.logPrior(&e.blocks[b.prev], b)
		}
		if math.IsNaN(e.evidence[k]) {
			e.evidence[k] = math.Inf(-1) // of samples that hold no numbers nothing is evident
		}
		e.boundaries.put(k)
	}
	// The first and the last block of a part of a session may go on beyond the cut.
	whole := (b.prev >= 0 || e.begins) && (b.next >= 0 || e.ends)
	if b.regular < minSegment && whole && (b.prev >= 0 || b.next >= 0) {
		e.short.put(k)
	} else {
		e.short.remove(k)
	}
}

// A queue is a heap of indices.
type queue struct {
	heap []int
	at   []int // where an index is in the heap, −1 where it is not
	less func(a, b int) bool
}

func newQueue(n int, less func(a, b int) bool) queue {
	return queue{at: slices.Repeat([]int{-1}, n), less: less}
}

// put adds k, or moves it to where it belongs now.
func (q *queue) put(k int) {
	if q.at[k] < 0 {
		heap.Push(q, k)
		return
	}
	heap.Fix(q, q.at[k])
}

// remove takes k out, if it is there.
func (q *queue) remove(k int) {
	if q.at[k] >= 0 {
		heap.Remove(q, q.at[k])
	}
}

// least returns the first index in order; ok is false where there is none.
func (q *queue) least() (k int, ok bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0], true
}

// Len implements heap.Interface, as do the methods below.
func (q *queue) Len() int           { return len(q.heap) }
func (q *queue) Less(i, j int) bool { return q.less(q.heap[i], q.heap[j]) }

func (q *queue) Swap(i, j int) {
	q.heap[i], q.heap[j] = q.heap[j], q.heap[i]
	q.at[q.heap[i]], q.at[q.heap[j]] = i, j
}

func (q *queue) Push(k any) {
	q.at[k.(int)] = len(q.heap)
	q.heap = append(q.heap, k.(int))
}

func (q *queue) Pop() any {
	n := len(q.heap) - 1
	k := q.heap[n]
	q.heap = q.heap[:n]
	q.at[k] = -1
	return k
}
