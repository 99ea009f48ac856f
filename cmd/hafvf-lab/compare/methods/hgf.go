package methods

import (
	"math"

	"gonum.org/v1/gonum/optimize"
)

// The hierarchical Gaussian filter for continuous inputs (Mathys et al. 2011, equations 48 ff.; Mathys et al. 2014,
// Uncertainty in perception and the Hierarchical Gaussian Filter):
//
//	u ~ N(x₁, 1/π_u)
//	x₁ ← N(x₁, exp(x₂ + ω₁)),  x₂ ← N(x₂, exp(x₃ + ω₂)),  …,  the topmost: exp(ω)
//
// The input updates the first level, and each level updates the level above it:
//
//	π̂ = 1/(1/π + v),  v = exp(μ_above + ω),  δ_u = u − μ̂₁
//	π₁ = π̂₁ + π_u,  μ₁ = μ̂₁ + δ_u π_u/π₁
//	w = v π̂,  δ = (1/π + (μ − μ̂)²)π̂ − 1                        (of the level below)
//	π = π̂ + ½w(w + (2w − 1)δ),  μ = μ̂ + ½ w δ/π
//
// ω and π_u maximise the posterior of the first 50, 100, 200, … observations under the priors of the TAPAS toolbox
// (tapas_hgf_config.m): with s² the variance of the first 20 inputs, log π_u ~ N(−log s², 2²), ω₁ ~ N(log s², 4²),
// other ω ~ N(−4, 4²), μ₁ the first input, σ₁ = s², μ₂ = 1, σ₂ = .1. A third level starts like the second.
//
// After a large surprise π can become negative, or a volatility can grow beyond all bounds: the toolbox then gives
// up. Here a level keeps its prediction if π is not positive or if μ would move by more than 16, which is e¹⁶ times
// the variance. A fit rejects such parameters, as in the toolbox.
//
// On coins this filter for continuous inputs is used, too: the filter for binary inputs is not in this package.
var gaussianFilters = []Method{
	{Name: "hgf2", About: "hierarchical Gaussian filter, two levels", Setting: "parameters of most posterior on the prefix", Source: "Mathys et al. 2011, 2014",
		Gaussian: true, New: func(s Start) Follower { return &hgf{levels: 2, due: 50} }},
	{Name: "hgf3", About: "hierarchical Gaussian filter, three levels", Setting: "as hgf2", Source: "as hgf2",
		Gaussian: true, New: func(s Start) Follower { return &hgf{levels: 3, due: 50} }},
}

const (
	maxHGF     = 3 // maximum number of levels
	maxHGFJump = 16
)

// hgfParams holds log π_u and ω₁, ω₂, … .
type hgfParams [1 + maxHGF]float64

// An hgfState holds the beliefs about the levels, from the lowest.
type hgfState struct {
	params hgfParams
	levels int
	mu, pi [maxHGF]float64
}

// update learns u and returns the log predictive density. ok is false if a level kept its prediction.
func (s *hgfState) update(u float64) (logPredictive float64, ok bool) {
	var hat, v [maxHGF]float64 // π̂ and v; the predicted means are the current ones
	for i := range s.levels {
		volatility := s.params[1+i]
		if i+1 < s.levels {
			volatility += s.mu[i+1]
		}
		v[i] = math.Exp(volatility)
		hat[i] = 1 / (1/s.pi[i] + v[i])
	}
	precision := math.Exp(s.params[0])
	innovation := u - s.mu[0]
	logPredictive = logNormal(u, s.mu[0], 1/hat[0]+1/precision)
	s.pi[0] = hat[0] + precision
	shift := precision / s.pi[0] * innovation
	s.mu[0] += shift
	ok = true
	for i := 1; i < s.levels; i++ {
		w := v[i-1] * hat[i-1]
		delta := (1/s.pi[i-1]+shift*shift)*hat[i-1] - 1
		s.pi[i] = hat[i] + .5*w*(w+(2*w-1)*delta)
		shift = .5 * w * delta / s.pi[i]
		if !(s.pi[i] > 0 && math.Abs(shift) <= maxHGFJump) {
			ok = false
			s.pi[i], shift = hat[i], 0
		}
		s.mu[i] += shift
	}
	return logPredictive, ok
}

type hgf struct {
	levels int
	state  hgfState
	past   []float64
	due    int // number of observations at which the parameters are fitted next
}

func (h *hgf) Update(u float64) Step {
	step := Step{LogPredictive: nan, Age: -1}
	if len(h.past) >= 50 {
		step.LogPredictive, _ = h.state.update(u)
	}
	h.past = append(h.past, u)
	if len(h.past) == h.due {
		h.due *= 2
		h.fit()
	}
	step.Mean, step.SD = h.state.mu[0], 1/math.Sqrt(h.state.pi[0])
	if len(h.past) < 50 {
		step.Mean, step.SD = u, nan
	}
	return step
}

func (h *hgf) Bytes() int { return word * (len(h.past) + 1 + h.levels + 2*h.levels) }

// tapas returns the prior means and standard deviations of the parameters, and the initial beliefs.
func tapas(x []float64, levels int) (mean, sd hgfParams, naive hgfState) {
	first := x[:min(len(x), 20)]
	average, square := 0.0, 0.0
	for _, v := range first {
		average += v / float64(len(first))
	}
	for _, v := range first {
		square += (v - average) * (v - average) / float64(len(first)-1)
	}
	if square == 0 {
		square = 1e-4 // equal inputs have no scale
	}
	mean, sd = hgfParams{-math.Log(square), math.Log(square), -4, -4}, hgfParams{2, 4, 4, 4}
	return mean, sd, hgfState{levels: levels, mu: [maxHGF]float64{x[0], 1, 1}, pi: [maxHGF]float64{1 / square, 10, 10}}
}

// fit estimates the parameters from the observations so far, and runs the filter over them.
func (h *hgf) fit() {
	mean, sd, naive := tapas(h.past, h.levels)
	n := 1 + h.levels
	stateAt := func(z []float64) hgfState {
		s := naive
		for i := range n {
			s.params[i] = mean[i] + sd[i]*z[i]
		}
		return s
	}
	loss := func(z []float64) float64 {
		s, sum := stateAt(z), 0.0
		for _, v := range z {
			sum += v * v / 2
		}
		for _, u := range h.past {
			l, ok := s.update(u)
			if !ok || math.IsNaN(l) {
				return math.Inf(1)
			}
			sum -= l
		}
		return sum
	}
	best, minLoss := make([]float64, n), math.Inf(1)
	// The fit may reject the prior means themselves: also try lower ω, as the toolbox advises.
	for _, lower := range []float64{0, 1, 2, 3} {
		z := make([]float64, n)
		for i := 1; i < n; i++ {
			z[i] = -lower
		}
		if v := loss(z); v < minLoss {
			best, minLoss = z, v
		}
	}
	if minLoss < math.Inf(1) {
		settings := &optimize.Settings{FuncEvaluations: 250}
		if r, err := optimize.Minimize(optimize.Problem{Func: loss}, best, settings, &optimize.NelderMead{SimplexSize: .5}); r != nil && (err == nil || r.F < minLoss) {
			best = r.X
		}
	}
	h.state = stateAt(best)
	for _, u := range h.past {
		h.state.update(u)
	}
}
