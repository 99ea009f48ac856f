package familytest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"hafvf/hafvf/expfam"
)

// A Family has the data about one family that tests use.
type Family struct {
	Name  string
	Prior expfam.Params // a prior for tests of the laws
	// MinParams has the parameters without a default. Dim is the length of an observation if the parameters do not set
	// it.
	MinParams expfam.Params
	Dim       int
	Sizes     []string // parameters that may be any number above zero
	Kind      Kind     // allowed values of the last entry of an observation
	// Draw draws an observation from the model of Prior. For a Sequential model it is a whole row.
	Draw func(rng *rand.Rand) []float64
	// At draws an observation of a stream in the form for a filter. x is level plus noise.
	At func(rng *rand.Rand, level, x float64) []float64
	// Far draws an observation of the model of Least in the form for a filter: a usual one, plus far.
	Far func(rng *rand.Rand, far float64) []float64
	// Natural returns coordinates in which a posterior of the model of Prior is linear in the statistics of the
	// data, given its textbook parameters p. Nil means p itself.
	Natural func(p []float64) []float64
	// Statistics returns T(x) in these coordinates.
	Statistics func(x []float64) []float64
}

// A Kind is a set of numbers.
type Kind int

const (
	Category Kind = iota + 1 // 0, 1, …, one less than the number of categories
	Count                    // 0, 1, …
	Trials                   // 0, 1, … up to the number of trials, which is the next entry
	Positive                 // ≥ 0
	Real
)

// Families has a row for each family. All fails for families of package expfam without one.
var Families = []Family{{
	Name: "bernoulli", Sizes: []string{"alpha", "beta"}, Kind: Category,
	Draw:       func(rng *rand.Rand) []float64 { return []float64{float64(rng.IntN(2))} },
	At:         func(rng *rand.Rand, level, _ float64) []float64 { return []float64{toss(rng, level)} },
	Far:        func(rng *rand.Rand, far float64) []float64 { return []float64{float64(min(1, rng.IntN(9)/8+int(far)))} },
	Statistics: func(x []float64) []float64 { return []float64{x[0], 1 - x[0]} },
}, {
	Name: "binomial", Prior: expfam.Params{"alpha": 2.0}, Sizes: []string{"alpha", "beta"}, Kind: Trials,
	Draw: func(rng *rand.Rand) []float64 {
		n := float64(1 + rng.IntN(50))
		return []float64{math.Floor(rng.Float64() * (n + 1)), n}
	},
	At: func(rng *rand.Rand, level, _ float64) []float64 {
		k, n := 0., 1+rng.IntN(40)
		for range n {
			k += toss(rng, level)
		}
		return []float64{k, float64(n)}
	},
	Far:        func(rng *rand.Rand, far float64) []float64 { return []float64{float64(rng.IntN(4)) + far, 20} },
	Statistics: func(x []float64) []float64 { return []float64{x[0], x[1] - x[0]} },
}, {
	Name: "categorical", Prior: expfam.Params{"alpha": []float64{1, .5, 2}}, Sizes: []string{"alpha"}, Kind: Category,
	MinParams: expfam.Params{"alpha": []float64{1, 1, 1}},
	Draw:      func(rng *rand.Rand) []float64 { return []float64{float64(rng.IntN(3))} },
	At:        func(_ *rand.Rand, _, x float64) []float64 { return []float64{math.Mod(math.Abs(math.Trunc(x)), 3)} },
	Far:       func(rng *rand.Rand, far float64) []float64 { return []float64{float64(min(2, rng.IntN(3)+int(far)))} },
	Statistics: func(x []float64) []float64 {
		out := make([]float64, 3)
		out[int(x[0])] = 1
		return out
	},
}, {
	Name: "poisson", Sizes: []string{"shape", "rate"}, Kind: Count,
	Draw:       func(rng *rand.Rand) []float64 { return []float64{math.Floor(5 * rng.ExpFloat64())} },
	At:         func(_ *rand.Rand, _, x float64) []float64 { return []float64{math.Trunc(math.Abs(x))} },
	Far:        func(rng *rand.Rand, far float64) []float64 { return []float64{float64(rng.IntN(7)) + 3*far} },
	Statistics: func(x []float64) []float64 { return []float64{x[0], 1} },
}, {
	Name: "exponential", Sizes: []string{"shape", "rate"}, Kind: Positive,
	Draw:       func(rng *rand.Rand) []float64 { return []float64{rng.ExpFloat64()} },
	At:         func(_ *rand.Rand, _, x float64) []float64 { return []float64{math.Abs(x) + 1e-3} },
	Far:        func(rng *rand.Rand, far float64) []float64 { return []float64{rng.ExpFloat64() + 3*far} },
	Statistics: func(x []float64) []float64 { return []float64{1, x[0]} },
}, {
	Name: "normal", Prior: expfam.Params{"mu": .5, "kappa": .1}, Sizes: []string{"kappa", "alpha", "beta"}, Kind: Real,
	Draw: func(rng *rand.Rand) []float64 { return []float64{2 + rng.NormFloat64()} },
	At:   func(_ *rand.Rand, _, x float64) []float64 { return []float64{x} },
	Far:  normals(1),
	Natural: func(p []float64) []float64 {
		mu, kappa, alpha, beta := p[0], p[1], p[2], p[3]
		return []float64{kappa * mu, kappa, 2*beta + kappa*mu*mu, 2 * alpha}
	},
	Statistics: func(x []float64) []float64 { return []float64{x[0], 1, x[0] * x[0], 1} },
}, {
	Name: "mvnormal", Prior: expfam.Params{"mu": []float64{0, 1}}, Dim: 2, Sizes: []string{"kappa"}, Kind: Real,
	Draw: func(rng *rand.Rand) []float64 { return []float64{rng.NormFloat64(), 3 * rng.NormFloat64()} },
	At:   func(rng *rand.Rand, _, x float64) []float64 { return []float64{x, rng.NormFloat64()} },
	Far:  normals(2),
	Natural: func(p []float64) []float64 {
		const n = 2
		mu, kappa, nu, scale := p[:n], p[n], p[n+1], p[n+2:]
		out := []float64{kappa, nu}
		for i := range n {
			out = append(out, kappa*mu[i])
			for j := range n {
				out = append(out, scale[i*n+j]+kappa*mu[i]*mu[j])
			}
		}
		return out
	},
	Statistics: func(x []float64) []float64 {
		return []float64{1, 1, x[0], x[0] * x[0], x[0] * x[1], x[1], x[1] * x[0], x[1] * x[1]}
	},
}, {
	Name: "regression", Prior: expfam.Params{"mean": []float64{0, 1}}, Dim: 3, Sizes: []string{"alpha", "beta"}, Kind: Real,
	Draw: func(rng *rand.Rand) []float64 {
		u := rng.NormFloat64()
		return []float64{u, 1, 2*u + rng.NormFloat64()}
	},
	At:         func(rng *rand.Rand, _, x float64) []float64 { return []float64{rng.NormFloat64(), 1, x} },
	Far:        normals(3),
	Natural:    func(p []float64) []float64 { return naturalRegression(p, 2) },
	Statistics: regressionStatistics,
}, {
	Name: "ar", Prior: expfam.Params{"order": 2, "intercept": true}, Sizes: []string{"alpha", "beta"}, Kind: Real,
	Draw: func(rng *rand.Rand) []float64 {
		return []float64{rng.NormFloat64(), rng.NormFloat64(), 1, rng.NormFloat64()}
	},
	At:         func(_ *rand.Rand, _, x float64) []float64 { return []float64{x} },
	Far:        normals(1),
	Natural:    func(p []float64) []float64 { return naturalRegression(p, 3) },
	Statistics: regressionStatistics,
}}

