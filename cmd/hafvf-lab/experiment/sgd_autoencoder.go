package experiment

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"hafvf/hafvf/adafvf"
)

// An autoencoder is a variational recurrent auto-encoder (Fabius and van
// Amersfoort 2014) of a subject's trials. A GRU reads them; the mean of its states
// gives q(z), a normal distribution over four numbers that stand for the subject.
// A second GRU, which sees z, the stimulus, and the last choice and reaction time,
// gives drift, boundary separation, starting point and non-decision time of every
// trial, and so the density of its choice and reaction time.
//
// Its gradients are derived by hand. It is for one goroutine.
type autoencoder struct {
	groups             []adafvf.Group
	read, write        gru
	mean, spread, head linear
	steps, answers     []unrolled // scratch of both GRUs, one per trial
}

const (
	hidden  = 16
	gates   = 3 * hidden // reset, update, candidate
	latent  = 4
	inputs  = 3 // of the encoder: coherence, choice, reaction time
	known   = 3 // of the decoder, beside z: coherence, last choice and reaction time
	outputs = 4 // drift, boundary separation, starting point, non-decision time
)

// Without these bounds the likelihood has none: next to the non-decision time it
// grows beyond all limits as the boundaries close.
const (
	leastBoundary = 0.4
	leastTime     = 1e-3 // decision time, s
	mostRest      = 0.6  // non-decision time, s
)

// linear is y = b + xW, W by rows of x, with its gradient.
type linear struct{ w, b, dw, db []float64 }

// A gru is y′ = (1−z)n + z·y, n = tanh(bₙ + xXₙ + r·yYₙ), with r and z logistic in
// b + xX + yY. Rows are those of inputs, columns the gates.
type gru struct {
	x, y, b, dx, dy, db []float64

	hand, ds, dh [gates]float64 // scratch
}

// unrolled is one step of a GRU.
type unrolled struct {
	in            []float64
	gate          [gates]float64  // r, z, n
	hand          [hidden]float64 // yYₙ
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

// backward adds the gradient, and that in x to dx.
func (l *linear) backward(dx, x, dy []float64) {
	floats.Add(l.db, dy)
	for i, v := range x {
		floats.AddScaled(l.dw[i*len(dy):][:len(dy)], v, dy)
		dx[i] += floats.Dot(l.w[i*len(dy):][:len(dy)], dy)
	}
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// forward steps from s.before, given s.in, of which constant holds the bias and
// what does not change over the trials, to s.after.
func (g *gru) forward(s *unrolled, constant *[gates]float64, in int) {
	s.gate = *constant
	hand := &g.hand
	*hand = [gates]float64{}
	for i, v := range s.in[:in] {
		floats.AddScaled(s.gate[:], v, g.x[i*gates:][:gates])
	}
	for i, v := range s.before {
		floats.AddScaled(hand[:], v, g.y[i*gates:][:gates])
	}
	copy(s.hand[:], hand[2*hidden:])
	for i := range hidden {
		r := logistic(s.gate[i] + hand[i])
		z := logistic(s.gate[hidden+i] + hand[hidden+i])
		n := 2*logistic(2*(s.gate[2*hidden+i]+r*s.hand[i])) - 1 // tanh
		s.gate[i], s.gate[hidden+i], s.gate[2*hidden+i] = r, z, n
		s.after[i] = n + z*(s.before[i]-n)
	}
}

// backward takes the gradient in s.after from dy, leaves that in s.before there,
// adds those in the parameters, and that in constant to dc.
func (g *gru) backward(s *unrolled, dy *[hidden]float64, dc *[gates]float64, in int) {
	ds, dh := &g.ds, &g.dh // in what the gates get of the input, and of the state
	for i := range hidden {
		r, z, n := s.gate[i], s.gate[hidden+i], s.gate[2*hidden+i]
		dn := dy[i] * (1 - z) * (1 - n*n)
		dr := dn * s.hand[i] * r * (1 - r)
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

// sign is the choice as the networks see it.
func (t *trial) sign() float64 {
	if t.right {
		return 1
	}
	return -1
}

// elbo is the negative evidence lower bound of a subject, in nats, under a draw of
// z with the given standard normal noise. Unless scale is zero, it adds scale times
// the gradient to the groups.
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
			// What remains is the gradient in the state, kept where the state was.
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

// logLikelihood is that of a trial under the outputs y, with its gradient dy.
func logLikelihood(t *trial, y, dy *[outputs]float64) float64 {
	slope := logistic(y[1])
	a := leastBoundary + math.Max(y[1], 0) + math.Log1p(math.Exp(-math.Abs(y[1])))
	w := logistic(y[2])
	rest := mostRest * logistic(y[3])
	p := firstPassage(math.Max(t.rt-rest, leastTime), y[0], a, w, t.right)
	dy[0], dy[1], dy[2], dy[3] = p.v, p.a*slope, p.w*w*(1-w), 0
	if t.rt-rest > leastTime {
		dy[3] = -p.t * rest * (1 - rest/mostRest)
	}
	return p.log
}

// clear sets the gradient to zero.
func (m *autoencoder) clear() {
	for _, g := range m.groups {
		clear(g.Grads)
	}
}
