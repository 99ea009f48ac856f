package usual

import (
	"math"
	"slices"

	"hafvf/internal/compact"
)

// Peaks are how high the scores of a stream rise by habit. A peak is the highest score of a run of 2 and more, whose
// gaps are no longer than a rest. It is counted, and forgotten over eight budgets. The rank is the score
// that no more than three peaks a budget have reached: what comes more often is a habit.
//
// The entries are the peak of the run that goes on, 0 where there is none, its last observation, the observation
// to which counts are forgotten, and the counts.
type peaks []float64

const (
	peakRunning = iota
	peakLast
	peakAt
	peakCounts
	peaksLen = peakCounts + len(peakEdges)
)

const (
	peakBudgets = 8. // over which they are forgotten
	peaksOften  = 3. // a budget
	mostRank    = 60.
)

// peakEdges are the least peaks that the counts are of.
var peakEdges = [...]float64{2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 10, 12, 16, 24, 40}

// kept is how much of the counts is left at observation n.
func (s peaks) kept(n, forgetting float64) float64 {
	return math.Exp((n - s[peakAt]) * math.Log(forgetting))
}

func peakForgetting(p *Pace) float64 { return 1 - 1/(peakBudgets*p.period) }

// rank is the score up to which peaks are a habit at observation n. A stream that is slow has none.
func (s peaks) rank(n float64, p *Pace) (rank float64) {
	if p.slow == 1 {
		return 0
	}
	forgetting := peakForgetting(p)
	kept := s.kept(n, forgetting)
	often := peaksOften * weightOf(n, forgetting) / p.period
	sum := 0.
	for i, c := range slices.Backward(s[peakCounts:]) {
		if sum += kept * c; sum > often {
			if rank = mostRank; i+1 < len(peakEdges) {
				rank = peakEdges[i+1]
			}
			break
		}
	}
	return rank
}

// note notes the score q of observation n.
func (s peaks) note(n, q float64, p *Pace) {
	if p.slow == 1 {
		return
	}
	if s[peakRunning] > 0 && n-s[peakLast] > p.rest {
		counts, kept := s[peakCounts:], s.kept(n, peakForgetting(p))
		for i := range counts {
			counts[i] = short(kept * counts[i])
		}
		s[peakAt] = n
		i, exact := slices.BinarySearch(peakEdges[:], s[peakRunning])
		if !exact {
			i--
		}
		counts[i] = short(counts[i] + 1)
		s[peakRunning] = 0
	}
	if q >= peakEdges[0] {
		s[peakRunning] = max(s[peakRunning], short(min(q, mostAlerted)))
		s[peakLast] = n
	}
}

// short is the nearest number that a float32 has.
func short(v float64) float64 { return float64(float32(v)) }

// form begins with which counts are not zero.
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
	compact.Unsigned(c, &s[peakLast], &s[peakAt])
}

// valid reports whether s can be that of so many observations.
func (s peaks) valid(n float64) bool {
	count := func(v float64) bool { return v >= 0 && v <= n && v == math.Trunc(v) }
	ok := s[peakRunning] >= 0 && s[peakRunning] <= mostAlerted && count(s[peakLast]) && count(s[peakAt])
	for _, c := range s[peakCounts:] {
		ok = ok && c >= 0 && c <= n
	}
	return ok
}
