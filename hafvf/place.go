package hafvf

import (
	"math"
	"slices"

	"hafvf/hafvf/expfam"
	"hafvf/internal/special"
)

// A Place is where a change is, as far as the observations tell.
type Place struct {
	// From and To are the first and the last observation with which the new regime may
	// begin: the central interval of 95 % of the posterior probability, given that there is
	// a change.
	From, To int
	// Probability is that of a change, and Evidence, in nats, that of one at any place.
	Probability, Evidence float64
}

// Places says where the changes of a session of n observations are, and how sure they are.
// Observe adds observation i to a sample of the model. In the stretch between the
// neighbours l and u of a change, a change at s has the evidence of two constant regimes
// against one,
//
//	E(s) = B(d[l, s)) + B(d[s, u)) − B(d[l, u)) − B(0)
//
// in nats, with the sample d of observations that all count the same. Its place has the
// posterior q(s) ∝ exp E(s), and Evidence is log Σ exp E(s). The log odds of a change are
// Evidence − log(n − 1): by its prior it is at any observation but the first.
func Places(m expfam.Model, n int, changes []int, observe func(d []float64, i int)) []Place {
	p := placing{model: m, line: m.NewLine(), zero: make([]float64, m.Len()), sample: make([]float64, m.Len()), observe: observe}
	all := make([]Place, len(changes))
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

// A placing is scratch of Places.
type placing struct {
	model        expfam.Model
	line         expfam.Line
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
func (p *placing) place(n, from, c, end int) Place {
	first := from + 1
	p.evidence = slices.Grow(p.evidence[:0], end-first)[:end-first]
	clear(p.sample)
	for s := end - 1; s >= first; s-- {
		p.observe(p.sample, s)
		p.evidence[s-first] = p.logPartition()
	}
	p.observe(p.sample, from)
	whole := p.logPartition()
	clear(p.sample)
	top := math.Inf(-1)
	for s := first; s < end; s++ {
		p.observe(p.sample, s-1)
		e := p.evidence[s-first] + p.logPartition() - whole
		if e != e {
			e = math.Inf(-1) // of samples that hold no numbers nothing is evident
		}
		p.evidence[s-first] = e
		top = math.Max(top, e)
	}
	if math.IsInf(top, 0) {
		return Place{c, c, math.NaN(), top}
	}
	const tail = .025
	sum := 0.
	for _, e := range p.evidence {
		sum += special.Exp(e - top)
	}
	out := Place{From: -1, To: c, Evidence: top + special.Log(sum)}
	out.Probability = 1 / (1 + math.Exp(math.Log(float64(n-1))-out.Evidence))
	below := 0.
	for i, e := range p.evidence {
		q := special.Exp(e-top) / sum
		if out.From < 0 && below+q/2 > tail {
			out.From = first + i
		}
		if below+q/2 < 1-tail {
			out.To = first + i
		}
		below += q
	}
	out.From, out.To = min(out.From, c), max(out.To, c)
	return out
}
