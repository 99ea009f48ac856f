package hafvf

import (
	"math"
	"slices"

	"hafvf/internal/beta"
	"hafvf/internal/special"
)

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
	all           []weightNode
}

type weightNode struct {
	logistic
	logStep float64 // log of the distance to the next in logit w
	v, gain float64 // w^Δ, and the gain there
	share   float64 // of the posterior
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
	finest   = .5  // step of tabledNodes
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
	for i := range n.all {
		if n.all[i].share > n.all[top].share {
			top = i
		}
	}
	if top == 0 || top == len(n.all)-1 {
		return false
	}
	is := n.all[top]
	// That of a normal distribution is −(distance/standard deviation)².
	curvature := special.Log(n.all[top-1].share / is.share * (n.all[top+1].share / is.share))
	if curvature > -1.2*apart*apart {
		return false
	}
	distance := special.Exp(is.logStep)
	n.centre = is.lw - is.l1w
	n.scale = max(distance/math.Sqrt(-curvature)*apart, distance/16) / (finest * float64(n.stride))
	return true
}

// place places the nodes about their centre, up to where the distributions from p to q,
// times the evidence of what was observed, have fallen to nothing.
func (n *nodes) place(o observed) {
	n.all = n.all[:0]
	top := math.Inf(-1)
	n.side(0, 1, o, &top)
	slices.Reverse(n.all)
	n.side(1, -1, o, &top)
}

// side appends the nodes of one side. top is the largest term so far.
func (n *nodes) side(from, direction int, o observed, top *float64) {
	end := o.gain(float64(max(direction, 0)))
	logScale := special.Log(n.scale * float64(n.stride))
	for k := from; k < mostSide; k++ {
		at := &tabledNodes[k*n.stride]
		is := weightNode{logistic: logisticAt(n.centre + float64(direction)*n.scale*at.x), logStep: at.logStep + logScale}
		is.v = over(is.w, o.elapsed)
		if last := len(n.all) - 1; k > from && n.all[last].v == is.v {
			is.gain = n.all[last].gain
		} else {
			is.gain = o.gain(is.v)
		}
		n.all = append(n.all, is)
		// Distributions between p and q are between the two here.
		prior := is.logStep + max(n.p.log(is.logistic), n.q.log(is.logistic))
		if *top = max(*top, prior+is.gain); prior+max(is.gain, end) < *top-little {
			return
		}
	}
}

// one is a single node.
func (n *nodes) one(w float64) {
	n.all = append(n.all[:0], weightNode{logistic: logistic{w: w}})
}

func (n *nodes) normalise(total float64) {
	for i := range n.all {
		n.all[i].share /= total
	}
}
