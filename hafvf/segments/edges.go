package segments

import (
	"math"
	"slices"

	"hafvf/hafvf/expfam"
)

const (
	placePrior  = .4   // of the logarithm of the session's length, in the evidence that an edge takes here: each may be at any of the places near
	edgeHorizon = 1000 // observations, above which a length no longer counts there
	maxJudged   = 4    // times that edges are judged by themselves
)

// judgeEdges judges the edges once more, by shares of lanes whose samples begin anew at the edges
// alone, and by the sizes of all changes: the weakest goes as long as one is below the threshold.
// Samples that begin anew at every candidate favour long memory, and so drift has edges before.
// It returns whether the buffers have the shares under the edges.
func (s *Segmenter) judgeEdges(g *Segmentation, b buffers) (shared bool) {
	l := s.workers[0]
	threshold := math.Log(s.odds) + placePrior*math.Log(float64(min(max(len(g.at), 1), edgeHorizon)))
	if _, normal := s.model.(expfam.Normal); normal {
		threshold += wanderMargin * priceOfShort(len(g.at))
	}
	for range maxJudged {
		blocks := s.blocks(g, b, g.edges)
		g.cut()
		for k := range blocks {
			blocks[k].d = slices.Clone(g.Segments[k].d)
		}
		kept := l.prune(blocks, newSizes(s.model, blocks), threshold)
		if len(kept) == len(g.edges) {
			return len(g.bounds) == 2
		}
		l.place(g, blocks, kept)
	}
	return false
}

// prune joins the blocks between which there is the least evidence as long as that is not above
// the threshold, and returns those with which a segment begins, without the first.
func (l *lanes) prune(blocks []block, z *sizes, threshold float64) (begins []int) {
	evidence := make([]float64, len(blocks)) // of the boundary on the left of a block
	before := func(i int) *block {
		if i == 0 {
			return &blocks[0]
		}
		return &blocks[begins[i-1]]
	}
	judge := func(i int) {
		a, c := before(i), &blocks[begins[i]]
		e := l.evidence(a.f, c.b, &c.shares)
		if z != nil {
			e += z.logPrior(a, c)
		}
		if math.IsNaN(e) {
			e = math.Inf(-1) // of samples that hold no numbers nothing is evident
		}
		evidence[begins[i]] = e
	}
	for k := range blocks[1:] {
		begins = append(begins, k+1)
	}
	for i := range begins {
		judge(i)
	}
	for len(begins) > 0 {
		weakest := 0
		for i, k := range begins {
			if evidence[k] < evidence[begins[weakest]] {
				weakest = i
			}
		}
		if evidence[begins[weakest]] > threshold {
			break
		}
		l.join(before(weakest), &blocks[begins[weakest]])
		begins = slices.Delete(begins, weakest, weakest+1)
		for i := max(weakest-1, 0); i < min(weakest+1, len(begins)); i++ {
			judge(i)
		}
	}
	return begins
}

// join makes block a and the next one, c, which is used up, one block.
func (l *lanes) join(a, c *block) {
	for j := range laneWeights {
		f, b := l.lane(a.f, j), l.lane(c.b, j)
		l.model.Scale(f, c.omega[j])
		l.model.Merge(f, l.lane(c.f, j))
		l.model.Scale(b, a.omega[j])
		l.model.Merge(l.lane(a.b, j), b)
		a.omega[j] *= c.omega[j]
	}
	if a.d != nil {
		l.model.Merge(a.d, c.d)
	}
}
