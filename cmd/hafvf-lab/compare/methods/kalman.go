package methods

import "math"

// The Kalman filter of a local level (Durbin and Koopman 2012, Time Series Analysis by
// State Space Methods, chapter 2):
//
//	x = μ + ε,  ε ~ N(0, σ²)
//	μ ← μ + η,  η ~ N(0, qσ²)
//
// with a diffuse prior of the first level. q maximises the likelihood, with σ² concentrated out: σ² = Σ v²/F / (n−1).
// The causal filter estimates both after 50 observations, and again whenever their number has grown by a quarter. The
// smoother is by Rauch, Tung and Striebel (1965).
var kalmans = []Method{
	{Name: "kalman", About: "Kalman filter of a local level", Setting: "noises by maximum likelihood on the prefix", Source: "Durbin and Koopman 2012",
		Gaussian: true, New: func(s Start) Follower {
			return &kalman{level: level{q: .01, noise: s.Scale * s.Scale}, due: 50}
		}},
	{Name: "kalman-hindsight", About: "the same, noises in hindsight", Setting: "maximum likelihood on the whole stream", Source: "as kalman",
		Gaussian: true, Hindsight: true, New: func(s Start) Follower {
			return &kalman{level: fitLevel(s.Whole), due: math.MaxInt}
		}},
	{Name: "smoother", About: "Kalman smoother of a local level, all in hindsight", Setting: "as kalman-hindsight", Source: "Rauch, Tung and Striebel 1965",
		Gaussian: true, Hindsight: true, Smooths: true, New: func(s Start) Follower { return newSmoother(s.Whole) }},
}

// A level is the model with the belief about the level: its mean, and its variance v. v and q are in units of the
// variance noise.
type level struct {
	q, noise float64
	started  bool
	mean, v  float64
}

// update learns x. It returns the innovation and its variance. ok is false for the first observation, which has no
// innovation.
func (l *level) update(x float64) (v, f float64, ok bool) {
	if !l.started {
		l.started, l.mean, l.v = true, x, 1
		return 0, 0, false
	}
	p := l.v + l.q
	v, f = x-l.mean, p+1
	l.mean += p / f * v
	l.v = p / f
	return v, f, true
}

// profile returns the log-likelihood of q at the σ² that maximises it, and this σ².
func profile(x []float64, q float64) (logLikelihood, noise float64) {
	l := level{q: q}
	squares, logs, n := 0.0, 0.0, 0.0
	product := 1.0 // product of variances; its logarithm moves to logs before it overflows
	for _, v := range x {
		if v, f, ok := l.update(v); ok {
			squares += v * v / f
			n++
			if product *= f; product > 1e200 {
				logs += math.Log(product)
				product = 1
			}
		}
	}
	logs += math.Log(product)
	noise = squares / n
	return -.5 * (n*(math.Log(2*math.Pi*noise)+1) + logs), noise
}

// fitLevel returns the level with the maximum likelihood. It searches a grid of log q, and then the neighbourhood of
// the best node by golden sections.
func fitLevel(x []float64) level {
	logLikelihood := func(logQ float64) float64 {
		v, _ := profile(x, math.Exp(logQ))
		return v
	}
	const lowest, highest, step = -22., 6., 2.
	bestLogQ, maxLogLikelihood := lowest, math.Inf(-1)
	for g := lowest; g <= highest; g += step {
		if v := logLikelihood(g); v > maxLogLikelihood {
			bestLogQ, maxLogLikelihood = g, v
		}
	}
	golden := (math.Sqrt(5) - 1) / 2
	lo, hi := bestLogQ-step, bestLogQ+step
	a, b := hi-golden*(hi-lo), lo+golden*(hi-lo)
	va, vb := logLikelihood(a), logLikelihood(b)
	for hi-lo > 1e-4 {
		if va > vb {
			hi, b, vb = b, a, va
			a = hi - golden*(hi-lo)
			va = logLikelihood(a)
		} else {
			lo, a, va = a, b, vb
			b = lo + golden*(hi-lo)
			vb = logLikelihood(b)
		}
	}
	q := math.Exp((lo + hi) / 2)
	_, noise := profile(x, q)
	if noise == 0 { // all values are equal
		noise = math.SmallestNonzeroFloat64
	}
	return level{q: q, noise: noise}
}

type kalman struct {
	level
	past []float64
	due  int // number of observations at which the noises are fitted next
}

func (k *kalman) Update(x float64) Step {
	step := Step{LogPredictive: nan, Age: -1}
	if k.started {
		step.LogPredictive = logNormal(x, k.mean, k.noise*(k.v+k.q+1))
	}
	k.update(x)
	if k.due < math.MaxInt {
		if k.past = append(k.past, x); len(k.past) >= k.due {
			k.due = len(k.past) * 5 / 4
			k.level = fitLevel(k.past)
			for _, x := range k.past {
				k.update(x)
			}
		}
	}
	step.Mean, step.SD = k.mean, math.Sqrt(k.noise*k.v)
	return step
}

func (k *kalman) Bytes() int { return word * (4 + len(k.past)) }

// A smoother returns estimates that it has computed from the whole stream.
type smoother struct {
	mean, sd []float64
	t        int
}

func newSmoother(x []float64) *smoother { return smooth(x, fitLevel(x)) }

// smooth runs the filter forward, and then backward:
//
//	μₜ|ₙ = μₜ + c(μₜ₊₁|ₙ − μₜ),  vₜ|ₙ = vₜ + c²(vₜ₊₁|ₙ − vₜ − q),  c = vₜ/(vₜ + q)
func smooth(x []float64, l level) *smoother {
	n := len(x)
	s := &smoother{mean: make([]float64, n), sd: make([]float64, n)}
	for t, v := range x {
		l.update(v)
		s.mean[t], s.sd[t] = l.mean, l.v
	}
	for t := n - 2; t >= 0; t-- {
		p := s.sd[t] + l.q
		c := s.sd[t] / p
		s.mean[t] += c * (s.mean[t+1] - s.mean[t])
		s.sd[t] += c * c * (s.sd[t+1] - p)
	}
	for t, v := range s.sd {
		s.sd[t] = math.Sqrt(v * l.noise)
	}
	return s
}

func (s *smoother) Update(float64) Step {
	s.t++
	return Step{LogPredictive: nan, Mean: s.mean[s.t-1], SD: s.sd[s.t-1], Age: -1}
}

func (s *smoother) Bytes() int { return word * 2 * len(s.mean) }
