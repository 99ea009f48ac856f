package segments

import (
	"cmp"
	"math"
	"slices"

	"hafvf/hafvf/expfam"
	"hafvf/internal/special"
)

// A block is a stretch of observations between two cuts. Two neighbours A and C make one in
// constant time: in every lane, with the samples f that a forward pass leaves and b that a
// backward pass leaves, and ω the weight that memory keeps over the block,
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
}

// blocks are those between cuts.
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
	frequent    = 1. / 40 // the hazard of a change where changes are frequent
	switching   = 4.      // nats of a change from one hazard to the other
	horizon     = 10_000  // observations, above which the rare hazard no longer falls
	usualOdds   = 10.     // at which a change has its hazard as the prior
	minSegment  = 5       // the least number of observations of a segment
	minRegular  = 4.1     // the least number of these, each counted by its probability to be no accident
	slack       = 25.     // nats below the best one at which a start is given up
	mostStarts  = 64      // that are followed
	fadeOfShort = .02     // nats an observation of the lane of memory 12, of a Scaleless family
)

// drift is what a lane costs a segment, in nats, as regimes hardly drift. The shortest lane has no
// part in a segment: it would explain every change.
var drift = perLane{math.Inf(1), 7, 20, 20, 0}

// prices are log probabilities under the two hazards, rare and frequent: of a change at an
// observation and of none.
type prices struct{ change, stay [2]float64 }

// newPrices are those in a session of n observations. Odds have a price at every change, and none where
// there is none: so higher odds never make more changes the better choice. Low odds make a change
// at most as probable as none.
func newPrices(odds float64, n int) (p prices) {
	rare := min(frequent, 1/(2*float64(min(max(n, 1), horizon))))
	for h, hazard := range [...]float64{rare, frequent} {
		p.stay[h] = math.Log1p(-hazard)
		p.change[h] = math.Min(math.Log(hazard)-math.Log(odds/usualOdds), p.stay[h])
	}
	return p
}

// Threshold is the evidence in nats that a change takes in a session of n observations in which
// changes are rare, at odds in favour of a change.
func Threshold(odds float64, n int) float64 { return -newPrices(odds, n).change[0] }

// A start is a block with which a segment may begin, and what is known of the segment up to the
// present block.
type start struct {
	block, length int
	regular       float64
	f             []float64 // the lanes' samples
	likelihood    perLane   // log L
	regressions   [explanationCount]regression
	score         float64 // of the best segments that end with this one
}

// A step of the recursion is where the last segment begins, and under which hazard.
type step struct{ block, hazard int }

// partition returns the blocks with which the segments begin that are the best together, without the
// first, and their log posterior: of all ways to make segments of blocks, under the hazards and
// lanes that suit each segment,
//
//	Σ segments  log Σ πᵢLᵢ + (length − 1)·log(1 − h)  +  Σ changes  log h − 4·(the hazard is another one)
//
// with log πᵢ = −driftᵢ − fadeᵢ·length, by the recursion of optimal partitioning (Jackson et al. 2005). The work
// is linear in the blocks, as starts are given up.
func (l *lanes) partition(blocks []block, p prices) (begins []int, logPosterior float64) {
	_, begins, logPosterior = l.optimal(len(blocks), p, nil, math.Inf(1), func(s *start, k int) float64 {
		l.extend(s, &blocks[k])
		return l.evidenceOfStart(s)
	})
	return begins, logPosterior
}

// optimal is the recursion over n blocks. Extend has the segment of a start go on with block k, and returns
// log Σ πᵢLᵢ of it. The first segment may have some blocks before it, which are accidents: lead holds the log
// likelihoods of the first 1, 2, … of these. Starts are given up that are the slack below the best one, or so far
// below the best segments that end here.
func (l *lanes) optimal(n int, p prices, lead []float64, behind float64, extend func(s *start, k int) float64) (first int, begins []int, logPosterior float64) {
	last := n - 1
	reached, from := make([][2]float64, n+1), make([][2]step, n+1)
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
						reached[k+1][next], from[k+1][next] = w, step{s.block, h}
					}
				}
			}
			top = math.Max(top, s.score)
		}
		slices.SortStableFunc(alive, func(a, b *start) int { return cmp.Compare(b.score, a.score) })
		least := math.Max(reached[k+1][0], reached[k+1][1]) - behind
		kept := alive[:0]
		for _, s := range alive {
			if len(kept) < mostStarts && s.score >= top-slack && (s.score >= least || s.regular < minRegular) {
				kept = append(kept, s)
			} else {
				free = append(free, s)
			}
		}
		alive = kept
	}
	at := step{n, 0}
	if reached[at.block][1] > reached[at.block][0] {
		at.hazard = 1
	}
	logPosterior = reached[at.block][at.hazard]
	for at = from[at.block][at.hazard]; at.block > len(lead); at = from[at.block][at.hazard] {
		begins = append(begins, at.block)
	}
	slices.Reverse(begins)
	return at.block, begins, logPosterior
}

// extend has the segment of s go on with a block.
func (l *lanes) extend(s *start, b *block) {
	for i, w := range laneWeights {
		if math.IsInf(drift[i], 1) {
			continue
		}
		f := l.lane(s.f, i)
		s.likelihood[i] += b.likelihood[i]
		if s.length > 0 {
			// Decayed over the boundary, the evidence is exact of a block of one observation.
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

// evidenceOfStart is log Σ πᵢLᵢ.
func (l *lanes) evidenceOfStart(s *start) float64 {
	var terms perLane
	for i := range terms {
		terms[i] = s.likelihood[i] - drift[i]
	}
	if _, scaleless := l.model.(expfam.Scaleless); scaleless {
		terms[1] -= fadeOfShort * float64(s.length)
	}
	return special.LogSumExp(terms[:])
}
