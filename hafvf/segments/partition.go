package segments

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

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
	dense         = 1. / 6  // hazard if levels are hardly longer than the shortest segment
	switching     = 4.      // nats of a switch between the rare and the frequent hazard
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

// prices are log probabilities under each possible hazard of a segment: of a change at an observation, of no
// change, and of the hazard in the first segment.
type prices struct {
	change, stay, first []float64
	switching           float64 // log probability of a switch between hazards; −Inf if a session has one hazard
	free                int     // number of first observations of a segment whose stay costs nothing
}

// add adds a hazard. The odds are a price of every change, and not of its absence, so that higher odds never favour
// more changes. With low odds a change is at most as probable as no change.
func (p *prices) add(hazard, odds, first float64) {
	stay := math.Log1p(-hazard)
	p.change = append(p.change, math.Min(math.Log(hazard)-math.Log(odds/usualOdds), stay))
	p.stay, p.first = append(p.stay, stay), append(p.first, first)
}

// rareHazard returns the hazard of rare changes in a session of n observations.
func rareHazard(n int) float64 { return min(frequent, 1/(2*float64(min(max(n, 1), horizon)))) }

// newPrices returns the prices in a session of n observations in which changes are now rare, now frequent.
func newPrices(odds float64, n int) prices {
	p := prices{switching: -switching, free: 1}
	p.add(rareHazard(n), odds, 0)
	p.add(frequent, odds, -switching)
	return p
}

// levelPrices returns the prices in a session of n observations that has one of three hazards throughout.
func levelPrices(odds float64, n int) prices {
	p := prices{switching: math.Inf(-1), free: minSegment}
	for _, hazard := range [...]float64{rareHazard(n), frequent, dense} {
		p.add(hazard, odds, -math.Log(3))
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
	regression    regression
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
	best := l.optimal(len(blocks), p, nil, math.Inf(1), func(s *start, k int) float64 {
		l.extend(s, &blocks[k])
		return l.evidenceOfStart(s)
	})
	return best.begins, best.logPosterior
}

// An optimum is the best segmentation: the first block of its first segment, and the first blocks of the others.
type optimum struct {
	first        int
	begins       []int
	logPosterior float64
	logEvidence  float64 // log of the sum of the posteriors of all segmentations that were not dropped
}

// optimal is the recursion over n blocks. extend adds block k to the segment of a start, and returns the
// segment's log Σ πᵢLᵢ. The first segment may have some blocks before it, which are accidents: lead holds the
// log likelihoods of the first 1, 2, … of them. optimal drops a start whose score is slack below the best one,
// or margin below the best segmentation that ends here.
func (l *lanes) optimal(n int, p prices, lead []float64, margin float64, extend func(s *start, k int) float64) optimum {
	hazards := len(p.stay)
	best, sums, previous := make([][]float64, n+1), make([][]float64, n+1), make([][]step, n+1)
	for k := range best {
		best[k], previous[k] = slices.Repeat([]float64{math.Inf(-1)}, hazards), make([]step, hazards)
		if k == 0 {
			copy(best[k], p.first)
		} else if k <= len(lead) {
			floats.AddTo(best[k], p.first, slices.Repeat(lead[k-1:k], hazards))
		}
		sums[k] = slices.Clone(best[k])
	}
	terms := make([][]float64, hazards)
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
		for h, sum := range sums[k+1] {
			terms[h] = append(terms[h][:0], sum)
		}
		for _, s := range alive {
			evidence := extend(s, k)
			ends := s.regular >= minRegular || s.block == 0 && k == n-1
			s.score = math.Inf(-1)
			for h, before := range best[s.block] {
				v := evidence + float64(max(0, s.length-p.free))*p.stay[h]
				s.score = math.Max(s.score, before+v)
				if k < n-1 {
					v += p.change[h]
				}
				for next := range hazards {
					w := v
					if next != h {
						w += p.switching
					}
					if !ends || math.IsInf(w, -1) {
						continue
					}
					terms[next] = append(terms[next], sums[s.block][h]+w)
					if w += before; w > best[k+1][next] {
						best[k+1][next], previous[k+1][next] = w, step{s.block, h}
					}
				}
			}
			top = math.Max(top, s.score)
		}
		for h := range terms {
			sums[k+1][h] = special.LogSumExp(terms[h])
		}
		slices.SortStableFunc(alive, func(a, b *start) int { return cmp.Compare(b.score, a.score) })
		minScore := slices.Max(best[k+1]) - margin
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
	h := floats.MaxIdx(best[n])
	out, pos := optimum{logPosterior: best[n][h], logEvidence: special.LogSumExp(sums[n])}, previous[n][h]
	for ; pos.block > len(lead); pos = previous[pos.block][pos.hazard] {
		out.begins = append(out.begins, pos.block)
	}
	slices.Reverse(out.begins)
	out.first = pos.block
	return out
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
