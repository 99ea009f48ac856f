package expfam

import (
	"math"

	"hafvf/internal/special"
)

// Peaks collects the places with the largest evidence in each run of evidence above a threshold. If several
// places of a run have the largest evidence, the last one counts.
type Peaks struct {
	Positions []int
	best      float64 // evidence at the last peak
	above     bool    // whether the run of the last peak continues
}

// Add adds the evidence at the places first, first+1, ….
func (p *Peaks) Add(evidence []float64, first int, threshold float64) {
	for i, e := range evidence {
		switch {
		case !(e > threshold):
			p.above = false
		case !p.above:
			p.above, p.best = true, e
			p.Positions = append(p.Positions, first+i)
		case e >= p.best:
			p.best, p.Positions[len(p.Positions)-1] = e, first+i
		}
	}
}

// A ChangeInterval is an interval estimate of the place of a change.
type ChangeInterval struct {
	// From and To are the first and the last observation with which the new regime may begin: the central 95 %
	// interval of the posterior probability, given that there is a change.
	From, To int
	// Probability is the probability of a change that begins in the interval.
	Probability float64
	// Evidence is the evidence of a change at any place, in nats.
	Evidence float64
}

// ChangeIntervals returns the intervals of the given changes in a session of n observations. observe must add
// observation i to a sample d of the model. Let l and u be the neighbours of a change. In the stretch between
// them, a change at s has the evidence of two constant regimes against one,
//
//	E(s) = B(d[l, s)) + B(d[s, u)) − B(d[l, u)) − B(0)
//
// in nats, where d is the sample of observations with equal weights. The place of the change has the posterior
// q(s) ∝ exp E(s), and Evidence is log Σ exp E(s). The log odds of a change are Evidence − log(n − 1), because
// the prior allows a change at any observation but the first. Probability is the probability of a change times
// the sum of q over the interval.
func ChangeIntervals(m Model, n int, changes []int, observe func(d []float64, i int)) []ChangeInterval {
	p := placing{line: m.NewLine(), zero: make([]float64, m.Len()), sample: make([]float64, m.Len()), observe: observe}
	intervals := make([]ChangeInterval, len(changes))
	for k, c := range changes {
		from, end := 0, n
		if k > 0 {
			from = changes[k-1]
		}
		if k+1 < len(changes) {
			end = changes[k+1]
		}
		intervals[k] = p.place(n, from, c, end)
	}
	return intervals
}

// A placing is scratch of ChangeIntervals.
type placing struct {
	line         Line
	zero, sample []float64
	observe      func(d []float64, i int)
	evidence     []float64 // by place
}

// logPartition returns B of the sample minus B(0).
func (p *placing) logPartition() float64 {
	p.line.Set(p.zero, p.sample)
	return p.line.Gain(1)
}

// place returns the interval of a change at c in the stretch [from, end) of n observations.
func (p *placing) place(n, from, c, end int) ChangeInterval {
	p.weigh(from, end)
	total := special.LogSumExp(p.evidence)
	if math.IsNaN(total) || math.IsInf(total, 0) {
		return ChangeInterval{c, c, math.NaN(), total}
	}
	// An observation is in the interval if the middle of its share is.
	const tail = .025
	first := from + 1
	out := ChangeInterval{From: c, To: c, Evidence: total}
	below := 0.
	for i, e := range p.evidence {
		q := special.Exp(e - total)
		if middle := below + q/2; middle > tail && middle < 1-tail {
			out.From, out.To = min(out.From, first+i), max(out.To, first+i)
		}
		below += q
	}
	within := 0.
	for _, e := range p.evidence[out.From-first : out.To-first+1] {
		within += special.Exp(e - total)
	}
	out.Probability = math.Min(1, within) / (1 + math.Exp(math.Log(float64(n-1))-total))
	return out
}

// weigh sets the evidence of every place in the stretch [from, end).
func (p *placing) weigh(from, end int) {
	first := from + 1
	if n := end - first; cap(p.evidence) < n {
		p.evidence = make([]float64, n) // slices.Grow would allocate more
	} else {
		p.evidence = p.evidence[:n]
	}
	clear(p.sample)
	for s := end - 1; s >= first; s-- {
		p.observe(p.sample, s)
		p.evidence[s-first] = p.logPartition()
	}
	p.observe(p.sample, from)
	whole := p.logPartition()
	clear(p.sample)
	for s := first; s < end; s++ {
		p.observe(p.sample, s-1)
		e := p.evidence[s-first] + p.logPartition() - whole
		if math.IsNaN(e) {
			e = math.Inf(-1) // samples without numbers give no evidence
		}
		p.evidence[s-first] = e
	}
}
