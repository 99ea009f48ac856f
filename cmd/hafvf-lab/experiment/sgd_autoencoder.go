package experiment

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"hafvf/hafvf/adafvf"
)

// An autoencoder is a variational recurrent auto-encoder (Fabius and van Amersfoort 2014) of a subject's trials. A
// GRU reads the trials. The mean of its states gives q(z), a normal distribution over four numbers that describe the
// subject. A second GRU reads z, the stimulus, and the previous choice and reaction time. It gives drift, boundary
// separation, starting point and non-decision time of every trial, and so the density of its choice and reaction
// time.
//
// Its gradients are derived by hand. It is not safe for concurrent use.
type autoencoder struct {
	groups             []adafvf.Group
	read, write        gru
	mean, spread, head linear
	steps, answers     []unrolled // scratch of the encoder and of the decoder, one per trial
}

const (
	hidden  = 16
	gates   = 3 * hidden // reset, update, candidate
	latent  = 4
	inputs  = 3 // inputs of the encoder: coherence, choice, reaction time
	known   = 3 // inputs of the decoder in addition to z: coherence, previous choice and reaction time
	outputs = 4 // drift, boundary separation, starting point, non-decision time
)

// Bounds of the decoder's outputs. Without them the likelihood is unbounded: next to the non-decision time it grows
// without limit as the boundaries close.
const (
	minBoundary = 0.4
	minTime     = 1e-3 // decision time, s
	maxRest     = 0.6  // non-decision time, s
)

// linear is y = b + xW, with its gradient. W is stored by rows, one per element of x.
type linear struct{ w, b, dw, db []float64 }

// A gru is y′ = (1−z)n + z·y, n = tanh(bₙ + xXₙ + r·yYₙ), with r and z logistic in b + xX + yY. In each matrix rows
// are inputs, and columns are gates.
type gru struct {
	x, y, b, dx, dy, db []float64

	fromState, ds, dh [gates]float64 // scratch
}

// unrolled is one step of a GRU, with its input, gates and states.
type unrolled struct {
	in            []float64
	gate          [gates]float64  // r, z, n
	fromState     [hidden]float64 // yYₙ
	before, after [hidden]float64
}

func newAutoencoder(random *rand.Rand, trials int) *autoencoder {
	m := &autoencoder{steps: make([]unrolled, trials), answers: make([]unrolled, trials)}
	add := func(name string, n int, scale float64) (p, dp []float64) {
		p, dp = make([]float64, n), make([]float64, n)
		for i := range p {
			p[i] = scale * (2*random.Float64() - 1)
		}
		m.groups = append(m.groups, adafvf.Group{Name: name, Params: p, Grads: dp})
		return p, dp
	}
	const scale = 0.25 // 1/√hidden
	gruOf := func(name string, in int) (g gru) {
		g.x, g.dx = add(name+" input", in*gates, scale)
		g.y, g.dy = add(name+" state", hidden*gates, scale)
		g.b, g.db = add(name+" bias", gates, 0)
		return g
	}
	linearOf := func(name string, in, out int) (l linear) {
		l.w, l.dw = add(name, in*out, scale)
		l.b, l.db = add(name+" bias", out, 0)
		return l
	}
	m.read = gruOf("encoder", inputs)
	m.mean = linearOf("mean of z", hidden, latent)
	m.spread = linearOf("log sd of z", hidden, latent)
	m.write = gruOf("decoder", known+latent)
	m.head = linearOf("output", hidden, outputs)
	for i := range trials {
		m.steps[i].in, m.answers[i].in = make([]float64, inputs), make([]float64, known+latent)
	}
	return m
}

func (l *linear) forward(y, x []float64) {
	copy(y, l.b)
	for i, v := range x {
		floats.AddScaled(y, v, l.w[i*len(y):][:len(y)])
	}
}

