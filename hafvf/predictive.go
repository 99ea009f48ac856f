package hafvf

import "math"

// logPredictive is log ∫ exp q(w) Beta(w; prior) dw, by the trapezoidal rule in
// x = logit w, where the ends of [0, 1], about which a flat prior piles up, are
// at infinity and the integrand is analytic about the real line: the error
// falls exponentially with the number of nodes. Beyond the last node on either
// side the integrand is an exponential times a quadratic in w, or in 1−w, whose
// sum over all further nodes is a geometric series: no prior, however flat in x,
// needs nodes there. The normaliser is summed over the same nodes.
func (f *Filter) logPredictive(prior Beta) float64 {
	q0, q1 := f.line.Gain(0), f.line.Gain(1)
	f.bound = math.Max(q0, q1)
	r := &f.rule
	r.line, r.a, r.b = f.line, prior.Alpha, prior.Beta
	jet0, jet1 := f.line.Jet(0), f.line.Jet(1)
	if q0 == q1 && jet0.Q1 == 0 && jet1.Q1 == 0 {
		return q0 // nothing remembered, nothing to weigh
	}
	r.lo = r.tail(r.a, q0, jet0.Q1, jet0.Q2)
	r.hi = r.tail(r.b, q1, -jet1.Q1, jet1.Q2)
	r.bound = f.bound
	r.spread(r.step(), math.Log(r.a/r.b))
	for {
		value := r.sum(1)
		if math.Abs(value-r.sum(2)) < 1e-6 || len(r.nodes) > maxNodes {
			return value
		}
		r.halve()
	}
}

// maxNodes ends the refinement; the widest priors take some hundreds.
const maxNodes = 1 << 14

// A rule is the trapezoidal rule of logPredictive: nodes at k·h for k in
// [first, last], and the tails where they are reached.
type rule struct {
	line           Line
	a, b           float64
	h              float64
	first, last    int
	lo, hi         tail
	tailLo, tailHi bool
	nodes          []node
	peak           float64 // largest log weight
	top            float64 // largest log weight + gain
	bound          float64 // largest gain
}

type node struct {
	k            int
	weight, gain float64 // logs
}

// step is the largest step with which the rule integrates the Beta itself to
// 1e-10: its error is |Γ(a+iy)Γ(b−iy)|/Γ(a)Γ(b) with y = 2π/h.
func (r *rule) step() float64 {
	h := 1.5
	for ; h > 1e-6; h /= 2 {
		y := 2 * math.Pi / h
		if decay(r.a, y)+decay(r.b, y) < -23 {
			break
		}
	}
	return h
}

// decay is log |Γ(a+iy)/Γ(a)|, by Stirling's formula.
func decay(a, y float64) float64 {
	return (a-0.5)/2*math.Log1p(y*y/(a*a)) - y*math.Atan(y/a)
}

// spread places the nodes outward from x until nothing further out matters.
func (r *rule) spread(h, x float64) {
	r.h = h
	r.nodes = r.nodes[:0]
	r.peak, r.top = math.Inf(-1), math.Inf(-1)
	k0 := int(math.Round(math.Max(-r.lo.depth, math.Min(r.hi.depth, x)) / h))
	r.add(k0)
	for r.first = k0; float64(r.first-1)*h > -r.lo.depth; {
		r.first--
		if r.add(r.first) {
			break
		}
	}
	for r.last = k0; float64(r.last+1)*h < r.hi.depth; {
		r.last++
		if r.add(r.last) {
			break
		}
	}
	r.tailLo = float64(r.first-1)*h <= -r.lo.depth
	r.tailHi = float64(r.last+1)*h >= r.hi.depth
}

// halve halves the step.
func (r *rule) halve() {
	r.h /= 2
	for i := range r.nodes {
		r.nodes[i].k *= 2
	}
	r.first, r.last = 2*r.first, 2*r.last
	if r.tailLo {
		r.first--
	}
	if r.tailHi {
		r.last++
	}
	for k := r.first | 1; k <= r.last; k += 2 {
		r.add(k)
	}
}

// add evaluates node k and reports whether nothing further out can matter.
func (r *rule) add(k int) bool {
	x := float64(k) * r.h
	e := math.Exp(-math.Abs(x))
	lw := -math.Log1p(e)
	l1w := lw
	w := 1 / (1 + e)
	if x < 0 {
		lw += x
		w *= e
	} else {
		l1w -= x
	}
	n := node{k, r.a*lw + r.b*l1w, r.line.Gain(w)}
	r.nodes = append(r.nodes, n)
	r.bound = math.Max(r.bound, n.gain)
	r.peak = math.Max(r.peak, n.weight)
	r.top = math.Max(r.top, n.weight+n.gain)
	const nothing = 34 // nats: 1e-15
	return n.weight < r.peak-nothing && n.weight+r.bound < r.top-nothing
}

// sum is the log of the ratio of the sums over every stride-th node.
func (r *rule) sum(stride int) float64 {
	var num, den float64
	for _, n := range r.nodes {
		if n.k%stride == 0 {
			den += math.Exp(n.weight - r.peak)
			num += math.Exp(n.weight + n.gain - r.top)
		}
	}
	h := float64(stride) * r.h
	if r.tailLo {
		k := r.first - 1
		k -= ((k % stride) + stride) % stride
		n, d := r.lo.sum(-float64(k)*r.h, h, r.peak, r.top)
		num, den = num+n, den+d
	}
	if r.tailHi {
		k := r.last + 1
		k += (stride - ((k%stride)+stride)%stride) % stride
		n, d := r.hi.sum(float64(k)*r.h, h, r.peak, r.top)
		num, den = num+n, den+d
	}
	return math.Log(num/den) + r.top - r.peak
}

// A tail is the integrand near an end of [0, 1], with t = e^−|x|:
//
//	t^power · (1 + n₁·t + n₂·t²) · e^gain, and the weight alone with d₁, d₂
type tail struct {
	depth          float64 // |x| from which on this holds
	power, gain    float64
	n1, n2, d1, d2 float64
}

// tail expands the integrand at an end of [0, 1] where the gain is q and its
// derivatives, inward, are q1 and q2.
func (r *rule) tail(power, q, q1, q2 float64) tail {
	c := r.a + r.b
	t := tail{power: power, gain: q, d1: -c, d2: c * (c + 1) / 2}
	t.n1 = q1 - c
	t.n2 = t.d2 - q1 + q2/2 + q1*q1/2 - c*q1
	// The terms of third order, left out, are below 1e-11 from here on.
	t.depth = -math.Log(2e-4 / math.Max(1, math.Max(c, math.Max(math.Abs(q1), math.Sqrt(math.Abs(q2))))))
	return t
}

// sum adds up all nodes from |x| = depth on outward.
func (t *tail) sum(depth, h, peak, top float64) (num, den float64) {
	z := math.Exp(-depth)
	g0 := -1 / math.Expm1(-t.power*h)
	g1 := -z / math.Expm1(-(t.power+1)*h)
	g2 := -z * z / math.Expm1(-(t.power+2)*h)
	base := -t.power * depth
	num = math.Exp(base+t.gain-top) * (g0 + t.n1*g1 + t.n2*g2)
	den = math.Exp(base-peak) * (g0 + t.d1*g1 + t.d2*g2)
	return num, den
}
