package hafvf

import (
	"fmt"
	"math"
	"slices"

	"hafvf/hafvf/internal/beta"
	"hafvf/hafvf/internal/special"
)

// An Inference is how a member of a bank learns its forgetting. The empty one is
// Variational.
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

// Inferences are those that there are.
func Inferences() []string { return []string{string(Variational), string(Collapsed), string(Grid)} }

// DefaultWeights are the values of the weight of a member of inference Grid.
func DefaultWeights() []float64 {
	return []float64{0, .5, .8, .9, .95, .98, .99, .995, .999, 1}
}

// validInference names, under the path at, what is wrong with the member's inference.
func (m Member) validInference(at string) error {
	if m.Inference != Grid && len(m.Weights) > 0 {
		return fmt.Errorf("%sweights: belong to inference: grid", at)
	}
	switch m.Inference {
	case "", Variational:
	case Collapsed:
		if n := len(m.Levels); n != 1 && n != 2 {
			return fmt.Errorf("%sinference: collapsed is for one or two levels, not %d", at, n)
		}
	case Grid:
		if len(m.Levels) > 0 {
			return fmt.Errorf("%slevels: inference: grid has none", at)
		}
		if len(m.Weights) == 1 {
			return fmt.Errorf("%sweights: one is not a grid; without levels, top is the only weight", at)
		}
		for i, w := range m.Weights {
			if err := TopDomain.check(fmt.Sprintf("%sweights.%d", at, i), w); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("%sinference: must be variational, collapsed or grid, not %q", at, m.Inference)
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
	f := NewFilter(model, m.Levels, m.Top)
	f.inference = m.canonical().Inference
	switch m.Inference {
	case Collapsed:
		f.exact = &collapsed{levels: f.levels, top: f.top}
	case Grid:
		weights := m.canonical().Weights
		n := len(weights)
		f.grid = &grid{weights: weights, top: m.Top, counts: make([]float64, n),
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
	logB   []float64 // log prior shares of the nodes of b
}

func (c *collapsed) evidence(line Line, elapsed float64) float64 {
	c.b.one(c.top)
	if len(c.levels) == 2 {
		p := c.levels[1].PriorAt(c.top)
		c.b.between(p, p, 2)
		c.b.place(observed{elapsed: 1})
		for i, l := range c.b.logs {
			c.b.share[i] = c.b.p.log(l) + c.b.logStep[i]
		}
	}
	c.logB = append(c.logB[:0], c.b.share...)
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
	n := len(c.w.logs)
	c.terms = c.terms[:0]
	top := math.Inf(-1)
	for j, b := range c.b.logs {
		p := logitOf(c.levels[0].PriorAt(b.w))
		for i, l := range c.w.logs {
			t := c.logB[j] + p.log(l) + c.w.logStep[i] + c.w.gain[i]
			top = max(top, t)
			c.terms = append(c.terms, t)
		}
	}
	clear(c.w.share)
	clear(c.b.share)
	total := 0.0
	for j := range c.b.logs {
		for i, t := range c.terms[j*n : (j+1)*n] {
			if t < top-little {
				continue
			}
			p := special.Exp(t - top)
			c.w.share[i] += p
			c.b.share[j] += p
			total += p
		}
	}
	c.w.normalise(total)
	c.b.normalise(total)
	return special.Log(total) + top
}

func (c *collapsed) learn(dst []float64) (weight, retained float64) {
	for i, p := range c.w.share {
		weight += p * c.w.logs[i].w
		retained += p * c.w.v[i]
	}
	clear(dst)
	for i := range c.levels {
		n := &c.w
		if i == 1 {
			n = &c.b
		}
		var lw, l1w float64
		for k, p := range n.share {
			lw += p * n.logs[k].lw
			l1w += p * n.logs[k].l1w
		}
		d := beta.OfLogs(lw, l1w, c.levels[i].PriorAt(1))
		dst[2*i], dst[2*i+1] = d.Alpha, d.Beta
	}
	return weight, retained
}

// nodes are those of the trapezoidal rule over a weight, at equal steps of t, where
//
//	logit w = centre + scale·knee·sinh(t/knee).
//
// Near the centre they are scale steps apart, and further out they reach where a Beta
// distribution with a small parameter still has mass.
type nodes struct {
	p, q          logitDensity
	stride        int // of tabledNodes
	centre, scale float64
	logs          []logistic
	logStep       []float64 // log of the distance in logit w
	v, gain       []float64 // w^Δ, and the gain there
	share         []float64
}

// A logitDensity is that of logit w under a Beta distribution.
type logitDensity struct{ a, b, norm float64 }

func logitOf(d beta.Dist) logitDensity {
	return logitDensity{d.Alpha, d.Beta, special.LogBeta(d.Alpha, d.Beta)}
}

func (d logitDensity) log(l logistic) float64 { return d.a*l.lw + d.b*l.l1w - d.norm }

// observed gives the gains of an observation, Δ = elapsed after the last. Without a line
// they are zero.
type observed struct {
	line    Line
	elapsed float64
}

func (o observed) gain(v float64) float64 {
	if o.line == nil {
		return 0
	}
	return o.line.Gain(v)
}

const (
	knee     = 6
	finest   = .5
	mostSide = 300 // nodes on one side of the centre
	little   = 18  // nats below the largest term, where the rest is left out
	// apart is the distance of nodes in standard deviations of what they sum: for a normal
	// distribution the sum is right to 1e-10.
	apart = .9
)

// tabledNodes have the nodes at steps finest, for the centre 0 and the scale 1, and the log
// of their distance.
var tabledNodes = func() (t [2 * mostSide]struct{ x, logStep float64 }) {
	for k := range t {
		at := float64(k) * finest / knee
		t[k].x, t[k].logStep = knee*math.Sinh(at), math.Log(finest*math.Cosh(at))
	}
	return t
}()

// between says where the nodes are to be for distributions from p to q, at every
// stride-th of tabledNodes.
func (n *nodes) between(p, q beta.Dist, stride int) {
	// Mean and variance of logit w.
	at := func(d beta.Dist) (mean, variance float64) {
		a0, a1, _, _ := special.Polygamma(d.Alpha)
		b0, b1, _, _ := special.Polygamma(d.Beta)
		return a0 - b0, a1 + b1
	}
	mean, variance := at(p)
	if m, v := at(q); v < variance {
		mean, variance = m, v
	}
	n.p, n.q = logitOf(p), logitOf(q)
	n.stride, n.centre, n.scale = stride, mean, min(1, apart*math.Sqrt(variance)/(finest*float64(stride)))
	if n.scale == 1 {
		n.centre = max(-knee, min(mean, knee))
	}
}

// sharpen centres the nodes on the one of the largest share, where the shares fall too fast
// to either side. It reports whether they did.
func (n *nodes) sharpen() bool {
	top := 0
	for i, p := range n.share {
		if p > n.share[top] {
			top = i
		}
	}
	if top == 0 || top == len(n.share)-1 {
		return false
	}
	// That of a normal distribution is −(distance/standard deviation)².
	curvature := special.Log(n.share[top-1] / n.share[top] * (n.share[top+1] / n.share[top]))
	if curvature > -1.2*apart*apart {
		return false
	}
	distance := special.Exp(n.logStep[top])
	n.centre = logit(n.logs[top])
	n.scale = max(distance/math.Sqrt(-curvature)*apart, distance/16) / (finest * float64(n.stride))
	return true
}

// logit is log(w/(1−w)).
func logit(l logistic) float64 { return l.lw - l.l1w }

// place places the nodes about their centre, up to where the distributions from p to q,
// times the evidence of what was observed, have fallen to nothing.
func (n *nodes) place(o observed) {
	n.logs, n.logStep, n.v, n.gain = n.logs[:0], n.logStep[:0], n.v[:0], n.gain[:0]
	top := math.Inf(-1)
	n.side(0, 1, o, &top)
	slices.Reverse(n.logs)
	slices.Reverse(n.logStep)
	slices.Reverse(n.v)
	slices.Reverse(n.gain)
	n.side(1, -1, o, &top)
	n.share = slices.Grow(n.share[:0], len(n.logs))[:len(n.logs)]
}

// side appends the nodes of one side. top is the largest term so far.
func (n *nodes) side(from, direction int, o observed, top *float64) {
	end := o.gain(float64(max(direction, 0)))
	last := math.NaN()
	logScale := special.Log(n.scale * float64(n.stride))
	for k := from; k < mostSide; k++ {
		at := &tabledNodes[k*n.stride]
		l := logisticAt(n.centre + float64(direction)*n.scale*at.x)
		step := at.logStep + logScale
		v, gain := over(l.w, o.elapsed), 0.0
		if v == last {
			gain = n.gain[len(n.gain)-1]
		} else {
			gain = o.gain(v)
		}
		last = v
		n.logs, n.logStep, n.v, n.gain = append(n.logs, l), append(n.logStep, step), append(n.v, v), append(n.gain, gain)
		// Distributions between p and q are between the two here.
		prior := step + max(n.p.log(l), n.q.log(l))
		if *top = max(*top, prior+gain); prior+max(gain, end) < *top-little {
			return
		}
	}
}

// one is a single node.
func (n *nodes) one(w float64) {
	n.logs = append(n.logs[:0], logistic{w: w})
	n.logStep = append(n.logStep[:0], 0)
	n.share = append(n.share[:0], 0)
}

func (n *nodes) normalise(total float64) {
	for i := range n.share {
		n.share[i] /= total
	}
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
