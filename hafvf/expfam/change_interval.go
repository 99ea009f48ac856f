package expfam

import (
	"math"

	"hafvf/internal/special"
)

// Peaks are where evidence is the largest in each run of it above a threshold: the last such place.
type Peaks struct {
	At    []int
	best  float64 // evidence at the last
	above bool    // whether its run goes on
}

// Add adds the evidence at the places from first on.
func (p *Peaks) Add(evidence []float64, first int, threshold float64) {
	for i, e := range evidence {
		switch {
		case !(e > threshold):
			p.above = false
		case !p.above:
			p.above, p.best = true, e
			p.At = append(p.At, first+i)
		case e >= p.best:
			p.best, p.At[len(p.At)-1] = e, first+i
		}
	}
}

// A ChangeInterval is where a change is, as far as the observations tell.
type ChangeInterval struct {
	// From and To are the first and the last observation with which the new regime may
	// begin: the central interval of 95 % of the posterior probability, given that there is
	// a change.
	From, To int
	// Probability is that of a change which begins there.
	Probability float64
	// Evidence is that of a change, wherever it is, in nats.
	Evidence float64
}

// ChangeIntervals says where the changes of a session of n observations are, and how sure they are.
// Observe adds observation i to a sample of the model. In the stretch between the
// neighbours l and u of a change, a change at s has the evidence of two constant regimes
// against one,
//
//	E(s) = B(d[l, s)) + B(d[s, u)) − B(d[l, u)) − B(0)
//
// in nats, with the sample d of observations that all count the same. Its place has the
// posterior q(s) ∝ exp E(s), and Evidence is log Σ exp E(s). The log odds of a change are
// Evidence − log(n − 1): by its prior it is at any observation but the first. Its
// Probability is that of a change times the sum of q over the interval.
func ChangeIntervals(m Model, n int, changes []int, observe func(d []float64, i int)) []ChangeInterval {
	p := placing{line: m.NewLine(), zero: make([]float64, m.Len()), sample: make([]float64, m.Len()), observe: observe}
	all := make([]ChangeInterval, len(changes))
	for k, c := range changes {
		from, end := 0, n
		if k > 0 {
			from = changes[k-1]
		}
		if k+1 < len(changes) {
			end = changes[k+1]
		}
		all[k] = p.place(n, from, c, end)
	}
	return all
}

// A placing is scratch of ChangeIntervals.
type placing struct {
	line         Line
	zero, sample []float64
	observe      func(d []float64, i int)
	evidence     []float64 // by place
}

// logPartition is B of the sample, less B(0).
func (p *placing) logPartition() float64 {
	p.line.Set(p.zero, p.sample)
	return p.line.Gain(1)
}

// place is that of a change at c in the stretch [from, end) of n observations.
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
		p.evidence = make([]float64, n) // slices.Grow would take more
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
			e = math.Inf(-1) // of samples that hold no numbers nothing is evident
		}
		p.evidence[s-first] = e
	}
}
