package segments

import (
	"cmp"
	"math"
	"slices"

	"hafvf/hafvf/expfam"
	"hafvf/internal/special"
)

// A block is a stretch of observations between two cuts. Two neighbours A and C combine in constant time. In
// every lane, with the samples f after a forward pass and b after a backward pass, and the weight ω that memory
// keeps over the block,
//
//	f = ω_C·f_A + f_C,  b = b_A + ω_A·b_C,  ω = ω_A·ω_C,  log L = log L_A + log L_C − E
type block struct {
	from, end  int
	regular    float64 // number of observations, without accidents
	f, b       []float64
	omega      perLane
	likelihood perLane   // log L of its observations, predicted by lanes that are reset at its start
	shares     perLane   // the lanes' log shares at its start
	d          []float64 // Σ r·T(x), or nil if sizes of changes are not used
}

// blocks returns the blocks between the cuts.
func (s *Segmenter) blocks(g *Segmentation, b buffers, cuts []int) []block {
	l := s.workers[0]
	n := len(cuts) + 1
	blocks := make([]block, n)
	samples := make([]float64, 2*n*len(l.set))
	for k := range blocks {
		from, end := startOf(cuts, k), endOf(cuts, k, len(g.stepIndex))
		b := &blocks[k]
		*b = block{from: from, end: end, f: l.setAt(samples, 2*k), b: l.setAt(samples, 2*k+1)}
		for j, w := range laneWeights {
			b.omega[j] = math.Pow(w, float64(end-from))
		}
		for _, r := range g.regular[from:end] {
			b.regular += r
		}
	}
	s.cross(g, cuts)
	k := 0
	for part := range g.parts() {
		s.share(g, b, part, cuts, blocks)
		for ; k < n && blocks[k].from < g.bounds[part+1]; k++ {
			blocks[k].shares = g.sharesAt(blocks[k].from - g.bounds[part])
		}
	}
	return blocks
}

const (
	frequent      = 1. / 40 // hazard of a change if changes are frequent
	switching     = 4.      // nats of a switch between the two hazards
	horizon       = 10_000  // number of observations above which the rare hazard no longer falls
	usualOdds     = 10.     // odds at which the prior of a change equals its hazard
	minSegment    = 5       // minimum number of observations in a segment
	minRegular    = 4.1     // minimum sum of the probabilities that these are regular
	slack         = 25.     // nats below the best start at which a start is dropped
	maxStarts     = 64      // maximum number of starts that are followed
	shortLaneFade = .02     // nats per observation of the lane with memory 12, for a Scaleless family
)

// drift holds the cost of a segment per lane, in nats, because regimes hardly drift. The shortest lane is
// excluded from segments: it would explain every change.
var drift = perLane{math.Inf(1), 7, 20, 20, 0}

// prices are log probabilities under the two hazards, rare and frequent: of a change at an observation and of
// no change.
type prices struct{ change, stay [2]float64 }

// newPrices returns the prices in a session of n observations. The odds are a price of every change, and not of
// its absence, so that higher odds never favour more changes. With low odds a change is at most as probable as
// no change.
func newPrices(odds float64, n int) (p prices) {
	rare := min(frequent, 1/(2*float64(min(max(n, 1), horizon))))
	for h, hazard := range [...]float64{rare, frequent} {
		p.stay[h] = math.Log1p(-hazard)
		p.change[h] = math.Min(math.Log(hazard)-math.Log(odds/usualOdds), p.stay[h])
	}
	return p
}

// Threshold returns the evidence in nats that a change needs, in a session of n observations with rare changes.
// odds are the required odds in favour of a change.
func Threshold(odds float64, n int) float64 { return -newPrices(odds, n).change[0] }

// A start is a block with which a segment may begin, with the state of that segment up to the present block.
type start struct {
	block, length int
	regular       float64
	f             []float64 // the lanes' samples
	likelihood    perLane   // log L
	regressions   [explanationCount]regression
	score         float64 // of the best segmentation that ends with this segment
}

// A step of the recursion holds the first block of the last segment, and its hazard.
type step struct{ block, hazard int }

