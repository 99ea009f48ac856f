package usual

import (
	"encoding/binary"
	"math"
	"slices"

	"hafvf/internal/compact"
)

// Episodes are how high the scores of a stream rise by habit. An episode is a run of scores of 2 and more, whose
// gaps are no longer than a rest. Its peak is counted, and forgotten over eight budgets. The rank is the score
// that no more than three episodes a budget have reached: what comes more often is a habit.
//
// The entries are the peak of the running episode, 0 where there is none, its last observation, the observation
// to which counts are forgotten, and the counts.
type episodes []float64

const (
	episodePeak = iota
	episodeLast
	episodeAt
	episodeCounts
	episodesLen = episodeCounts + len(episodePeaks)
)

const (
	episodeBudgets = 8. // over which they are forgotten
	episodesOften  = 3. // a budget
	mostRank       = 60.
)

// episodePeaks are the least peaks that the counts are of.
var episodePeaks = [...]float64{2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 10, 12, 16, 24, 40}

// kept is how much of the counts is left at observation n.
func (s episodes) kept(n, forgetting float64) float64 {
	return math.Exp((n - s[episodeAt]) * math.Log(forgetting))
}

func episodeForgetting(p *Pace) float64 { return 1 - 1/(episodeBudgets*p.period) }

// rank is the score up to which episodes are a habit at observation n. A stream that is slow has none.
func (s episodes) rank(n float64, p *Pace) (rank float64) {
	if p.slow == 1 {
		return 0
	}
	forgetting := episodeForgetting(p)
	kept := s.kept(n, forgetting)
	often := episodesOften * weightOf(n, forgetting) / p.period
	sum := 0.
	for i, c := range slices.Backward(s[episodeCounts:]) {
		if sum += kept * c; sum > often {
			if rank = mostRank; i+1 < len(episodePeaks) {
				rank = episodePeaks[i+1]
			}
			break
		}
	}
	return rank
}

// note notes the score q of observation n.
func (s episodes) note(n, q float64, p *Pace) {
	if p.slow == 1 {
		return
	}
	if s[episodePeak] > 0 && n-s[episodeLast] > p.rest {
		counts, kept := s[episodeCounts:], s.kept(n, episodeForgetting(p))
		for i := range counts {
			counts[i] = short(kept * counts[i])
		}
		s[episodeAt] = n
		i, exact := slices.BinarySearch(episodePeaks[:], s[episodePeak])
		if !exact {
			i--
		}
		counts[i] = short(counts[i] + 1)
		s[episodePeak] = 0
	}
	if q >= episodePeaks[0] {
		s[episodePeak] = max(s[episodePeak], short(min(q, mostAlerted)))
		s[episodeLast] = n
	}
}

// short is the nearest number that a float32 has.
func short(v float64) float64 { return float64(float32(v)) }

// append encodes the episodes: which counts there are, and these.
func (s episodes) append(b []byte) []byte {
	which := uint64(0)
	for i, c := range s[episodeCounts:] {
		if c > 0 {
			which |= 1 << i
		}
	}
	b = binary.AppendUvarint(b, which)
	for _, c := range s[episodeCounts:] {
		if c > 0 {
			b = appendShort(b, float32(c))
		}
	}
	b = appendShort(b, float32(s[episodePeak]))
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(s[episodeLast])), uint64(s[episodeAt]))
}

func (s episodes) read(r *compact.Reader) {
	which := r.Uvarint()
	var v float32
	for i := range s[episodeCounts:] {
		if which&(1<<i) != 0 {
			readShort(r, []*float32{&v})
			s[episodeCounts+i] = float64(v)
		}
	}
	readShort(r, []*float32{&v})
	s[episodePeak], s[episodeLast], s[episodeAt] = float64(v), float64(r.Uvarint()), float64(r.Uvarint())
}

// valid reports whether s can be that of so many observations.
func (s episodes) valid(n float64) bool {
	count := func(v float64) bool { return v >= 0 && v <= n && v == math.Trunc(v) }
	ok := s[episodePeak] >= 0 && s[episodePeak] <= mostAlerted && count(s[episodeLast]) && count(s[episodeAt])
	for _, c := range s[episodeCounts:] {
		ok = ok && c >= 0 && c <= n
	}
	return ok
}
