package hafvf

import (
	"math"

	"hafvf/hafvf/expfam"
	"hafvf/internal/special"
)

// logPredictive returns log ∫ exp q(w) Beta(w; prior) dw, by the trapezoidal rule in x = logit w. A flat prior
// piles up near the ends of [0, 1], which are at infinity in x. The integrand is analytic in a strip around the
// real line, so that halving the step squares the error (Trefethen and Weideman 2014).
//
// Near an end, with t = e^−|x|, the integrand is a power of t times a polynomial in t, and the sum over all
// further nodes is a geometric series for each term. No prior, however flat in x, needs nodes there.
//
// The first step is the widest that integrates the prior itself. If the gain is sharper than the prior, the
// curvature of the integrand shows it, and the step is halved in the places whose terms are large enough to
// matter.
//
// q0 and q1 are the gains at the ends.
func (f *Filter) logPredictive(prior Beta, elapsed, q0, q1 float64) float64 {
	r := &f.rule
	r.line, r.a, r.b, r.elapsed = f.line, prior.Alpha, prior.Beta, elapsed
	r.poles = poles * max(1, elapsed)
	r.step()
	r.scan(q0, q1)
	if r.missed > stepTolerance*r.sum {
		r.join()
		for r.missed > stepTolerance*r.sum && len(r.nodes) < maxNodes {
			r.refine()
			r.add()
		}
	}
	return special.Log(r.sum*r.h) + r.top - special.LogBeta(r.a, r.b)
}

// Tolerances relative to the integral, and limits.
const (
	stepTolerance = 3e-9  // error of the step
	cut           = 1e-10 // uncertainty of the rest beyond the last node
	ignoredNats   = 28    // a term this many nats below the largest one needs no finer step
	maxNodes      = 1 << 14
)

// A rule is the trapezoidal rule of logPredictive: nodes at k·h, and a tail beyond the last node on either
// side.
type rule struct {
	line        expfam.Line
	a, b        float64
	elapsed     float64
	h           float64
	poles       float64 // the constant poles, times Δ if Δ > 1: the poles of w^Δ are closer by this factor
	table       *steps  // nodes for h, or nil
	finer       []steps // finer tables; the first has step h/2
	down, up    []node  // nodes of the first step, outward from the same node
	nodes, next []node  // all nodes in order, after the step has been halved
	lo, hi      tail
	top         float64 // log of the unit of sum and missed
	bound       float64 // largest gain so far
	sum         float64
	missed      float64 // estimate of the error of sum
}

type node struct {
	k            int
	weight, gain float64 // logs
	term         float64 // e^(log − top), set by terms
}

func (n *node) log() float64 { return n.weight + n.gain }

// step chooses h such that the rule integrates the Beta itself to 1e-10. The error is |Γ(a+iy)Γ(b−iy)|/Γ(a)Γ(b)
// with y = 2π/h.
func (r *rule) step() {
	for i := range tables {
		if t := &tables[i]; decay(r.a, t.y)+decay(r.b, t.y) > 25 {
			r.h, r.table, r.finer = t.h, t, tables[min(i+8, len(tables)):]
			return
		}
	}
	r.table, r.finer = nil, nil
	last := &tables[len(tables)-1]
	y := last.y
	for r.h = last.h; decay(r.a, y)+decay(r.b, y) < 25 && r.h > 1e-6; r.h /= 2 {
		y *= 2
	}
}

// decay returns about −log |Γ(a+iy)/Γ(a)|, which is y²/2a for y ≪ a and, up to a power of y, πy/2 for y ≫ a.
func decay(a, y float64) float64 { return y * y / (2*a + poles/(math.Pi/2)*y) }

const poles = 0.864 // from a fit of decay to the gamma function

// A logistic holds w = 1/(1+e^−x) and the logarithms of w and 1−w.
type logistic struct{ w, lw, l1w float64 }

func logisticAt(x float64) logistic {
	w, lw, l1w := special.Logistic(x)
	return logistic{w, lw, l1w}
}

// steps holds the nodes k·h in ±tabled for one step h.
type steps struct {
	h, y   float64 // y = 2π/h
	last   int
	points []logistic
}

