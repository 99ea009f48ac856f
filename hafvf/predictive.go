package hafvf

import "math"

// logPredictive is log ∫ exp q(w) Beta(w; prior) dw, by the trapezoidal rule in
// x = logit w. A flat prior piles up about the ends of [0, 1], which are at infinity
// in x. The integrand is analytic in a strip about the real line, so that halving
// the step squares the error (Trefethen and Weideman 2014).
//
// Near an end, with t = e^−|x|, the integrand is a power of t times a cubic in t,
// whose sum over all further nodes is four geometric series: no prior, however
// flat in x, needs nodes there. The normaliser is summed over the same nodes.
//
// Whatever the parameters, the logarithm of the integrand varies on the scale of
// one unit of x; only its amplitude depends on them. So a scan with a coarse step
// shows where a finer one is worth its nodes.
//
// q0 and q1 are the gains at the ends.
func (f *Filter) logPredictive(prior Beta, elapsed, q0, q1 float64) float64 {
	r := &f.rule
	r.line, r.a, r.b, r.elapsed = f.line, prior.Alpha, prior.Beta, elapsed
	r.bound = math.Max(q0, q1)
	r.scan(q0, q1)
	for depth := r.depth(); depth > 0; depth-- {
		r.refine()
	}
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
	coarsest = 0.75 // step
	maxNodes = 1 << 14
	nothing  = 36 // nats below the largest term that a term is left out
)

