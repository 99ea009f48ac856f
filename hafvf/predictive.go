package hafvf

import (
	"math"

	"hafvf/hafvf/internal/special"
)

// logPredictive is log ∫ exp q(w) Beta(w; prior) dw, by the trapezoidal rule in
// x = logit w. A flat prior piles up about the ends of [0, 1], which are at infinity
// in x. The integrand is analytic in a strip about the real line, so that halving
// the step squares the error (Trefethen and Weideman 2014).
//
// Near an end, with t = e^−|x|, the integrand is a power of t times a polynomial in
// t, and the sum over all further nodes is a geometric series for each of its terms:
// no prior, however flat in x, needs nodes there. The normaliser is summed over the
// same nodes.
//
// The first step is the widest that integrates the prior itself. Where the gain is
// sharper than the prior, the sum over every second node differs from the sum over
// all, and the step is halved where a finer one is worth its nodes.
//
// q0 and q1 are the gains at the ends.
func (f *Filter) logPredictive(prior Beta, elapsed, q0, q1 float64) float64 {
	r := &f.rule
	r.line, r.a, r.b, r.elapsed = f.line, prior.Alpha, prior.Beta, elapsed
	r.bound = max(q0, q1)
	r.scan(q0, q1)
	fine, coarse := r.sums()
	// The gain's own rounding bounds what can be asked for.
	tolerance := settled + 0x1p-46*math.Abs(r.top-r.peak)
	for math.Abs(fine-coarse) > tolerance && len(r.nodes) < maxNodes {
		r.refine()
		fine, coarse = r.sums()
	}
	return fine
}

const (
	settled  = 1e-5 // nats between two steps; the error of the finer is its square
	maxNodes = 1 << 14
	nothing  = 28 // nats below the largest term that a term is left out
)

// A rule is the trapezoidal rule of logPredictive: nodes at k·h, in order, and
// the tails where they are reached.
type rule struct {
	line        Line
	a, b        float64
	elapsed     float64
	h           float64
	table       *steps // of h, or nil
	nodes, next []node
	lo, hi      tail
	mode        float64 // of the prior's density in x
	peak        float64 // largest log weight
	top         float64 // largest log weight + gain
	bound       float64 // largest gain
}

type node struct {
	k            int
	weight, gain float64 // logs
}

// step chooses h such that the rule integrates the Beta itself to 1e-10: its error
// is |Γ(a+iy)Γ(b−iy)|/Γ(a)Γ(b) with y = 2π/h.
func (r *rule) step() {
	for i := range tables {
		if t := &tables[i]; decay(r.a, t.y)+decay(r.b, t.y) > 25 {
			r.h, r.table = t.h, t
			return
		}
	}
	r.table = nil
	last := &tables[len(tables)-1]
	y := last.y
	for r.h = last.h; decay(r.a, y)+decay(r.b, y) < 25 && r.h > 1e-6; r.h /= 2 {
		y *= 2
	}
}

// decay is about −log |Γ(a+iy)/Γ(a)|, which is y²/2a for y ≪ a and πy/2 for y ≫ a.
func decay(a, y float64) float64 { return y * y / (2*a + 0.55*y) }

// A logistic is w = 1/(1+e^−x) with the logarithms of w and 1−w.
type logistic struct{ w, lw, l1w float64 }

func logisticAt(x float64) logistic {
	e := math.Exp(-math.Abs(x))
	l := -math.Log1p(e)
	w := 1 / (1 + e)
	if x < 0 {
		return logistic{w * e, l + x, l}
	}
	return logistic{w, l, l - x}
}

// steps are the nodes k·h within ±tabled of one step.
type steps struct {
	h, y float64 // y = 2π/h
	last int
	at   []logistic
}

// tables are those of the steps that the rule begins with, the coarsest first.
var tables = func() (t [17]steps) {
	for i := range t {
		h := coarsest * math.Exp2(-float64(i)/8)
		n := int(tabled / h)
		t[i] = steps{h, 2 * math.Pi / h, n, make([]logistic, 2*n+1)}
		for k := range t[i].at {
			t[i].at[k] = logisticAt(float64(k-n) * h)
		}
	}
	return t
}()