// tables holds the first steps of the rule, coarsest first. The step halves with every eighth table.
var tables = func() (t [17]steps) {
	for i := range t {
		h := coarsest * math.Exp2(-float64(i)/8)
		n := int(tabled / h)
		t[i] = steps{h, 2 * math.Pi / h, n, make([]logistic, 2*n+1)}
		for k := range t[i].points {
			t[i].points[k] = logisticAt(float64(k-n) * h)
		}
	}
	return t
}()

const (
	coarsest = 0.75
	tabled   = 24
)

func (r *rule) node(k int) node {
	var l logistic
	if t := r.table; t != nil && uint(k+t.last) < uint(len(t.points)) {
		l = t.points[k+t.last]
	} else {
		l = logisticAt(float64(k) * r.h)
	}
	v := l.w
	if r.elapsed != 1 {
		v = math.Exp(r.elapsed * l.lw)
	}
	return node{k: k, weight: r.a*l.lw + r.b*l.l1w, gain: r.line.Gain(v)}
}

// scan sums the first nodes, from the prior's mode outward to the start of a tail on either side. q0 and q1 are
// the gains at the ends.
func (r *rule) scan(q0, q1 float64) {
	reach := max(0, special.Log((r.a+r.b)/small))
	far := int(reach/r.h) + 2
	first := r.node(max(-far, min(far, int(math.Round(special.Log(r.a/r.b)/r.h)))))
	r.top, r.sum, r.missed = first.log(), 1, 0
	r.bound = max(q0, q1, first.gain)
	r.down = r.extend(r.down, first, &r.lo, -1, reach, r.a, q0)
	r.up = r.extend(r.up, first, &r.hi, +1, reach, r.b, q1)
	if len(r.down) > 1 && len(r.up) > 1 {
		r.miss(special.Exp(first.log()-r.top), 2*first.log()-r.down[1].log()-r.up[1].log(), first.log())
	}
}

// extend lists the nodes from the first one in one direction, and sets outer to the tail beyond them. end is
// the gain at the end. extend computes as many nodes in advance as the previous list had, so that a processor
// can evaluate them in parallel.
func (r *rule) extend(nodes []node, first node, outer *tail, direction int, reach, power, end float64) []node {
	ahead := min(len(nodes), maxAhead)
	nodes = append(nodes[:0], first)
	before, log, e := math.NaN(), first.log(), special.Exp(first.log()-r.top)
	*outer = tail{power: power, gain: end}
	for i := 1; i < maxNodes; i++ {
		if i == len(nodes) {
			for j := range max(ahead-i, 4) {
				nodes = append(nodes, r.node(first.k+direction*(i+j)))
			}
			r.terms(nodes[i:])
		}
		n := &nodes[i]
		if n.gain > r.bound {
			r.bound = n.gain
		}
		next, term := n.log(), n.term
		if term > huge {
			e, term = e/term, 1
			r.rescale(next)
			r.terms(nodes[i+1:])
		}
		r.sum += term
		d := 2*log - before - next
		r.miss(e, d, log)
		if term < 1e-3*r.sum && term < e {
			rise := max(end, n.gain)
			if n.gain > nodes[i-1].gain {
				rise = r.bound
			}
			if rest, ok := r.rest(term, e, math.Abs(d), rise-n.gain); ok {
				r.sum += rest
				return nodes[:i+1]
			}
		}
		if x := float64(direction*n.k) * r.h; math.Abs(n.gain-end) < 1.01*short && x > reach && x > 1 && i >= 2 {
			if outer.fit(nodes[:i+1], r.a+r.b, r.h, x) {
				r.sum += outer.sum(x, r.h, r.top)
				return nodes[:i+1]
			}
		}
		before, log, e = log, next, term
	}
	return nodes[:maxNodes]
}

// maxAhead limits the number of nodes that are computed in advance.
const maxAhead = 24

// terms sets the terms of the nodes.
func (r *rule) terms(nodes []node) {
	for i := range nodes {
		nodes[i].term = special.Exp(nodes[i].log() - r.top)
	}
}