// A rule is the trapezoidal rule of logPredictive: nodes at k·h, in order, and
// the tails where they are reached.
type rule struct {
	line        Line
	a, b        float64
	elapsed     float64
	h           float64
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

// depth is how often the coarsest step has to be halved for the rule to
// integrate the Beta itself to 1e-10: its error is
// |Γ(a+iy)Γ(b−iy)|/Γ(a)Γ(b) with y = 2π/h.
func (r *rule) depth() int {
	y := 2 * math.Pi / coarsest
	for n := range 24 {
		if decay(r.a, y)+decay(r.b, y) < -23 {
			return n
		}
		y *= 2
	}
	return 24
}

// decay is log |Γ(a+iy)/Γ(a)|, by Stirling's formula.
func decay(a, y float64) float64 {
	return (a-0.5)/2*math.Log1p(y*y/(a*a)) - y*math.Atan(y/a)
}

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

// logistics are the nodes of the step finest within ±tabled.
var logistics = func() (t [2*tabled/finest + 1]logistic) {
	for i := range t {
		t[i] = logisticAt(float64(i)*finest - tabled)
	}
	return t
}()

const (
	finest = coarsest / 4
	tabled = 24
)

func (r *rule) at(k int) node {
	var l logistic
	x := float64(k) * r.h
	if r.h >= finest && math.Abs(x) <= tabled {
		l = logistics[int((x+tabled)/finest)]
	} else {
		l = logisticAt(x)
	}
	v := l.w
	if r.elapsed != 1 {
		v = math.Exp(r.elapsed * l.lw)
	}
	n := node{k, r.a*l.lw + r.b*l.l1w, r.line.Gain(v)}
	r.bound = math.Max(r.bound, n.gain)
	r.peak = math.Max(r.peak, n.weight)
	r.top = math.Max(r.top, n.weight+n.gain)
	return n
}

// scan places the coarsest nodes, from the prior's mode outward to where nothing
// further out matters or a tail takes over. q0 and q1 are the gains at the ends.
func (r *rule) scan(q0, q1 float64) {
	r.h = coarsest
	r.mode = math.Log(r.a / r.b)
	r.peak, r.top = math.Inf(-1), math.Inf(-1)
	c := r.a + r.b
	k0 := int(math.Round(r.mode / coarsest))
	reach := int(math.Ceil(math.Log(c/short+1)/coarsest)) + 1
	k0 = max(-reach, min(reach, k0))
	r.next = r.next[:0]
	// Downward first, then turned round.
	r.next = append(r.next, r.at(k0))
	r.lo = r.extend(-1, r.a, q0)
	r.nodes = r.nodes[:0]
	for i := len(r.next) - 1; i >= 0; i-- {
		r.nodes = append(r.nodes, r.next[i])
	}
	r.next, r.nodes = r.nodes, r.next
	r.hi = r.extend(+1, r.b, q1)
	r.next, r.nodes = r.nodes, r.next
}

// extend appends nodes to next in one direction.
func (r *rule) extend(direction int, power, end float64) tail {
	c := r.a + r.b
	for len(r.next) < maxNodes {
		n := r.next[len(r.next)-1]
		if n.weight < r.peak-nothing && n.weight+r.bound < r.top-nothing {
			return tail{}
		}
		if x := float64(direction*n.k) * coarsest; x > 1 && len(r.next) >= 3 {
			t := math.Exp(-x)
			if t*c < short {
				if tl, ok := r.tail(power, end, t); ok {
					return tl
				}
			}
		}
		r.next = append(r.next, r.at(n.k+direction))
	}
	return tail{}
}

// short bounds t·(the scale of the integrand's derivatives) where a tail starts:
// its fourth power is what the cubic leaves out.
const short = 3e-3

// A tail is the integrand near an end of [0, 1]:
//
//	t^power · (1 + n₁·t + n₂·t² + n₃·t³) · e^gain
//
// and the weight alone with d₁, d₂, d₃.
type tail struct {
	on          bool
	power, gain float64
	n, d        [3]float64
}

// tail interpolates the gain at the end, t = 0, and at the last three nodes, and
// reports whether this is precise enough from t on.
func (r *rule) tail(power, end, t float64) (tail, bool) {
	const ratio = 2.117000016612675 // exp(coarsest)
	n := len(r.next)
	t1, t2, t3 := t, t*ratio, t*ratio*ratio
	// Divided differences.
	d01 := (r.next[n-1].gain - end) / t1
	d02 := (r.next[n-2].gain - end) / t2
	d03 := (r.next[n-3].gain - end) / t3
	d012 := (d02 - d01) / (t2 - t1)
	d023 := (d03 - d02) / (t3 - t2)
	d0123 := (d023 - d012) / (t3 - t1)
	e3 := d0123
	e2 := d012 - e3*(t1+t2)
	e1 := d01 - t1*d012 + t1*t2*e3
	if !(math.Abs(e1)*t < short && math.Abs(e2)*t*t < short*short && math.Abs(e3)*t*t*t < short*short*short) {
		return tail{}, false
	}
	c := r.a + r.b
	return tail{
		on: true, power: power, gain: end,
		n: exponentialSeries(e1-c, e2+c/2, e3-c/3),
		d: exponentialSeries(-c, c/2, -c/3),
	}, true
}

// exponentialSeries returns the first coefficients of exp(s₁t + s₂t² + s₃t³).
func exponentialSeries(s1, s2, s3 float64) [3]float64 {
	return [3]float64{s1, s2 + s1*s1/2, s3 + s1*s2 + s1*s1*s1/6}
}

// sum adds up all nodes from |x| = depth on outward.
func (t *tail) sum(depth, h, peak, top float64) (num, den float64) {
	z, step := math.Exp(-depth), math.Exp(-h)
	u := math.Expm1(-t.power * h)
	num, den = -1/u, -1/u
	u++
	zi := 1.0
	for i := range 3 {
		u *= step
		zi *= z
		g := zi / (1 - u)
		num += t.n[i] * g
		den += t.d[i] * g
	}
	base := -t.power * depth
	return math.Exp(base+t.gain-top) * num, math.Exp(base-peak) * den
}

// refine halves the step where a term can be of any size.
func (r *rule) refine() {
	r.h /= 2
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
			den[odd] += math.Exp(w)
		}
		if w := n.weight + n.gain - r.top; w > -nothing-6 {
			num[odd] += math.Exp(w)
		}
	}
	num[1] += num[0]
	den[1] += den[0]
	for _, side := range [...]struct {
		*tail
		last int
	}{{&r.lo, -r.nodes[0].k}, {&r.hi, r.nodes[len(r.nodes)-1].k}} {
		if !side.on {
			continue
		}
		n, d := side.sum(float64(side.last+1)*r.h, r.h, r.peak, r.top)
		num[1], den[1] = num[1]+n, den[1]+d
		next := side.last + 2 - side.last&1
		n, d = side.sum(float64(next)*r.h, 2*r.h, r.peak, r.top)
		num[0], den[0] = num[0]+n, den[0]+d
	}
	offset := r.top - r.peak
	return math.Log(num[1]/den[1]) + offset, math.Log(num[0]/den[0]) + offset
}
