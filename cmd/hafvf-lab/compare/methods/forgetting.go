package methods

import "math"

// Stabilised exponential forgetting at a fixed weight w (Kulhavý and Zarrop 1993, On a general concept of
// forgetting):
//
//	θ ← θ₀ + w(θ − θ₀) + T(x)
//
// It is the filter of the paper without levels.
var forgettings = []Method{
	{Name: "forgetting", About: "exponential forgetting", Setting: "weight .99", Source: "Kulhavý and Zarrop 1993",
		New: func(s Start) Follower { return newForgetting(s, .99) }},
	{Name: "forgetting-hindsight", About: "exponential forgetting, the best weight of 16 in hindsight", Setting: "most nats over the whole stream", Source: "as forgetting",
		Hindsight: true, New: bestForgetting},
}

type forgetting struct {
	conjugate
	w float64
	d []float64
}

func newForgetting(s Start, w float64) *forgetting {
	return &forgetting{newConjugate(s.Model), w, make([]float64, s.Model.Len())}
}

func (f *forgetting) Update(x float64) Step {
	f.see(x)
	step := Step{LogPredictive: f.predictive(f.d, f.w), Age: -1}
	f.learn(f.d, f.w)
	step.Mean, step.SD = f.estimate(f.d)
	return step
}

func (f *forgetting) Bytes() int { return word * len(f.d) }

// forgettingWeights lists the weights from which bestForgetting chooses.
var forgettingWeights = []float64{.5, .7, .8, .9, .95, .97, .98, .985, .99, .995, .998, .999, .9995, .9998, .9999, 1}

func bestForgetting(s Start) Follower {
	best, maxSum := 0.0, math.Inf(-1)
	for _, w := range forgettingWeights {
		f, sum := newForgetting(s, w), 0.0
		for _, x := range s.Whole {
			sum += f.Update(x).LogPredictive
		}
		if sum > maxSum {
			best, maxSum = w, sum
		}
	}
	return newForgetting(s, best)
}