// huge is the size of a term above which the sum is rescaled.
const huge = 1e100

// rescale makes e^top the new unit of the sum.
func (r *rule) rescale(top float64) {
	factor := math.Exp(r.top - top)
	r.top = top
	r.sum *= factor
	r.missed *= factor
}

// miss adds to missed the error of the rule at a node with value e = exp(logValue). d is the second difference
// of the logarithms, positive at a maximum. The rule misses the fraction 2·exp(−2π²/κh²) of e^−κx²/2, where κh²
// is d. Powers of w and 1−w also have poles at distance π, which widen κh² by poles·h: the fraction is then
// that of decay for both sides of a Beta. The sum over every second node would be no safe estimate, because it
// can agree by accident.
func (r *rule) miss(e, d, logValue float64) {
	if d+r.poles*r.h > visible {
		r.missed += e * r.fraction(d, logValue)
	}
}

// visible is the width d + poles·h for which the rule misses the fraction 1e-9.
const visible = 0.9

// fraction returns the fraction that the rule misses at a node, see miss.
func (r *rule) fraction(d, logValue float64) float64 {
	d -= 0x1p-48 * math.Abs(logValue) // rounding
	if d <= 0 {
		return 0
	}
	return 2 * special.Exp(-2*math.Pi*math.Pi/(d+r.poles*r.h))
}

// rest returns the sum over all nodes beyond the last one as a geometric series. The last node has value e, the
// node before it has value before. ok reports whether the series is accurate enough: bend is the second
// difference of the logarithms, and rise the largest further rise of the gain.
func (r *rule) rest(e, before, bend, rise float64) (rest float64, ok bool) {
	ratio := e / before
	left := 1 - ratio
	rest = e * ratio / left
	doubt := bend / (left * left)
	if rise > 1 {
		doubt += special.Exp(rise)
	}
	return rest, rest*doubt < cut*r.sum
}

// fall returns the decrease of the logarithm from node n to the next node, last. It ignores a change of the
// gain within its rounding: gains of counts of 10¹² round by more than the prior falls. The prior falls at
// least as a power of t.
func (r *rule) fall(n, last *node, power float64) float64 {
	gain := last.gain - n.gain
	if math.Abs(gain) <= 0x1p-48*math.Abs(last.gain) {
		gain = 0
	}
	if fall := (n.weight - last.weight) - gain; fall > 0 {
		return fall
	}
	return power * r.h
}

// A tail starts where short limits t·(the scale of the gain's derivatives) and small limits t·(a+b). A cubic in
// the gain leaves out the fourth power of the former. The series of the prior's density leaves out the seventh
// power of the latter over 7!.
const (
	short = 4e-3
	small = 0.1
)

// A tail describes the integrand beyond the last node on one side. If fitted is true, the integrand near the
// end of [0, 1] is
//
//	t^power · (1 + c₁·s + … + c₆·s⁶) · e^gain,  s = t/t of the last node
//
// Otherwise the rest is small, and add sums it as a geometric series.
type tail struct {
	fitted      bool
	power, gain float64
	c           [6]float64
}

// fit interpolates the gain at the end, t = 0, and at the last three nodes. It reports whether the
// interpolation is precise enough beyond t = e^−x, which requires that the gain at the last node is within
// 1.01·short of the gain at the end.
func (t *tail) fit(nodes []node, concentration, h, x float64) bool {
	ratio := special.Exp(h)
	n := len(nodes)
	s2, s3 := ratio, ratio*ratio // of the second-last node and the third-last node
	// Divided differences.
	d01 := nodes[n-1].gain - t.gain
	d02 := (nodes[n-2].gain - t.gain) / s2
	d03 := (nodes[n-3].gain - t.gain) / s3
	d012 := (d02 - d01) / (s2 - 1)
	d023 := (d03 - d02) / (s3 - s2)
	e3 := (d023 - d012) / (s3 - 1)
	e2 := d012 - e3*(1+s2)
	e1 := d01 - d012 + s2*e3
	if !(math.Abs(e1) < short && math.Abs(e2) < short*short && math.Abs(e3) < short*short*short) {
		return false
	}
	t.fitted = true
	// (1+t)^−(a+b), times exp(e₁s + e₂s² + e₃s³).
	e3 += e1 * (e2 + e1*e1/6)
	e2 += e1 * e1 / 2
	start, d := special.Exp(-x), 1.0
	p := [...]float64{0, 0, 0, 1}
	for k := range t.c {
		d *= -(concentration + float64(k)) * start / float64(k+1)
		p[0], p[1], p[2], p[3] = p[1], p[2], p[3], d
		t.c[k] = d + e1*p[2] + e2*p[1] + e3*p[0]
	}
	return true
}