// partition returns the first blocks of the segments of the best segmentation, without the first segment, and
// its log posterior. Each segment has the hazard and the lanes that suit it. Over all combinations of blocks
// into segments, partition maximises
//
//	Σ segments  log Σ πᵢLᵢ + (length − 1)·log(1 − h)  +  Σ changes  log h − 4·(the hazard switches)
//
// with log πᵢ = −driftᵢ − fadeᵢ·length, by the recursion of optimal partitioning (Jackson et al. 2005). The
// work is linear in the number of blocks, because starts are dropped.
func (l *lanes) partition(blocks []block, p prices) (begins []int, logPosterior float64) {
	_, begins, logPosterior = l.optimal(len(blocks), p, nil, math.Inf(1), func(s *start, k int) float64 {
		l.extend(s, &blocks[k])
		return l.evidenceOfStart(s)
	})
	return begins, logPosterior
}

// optimal is the recursion over n blocks. extend adds block k to the segment of a start, and returns the
// segment's log Σ πᵢLᵢ. The first segment may have some blocks before it, which are accidents: lead holds the
// log likelihoods of the first 1, 2, … of them. optimal drops a start whose score is slack below the best one,
// or margin below the best segmentation that ends here. It returns the first block of the first segment, and
// the first blocks of the others.
func (l *lanes) optimal(n int, p prices, lead []float64, margin float64, extend func(s *start, k int) float64) (first int, begins []int, logPosterior float64) {
	last := n - 1
	reached, previous := make([][2]float64, n+1), make([][2]step, n+1)
	for k := range reached {
		reached[k] = [2]float64{math.Inf(-1), math.Inf(-1)}
	}
	reached[0] = [2]float64{0, -switching}
	for k, v := range lead {
		reached[k+1] = [2]float64{v, v - switching}
	}
	var alive, free []*start
	for k := range n {
		if len(free) == 0 {
			free = append(free, &start{f: l.newSet()})
		}
		s := free[len(free)-1]
		free = free[:len(free)-1]
		clear(s.f)
		*s = start{block: k, f: s.f}
		alive = append(alive, s)
		top := math.Inf(-1)
		for _, s := range alive {
			evidence := extend(s, k)
			s.score = math.Inf(-1)
			allowed := s.regular >= minRegular || s.block == 0 && k == last
			for h, before := range reached[s.block] {
				v := before + evidence + float64(s.length-1)*p.stay[h]
				s.score = math.Max(s.score, v)
				if !allowed {
					continue
				}
				if k < last {
					v += p.change[h]
				}
				for next := range reached[k+1] {
					w := v
					if next != h {
						w -= switching
					}
					if w > reached[k+1][next] {
						reached[k+1][next], previous[k+1][next] = w, step{s.block, h}
					}
				}
			}
			top = math.Max(top, s.score)
		}
		slices.SortStableFunc(alive, func(a, b *start) int { return cmp.Compare(b.score, a.score) })
		minScore := math.Max(reached[k+1][0], reached[k+1][1]) - margin
		retained := alive[:0]
		for _, s := range alive {
			if len(retained) < maxStarts && s.score >= top-slack && (s.score >= minScore || s.regular < minRegular) {
				retained = append(retained, s)
			} else {
				free = append(free, s)
			}
		}
		alive = retained
	}
	pos := step{n, 0}
	if reached[pos.block][1] > reached[pos.block][0] {
		pos.hazard = 1
	}
	logPosterior = reached[pos.block][pos.hazard]
	for pos = previous[pos.block][pos.hazard]; pos.block > len(lead); pos = previous[pos.block][pos.hazard] {
		begins = append(begins, pos.block)
	}
	slices.Reverse(begins)
	return pos.block, begins, logPosterior
}

// extend adds a block to the segment of s.
func (l *lanes) extend(s *start, b *block) {
	for i, w := range laneWeights {
		if math.IsInf(drift[i], 1) {
			continue
		}
		f := l.lane(s.f, i)
		s.likelihood[i] += b.likelihood[i]
		if s.length > 0 {
			// With f decayed over the boundary, the evidence is exact for a block of one observation.
			copy(l.stats, f)
			l.model.Scale(l.stats, w)
			s.likelihood[i] -= l.bayesFactor(l.stats, l.lane(b.b, i))
		}
		l.model.Scale(f, b.omega[i])
		l.model.Merge(f, l.lane(b.f, i))
	}
	s.regular += b.regular
	s.length += b.end - b.from
}

// evidenceOfStart returns log Σ πᵢLᵢ.
func (l *lanes) evidenceOfStart(s *start) float64 {
	var terms perLane
	for i := range terms {
		terms[i] = s.likelihood[i] - drift[i]
	}
	if _, scaleless := l.model.(expfam.Scaleless); scaleless {
		terms[1] -= shortLaneFade * float64(s.length)
	}
	return special.LogSumExp(terms[:])
}
