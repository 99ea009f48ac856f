package segments

import (
	"math"
	"slices"

	"hafvf/hafvf/expfam"
)

const (
	placePrior  = .4   // factor of log(session length) in the threshold of an edge, which has many possible places
	edgeHorizon = 1000 // maximum session length in that threshold
	maxJudged   = 4    // maximum number of rounds of judgeEdges
	swingPrice  = 1.2  // additional nats of an edge in the shortest sessions of normal values, where a swing resembles levels
)

// judgeEdges judges the edges again, by shares of lanes whose samples are reset at the edges only, and by the
// sizes of all changes. It removes the weakest edge while one is below the threshold. Samples that are reset at
// every candidate favour long memory, so that drift produced edges before. judgeEdges reports whether the
// buffers hold the shares under the final edges.
func (s *Segmenter) judgeEdges(g *Segmentation, b buffers) (shared bool) {
	l := s.workers[0]
	threshold := math.Log(s.odds) + placePrior*math.Log(float64(min(max(len(g.stepIndex), 1), edgeHorizon)))
	if _, normal := s.model.(expfam.Normal); normal {
		threshold += swingPrice * shortness(len(g.stepIndex))
	}
	for range maxJudged {
		blocks := s.blocks(g, b, g.edges)
		g.cut()
		for k := range blocks {
			blocks[k].d = slices.Clone(g.Segments[k].d)
		}
		begins := l.prune(blocks, newSizes(s.model, blocks), threshold)
		if len(begins) == len(g.edges) {
			return len(g.bounds) == 2
		}
		l.place(g, blocks, begins)
	}
	return false
}

// shortness is 1 for a session of up to 20 observations, and 0 from 200 on.
func shortness(n int) float64 { return math.Max(0, math.Min(1, float64(200-n)/180)) }

// prune joins the two blocks with the smallest evidence between them, while this evidence is at most the
// threshold. It returns the blocks at which a segment begins, without the first block. z may be nil.
func (l *lanes) prune(blocks []block, z *sizes, threshold float64) (begins []int) {
	evidence := make([]float64, len(blocks)) // evidence of the boundary at the start of a block
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
			e = math.Inf(-1) // samples without numbers give no evidence
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

// join appends block c, the next one, to block a. c must not be used afterwards.
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