// backward adds the gradient in the parameters to dw and db, and the gradient in x to dx. dy is the gradient in y.
func (l *linear) backward(dx, x, dy []float64) {
	floats.Add(l.db, dy)
	for i, v := range x {
		floats.AddScaled(l.dw[i*len(dy):][:len(dy)], v, dy)
		dx[i] += floats.Dot(l.w[i*len(dy):][:len(dy)], dy)
	}
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// forward computes s.after from s.before and the first in elements of s.in. constant is the bias and the part of the
// input that is equal in all trials.
func (g *gru) forward(s *unrolled, constant *[gates]float64, in int) {
	s.gate = *constant
	fromState := &g.fromState
	*fromState = [gates]float64{}
	for i, v := range s.in[:in] {
		floats.AddScaled(s.gate[:], v, g.x[i*gates:][:gates])
	}
	for i, v := range s.before {
		floats.AddScaled(fromState[:], v, g.y[i*gates:][:gates])
	}
	copy(s.fromState[:], fromState[2*hidden:])
	for i := range hidden {
		r := logistic(s.gate[i] + fromState[i])
		z := logistic(s.gate[hidden+i] + fromState[hidden+i])
		n := 2*logistic(2*(s.gate[2*hidden+i]+r*s.fromState[i])) - 1 // tanh
		s.gate[i], s.gate[hidden+i], s.gate[2*hidden+i] = r, z, n
		s.after[i] = n + z*(s.before[i]-n)
	}
}

// backward reads the gradient in s.after from dy, and replaces it with the gradient in s.before. It adds the gradient
// in the parameters to g, and the gradient in constant to dc.
func (g *gru) backward(s *unrolled, dy *[hidden]float64, dc *[gates]float64, in int) {
	ds, dh := &g.ds, &g.dh // gradients in the inputs of the gates: from the input, and from the state
	for i := range hidden {
		r, z, n := s.gate[i], s.gate[hidden+i], s.gate[2*hidden+i]
		dn := dy[i] * (1 - z) * (1 - n*n)
		dr := dn * s.fromState[i] * r * (1 - r)
		dz := dy[i] * (s.before[i] - n) * z * (1 - z)
		ds[i], ds[hidden+i], ds[2*hidden+i] = dr, dz, dn
		dh[i], dh[hidden+i], dh[2*hidden+i] = dr, dz, dn*r
		dy[i] *= z
	}
	floats.Add(dc[:], ds[:])
	for i, v := range s.in[:in] {
		floats.AddScaled(g.dx[i*gates:][:gates], v, ds[:])
	}
	for i, v := range s.before {
		floats.AddScaled(g.dy[i*gates:][:gates], v, dh[:])
		dy[i] += floats.Dot(g.y[i*gates:][:gates], dh[:])
	}
}

// sign returns the choice as an input of the networks: 1 for right, −1 for left.
func (t *trial) sign() float64 {
	if t.right {
		return 1
	}
	return -1
}

// elbo returns the negative evidence lower bound of a subject, in nats, for the draw of z with the given standard
// normal noise. If scale is not zero, it adds scale times the gradient to the groups.
func (m *autoencoder) elbo(trials []trial, noise *[latent]float64, scale float64) float64 {
	// Encode.
	var constant [gates]float64
	copy(constant[:], m.read.b)
	var state, mean [hidden]float64
	for i := range trials {
		s, t := &m.steps[i], &trials[i]
		s.in[0], s.in[1], s.in[2] = 2*t.coherence, t.sign(), 2*(t.rt-0.7)
		s.before = state
		m.read.forward(s, &constant, inputs)
		state = s.after
		floats.Add(mean[:], state[:])
	}
	each := 1 / float64(len(trials))
	floats.Scale(each, mean[:])
	var mu, logSD, z, sd [latent]float64
	m.mean.forward(mu[:], mean[:])
	m.spread.forward(logSD[:], mean[:])
	loss := 0.0
	for i := range z {
		sd[i] = math.Exp(logSD[i])
		z[i] = mu[i] + sd[i]*noise[i]
		loss += 0.5*(mu[i]*mu[i]+sd[i]*sd[i]-1) - logSD[i] // KL(q(z)‖N(0, 1))
	}

	// Decode, with the gradient in the outputs of every trial.
	copy(constant[:], m.write.b)
	for i, v := range z {
		floats.AddScaled(constant[:], v, m.write.x[(known+i)*gates:][:gates])
	}
	state = [hidden]float64{}
	last := trial{rt: 0.7}
	var y, dy [outputs]float64
	for i := range trials {
		s, t := &m.answers[i], &trials[i]
		s.in[0], s.in[1], s.in[2] = 2*t.coherence, 0, 2*(last.rt-0.7)
		if i > 0 {
			s.in[1] = last.sign()
		}
		s.before = state
		m.write.forward(s, &constant, known)
		state = s.after
		last = *t
		m.head.forward(y[:], state[:])
		loss -= logLikelihood(t, &y, &dy)
		if scale != 0 {
			// The state is no longer needed: store the gradient in the state there.
			var ds [hidden]float64
			floats.Scale(-scale, dy[:])
			m.head.backward(ds[:], state[:], dy[:])
			s.after = ds
		}
	}
	if scale == 0 {
		return loss
	}

	var dState [hidden]float64
	var dConstant [gates]float64
	for i := len(trials) - 1; i >= 0; i-- {
		floats.Add(dState[:], m.answers[i].after[:])
		m.write.backward(&m.answers[i], &dState, &dConstant, known)
	}
	floats.Add(m.write.db, dConstant[:])
	var dMu, dLogSD [latent]float64
	for i := range z {
		row := (known + i) * gates
		floats.AddScaled(m.write.dx[row:][:gates], z[i], dConstant[:])
		dz := floats.Dot(m.write.x[row:][:gates], dConstant[:])
		dMu[i] = dz + scale*mu[i]
		dLogSD[i] = dz*sd[i]*noise[i] + scale*(sd[i]*sd[i]-1)
	}
	var dMean [hidden]float64
	m.mean.backward(dMean[:], mean[:], dMu[:])
	m.spread.backward(dMean[:], mean[:], dLogSD[:])
	floats.Scale(each, dMean[:])
	dState, dConstant = [hidden]float64{}, [gates]float64{}
	for i := len(trials) - 1; i >= 0; i-- {
		floats.Add(dState[:], dMean[:])
		m.read.backward(&m.steps[i], &dState, &dConstant, inputs)
	}
	floats.Add(m.read.db, dConstant[:])
	return loss
}

// logLikelihood returns the log-likelihood of a trial under the outputs y, and writes its gradient to dy.
func logLikelihood(t *trial, y, dy *[outputs]float64) float64 {
	slope := logistic(y[1])
	a := minBoundary + math.Max(y[1], 0) + math.Log1p(math.Exp(-math.Abs(y[1])))
	w := logistic(y[2])
	rest := maxRest * logistic(y[3])
	p := firstPassage(math.Max(t.rt-rest, minTime), y[0], a, w, t.right)
	dy[0], dy[1], dy[2], dy[3] = p.v, p.a*slope, p.w*w*(1-w), 0
	if t.rt-rest > minTime {
		dy[3] = -p.t * rest * (1 - rest/maxRest)
	}
	return p.log
}

// clear sets the gradients to zero.
func (m *autoencoder) clear() {
	for _, g := range m.groups {
		clear(g.Grads)
	}
}