const (
	coarsest = 0.75
	tabled   = 24
)

func (r *rule) at(k int) node {
	var l logistic
	if t := r.table; t != nil && uint(k+t.last) < uint(len(t.at)) {
		l = t.at[k+t.last]
	} else {
		l = logisticAt(float64(k) * r.h)
	}
	v := l.w
	if r.elapsed != 1 {
		v = math.Exp(r.elapsed * l.lw)
	}
	n := node{k, r.a*l.lw + r.b*l.l1w, r.line.Gain(v)}
	r.bound = max(r.bound, n.gain)
	r.peak = max(r.peak, n.weight)
	r.top = max(r.top, n.weight+n.gain)
	return n
}

// scan places the first nodes, from the prior's mode outward to where nothing
// further out matters or a tail takes over. q0 and q1 are the gains at the ends.
func (r *rule) scan(q0, q1 float64) {
	r.step()
	r.mode = special.Log(r.a / r.b)
	r.peak, r.top = math.Inf(-1), math.Inf(-1)
	c := r.a + r.b
	k0 := int(math.Round(r.mode / r.h))
	reach := int(special.Log(c/small+1)/r.h) + 2
	k0 = max(-reach, min(reach, k0))
	r.next = r.next[:0]
	// Downward first, then turned round.
	r.next = append(r.next, r.at(k0))
	r.extend(&r.lo, -1, r.a, q0)
	r.nodes = r.nodes[:0]
	for i := len(r.next) - 1; i >= 0; i-- {
		r.nodes = append(r.nodes, r.next[i])
	}
	r.next, r.nodes = r.nodes, r.next
	r.extend(&r.hi, +1, r.b, q1)
	r.next, r.nodes = r.nodes, r.next
}

// extend appends nodes to next in one direction, and sets the tail behind them.
func (r *rule) extend(to *tail, direction int, power, end float64) {
	to.on = false
	reach := max(1, special.Log((r.a+r.b)/small))
	for len(r.next) < maxNodes {
		n := r.next[len(r.next)-1]
		if n.weight < r.peak-nothing && n.weight+r.bound < r.top-nothing {
			return
		}
		if x := float64(direction*n.k) * r.h; x > reach && len(r.next) >= 3 && math.Abs(n.gain-end) < 2*short {
			if r.tail(to, power, end, x) {
				return
			}
		}
		r.next = append(r.next, r.at(n.k+direction))
	}
}

// A tail starts where short bounds t·(the scale of the gain's derivatives), of which
// the fourth power is what a cubic leaves out, and small bounds t·(a+b), of which
// the seventh, over 7!, is what the prior's density leaves out.
const (
	short = 4e-3
	small = 0.1
)

// A tail is the integrand near an end of [0, 1]:
//
//	t^power · (1 + n₁·s + … + n₆·s⁶) · e^gain
//
// and the weight alone with d₁ … d₆; s is t over that of the last node.
type tail struct {
	on          bool
	power, gain float64
	n, d        [6]float64
}

// tail interpolates the gain at the end, t = 0, and at the last three nodes, and
// reports whether this is precise enough from t = e^−x on.
func (r *rule) tail(to *tail, power, end, x float64) bool {
	ratio := special.Exp(r.h)
	n := len(r.next)
	s2, s3 := ratio, ratio*ratio // of the last node but one, and but two
	// Divided differences.
	d01 := r.next[n-1].gain - end
	d02 := (r.next[n-2].gain - end) / s2
	d03 := (r.next[n-3].gain - end) / s3
	d012 := (d02 - d01) / (s2 - 1)
	d023 := (d03 - d02) / (s3 - s2)
	e3 := (d023 - d012) / (s3 - 1)
	e2 := d012 - e3*(1+s2)
	e1 := d01 - d012 + s2*e3
	if !(math.Abs(e1) < short && math.Abs(e2) < short*short && math.Abs(e3) < short*short*short) {
		return false
	}
	to.on, to.power, to.gain = true, power, end
	// (1+t)^−(a+b), and times exp(e₁s + e₂s² + e₃s³).
	c, t, d := r.a+r.b, special.Exp(-x), 1.0
	for k := range to.d {
		d *= -(c + float64(k)) * t / float64(k+1)
		to.d[k] = d
	}
	e3 += e1 * (e2 + e1*e1/6)
	e2 += e1 * e1 / 2
	p := [...]float64{0, 0, 0, 1}
	for k, d := range to.d {
		p[0], p[1], p[2], p[3] = p[1], p[2], p[3], d
		to.n[k] = d + e1*p[2] + e2*p[1] + e3*p[0]
	}
	return true
}

