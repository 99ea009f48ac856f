package methods

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Stabilised linear forgetting: p(z) is p_{t−1} with probability π and else p₀, with π ~ Beta(a, b). This is a
// Bernoulli prior of the weight with a Beta hyperprior, as Moens (2018) describes van de Laar, Cox, van Diepen and de
// Vries 2017, Variational Stabilized Linear Forgetting in State-Space Models. Only the abstract of that article was
// at hand. The updates here are variational message passing on this model, with Δ as in the stabilised filter:
//
//	E[w] = 1/(1+e^−ω),  ω = Δ + ψ(a) − ψ(b),  a ← a + E[w],  b ← b + 1 − E[w]
var mixtures = []Method{
	{Name: "mixture", About: "Bernoulli–Beta linear mixture", Setting: "Beta(99, 1)", Source: "van de Laar et al. 2017, as the paper describes it",
		New: func(s Start) Follower { return newLinear(s, 99, 1) }},
}

type linear struct {
	stabilised
	a, b float64
}

func newLinear(s Start, a, b float64) *linear { return &linear{newStabilised(s), a, b} }

func (f *linear) Update(x float64) Step {
	f.see(x)
	p := f.a / (f.a + f.b)
	stay := math.Log(p) + f.predictive(f.d, 1)
	step := Step{LogPredictive: logAdd(stay, math.Log1p(-p)+f.predictive(f.d, 0)), Age: -1}
	prior := mathext.Digamma(f.a) - mathext.Digamma(f.b)
	w := f.infer(math.Exp(stay-step.LogPredictive), func(delta float64) float64 { return 1 / (1 + math.Exp(-delta-prior)) })
	f.a += w
	f.b += 1 - w
	f.finish(&step, w)
	return step
}

func (f *linear) Bytes() int { return word * (len(f.d) + 2) }
