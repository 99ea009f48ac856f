package hafvf

import (
	"fmt"
	"math"
	"slices"

	"hafvf/internal/beta"
	"hafvf/internal/special"
)

// An Inference is how a member of a bank learns its forgetting. The empty one is
// Variational. A config has no other: hafvf compare has the others as methods, which predict
// worse nearly everywhere.
//
// With the gain q of Line and the sample d, an observation has the evidence e^q(w) under
// the weight w. Variational inference looks for the independent distributions of z, w and
// b that are nearest to their posterior, with q expanded about E[w]. The others sum over w
// instead, the outlook of Moens 2018:
//
//	p(w, b|x…x) ∝ p(b) p(w|b) e^q(w)
//
// Their log predictive is exact for these priors. The sample then is scaled by E[w], as in
// variational inference: that distribution of z is nearest to the posterior for given
// distributions of w and b.
type Inference string

const (
	Variational Inference = "variational"
	// Collapsed takes p(w, b|x…x) by quadrature and keeps the Beta distributions of the
	// same E[log w], E[log(1−w)], E[log b] and E[log(1−b)], which are the nearest to it. It
	// is for one or two levels.
	Collapsed Inference = "collapsed"
	// Grid has a weight of a few values, with a Dirichlet distribution over them in place of
	// levels. Its naive prior counts each value once, and the member's top is its forgetting.
	Grid Inference = "grid"
)

// DefaultWeights are the values of the weight of a member of inference Grid.
func DefaultWeights() []float64 {
	return []float64{0, .5, .8, .9, .95, .98, .99, .995, .999, 1}
}

// checkInference returns the key of the member that does not fit its inference, as JSON has
// it, and why. Both are empty where all fit.
func (m Member) checkInference() (key, why string) {
	switch n := len(m.Levels); {
	case m.Inference != "" && m.Inference != Variational && m.Inference != Collapsed && m.Inference != Grid:
		return "inference", fmt.Sprintf("must be variational, collapsed or grid, not %q", m.Inference)
	case m.Inference != Grid && len(m.Weights) > 0:
		return "weights", "belongs to inference: grid"
	case m.Inference == Grid && n > 0:
		return "levels", "belongs to another inference than grid"
	case m.Inference == Grid && len(m.Weights) == 1:
		return "weights", "must be two or more; for one, take levels: [] and top"
	case m.Inference == Collapsed && n != 1 && n != 2:
		return "inference", fmt.Sprintf("collapsed is for one or two levels, not %d", n)
	}
	return "", ""
}

// validInference names, under the path at, what is wrong with the member's inference.
func (m Member) validInference(at string) error {
	if key, why := m.checkInference(); key != "" {
		return fmt.Errorf("%s%s: %s", at, key, why)
	}
	for i, w := range m.Weights {
		if err := TopDomain.check(fmt.Sprintf("%sweights.%d", at, i), w); err != nil {
			return err
		}
	}
	return nil
}

// canonical returns the member with the values that defaults of its inference stand for.
func (m Member) canonical() Member {
	if m.Inference == Variational {
		m.Inference = ""
	}
	if m.Inference == Grid && len(m.Weights) == 0 {
		m.Weights = DefaultWeights()
	}
	m.Weights = slices.Clone(m.Weights)
	return m
}

// newMember makes the filter of a member. It panics as NewFilter does.
func newMember(model Model, m Member) *Filter {
	if err := m.validInference(""); err != nil {
		panic("hafvf: " + err.Error())
	}
	m = m.canonical()
	f := NewFilter(model, m.Levels, m.Top)
	switch m.Inference {
	case Collapsed:
		f.exact = &collapsed{levels: f.levels, top: f.top}
	case Grid:
		n := len(m.Weights)
		f.grid = &grid{weights: m.Weights, top: m.Top, counts: make([]float64, n),
			v: make([]float64, n), before: make([]float64, n), share: make([]float64, n)}
		f.exact = f.grid
	}
	return f
}

// An exact inference sums over the weight, in place of the search for its distribution.
type exact interface {
	// evidence is log ∫ p(w) e^q(w^Δ) dw with the line's q, after Δ = elapsed.
	evidence(line Line, elapsed float64) float64
	// learn writes the distribution given the evidence to the part of a state that follows
	// the sample, and returns E[w] and E[w^Δ].
	learn(dst []float64) (weight, retained float64)
}

