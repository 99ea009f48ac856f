package methods

import (
	"math"
	"slices"

	"hafvf/hafvf/expfam"
	"hafvf/internal/special"
)

// HAFVF's model with sums over the weights instead of the search for their distributions (Moens 2018, outlook). With
// the gain q of expfam.Line and the sample d, an observation has the evidence e^q(w) under the weight w. Each step
// computes
//
//	p(w, b|x…x) ∝ p(b) p(w|b) e^q(w)
//
// by quadrature, and stores the Beta distributions with the same E[log w], E[log(1−w)], E[log b] and E[log(1−b)],
// which are nearest to it. The log predictive is exact for these priors. The sample is scaled by E[w]: for fixed
// distributions of w and b, the resulting distribution of z is nearest to the posterior.
var collapseds = []Method{
	{Name: "collapsed", About: "HAFVF, two levels, summed over the weights", Setting: "levels {.9, .1}, {1, 1}", Source: "Moens 2018, outlook",
		New: func(s Start) Follower { return newCollapsed(s) }},
}

type collapsed struct {
	conjugate
	d                []float64
	naive, posterior [2]betaPrior // index 0 for w, 1 for b
	w, b             trapezoid
	terms            []float64 // logs of the terms of the sum over w and b, one row per node of b
}

func newCollapsed(s Start) *collapsed {
	c := &collapsed{conjugate: newConjugate(s.Model), d: make([]float64, s.Model.Len()), naive: [2]betaPrior{{.9, .1}, {1, 1}}}
	c.posterior = c.naive
	return c
}

func (c *collapsed) Update(x float64) Step {
	c.see(x)
	step := Step{LogPredictive: c.evidence() + c.base, Age: -1}
	c.learn(c.d, c.infer())
	step.Mean, step.SD = c.estimate(c.d)
	return step
}

func (c *collapsed) Bytes() int { return word * (len(c.d) + 4) }

// prior returns the prior of level i, 0 for w and 1 for b, given the weight of the level above.
func (c *collapsed) prior(i int, weight float64) betaPrior {
	return c.naive[i].towards(c.posterior[i], weight)
}

// maxRefinements is the maximum number of times that the nodes of w are placed again.
const maxRefinements = 8

// evidence returns log ∫∫ p(b) p(w|b) e^q(w) dw db for the last observation.
func (c *collapsed) evidence() float64 {
	c.line.Set(c.d, c.stats)
	priorB := c.prior(1, 1)
	c.b.cover(priorB, priorB, 2)
	c.b.place(nil)
	c.w.cover(c.naive[0], c.prior(0, 1), 1)
	for round := 0; ; round++ {
		c.w.place(c.line)
		log := c.sum()
		// The evidence of an observation may be narrower than the prior.
		if round == maxRefinements || !c.w.sharpen() {
			return log
		}
	}
}

// sum sets the normalised shares of the nodes of w and b, and returns the log of the sum.
func (c *collapsed) sum() float64 {
	c.terms = c.terms[:0]
	top := math.Inf(-1)
	for j := range c.b.nodes {
		b := &c.b.nodes[j]
		b.share = 0
		densityW := logitOf(c.prior(0, b.w))
		logB := c.b.p.log(b.logistic) + b.logStep
		for i := range c.w.nodes {
			w := &c.w.nodes[i]
			t := logB + densityW.log(w.logistic) + w.logStep + w.gain
			top = max(top, t)
			c.terms = append(c.terms, t)
		}
	}
	for i := range c.w.nodes {
		c.w.nodes[i].share = 0
	}
	total := 0.0
	n := len(c.w.nodes)
	for j := range c.b.nodes {
		for i, t := range c.terms[j*n : (j+1)*n] {
			if t < top-cutoff {
				continue
			}
			p := special.Exp(t - top)
			c.w.nodes[i].share += p
			c.b.nodes[j].share += p
			total += p
		}
	}
	c.w.normalise(total)
	c.b.normalise(total)
	return special.Log(total) + top
}

// infer sets the posteriors from the shares of the nodes, and returns E[w].
func (c *collapsed) infer() (weight float64) {
	for i := range c.w.nodes {
		weight += c.w.nodes[i].share * c.w.nodes[i].w
	}
	for i, nodes := range [...][]node{c.w.nodes, c.b.nodes} {
		var logW, log1W float64
		for k := range nodes {
			logW += nodes[k].share * nodes[k].logW
			log1W += nodes[k].share * nodes[k].log1W
		}
		c.posterior[i] = betaOfLogs(logW, log1W, c.prior(i, 1))
	}
	return weight
}

// A trapezoid is the trapezoidal rule over a weight, at equal steps of t, where
//
//	logit w = centre + scale·knee·sinh(t/knee).
//
// Near the centre the nodes are scale steps apart. Further out they reach the mass of a Beta distribution with a
// small parameter.
type trapezoid struct {
	p, q          logitDensity
	stride        int // step between the indices of used tabledNodes
	centre, scale float64
	nodes         []node
}