// sum returns the sum over all nodes with step h beyond |x|, divided by e^top.
func (t *tail) sum(x, h, top float64) float64 {
	step := special.Exp(-h)
	u := math.Expm1(-t.power * h)
	sum, ratio, s := -1/u, 1+u, 1.0
	base := special.Exp(t.gain-t.power*x-top) * ratio
	for _, c := range t.c {
		s *= step
		ratio *= step
		sum += c * s / (1 - ratio)
	}
	return base * sum
}

// join combines the nodes of the first step into one list.
func (r *rule) join() {
	r.nodes = r.nodes[:0]
	for i := len(r.down) - 1; i > 0; i-- {
		r.nodes = append(r.nodes, r.down[i])
	}
	r.nodes = append(r.nodes, r.up...)
}

// refine halves the step, except between nodes whose terms are too small to matter.
func (r *rule) refine() {
	r.h /= 2
	r.table = nil
	if len(r.finer) > 0 {
		r.table, r.finer = &r.finer[0], r.finer[min(8, len(r.finer)):]
	}
	out := r.next[:0]
	top := math.Inf(-1)
	for i := range r.nodes {
		top = max(top, r.nodes[i].log())
	}
	rise := func(i int) float64 { // bound of the rise of the integrand next to node i
		if i <= 0 || i >= len(r.nodes)-1 {
			return 0
		}
		a, b, c := &r.nodes[i-1], &r.nodes[i], &r.nodes[i+1]
		if b.k-a.k != c.k-b.k {
			return 0
		}
		return math.Abs(a.log() - 2*b.log() + c.log())
	}
	for i := range r.nodes {
		n := r.nodes[i]
		k := n.k
		n.k *= 2
		out = append(out, n)
		if i+1 == len(r.nodes) {
			break
		}
		// Nodes that are not adjacent have been judged negligible before.
		if m := &r.nodes[i+1]; m.k == k+1 && max(n.log(), m.log())+rise(i)+rise(i+1) > top-ignoredNats {
			out = append(out, r.node(n.k+1))
		}
	}
	r.nodes, r.next = out, r.nodes
}

// add sums the present nodes and the tails beyond them.
func (r *rule) add() {
	n := len(r.nodes)
	r.top = math.Inf(-1)
	for i := range r.nodes {
		r.top = max(r.top, r.nodes[i].log())
	}
	value := func(i int) float64 { return special.Exp(r.nodes[i].log() - r.top) }
	r.sum, r.missed = 0, 0
	for i := range r.nodes {
		e := value(i)
		r.sum += e
		if i > 0 && i < n-1 {
			a, b, c := &r.nodes[i-1], &r.nodes[i], &r.nodes[i+1]
			if b.k-a.k == 1 && c.k-b.k == 1 {
				r.miss(e, 2*b.log()-a.log()-c.log(), b.log())
			}
		}
	}
	for _, side := range [...]struct {
		*tail
		direction, last, inner int
	}{{&r.lo, -1, 0, 1}, {&r.hi, 1, n - 1, n - 2}} {
		k := r.nodes[side.last].k
		switch {
		case side.fitted:
			r.sum += side.sum(float64(side.direction*k)*r.h, r.h, r.top)
		case k == r.nodes[side.inner].k+side.direction:
			if e := value(side.last); e > 0 {
				r.sum += e / math.Expm1(r.fall(&r.nodes[side.inner], &r.nodes[side.last], side.power))
			}
		}
	}
}