// collapsed is the inference of that name. The levels are the filter's.
type collapsed struct {
	levels []beta.Level
	top    float64
	w, b   nodes
	terms  []float64 // logs of the terms of the sum over w and b, a row for each b
}

func (c *collapsed) evidence(line Line, elapsed float64) float64 {
	c.b.one(c.top)
	if len(c.levels) == 2 {
		p := c.levels[1].PriorAt(c.top)
		c.b.between(p, p, 2)
		c.b.place(observed{elapsed: 1})
	}
	c.w.between(c.levels[0].Naive, c.levels[0].PriorAt(1), 1)
	for round := 0; ; round++ {
		c.w.place(observed{line, elapsed})
		log := c.sum()
		// An observation may be sharper than the prior.
		if round == refinements || !c.w.sharpen() {
			return log
		}
	}
}

// refinements is how often the nodes of w are placed anew.
const refinements = 8

// sum sets the shares of the nodes of w and b, and returns the log of the sum.
func (c *collapsed) sum() float64 {
	c.terms = c.terms[:0]
	top := math.Inf(-1)
	for j := range c.b.all {
		b := &c.b.all[j]
		b.share = 0
		p := logitOf(c.levels[0].PriorAt(b.w))
		logB := 0.0 // a single node has all
		if len(c.b.all) > 1 {
			logB = c.b.p.log(b.logistic) + b.logStep
		}
		for i := range c.w.all {
			w := &c.w.all[i]
			t := logB + p.log(w.logistic) + w.logStep + w.gain
			top = max(top, t)
			c.terms = append(c.terms, t)
		}
	}
	for i := range c.w.all {
		c.w.all[i].share = 0
	}
	total := 0.0
	n := len(c.w.all)
	for j := range c.b.all {
		for i, t := range c.terms[j*n : (j+1)*n] {
			if t < top-little {
				continue
			}
			p := special.Exp(t - top)
			c.w.all[i].share += p
			c.b.all[j].share += p
			total += p
		}
	}
	c.w.normalise(total)
	c.b.normalise(total)
	return special.Log(total) + top
}

func (c *collapsed) learn(dst []float64) (weight, retained float64) {
	for i := range c.w.all {
		n := &c.w.all[i]
		weight += n.share * n.w
		retained += n.share * n.v
	}
	clear(dst)
	for i := range c.levels {
		nodes := c.w.all
		if i == 1 {
			nodes = c.b.all
		}
		var lw, l1w float64
		for k := range nodes {
			lw += nodes[k].share * nodes[k].lw
			l1w += nodes[k].share * nodes[k].l1w
		}
		d := beta.OfLogs(lw, l1w, c.levels[i].PriorAt(1))
		dst[2*i], dst[2*i+1] = d.Alpha, d.Beta
	}
	return weight, retained
}

// grid is the inference of that name.
type grid struct {
	weights []float64
	top     float64
	counts  []float64 // beyond those of the naive prior
	v       []float64 // w^Δ
	before  []float64 // probabilities of the weights, before the observation
	share   []float64 // and given it
}

// prior sets the probabilities before an observation, from what a state has counted and
// the forgetting of that.
func (g *grid) prior(counts []float64, top float64) {
	all := float64(len(counts))
	for _, n := range counts {
		all += top * n
	}
	for i, n := range counts {
		g.before[i] = (1 + top*n) / all
	}
}

// mean is that of w^Δ, Δ = elapsed, before the observation.
func (g *grid) mean(elapsed float64) (mean float64) {
	for i, p := range g.before {
		mean += p * over(g.weights[i], elapsed)
	}
	return mean
}

func (g *grid) evidence(line Line, elapsed float64) float64 {
	g.prior(g.counts, g.top)
	top := math.Inf(-1)
	for i, w := range g.weights {
		g.v[i] = over(w, elapsed)
		g.share[i] = special.Log(g.before[i]) + line.Gain(g.v[i])
		top = max(top, g.share[i])
	}
	total := 0.0
	for i, l := range g.share {
		g.share[i] = special.Exp(l - top)
		total += g.share[i]
	}
	for i := range g.share {
		g.share[i] /= total
	}
	return special.Log(total) + top
}

func (g *grid) learn(dst []float64) (weight, retained float64) {
	for i, p := range g.share {
		dst[i] = g.top*g.counts[i] + p
		weight += p * g.weights[i]
		retained += p * g.v[i]
	}
	return weight, retained
}