type node struct {
	logistic
	logStep float64 // log of the distance to the next node in logit w
	gain    float64
	share   float64 // share of the posterior
}

// A logistic holds w = 1/(1+e^−u) and the logarithms of w and 1−w.
type logistic struct{ w, logW, log1W float64 }

func logisticAt(u float64) logistic {
	w, logW, log1W := special.Logistic(u)
	return logistic{w, logW, log1W}
}

// A logitDensity is the density of logit w under a Beta distribution.
type logitDensity struct{ a, b, norm float64 }

func logitOf(p betaPrior) logitDensity { return logitDensity{p.a, p.b, special.LogBeta(p.a, p.b)} }

func (d logitDensity) log(l logistic) float64 { return d.a*l.logW + d.b*l.log1W - d.norm }

const (
	knee    = 6
	finest  = .5  // step of tabledNodes
	maxSide = 300 // maximum number of nodes on one side of the centre
	cutoff  = 18  // distance below the largest term, in nats, beyond which terms are omitted
	// spacing is the distance of nodes in standard deviations of the summed distribution. The sum over a normal
	// distribution is exact to 1e-10.
	spacing = .9
)

// tabledNodes holds the nodes at steps finest, for the centre 0 and the scale 1, and the log of their distance.
var tabledNodes = func() (t [2 * maxSide]struct{ x, logStep float64 }) {
	for k := range t {
		u := float64(k) * finest / knee
		t[k].x, t[k].logStep = knee*math.Sinh(u), math.Log(finest*math.Cosh(u))
	}
	return t
}()

// cover sets the nodes for distributions from p to q, at every stride-th of tabledNodes. The narrower of p and q
// determines centre and scale.
func (r *trapezoid) cover(p, q betaPrior, stride int) {
	// Mean and variance of logit w.
	logitMoments := func(d betaPrior) (mean, variance float64) {
		az, a0, a1, _, _ := special.Polygammas(d.a, false)
		bz, b0, b1, _, _ := special.Polygammas(d.b, false)
		a0, b0 = a0+special.Log(az), b0+special.Log(bz)
		return a0 - b0, a1 + b1
	}
	mean, variance := logitMoments(p)
	if m, v := logitMoments(q); v < variance {
		mean, variance = m, v
	}
	r.p, r.q = logitOf(p), logitOf(q)
	r.stride, r.centre, r.scale = stride, mean, min(1, spacing*math.Sqrt(variance)/(finest*float64(stride)))
	if r.scale == 1 {
		r.centre = max(-knee, min(mean, knee))
	}
}

// sharpen centres the nodes on the node with the largest share, and narrows them, if the shares fall too fast on
// either side. It reports whether it did.
func (r *trapezoid) sharpen() bool {
	top := 0
	for i := range r.nodes {
		if r.nodes[i].share > r.nodes[top].share {
			top = i
		}
	}
	if top == 0 || top == len(r.nodes)-1 {
		return false
	}
	peak := r.nodes[top]
	// For a normal distribution the curvature is −(distance/standard deviation)².
	curvature := special.Log(r.nodes[top-1].share / peak.share * (r.nodes[top+1].share / peak.share))
	if curvature > -1.2*spacing*spacing {
		return false
	}
	distance := special.Exp(peak.logStep)
	r.centre = peak.logW - peak.log1W
	r.scale = max(distance/math.Sqrt(-curvature)*spacing, distance/16) / (finest * float64(r.stride))
	return true
}

// place places the nodes around the centre, as far as the distributions from p to q times the evidence are not
// negligible. A nil line means no evidence.
func (r *trapezoid) place(line expfam.Line) {
	r.nodes = r.nodes[:0]
	top := math.Inf(-1)
	r.side(0, 1, line, &top)
	slices.Reverse(r.nodes)
	r.side(1, -1, line, &top)
}

// side appends the nodes on one side, with indices from start. direction is 1 or −1. top is the largest term so far.
func (r *trapezoid) side(start, direction int, line expfam.Line, top *float64) {
	gain := func(w float64) float64 {
		if line == nil {
			return 0
		}
		return line.Gain(w)
	}
	end := gain(float64(max(direction, 0)))
	logScale := special.Log(r.scale * float64(r.stride))
	for k := start; k < maxSide; k++ {
		tabled := &tabledNodes[k*r.stride]
		next := node{logistic: logisticAt(r.centre + float64(direction)*r.scale*tabled.x), logStep: tabled.logStep + logScale}
		if last := len(r.nodes) - 1; k > start && r.nodes[last].w == next.w {
			next.gain = r.nodes[last].gain
		} else {
			next.gain = gain(next.w)
		}
		r.nodes = append(r.nodes, next)
		// Distributions between p and q lie between the two here.
		prior := next.logStep + max(r.p.log(next.logistic), r.q.log(next.logistic))
		if *top = max(*top, prior+next.gain); prior+max(next.gain, end) < *top-cutoff {
			return
		}
	}
}

func (r *trapezoid) normalise(total float64) {
	for i := range r.nodes {
		r.nodes[i].share /= total
	}
}
