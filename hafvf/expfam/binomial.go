package expfam

import (
	"fmt"
	"math"
)

func init() {
	Register("binomial", func(p Prior, _ int) (Model, error) {
		m := binomial{betaPrior: newBeta(p.Positive("alpha", 1), p.Positive("beta", 1))}
		return m, p.Done()
	})
}

// binomial has pairs (k, n) of k successes in n trials, z = logit p, and a Beta(alpha, beta) prior on p. Its
// moments and predictive distributions describe the share k/n.
//
//	T(x) = w·(k, n−k),  B = lnΓ(α) + lnΓ(β) − lnΓ(α+β),  log h = ln w + ln C(wn, wk)
//
// w = 1 is the binomial distribution. If the p of the trials varies between observations, their shares vary
// more: with correlation ρ between two trials of one observation, the variance of k is n·p(1−p)·(1+(n−1)ρ).
// Then w = 1/(1+(n−1)ρ), a quasi-likelihood (McCullagh & Nelder, Generalized linear models, 2nd edition,
// section 4.5): n trials carry as much information as wn independent ones. C is continued by the gamma
// function, and the sum of the result over k is about 1.
type binomial struct {
	betaPrior
	rho float64 // in [0, 1)
}

// A Counted model has observations with a number of trials. An observation with no trials is missing.
type Counted interface {
	Model
	// Trials returns the number of trials of x.
	Trials(x []float64) float64
	// Share returns the share of successes in x, or NaN without trials.
	Share(x []float64) float64
}

func (binomial) Trials(x []float64) float64 { return x[1] }
func (binomial) Share(x []float64) float64  { return x[0] / x[1] }

func (binomial) Dim() int { return 2 }

func (binomial) Check(x []float64) error {
	for i, name := range [...]string{"successes", "trials"} {
		switch v := x[i]; {
		case v != math.Trunc(v) || v > MaxCount:
			return fmt.Errorf("%g %s are not a whole number up to 2^53", v, name)
		case v < 0:
			return fmt.Errorf("%g %s are below zero", v, name)
		}
	}
	if x[0] > x[1] {
		return fmt.Errorf("%g successes of %g trials", x[0], x[1])
	}
	return nil
}

// weight returns w for n trials.
func (m binomial) weight(n float64) float64 { return 1 / (1 + max(0, n-1)*m.rho) }

func (m binomial) Observe(d, x []float64, weight float64) {
	weight *= m.weight(x[1])
	d[0] += weight * x[0]
	d[1] += weight * (x[1] - x[0])
}

func (m binomial) LogBase(x []float64) float64 {
	w := m.weight(x[1])
	return math.Log(w) + lgamma(w*x[1]+1) - lgamma(w*x[0]+1) - lgamma(w*(x[1]-x[0])+1)
}

// Predict describes the share for the trials in the row or, without trials in the row, for very many trials.
func (m binomial) Predict(mean, sd, d []float64, s float64, x []float64) {
	a, b := m.posteriorParams(d, s)
	each := m.rho // 1/(wn) for many trials
	if len(x) == 2 && x[1] > 0 {
		each = 1 / (x[1] * m.weight(x[1]))
	}
	mean[0] = a / (a + b)
	sd[0] = math.Sqrt(mean[0] * (b / (a + b)) * (each*(a+b) + 1) / (a + b + 1))
}

func (m binomial) Predictive(dst []Distribution, d []float64, s float64, x []float64) {
	a, b := m.posteriorParams(d, s)
	each, trials := m.rho, 0. // as in Predict
	if len(x) == 2 && x[1] > 0 {
		each, trials = 1/(x[1]*m.weight(x[1])), x[1]
	}
	// The variance of Predict is pq/(total+1), unless the minimum of total applies.
	p, q := a/(a+b), b/(a+b)
	total := max(1e-9, (1-each)*(a+b)/(each*(a+b)+1))
	dst[0] = Distribution{betaShare, total * p, total * q, trials, p * q * (each*(a+b) + 1) / (a + b + 1)}
}

// LocationScale returns the share of all trials, with half a success added, and the moment estimate of ρ from
// Pearson's statistic X² = Σ (k−np)²/(np(1−p)). Its mean is about m−1 + ρ·Σ(n−1)(1−n/N) for m observations with
// N trials.
func (binomial) LocationScale(xs [][]float64) []float64 {
	k, n, m := .5, 1., 0.
	for _, x := range xs {
		k, n = k+x[0], n+x[1]
		if x[1] > 0 {
			m++
		}
	}
	p := min(k/n, 1-0x1p-53) // otherwise the prior would have no failures
	square, excess := 0., 0.
	for _, x := range xs {
		if x[1] > 0 {
			rest := x[0] - x[1]*p
			square += rest * rest / (x[1] * p * (1 - p))
			excess += (x[1] - 1) * (1 - x[1]/n)
		}
	}
	rho := 0.
	if excess > 0 {
		rho = min(max(0, (square-(m-1))/excess), maxCorrelation)
	}
	return []float64{p, rho}
}

// maxCorrelation is the maximum of ρ.
const maxCorrelation = 0.9

// Fit returns the model with a prior worth one trial.
func (binomial) Fit(ls []float64) Model { return binomial{newBeta(ls[0], 1-ls[0]), ls[1]} }