// sums adds up all nodes outside of k·h, which is |x| of the last, by the step h
// and by 2h, and divides by e^peak and e^top.
func (t *tail) sums(k int, h, peak, top float64) (num, den [2]float64) {
	x := float64(k) * h
	step := special.Exp(-h)
	u := math.Expm1(-t.power * h)
	bn := special.Exp(-t.power*x+t.gain-top) * (1 + u)
	bd := special.Exp(-t.power*x-peak) * (1 + u)
	for i := range 2 {
		// From s = step on, in steps of step.
		first := step
		if i == 1 {
			if k&1 == 0 { // the first even node is one further
				first *= step
				bn *= 1 + u
				bd *= 1 + u
			}
			u *= 2 + u
			step *= step
		}
		n, d := -1/u, -1/u
		ratio, zi := 1+u, 1.0
		for j := range t.n {
			ratio *= step
			zi *= first
			g := zi / (1 - ratio)
			n += t.n[j] * g
			d += t.d[j] * g
		}
		num[1-i], den[1-i] = bn*n, bd*d
	}
	return num, den
}

// refine halves the step where a term can be of any size.
func (r *rule) refine() {
	r.h /= 2
	r.table = nil
	out := r.next[:0]
	rise := func(i int) float64 { // what the integrand can rise by next to node i
		if i <= 0 || i >= len(r.nodes)-1 {
			return 0
		}
		a, b, c := &r.nodes[i-1], &r.nodes[i], &r.nodes[i+1]
		if b.k-a.k != c.k-b.k {
			return 0
		}
		return math.Abs((a.weight + a.gain - b.weight - b.gain) + (c.weight + c.gain - b.weight - b.gain))
	}
	for i := range r.nodes {
		n := r.nodes[i]
		k := n.k
		n.k *= 2
		out = append(out, n)
		if i+1 == len(r.nodes) {
			break
		}
		m := &r.nodes[i+1]
		if m.k != k+1 {
			continue // left out already
		}
		x := float64(n.k) * r.h
		matters := r.mode >= x && r.mode <= x+2*r.h ||
			math.Max(n.weight, m.weight) > r.peak-nothing ||
			math.Max(n.weight+n.gain, m.weight+m.gain)+rise(i)+rise(i+1) > r.top-nothing
		if matters {
			out = append(out, r.at(n.k+1))
		}
	}
	r.nodes, r.next = out, r.nodes
}

// sums are the logs of the integral by the step h and by 2h.
func (r *rule) sums() (fine, coarse float64) {
	var num, den [2]float64 // even and odd nodes
	for i := range r.nodes {
		n := &r.nodes[i]
		odd := n.k & 1
		if w := n.weight - r.peak; w > -nothing-6 {
			den[odd] += special.Exp(w)
		}
		if w := n.weight + n.gain - r.top; w > -nothing-6 {
			num[odd] += special.Exp(w)
		}
	}
	num[1] += num[0]
	den[1] += den[0]
	if r.lo.on {
		n, d := r.lo.sums(-r.nodes[0].k, r.h, r.peak, r.top)
		num, den = add(num, n), add(den, d)
	}
	if r.hi.on {
		n, d := r.hi.sums(r.nodes[len(r.nodes)-1].k, r.h, r.peak, r.top)
		num, den = add(num, n), add(den, d)
	}
	offset := r.top - r.peak
	return special.Log(num[1]/den[1]) + offset, special.Log(num[0]/den[0]) + offset
}

func add(a, b [2]float64) [2]float64 { return [2]float64{a[0] + b[0], a[1] + b[1]} }
