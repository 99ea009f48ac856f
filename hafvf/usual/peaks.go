package usual

import (
	"math"
	"slices"

	"hafvf/internal/compact"
)

// peaks learns how high the scores of a stream rise by habit. A peak is the highest score of a run of scores from 2 on,
// with gaps no longer than a rest. Peaks are counted, and forgotten over eight budgets. Scores that more than three
// peaks per budget reach are a habit; see rank. The threshold by this habit has F1 .06 on plans_5min.
//
// The entries are the peak of the current run (0 if there is none), the run's last observation, the observation up to
// which the counts are decayed, and the counts.
type peaks []float64

const (
	peakRunning = iota
	peakLast
	peakDecayed
	peakCounts
	peaksLen = peakCounts + len(peakEdges)
)

const (
	peakBudgets = 8. // memory, in budgets
	peaksOften  = 3. // peaks per budget; more are a habit
	maxRank     = 60.
	maxPeak     = 1e3
)

// peakEdges are the lower edges of the bins of the counts.
var peakEdges = [...]float64{2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 10, 12, 16, 24, 40}

// decay returns the share of the counts that remains at observation n.
func (s peaks) decay(n, forgetting float64) float64 {
	return math.Exp((n - s[peakDecayed]) * math.Log(forgetting))
}

func peakForgetting(p *Pace) float64 { return 1 - 1/(peakBudgets*p.period) }

// rank returns the lowest edge that at most three peaks per budget reach, at observation n. It returns 0 if this holds
// for all edges or the stream is slow (w = 1), and maxRank if it holds for none.
func (s peaks) rank(n float64, p *Pace) (rank float64) {
	if p.slow == 1 {
		return 0
	}
	forgetting := peakForgetting(p)
	decay := s.decay(n, forgetting)
	maxCount := peaksOften * weightOf(n, forgetting) / p.period
	sum := 0.
	for i, c := range slices.Backward(s[peakCounts:]) {
		if sum += decay * c; sum > maxCount {
			if rank = maxRank; i+1 < len(peakEdges) {
				rank = peakEdges[i+1]
			}
			break
		}
	}
	return rank
}

// record adds the score q of observation n.
func (s peaks) record(n, q float64, p *Pace) {
	if p.slow == 1 {
		return
	}
	if s[peakRunning] > 0 && n-s[peakLast] > p.rest {
		counts, decay := s[peakCounts:], s.decay(n, peakForgetting(p))
		for i := range counts {
			counts[i] = short(decay * counts[i])
		}
		s[peakDecayed] = n
		i, exact := slices.BinarySearch(peakEdges[:], s[peakRunning])
		if !exact {
			i--
		}
		counts[i] = short(counts[i] + 1)
		s[peakRunning] = 0
	}
	if q >= peakEdges[0] {
		s[peakRunning] = max(s[peakRunning], short(min(q, maxPeak)))
		s[peakLast] = n
	}
}

// short rounds v to a float32.
func short(v float64) float64 { return float64(float32(v)) }

// form encodes or decodes s. The first number is a bit mask of the counts that are not zero.
func (s peaks) form(c *compact.Codec) {
	which := 0
	for i, n := range s[peakCounts:] {
		if n > 0 {
			which |= 1 << i
		}
	}
	compact.Unsigned(c, &which)
	for i := range s[peakCounts:] {
		if which&(1<<i) != 0 {
			c.Shorts(&s[peakCounts+i])
		}
	}
	c.Shorts(&s[peakRunning])
	compact.Unsigned(c, &s[peakLast], &s[peakDecayed])
}

// valid reports whether s can be a state after n observations.
func (s peaks) valid(n float64) bool {
	count := func(v float64) bool { return v >= 0 && v <= n && v == math.Trunc(v) }
	ok := s[peakRunning] >= 0 && s[peakRunning] <= maxPeak && count(s[peakLast]) && count(s[peakDecayed])
	for _, c := range s[peakCounts:] {
		ok = ok && c >= 0 && c <= n
	}
	return ok
}