// families are the names of the families of package expfam, without those that tests register.
var families = expfam.Families()

// All returns the rows of all families of package expfam. It panics if a row is missing or incomplete, with the
// family's name.
func All() (rows []Family) {
	for _, name := range families {
		rows = append(rows, Of(name))
	}
	return rows
}

// Of returns the row of a family.
func Of(name string) Family {
	i := slices.IndexFunc(Families, func(f Family) bool { return f.Name == name })
	if i < 0 {
		panic("the family " + name + " has no row in familytest.Families")
	}
	f := Families[i]
	for column, missing := range map[string]bool{
		"Kind": f.Kind == 0, "Draw": f.Draw == nil, "At": f.At == nil, "Far": f.Far == nil, "Statistics": f.Statistics == nil,
	} {
		if missing {
			panic(fmt.Sprintf("the row of %s in familytest.Families has no %s", name, column))
		}
	}
	if f.Natural == nil {
		f.Natural = func(p []float64) []float64 { return p }
	}
	return f
}

// Row draws an observation of m, which has the prior Least, in the form for the model.
func (f Family) Row(m expfam.Model, rng *rand.Rand, far float64) []float64 {
	x := f.Far(rng, far)
	seq, ok := m.(expfam.Sequential)
	if !ok {
		return x
	}
	row, window := make([]float64, m.Dim()), make([]float64, seq.Window())
	for i := range window {
		window[i] = f.Far(rng, 0)[0]
	}
	seq.Row(row, window, x[0])
	return row
}

func toss(rng *rand.Rand, logit float64) float64 {
	if rng.Float64() < 1/(1+math.Exp(-logit)) {
		return 1
	}
	return 0
}

// normals returns a function that draws n standard normal numbers and adds far to the last.
func normals(n int) func(rng *rand.Rand, far float64) []float64 {
	return func(rng *rand.Rand, far float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		x[n-1] += far
		return x
	}
}

// naturalRegression is Natural with n regressors.
func naturalRegression(p []float64, n int) []float64 {
	mean, precision, alpha, beta := p[:n], p[n:n+n*n], p[n+n*n], p[n+n*n+1]
	out := append([]float64{2 * alpha}, precision...)
	square := 2 * beta
	for i := range n {
		sum := 0.0
		for j := range n {
			sum += precision[i*n+j] * mean[j]
		}
		out = append(out, sum)
		square += mean[i] * sum
	}
	return append(out, square)
}

func regressionStatistics(x []float64) []float64 {
	u, y := x[:len(x)-1], x[len(x)-1]
	out := []float64{1}
	for i := range u {
		for j := range u {
			out = append(out, u[i]*u[j])
		}
	}
	for i := range u {
		out = append(out, u[i]*y)
	}
	return append(out, y*y)
}
