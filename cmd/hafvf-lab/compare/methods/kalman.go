package methods

import "math"

// The Kalman filter of a local level (Durbin and Koopman 2012, Time Series Analysis by
// State Space Methods, chapter 2):
//
//	x = μ + ε,  ε ~ N(0, σ²)
//	μ ← μ + η,  η ~ N(0, qσ²)
//
// with a diffuse prior of the first level. q maximises the likelihood, from which σ² is
// concentrated out: σ² = Σ v²/F / (n−1). Causally both come from the observations so far,
// again whenever these are a quarter more. The smoother is that of Rauch, Tung and Striebel
// (1965).
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

// A level is the model with what is known of the level. Variances are in units of the
// noise.
type level struct {
	q, noise float64
	started  bool
	mean, v  float64
}

// update returns the innovation, its variance, and whether there was one: the first
// observation has none.
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

// profile is the log-likelihood of q, with σ² at its maximum, which it returns too.
func profile(x []float64, q float64) (logLikelihood, noise float64) {
	l := level{q: q}
	squares, logs, n := 0.0, 0.0, 0.0
	product := 1.0 // of variances, whose logarithm is taken now and then
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

// fitLevel maximises the likelihood: on a grid of log q, then by golden sections about
// the best.
func fitLevel(x []float64) level {
	at := func(logQ float64) float64 {
		v, _ := profile(x, math.Exp(logQ))
		return v
	}
	const lowest, highest, step = -22., 6., 2.
	best, most := lowest, math.Inf(-1)
	for g := lowest; g <= highest; g += step {
		if v := at(g); v > most {
			best, most = g, v
		}
	}
	golden := (math.Sqrt(5) - 1) / 2
	lo, hi := best-step, best+step
	a, b := hi-golden*(hi-lo), lo+golden*(hi-lo)
	va, vb := at(a), at(b)
	for hi-lo > 1e-4 {
		if va > vb {
			hi, b, vb = b, a, va
			a = hi - golden*(hi-lo)
			va = at(a)
		} else {
			lo, a, va = a, b, vb
			b = lo + golden*(hi-lo)
			vb = at(b)
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
	due  int // the number of observations at which the noises are fitted again
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

// smoother replays what it knows from the whole stream.
type smoother struct {
	mean, sd []float64
	t        int
}

func newSmoother(x []float64) *smoother { return smooth(x, fitLevel(x)) }

// smooth runs the filter forward, and then back:
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
